"""What a composer earns for its statements, and how these rewards compare.

Flows in: what became of each statement of a batch. Flows out: a reward for each, None where nothing
was judged, and advantages. A batch is compared as a whole, because a pair of parents gives one
statement: there is no group within which to compare.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from proverrl.config.selfplay import ComposerRewardName
from proverrl.errors import RecordError
from proverrl.statistics import standardize
from proverrl.types import Reward, Rollout

Stage = Literal["malformed", "stopped", "tried"]

STP_HIGH, STP_DROP = 0.25, 0.2
"""STP's numbers: the highest solve rate of a useful statement, and the share of these that earns
nothing."""
MODIFIED_LOSS = 0.5
"""GAR's number: the share of its reward that a proof loses for changing the statement."""


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What became of a statement: not readable (``malformed``), refused by a filter for another
    reason (``stopped``), or ``tried`` by the solver.

    ``solved`` is p, the share of judged attempts that proved it (None: none was judged);
    ``modified`` is m, the share of attempts that changed it. ``ratio`` is the length of its
    shortest proof over its own (None without a proof). ``kind`` is the kind of problem asked for.
    """

    stage: Stage
    solved: float | None = None
    modified: float = 0.0
    ratio: float | None = None
    kind: str = ""

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


def absolute_zero_reward(outcome: StatementOutcome) -> float | None:
    """-1 for an unreadable statement, -0.5 where p is 0 or 1, else 1 - p (Absolute Zero, Zhao et
    al. 2025, arXiv 2505.03335). A statement that a filter stopped for another reason teaches as
    little as p = 0 or 1 (it is false, trivial or known), so it also earns -0.5, which is ours."""
    if outcome.stage == "malformed":
        return -1.0
    if outcome.stage == "stopped":
        return -0.5
    if outcome.solved is None:
        return None
    return 1.0 - outcome.solved if 0.0 < outcome.solved < 1.0 else -0.5


def _gar(outcomes: Sequence[StatementOutcome]) -> list[float | None]:
    """GAR's batch: a statement that was refused before any attempt counts as unsolved (ours: there
    is no such statement in the paper's batch, and a policy would never learn to avoid it)."""
    return [
        (None if o.solved is None else gar_reward(o.solved, o.modified))
        if o.stage == "tried"
        else 0.0
        for o in outcomes
    ]


def _stp(outcomes: Sequence[StatementOutcome]) -> list[float | None]:
    """1 for a useful conjecture, 0 < p <= ``STP_HIGH``, else 0. The share ``STP_DROP`` of the
    useful ones with the lowest ratio of shortest proof to statement earns nothing: long statements
    with easy proofs (STP, Dong and Ma 2025, arXiv 2502.00212)."""
    useful = [
        i for i, o in enumerate(outcomes) if o.solved is not None and 0.0 < o.solved <= STP_HIGH
    ]
    # Stable in the order of the batch where ratios are equal.
    ranked = sorted(useful, key=lambda i: outcomes[i].ratio or 0.0)
    kept = set(ranked[math.floor(STP_DROP * len(ranked)) :])
    return [
        None if o.stage == "tried" and o.solved is None else float(i in kept)
        for i, o in enumerate(outcomes)
    ]


BatchRewardFn = Callable[[Sequence[StatementOutcome]], list[float | None]]

COMPOSER_REWARDS: dict[ComposerRewardName, BatchRewardFn] = {
    "gar": _gar,
    "absolute_zero": lambda outcomes: [absolute_zero_reward(o) for o in outcomes],
    "stp": _stp,
}


def compare_statements(
    outcomes: Sequence[StatementOutcome], rewards: Sequence[float | None], name: ComposerRewardName
) -> list[float]:
    """Each statement's advantage: its reward minus the mean, divided by the deviation, of the whole
    batch (of its kind only under ``absolute_zero``), as in GRPO's groups (``standardize``); 0 where
    nothing was judged or all are alike."""
    by_kind = name == "absolute_zero"
    judged: dict[str, dict[int, float]] = defaultdict(dict)
    for i, (outcome, reward) in enumerate(zip(outcomes, rewards, strict=True)):
        if reward is not None:
            judged[outcome.kind if by_kind else ""][i] = reward
    advantages = [0.0] * len(outcomes)
    for part in judged.values():
        for i, value in zip(part, standardize(list(part.values())), strict=True):
            advantages[i] = value
    return advantages


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
    """Whether the answer changed the statement that it was to prove (``extract`` says so)."""
    return "was changed" in rollout.turns[-1].reason
