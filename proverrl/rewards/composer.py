"""Rewards of a composer for its statements, and their comparison.

Flows in: what became of each statement of a batch. Flows out: a reward for each, None where nothing
was judged, and advantages. A batch is compared as a whole, because a pair of parents gives one
statement: there is no group within which to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from proverrl.errors import RecordError
from proverrl.statistics import standardize
from proverrl.types import Reward, Rollout

Stage = Literal["malformed", "stopped", "tried"]

MODIFIED_LOSS = 0.5
"""GAR's number: the share of its reward that a proof loses for changing the statement."""


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of a statement: not readable (``malformed``), refused by a filter for another
    reason (``stopped``), or ``tried`` by the solver.

    ``solved`` is p, the share of judged attempts that proved it (None: none was judged);
    ``modified`` is m, the share of attempts that changed it.
    """

    stage: Stage
    solved: float | None = None
    modified: float = 0.0

    def __post_init__(self) -> None:
        if self.stage != "tried" and self.solved is not None:
            raise RecordError(f"a {self.stage} statement has no solve rate")
        for name, share in (("solved", self.solved), ("modified", self.modified)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise RecordError(f"{name} is a share in [0, 1], got {share}")


def gar_reward(solved: float, modified: float) -> float:
    """(1 - p)(1 - m) where p > 0, else 0: hard, but not too hard, and not because it was rewritten
    (GAR, 2025, arXiv 2510.11769)."""
    return (1.0 - solved) * (1.0 - modified) if solved > 0.0 else 0.0


def reward_statements(outcomes: Sequence[StatementOutcome]) -> list[float | None]:
    """GAR's batch: a statement that was refused before any attempt counts as unsolved (ours: there
    is no such statement in the paper's batch, and a policy would never learn to avoid it)."""
    return [
        (None if o.solved is None else gar_reward(o.solved, o.modified))
        if o.stage == "tried"
        else 0.0
        for o in outcomes
    ]


def compare_statements(rewards: Sequence[float | None]) -> list[float]:
    """Each statement's advantage: its reward minus the mean, divided by the deviation, of the whole
    batch, as in GRPO's groups (``standardize``); 0 where nothing was judged or all are alike."""
    judged = {i: reward for i, reward in enumerate(rewards) if reward is not None}
    standard = dict(zip(judged, standardize(list(judged.values())), strict=True))
    return [standard.get(i, 0.0) for i in range(len(rewards))]


def penalise_modified(reward: Reward, modified: bool) -> Reward:
    """GAR's solver: the reward times 1 - 0.5 m_k, m_k = 1 where the answer
    changed the statement. The paper prints only the factor; a failure must not earn it. With our
    layouts a changed statement leaves no candidate, so it has already earned nothing."""
    if not modified:
        return reward
    factor = 1.0 - MODIFIED_LOSS
    parts = {name: factor * value for name, value in reward.parts.items()}
    return replace(reward, total=factor * reward.total, parts=parts)


def is_modified(rollout: Rollout) -> bool:
    """True if the answer changed the statement that it was to prove (``extract`` says so)."""
    return "was changed" in rollout.turns[-1].reason
