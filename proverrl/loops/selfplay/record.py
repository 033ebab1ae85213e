"""A round of self-play: statements, what the filters said, the solver's attempts, its figures.

Flows in: drafts, stops, judged attempts. Flows out: solve rates, figures for ``metrics.jsonl``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.compose.composers import Draft, measure_truncated
from proverrl.rewards import StatementOutcome
from proverrl.types import Problem, Rollout, Status

BINS = ("0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
"""Solve rates of composed problems: 0, up to and with each bound, below 1, and 1."""


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round when all of it is judged: its drafts, the filters by the ids of what they stopped,
    the solver's attempts by problem id. ``tried`` passed the early filters, ``kept`` all of them.
    What was tried and is neither kept nor stopped was not given to the late filters; nothing is
    learned from it."""

    number: int
    drafts: Sequence[Draft]
    stops: Mapping[str, str]
    tried: Sequence[Problem]
    kept: Sequence[Problem]
    attempts: Mapping[str, Sequence[Rollout]]
    filter_calls: int

    @property
    def set_aside(self) -> set[str]:
        """Ids of what was tried and may not be learned from."""
        return {problem.id for problem in self.tried} - {problem.id for problem in self.kept}


def solve_rate(rollouts: Sequence[Rollout]) -> float | None:
    """Proved attempts over judged ones; None when none was judged."""
    judged = [rollout for rollout in rollouts if rollout.status.judged]
    if not judged:
        return None
    return sum(rollout.status is Status.PROVED for rollout in judged) / len(judged)


def name_bin(rate: float) -> str:
    """The bin of ``BINS`` that a solve rate falls into."""
    if rate in (0.0, 1.0):
        return BINS[0] if rate == 0.0 else BINS[-1]
    return next(
        name for name, bound in zip(BINS[1:], (0.25, 0.5, 0.75, 1.0), strict=False) if rate <= bound
    )


def describe_round(
    this: JudgedRound, outcomes: Sequence[StatementOutcome], rewards: Sequence[float | None]
) -> dict[str, Any]:
    """The figures of a round for ``metrics.jsonl``."""
    rates = [outcome.solved for outcome in outcomes if outcome.solved is not None]
    earned = [reward for reward in rewards if reward is not None]
    bins = Counter(map(name_bin, rates))
    return {
        "statements_written": len(this.drafts),
        "statements_malformed": sum(draft.composed is None for draft in this.drafts),
        "statements_well_formed": sum(outcome.stage != "malformed" for outcome in outcomes),
        "statements_kept": len(this.kept),
        "statements_unchecked": len(this.set_aside - set(this.stops)),
        "statements_reasons": dict(Counter(d.reason for d in this.drafts if d.reason)),
        "filter_stops": dict(Counter(this.stops.values())),
        "filter_calls": this.filter_calls,
        "solve_rates": {name: bins[name] for name in BINS},
        "statements_never": bins["0"] / len(rates) if rates else 0.0,
        "statements_always": bins["1"] / len(rates) if rates else 0.0,
        "statements_modified": (
            sum(outcome.modified for outcome in outcomes) / len(rates) if rates else 0.0
        ),
        "composer_reward": sum(earned) / len(earned) if earned else None,
        **measure_truncated(this.drafts),
    }
