"""The section ``[advantage]``: which method compares rollouts, and the methods' constants.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.advantages.methods.ADVANTAGES``. Constants of methods that are not chosen are not read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, Positive, PositiveFloat, Section

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
    "tempo",
    "salt",
]
StatesName = Literal["lines", "goals"]


class AdvantageConfig(Section):
    """How the rollouts of a group are compared; see ``proverrl.advantages``."""

    name: AdvantageName = "dr_grpo"
    """within a group: ``grpo``, ``dr_grpo``, ``rloo``, ``max_rl``, ``ngrpo``, ``w_reinforce``,
    ``pkpo``; over the batch or the run: ``batch_std``, ``dcpo_smooth``; from the verdicts of turns:
    ``turn_credit``, ``obligations``; for each token: ``tempo``, ``salt``"""
    states: StatesName = "lines"
    """``tempo``, ``salt``: what the states of a proof are. ``lines``: its text so far (``tempo``:
    its tokens); ``goals``: Lean's goals between tactics, so that proofs with different text can
    share states. ``goals`` refuses a file with Dafny problems"""
    max_rl_cap: PositiveFloat = 8.0
    """``max_rl``: advantages are at most this"""
    ngrpo_virtual: float = 1.0
    """``ngrpo``: the reward of the virtual rollout, which is the best possible one"""
    ngrpo_cap: PositiveFloat = 3.0
    """``ngrpo``: advantages lie between minus and plus this"""
    proved_weight: Annotated[float, Field(ge=0.0)] = 0.1
    """``w_reinforce``: the advantage of a proved rollout; 0 learns from failures alone (NSR)"""
    failed_weight: Annotated[float, Field(ge=0.0)] = 1.0
    """``w_reinforce``: minus the advantage of any other; 0 learns from proofs alone (PSR)"""
    pkpo_k: Positive = 8
    """``pkpo``: the k of the best of k at the start of the run"""
    pkpo_k_end: Positive = 1
    """``pkpo``: the k at its end"""
    pkpo_anneal: Fraction = 0.5
    """``pkpo``: the share of the run after which k reaches that value. Progress is measured by
    whichever of steps, verifier calls and minutes is nearest to its limit"""
    turn_discount: Fraction = 0.9
    """``turn_credit``: factor for each turn between a turn and the proof that follows it"""
    obligation_weight: Annotated[float, Field(ge=0.0)] = 0.3
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
