"""What a method of comparison is given and what it returns.

Flows in: groups of judged rollouts, the section ``[advantage]``, how far the run is, and what
earlier groups on the same problems earned. Flows out: a number for each turn, or for each token of
it. A group is never compared with another role: a method that looks beyond one group keeps to
groups of the same role.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from proverrl.config import AdvantageConfig
from proverrl.errors import RecordError
from proverrl.types import Group, GroupKey, Role

SIGNAL = 1e-9
"""An advantage not larger than this is rounding, not signal."""

Credit = float | tuple[float, ...]
"""The advantage of one turn: one number for all of its tokens, or one for each completion token."""

GroupAdvantages = list[list[Credit]]
"""Per rollout of a group, per turn."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Running moments of rewards: ``m2`` is the sum of squared distances from the mean."""

    visits: int = 0
    count: int = 0
    mean: float = 0.0
    m2: float = 0.0

    @property
    def std(self) -> float:
        """Population standard deviation; 0 without values."""
        return math.sqrt(self.m2 / self.count) if self.count else 0.0

    def including(self, rewards: Sequence[float]) -> Moments:
        """These moments after one more visit (the pairwise update of Chan, Golub and LeVeque)."""
        if not rewards:
            return self
        mean = sum(rewards) / len(rewards)
        m2 = sum((reward - mean) ** 2 for reward in rewards)
        count = self.count + len(rewards)
        gap = mean - self.mean
        return Moments(
            visits=self.visits + 1,
            count=count,
            mean=self.mean + gap * len(rewards) / count,
            m2=self.m2 + m2 + gap * gap * self.count * len(rewards) / count,
        )


class RewardHistory:
    """Moments of all rewards ever given, per (role, problem).

    A step's advantages read what the history held before the step; its groups are observed after.
    """

    def __init__(self) -> None:
        self._moments: dict[GroupKey, Moments] = {}

    def moments(self, key: GroupKey) -> Moments:
        """What was observed under a key; empty moments for an unseen key."""
        return self._moments.get(key, Moments())

    def observe(self, group: Group) -> None:
        self._moments[group.key] = self.moments(group.key).including(totals(group))

    def state_dict(self) -> dict[str, Any]:
        return {"moments": [[*key, *astuple(m)] for key, m in self._moments.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._moments = {}
        for role, problem, *values in state["moments"]:
            known: Role = "composer" if role == "composer" else "solver"
            self._moments[known, problem] = Moments(*values)


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """What a method is given and must not change. ``progress`` is the finished share of the run,
    from 0 to 1."""

    groups: Sequence[Group]
    settings: AdvantageConfig
    progress: float = 0.0
    history: RewardHistory = field(default_factory=RewardHistory)

    def __post_init__(self) -> None:
        if not 0.0 <= self.progress <= 1.0:
            raise RecordError(f"progress must lie in [0, 1], got {self.progress}")


AdvantageFn = Callable[[AdvantageInputs], list[GroupAdvantages]]
"""Gives one ``GroupAdvantages`` for each group, in their order."""


def per_group(method: Callable[[Group, AdvantageInputs], Sequence[float]]) -> AdvantageFn:
    """An ``AdvantageFn`` from a method that gives each rollout of a group one value."""

    @functools.wraps(method)
    def compare(inputs: AdvantageInputs) -> list[GroupAdvantages]:
        return [spread(group, method(group, inputs)) for group in inputs.groups]

    return compare


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
