"""Advantages: pure functions from the groups of a step to a number for each turn or token.

A method is a function, its entry of ``ADVANTAGES`` and a name in ``proverrl.config.AdvantageName``.
A group is never compared with another role: a method that looks beyond one group keeps to groups of
the same role. ``admit_groups`` says which groups a method can learn from. A group that is not
admitted is counted, and another problem is drawn in its place: ours learn nothing from equal
rewards (dynamic sampling, Yu et al. 2025, arXiv 2503.14476). For a plug-in the answer is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proverrl.config import AdvantageConfig, AdvantageName, GrpoConfig
from proverrl.errors import RecordError
from proverrl.plugins import bind, refuse
from proverrl.statistics import centre, standardize
from proverrl.types import Group, Status

SIGNAL = 1e-9
"""An advantage not larger than this is rounding, not signal."""

Credit = float | tuple[float, ...]
"""The advantage of one turn: one number for all of its tokens, or one for each completion token."""

GroupAdvantages = list[list[Credit]]
"""Per rollout of a group, per turn."""


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """The inputs of a method, which must not change them. ``progress`` is the finished share of the
    run, from 0 to 1."""

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
    """True if any token of a group has an advantage other than 0."""
    return any(
        abs(value) > SIGNAL
        for turns in advantages
        for credit in turns
        for value in (credit if isinstance(credit, tuple) else (credit,))
    )


def grpo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """(r - mean) / (std + 1e-6), population std (GRPO, Shao et al. 2024, arXiv 2402.03300)."""
    return [spread(group, standardize(totals(group))) for group in inputs.groups]


def dr_grpo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """r - mean, without the division by std (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783)."""
    return [spread(group, centre(totals(group))) for group in inputs.groups]


ADVANTAGES: dict[AdvantageName, AdvantageFn] = {"grpo": grpo, "dr_grpo": dr_grpo}


def choose_method(settings: AdvantageConfig) -> AdvantageFn:
    """The configured method. Raises ``UsageError`` for a plug-in that cannot be used, as the method
    does when a plug-in gives something other than finite advantages."""
    if settings.name in ADVANTAGES:
        return ADVANTAGES[settings.name]
    own = bind("advantage", settings.name, settings.options)

    def compare(inputs: AdvantageInputs) -> list[GroupAdvantages]:
        found = own(inputs)
        if not isinstance(found, list | tuple) or len(found) != len(inputs.groups):
            wanted, asked = "a list of as many GroupAdvantages", f"{len(inputs.groups)} groups"
            raise refuse("advantage", settings.name, found, asked, wanted)
        for given, group in zip(found, inputs.groups, strict=True):
            if not _fits(given, group):
                wanted = "per rollout, per turn, a finite number, or a tuple of one for each token"
                asked = f"the group on {group.key[1]!r}"
                raise refuse("advantage", settings.name, given, asked, wanted)
        return list(found)

    return compare


def _fits(given: Any, group: Group) -> bool:
    """True if these are advantages of the group's tokens."""
    try:
        return len(given) == len(group.rollouts) and all(
            math.isfinite(value)
            for turns, rollout in zip(given, group.rollouts, strict=True)
            for credit, turn in zip(turns, rollout.turns, strict=True)
            for value in token_credit(credit, len(turn.completion.token_ids))
        )
    except (TypeError, ValueError, OverflowError, RuntimeError, RecordError):
        return False


def find_learnable(inputs: AdvantageInputs, settings: AdvantageConfig) -> list[bool]:
    """One answer for each group, in their order: whether the method learns from it. Ours do where
    rewards differ; a plug-in where, asked about the group alone, it gives an advantage other than
    0."""
    if settings.name in ADVANTAGES:
        return [group.mixed for group in inputs.groups]
    method = choose_method(settings)
    return [carries_signal(method(replace(inputs, groups=[g]))[0]) for g in inputs.groups]


def pass_rate(group: Group) -> float:
    """The share of the group's rollouts that are proved."""
    return sum(r.status is Status.PROVED for r in group.rollouts) / len(group.rollouts)


def within_pass_rates(groups: Sequence[Group], high: float, *, mixed_only: bool) -> list[bool]:
    """Groups whose pass rate is at most ``high``, and with ``mixed_only`` neither at 0 nor at 1.
    Pass rates count verdicts: a penalty that splits rewards does not change them.

    DAPO (Yu et al. 2025, arXiv 2503.14476) admits 0 < rate < 1 by accuracy alone;
    Goedel-Prover-V2 (Lin et al. 2025, arXiv 2508.03613) admits 0 < rate <= 0.75.
    """
    rates = [pass_rate(group) for group in groups]
    return [rate <= high and (not mixed_only or 0.0 < rate < 1.0) for rate in rates]


def admit_groups(
    inputs: AdvantageInputs, method: AdvantageConfig, settings: GrpoConfig
) -> list[bool]:
    """Groups that the method learns from and whose verdicts are as ``settings`` want."""
    within = within_pass_rates(
        inputs.groups, settings.max_pass_rate, mixed_only=settings.mixed_verdicts
    )
    admits = find_learnable(inputs, method)
    return [a and b for a, b in zip(admits, within, strict=True)]
