"""Training on preferences between bodies: a file of pairs, and no verifier.

Flows in: a session after its warm start, ``preferences.pairs``. Flows out: updated weights and the
figures of each step. Pairs of statements ranked by what a prover makes of them are the HPO of
Mathesis (Yu et al. 2025, arXiv 2506.07047); ``proverrl words prove --preferences`` writes them. The
policy's log-probabilities of all pairs are computed before the first step, so that no second model
is held. All processes of a run learn. An interrupted loop begins again. Not handled here: where
preferences come from.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from proverrl.config import Config
from proverrl.errors import ProblemError
from proverrl.learner.packed_rows import batch_rows
from proverrl.losses.preference import dpo_loss
from proverrl.problems.load import load_texts
from proverrl.run.imitation import score_targets
from proverrl.run.pairs import Pair, make_source, refuse_kept_apart
from proverrl.run.session import Session
from proverrl.run.supervised import SupervisedLearner, supervised_rate
from proverrl.seeds import derive_seed
from proverrl.types import Problem

Preference = tuple[Problem, str, str]
"""A problem, the body that is preferred, and the other one."""


async def run_preferences(session: Session) -> None:
    """Pass over the pairs ``preferences.epochs`` times."""
    await asyncio.to_thread(_learn, session, load_preferences(session.config))
    session.sampler.push(session.policy.version)


def load_preferences(config: Config) -> list[Preference]:
    """The pairs of the configured file. Raises ``ProblemError``: a line lacks one of the bodies or
    has one body twice, or its problem has a statement of the validation or held-out split."""
    found = load_texts(Path(config.preferences.pairs), "chosen", "rejected")
    refuse_kept_apart([(where, problem) for where, problem, _ in found], config.problems)
    for where, _, (chosen, rejected) in found:
        if chosen == rejected:
            raise ProblemError(f"{where}: 'chosen' and 'rejected' are the same; drop the line")
    return [(problem, chosen, rejected) for _, problem, (chosen, rejected) in found]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Two answers to one prompt, and the log-probabilities that the first policy gave them."""

    chosen: Pair
    rejected: Pair
    first: tuple[float, float] = (0.0, 0.0)

    @property
    def num_tokens(self) -> int:
        """The tokens of both, padded to the longer one."""
        return 2 * max(self.chosen.num_tokens, self.rejected.num_tokens)


@dataclass(frozen=True, slots=True)
class Preferring:
    """The ``SupervisedLoss`` over ``Ranked`` answers (``dpo_loss``)."""

    beta: float

    def cut(self, items: Sequence[Ranked], max_tokens: int) -> Iterator[list[Ranked]]:
        return batch_rows(items, max_tokens, padded=True)

    def denominator(self, batch: Sequence[Ranked]) -> float:
        return len(batch)

    def compute(
        self, model: Any, part: Sequence[Ranked], denominator: float
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        scores = self.score(model, part)
        first = torch.tensor([item.first for item in part], device=scores.device)
        loss, figures = dpo_loss(*scores.unbind(1), *first.unbind(1), beta=self.beta)
        share = len(part) / denominator
        return loss * share, {name: value * share for name, value in figures.items()}

    def score(self, model: Any, part: Sequence[Ranked]) -> torch.Tensor:
        """Log-probabilities of the preferred and of the other answer: [items, 2]."""
        answers = [*(item.chosen for item in part), *(item.rejected for item in part)]
        return score_targets(model, answers).view(2, len(part)).T


def _learn(session: Session, preferences: Sequence[Preference]) -> None:
    config, policy = session.config.preferences, session.policy
    pairs = [
        Ranked(make_source(policy, problem, chosen)(), make_source(policy, problem, rejected)())
        for problem, chosen, rejected in preferences
    ]
    seed = derive_seed(session.config.seed, "preferences")
    loss = Preferring(config.beta)
    learner = SupervisedLearner(policy, config, session.config.learner, seed, loss)
    scores = learner.score(pairs, loss.score)
    pairs = [
        replace(pair, first=(chosen, rejected))
        for pair, (chosen, rejected) in zip(pairs, scores, strict=True)
    ]
    rng = random.Random(seed)
    num_batches = math.ceil(len(pairs) / config.batch_size)
    steps = config.epochs * num_batches
    for step in range(steps):
        session.check_stop(f"preferences were at step {step} and begin again")
        place = step % num_batches
        if place == 0:
            order = rng.sample(pairs, len(pairs))
        batch = order[place * config.batch_size :][: config.batch_size]
        figures = learner.step(batch, supervised_rate(step, steps))
        policy.version += 1
        session.monitor.phase("preferences", f"{step + 1}/{steps}, loss {figures['loss']:.3f}")
        session.monitor.log("preferences", step + 1, figures)
    learner.close()
