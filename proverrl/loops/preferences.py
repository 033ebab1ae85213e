"""Training on preferences between bodies: a file of pairs, and no verifier.

Flows in: a session after its warm start, ``preferences.pairs``. Flows out: updated weights and the
figures of each step. Pairs of statements ranked by what a prover makes of them are the HPO of
Mathesis (Yu et al. 2025, arXiv 2506.07047); ``proverrl prove --preferences`` writes them. The
policy's log-probabilities of all pairs are computed before the first step, so that no second model
is held. An interrupted loop begins again. Not handled here: where preferences come from.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from proverrl.config import Config
from proverrl.errors import ProblemError
from proverrl.learner.optimizers import scale_rates
from proverrl.learner.weights import TrainedWeights
from proverrl.loops.pairs import Pair, make_source, refuse_kept_apart
from proverrl.loops.session import Session
from proverrl.loops.warm_start import score_targets, supervised_rate
from proverrl.losses.preference import dpo_loss
from proverrl.problems.load import load_texts
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


def _learn(session: Session, preferences: Sequence[Preference]) -> None:
    config, policy = session.config.preferences, session.policy
    pairs = [
        (make_source(policy, problem, chosen)(), make_source(policy, problem, rejected)())
        for problem, chosen, rejected in preferences
    ]
    with torch.no_grad():
        first = [_score(session, [pair]) for pair in pairs]
    weights = TrainedWeights(
        policy.model,
        config.optimizer,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    seed = derive_seed(session.config.seed, "preferences")
    torch.manual_seed(seed)
    rng = random.Random(seed)
    num_batches = math.ceil(len(pairs) / config.batch_size)
    steps = config.epochs * num_batches
    policy.model.train()
    for step in range(steps):
        session.check_stop(f"preferences were at step {step} and begin again")
        place = step % num_batches
        if place == 0:
            order = rng.sample(range(len(pairs)), len(pairs))
        batch = order[place * config.batch_size :][: config.batch_size]
        scale_rates(weights.optimizers, supervised_rate(step, steps))
        weights.zero_grad()
        chosen, rejected = _score(session, [pairs[i] for i in batch])
        first_chosen, first_rejected = torch.cat([first[i] for i in batch], dim=1)
        loss, metrics = dpo_loss(chosen, rejected, first_chosen, first_rejected, beta=config.beta)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = weights.clip(session.config.learner.max_grad_norm)
        weights.step()
        policy.version += 1
        session.monitor.phase("preferences", f"{step + 1}/{steps}, loss {float(loss.detach()):.3f}")
        figures = {name: float(value) for name, value in metrics.items()}
        figures |= {"loss": float(loss.detach()), "grad_norm": norm}
        session.monitor.log("preferences", step + 1, figures)
    policy.model.eval()
    weights.close()


def _score(session: Session, pairs: Sequence[tuple[Pair, Pair]]) -> torch.Tensor:
    """Log-probabilities of the preferred answers and of the others: [2, pairs]."""
    both = [pair for place in (0, 1) for pair in (each[place] for each in pairs)]
    return score_targets(session.policy, both).view(2, len(pairs))
