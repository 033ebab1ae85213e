"""Which groups a method can learn from: the admission test of the sampler.

Flows in: ``AdvantageInputs``, as the method itself gets them. Flows out: one yes or no a group.
A group that is not admitted is counted and another problem is drawn in its place. Not handled here:
how often to draw again (the loop's limit).

Equal rewards silence most methods (dynamic sampling, Yu et al. 2025, arXiv 2503.14476). Some speak
all the same, and some keep silent on groups that are mixed; for those the answer is computed.
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.advantages.base import AdvantageFn, AdvantageInputs, carries_signal, only_groups
from proverrl.advantages.batch import dcpo_smooth
from proverrl.advantages.best_of import pkpo
from proverrl.advantages.group import max_rl, ngrpo, w_reinforce
from proverrl.advantages.tree import salt, tempo
from proverrl.advantages.verdicts import obligations, turn_credit
from proverrl.config import AdvantageName

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
