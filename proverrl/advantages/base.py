"""What a method of comparison is given and what it returns.

Flows in: groups of judged rollouts, and how far the run is. Flows out: a number for each turn, or
for each token of it. A group is never compared with another role: a method that looks beyond one
group keeps to groups of the same role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proverrl.errors import RecordError
from proverrl.types import Group

SIGNAL = 1e-9
"""An advantage not larger than this is rounding, not signal."""

Credit = float | tuple[float, ...]
"""The advantage of one turn: one number for all of its tokens, or one for each completion token."""

GroupAdvantages = list[list[Credit]]
"""Per rollout of a group, per turn."""


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """What a method is given and must not change. ``progress`` is the finished share of the run,
    from 0 to 1."""

    groups: Sequence[Group]
    progress: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.progress <= 1.0:
            raise RecordError(f"progress must lie in [0, 1], got {self.progress}")


AdvantageFn = Callable[[AdvantageInputs], list[GroupAdvantages]]
"""Gives one ``GroupAdvantages`` for each group, in their order."""


def totals(group: Group) -> list[float]:
    """The rewards of a group's rollouts."""
    return [reward.total for reward in group.rewards]


def spread(group: Group, values: Sequence[float]) -> GroupAdvantages:
    """One value per rollout, given to each of its turns."""
    return [
        [value] * len(rollout.turns) for rollout, value in zip(group.rollouts, values, strict=True)
    ]


def token_credit(credit: Credit, num_tokens: int) -> tuple[float, ...]:
    """The advantage of each of a turn's ``num_tokens`` completion tokens. Raises ``RecordError`` if
    the turn and the credit differ in their number of tokens."""
    if not isinstance(credit, tuple):
        return (credit,) * num_tokens
    if len(credit) != num_tokens:
        raise RecordError(f"{len(credit)} advantages for a turn of {num_tokens} tokens")
    return credit


def mean_credit(credit: Credit) -> float:
    """One number for people to read: the mean over the turn's tokens."""
    if not isinstance(credit, tuple):
        return credit
    return sum(credit) / len(credit) if credit else 0.0


def carries_signal(advantages: GroupAdvantages) -> bool:
    """Whether any token of a group has an advantage other than 0."""
    return any(
        abs(value) > SIGNAL
        for turns in advantages
        for credit in turns
        for value in (credit if isinstance(credit, tuple) else (credit,))
    )
