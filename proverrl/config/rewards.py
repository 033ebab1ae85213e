"""The sections ``[reward]``, what a rollout earns for its verdicts, ``[appeal]``, how those are
checked, and ``[advantage]``, how rollouts are compared.

The functions that the names choose stand in ``proverrl.rewards`` and ``proverrl.advantages``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import (
    Fraction,
    NonNegativeFloat,
    Options,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)

RewardName = Literal[
    "proved",
    "obligations",
    "turn_discounted",
]


class AppealConfig(Section):
    """Second looks at refused proofs, by another worker; see ``proverrl.run.appeals``."""

    rate: Fraction = 0.02
    """share of distinct refused candidates that are judged again; 0: none"""
    factor: Annotated[float, Field(gt=1.0)] = 4.0
    """factor for the resource limit (Dafny's rlimit, Lean's heartbeats) and the deadline"""


class RewardConfig(Section):
    """What a rollout earns; see ``proverrl.rewards``."""

    name: Annotated[str, name_of("reward", RewardName)] = "proved"
    """``proved``, ``obligations``, ``turn_discounted``, or the name of an installed plug-in
    ([algorithms.md](algorithms.md#rewards-reward))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    obligation_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """``obligations``: the most that a failed proof can earn, below 1"""
    turn_discount: Fraction = 0.9
    """``turn_discounted``: factor for each turn before the proof"""
    overlong_weight: NonNegativeFloat = 0.0
    """penalty for a completion of ``sampling.max_new_tokens``, and a proportional one within the
    buffer before it"""
    overlong_buffer: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """the buffer, as a share of ``sampling.max_new_tokens``"""


AdvantageName = Literal[
    "grpo",
    "dr_grpo",
    "batch_std",
    "rloo",
    "max_rl",
    "ngrpo",
    "w_reinforce",
    "pkpo",
    "dcpo_smooth",
    "turn_credit",
    "obligations",
]


class AdvantageConfig(Section):
    """How the rollouts of a group are compared; see ``proverrl.advantages``."""

    name: Annotated[str, name_of("advantage", AdvantageName)] = "dr_grpo"
    """``grpo``, ``dr_grpo``, ``rloo``, ``max_rl``, ``ngrpo``, ``w_reinforce``, ``pkpo``,
    ``batch_std``, ``dcpo_smooth``, ``turn_credit`` or ``obligations``
    ([algorithms.md](algorithms.md#advantages-advantage))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    max_rl_cap: PositiveFloat = 8.0
    """``max_rl``: advantages are at most this"""
    ngrpo_virtual: float = 1.0
    """``ngrpo``: the reward of the virtual rollout, which is the best possible one"""
    ngrpo_cap: PositiveFloat = 3.0
    """``ngrpo``: advantages lie between minus and plus this"""
    proved_weight: NonNegativeFloat = 0.1
    """``w_reinforce``: the advantage of a proved rollout; 0 learns from failures alone (NSR)"""
    failed_weight: NonNegativeFloat = 1.0
    """``w_reinforce``: minus the advantage of any other; 0 learns from proofs alone (PSR)"""
    pkpo_k: Positive = 8
    """``pkpo``: the k of the best of k at the start of the run"""
    pkpo_k_end: Positive = 1
    """``pkpo``: the k at its end"""
    pkpo_anneal: Fraction = 0.5
    """``pkpo``: the share of the run (by the limit that is nearest) after which k reaches that
    value"""
    turn_discount: Fraction = 0.9
    """``turn_credit``: factor for each turn between a turn and the proof that follows it"""
    obligation_weight: NonNegativeFloat = 0.3
    """``obligations``: weight of the dense part beside the reward"""
    obligation_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """``obligations``: the most that a failed proof can get of the dense part, below 1"""
    obligation_floor: PositiveFloat = 0.05
    """``obligations``: weight of an entry that all rollouts prove"""

    @model_validator(mode="after")
    def _some_weight(self) -> AdvantageConfig:
        if self.proved_weight == 0.0 and self.failed_weight == 0.0:
            raise ValueError("proved_weight and failed_weight are both 0: nothing would be learned")
        return self
