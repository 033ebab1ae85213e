"""The sections ``[reward]``, what a rollout earns for its verdicts, ``[appeal]``, how those are
checked, and ``[advantage]``, how rollouts are compared.

The functions that the names choose stand in ``proverrl.rewards`` and ``proverrl.advantages``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import (
    Fraction,
    NonNegativeFloat,
    Options,
    Section,
    name_of,
)

RewardName = Literal["proved",]


class AppealConfig(Section):
    """Second looks at refused proofs, by another worker; see ``proverrl.run.pipeline.Reviewer``."""

    rate: Fraction = 0.02
    """share of distinct refused candidates that are judged again with four times the resource limit
    and the deadline; 0: none"""


class RewardConfig(Section):
    """The reward of a rollout; see ``proverrl.rewards``."""

    name: Annotated[str, name_of("reward", RewardName)] = "proved"
    """``proved``, or the name of an installed plug-in
    ([algorithms.md](algorithms.md#rewards-reward))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    overlong_weight: NonNegativeFloat = 0.0
    """penalty for a completion of ``sampling.max_new_tokens``, and a proportional one within the
    last fifth before it"""


AdvantageName = Literal["grpo", "dr_grpo"]


class AdvantageConfig(Section):
    """The comparison of the rollouts of a group; see ``proverrl.advantages``."""

    name: Annotated[str, name_of("advantage", AdvantageName)] = "dr_grpo"
    """``grpo`` or ``dr_grpo`` ([algorithms.md](algorithms.md#advantages-advantage))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
