"""Which groups a method can learn from: the admission test of the sampler.

Flows in: ``AdvantageInputs``, as the method itself gets them. Flows out: yes or no for each group.
A group that is not admitted is counted and another problem is drawn in its place. Not handled here:
how often to draw again (the loop's limit).

Most methods learn nothing from equal rewards (dynamic sampling, Yu et al. 2025, arXiv 2503.14476).
Some do, and some learn nothing from certain mixed groups; for those the answer is computed.

In addition a range of pass rates may be set (``within_pass_rates``). Pass rates count verdicts: a
penalty that splits rewards, such as that for overlong completions, does not change them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proverrl.advantages.base import AdvantageFn, AdvantageInputs, carries_signal, only_groups
from proverrl.advantages.batch import dcpo_smooth
from proverrl.advantages.best_of import pkpo
from proverrl.advantages.group import max_rl, ngrpo, w_reinforce
from proverrl.advantages.tree import salt, tempo
from proverrl.advantages.verdicts import obligations, turn_credit
from proverrl.config import AdvantageName, GrpoConfig
from proverrl.types import Group, Status

AdmitFn = Callable[[AdvantageInputs], list[bool]]
"""Gives one answer for each group, in their order."""


def mixed(inputs: AdvantageInputs) -> list[bool]:
    """Groups whose rewards differ."""
    return [group.mixed for group in inputs.groups]


def signal_of(method: AdvantageFn) -> AdmitFn:
    """Groups to which ``method``, asked about each alone, gives an advantage other than 0."""

    def admit(inputs: AdvantageInputs) -> list[bool]:
        return [carries_signal(method(only_groups(inputs, [group]))[0]) for group in inputs.groups]

    return admit


ADMITS: dict[AdvantageName, AdmitFn] = {
    "grpo": mixed,
    "dr_grpo": mixed,
    "batch_std": mixed,
    "rloo": mixed,
    "max_rl": signal_of(max_rl),
    "ngrpo": signal_of(ngrpo),
    "w_reinforce": signal_of(w_reinforce),
    "pkpo": signal_of(pkpo),
    "dcpo_smooth": signal_of(dcpo_smooth),
    "turn_credit": signal_of(turn_credit),
    "obligations": signal_of(obligations),
    "tempo": signal_of(tempo),
    "salt": signal_of(salt),
}


def pass_rate(group: Group) -> float:
    """The share of the group's rollouts that are proved."""
    return sum(r.status is Status.PROVED for r in group.rollouts) / len(group.rollouts)


def within_pass_rates(
    groups: Sequence[Group], low: float, high: float, *, mixed_only: bool
) -> list[bool]:
    """Groups whose pass rate lies in [low, high], and with ``mixed_only`` neither at 0 nor at 1.

    DAPO (Yu et al. 2025, arXiv 2503.14476) admits 0 < rate < 1 by accuracy alone;
    Goedel-Prover-V2 (Lin et al. 2025, arXiv 2508.03613) admits 0 < rate <= 0.75.
    """
    rates = [pass_rate(group) for group in groups]
    return [low <= rate <= high and (not mixed_only or 0.0 < rate < 1.0) for rate in rates]


def admit_groups(inputs: AdvantageInputs, name: AdvantageName, settings: GrpoConfig) -> list[bool]:
    """Groups that the method ``name`` learns from and whose verdicts are as ``settings`` want."""
    within = within_pass_rates(
        inputs.groups,
        settings.min_pass_rate,
        settings.max_pass_rate,
        mixed_only=settings.mixed_verdicts,
    )
    return [a and b for a, b in zip(ADMITS[name](inputs), within, strict=True)]
