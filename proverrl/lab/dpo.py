"""The loop ``dpo``: training on pairs of bodies of which one is preferred, and no verifier.

Flows in: a session after its warm start, and a file of pairs or a run's rollouts. Flows out:
updated weights and the figures of each step. The loss is that of DPO (Rafailov et al. 2023, arXiv
2305.18290) against the policy that the loop begins with. Its log-probabilities of all pairs are
computed before the first step, so that no second model is held. All processes of a run learn. An
interrupted loop begins again. Not handled here: where the preferences of a file come from.
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
from torch.nn import functional

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, ProblemsConfig
from proverrl.config.base import Positive, PositiveFloat, Section
from proverrl.config.loops import loop_traits
from proverrl.config.training import OptimizerName
from proverrl.errors import ProblemError
from proverrl.learner.packed_rows import batch_rows
from proverrl.losses import Metrics
from proverrl.monitor.rollout_rows import iter_rollouts
from proverrl.problems.load import read_places
from proverrl.report.run import find_step_files
from proverrl.run.pairs import Pair, make_source
from proverrl.run.session import Session
from proverrl.run.supervised import SupervisedLearner, score_tokens, supervised_rate
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem

Preference = tuple[Problem, str, str]
"""A problem, the body that is preferred, and the other one."""


class DpoOptions(Section):
    """``[loop_options]`` of ``dpo``."""

    pairs: Path
    """a file of problems: ``reference`` is preferred to ``metadata.rejected``; or the folder of a
    run on the same ``problems.train``, of whose rollouts each body that was proved is preferred to
    one of the same problem that was refused"""
    beta: PositiveFloat = 0.1
    """how much the difference to the first policy weighs"""
    epochs: Positive = 1
    """passes over the pairs"""
    batch_size: Positive = 8
    """pairs per step"""
    optimizer: OptimizerName = "adamw"
    """``adamw`` or ``muon``"""
    learning_rate: PositiveFloat = 1e-4
    """peak learning rate"""
    weight_decay: float = 0.0
    """weight decay"""


def _check(config: Config, options: DpoOptions) -> str:
    load_preferences(config, options)
    return ""


@loop_traits("DPO", against=_check)
async def dpo(session: Session, *, options: DpoOptions) -> None:
    """Pass over the pairs ``epochs`` times."""
    preferences = load_preferences(session.config, options)
    await asyncio.to_thread(_learn, session, options, preferences)
    session.sampler.push(session.policy.version)


def load_preferences(config: Config, options: DpoOptions) -> list[Preference]:
    """The pairs of the file or the run. Raises ``ProblemError``: a line lacks one of the bodies or
    has one body twice, or its problem has a statement of the validation or held-out split; the run
    has no problem with both."""
    if options.pairs.is_dir():
        return _pair_rollouts(config, options.pairs)
    found = list(read_places(options.pairs))
    _refuse_kept_apart([(where, problem) for where, problem, _ in found], config.problems)
    preferences = []
    for where, problem, chosen in found:
        rejected = problem.metadata.get("rejected")
        if chosen is None or not isinstance(rejected, str):
            raise ProblemError(
                f"{where}: it needs two bodies, 'reference' and 'metadata.rejected', as strings; "
                "add what is missing or drop the line"
            )
        if chosen == rejected:
            raise ProblemError(
                f"{where}: 'reference' and 'metadata.rejected' are the same; drop the line"
            )
        preferences.append((problem, chosen, rejected))
    return preferences


def _pair_rollouts(config: Config, run: Path) -> list[Preference]:
    """The n-th distinct body of a problem that was proved, and the n-th that was refused."""
    problems = {
        (p.id, p.preamble, p.statement): p
        for p in open_benchmark(str(config.problems.train)).problems
    }
    judged: dict[tuple[str, str, str], dict[str, dict[str, None]]] = {}
    for file in find_step_files(run).values():
        for row in iter_rollouts(file):
            stated = row["problem"]
            key = (stated["id"], stated["preamble"], stated["statement"])
            bodies = judged.setdefault(key, {"proved": {}, "rejected": {}})
            body, status = row.get("body"), row["status"]
            if key in problems and body and not row.get("hint") and status in bodies:
                bodies[status][body] = None
    preferences = [
        (problems[key], *pair)
        for key, bodies in judged.items()
        # A verdict may have been overturned.
        for pair in zip(
            bodies["proved"],
            (body for body in bodies["rejected"] if body not in bodies["proved"]),
            strict=False,
        )
    ]
    if not preferences:
        raise ProblemError(
            f"{run}: its rollouts hold no problem of {config.problems.train} with a body that was "
            "proved and one that was refused"
        )
    _refuse_kept_apart([(str(run), problem) for problem, _, _ in preferences], config.problems)
    return preferences


def _refuse_kept_apart(found: Sequence[tuple[str, Problem]], problems: ProblemsConfig) -> None:
    """Raise ``ProblemError`` where one of the problems, each after its place, has a statement of
    the validation or held-out split."""
    kept_apart = {
        Candidate(problem, "").key: (split, problem.id)
        for split in (problems.valid, problems.heldout)
        if split.exists()
        for problem in open_benchmark(str(split)).problems
    }
    for where, problem in found:
        if known := kept_apart.get(Candidate(problem, "").key):
            raise ProblemError(
                f"{where}: problem {problem.id!r} has the statement of {known[1]!r} in {known[0]}, "
                "which is kept apart for evaluation; leave it out"
            )


def dpo_loss(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    first_chosen: torch.Tensor,
    first_rejected: torch.Tensor,
    *,
    beta: float,
) -> tuple[torch.Tensor, Metrics]:
    """Direct preference optimization: the mean of ``-log sigmoid(beta * margin)``, where the margin
    of a pair is how much more the policy has moved towards the chosen answer than towards the
    rejected one (Rafailov et al. 2023, arXiv 2305.18290).

    All four are log-probabilities summed over an answer's tokens, of shape [pairs]; those of the
    first policy carry no gradient.
    """
    margin = beta * ((chosen - first_chosen) - (rejected - first_rejected))
    metrics = {
        "margin": margin.detach().mean(),
        "accuracy": (margin.detach() > 0).float().mean(),
        "chosen_moved": (chosen - first_chosen).detach().mean(),
        "rejected_moved": (rejected - first_rejected).detach().mean(),
    }
    return -functional.logsigmoid(margin).mean(), metrics


@dataclass(frozen=True, slots=True)
class Ranked:
    """Two answers to one prompt, and the log-probabilities that the first policy gave them."""

    chosen: Pair
    rejected: Pair
    first: tuple[float, float] = (0.0, 0.0)

    @property
    def longest(self) -> int:
        """The tokens of the longer one."""
        return max(self.chosen.num_tokens, self.rejected.num_tokens)

    @property
    def num_tokens(self) -> int:
        """The tokens of both, padded to the longer one."""
        return 2 * self.longest


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


def score_targets(model: Any, batch: Sequence[Pair]) -> torch.Tensor:
    """For each pair the log-probability of its target after its prompt, summed over the target's
    tokens. Shape [pairs]; gradients flow where they are recorded."""
    losses, picked, _ = score_tokens(model, batch, 0.0)
    rows = picked.nonzero()[:, 0]
    return torch.zeros(len(batch), device=losses.device).index_add(0, rows, -losses)


def _learn(session: Session, config: DpoOptions, preferences: Sequence[Preference]) -> None:
    policy = session.policy
    pairs = [
        Ranked(make_source(policy, problem, chosen)(), make_source(policy, problem, rejected)())
        for problem, chosen, rejected in preferences
    ]
    context = policy.context_tokens
    for (problem, _, _), pair in zip(preferences, pairs, strict=True):
        if pair.longest > context:
            raise ProblemError(
                f"problem {problem.id!r}: its prompt and a body of its pair are {pair.longest} "
                f"tokens, and the model's context has {context}; leave the pair out"
            )
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
