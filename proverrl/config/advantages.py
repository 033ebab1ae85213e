"""The section ``[advantage]``: which method compares rollouts, and the methods' constants.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.advantages.ADVANTAGES``. Constants of methods that are not chosen are not read.
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
    """How the rollouts of a group are compared; see ``proverrl.advantages``.

    ``states`` is read by ``tempo`` and ``salt``.
    """

    name: AdvantageName = "dr_grpo"
    states: StatesName = "lines"
    max_rl_cap: PositiveFloat = 8.0
    ngrpo_virtual: float = 1.0
    ngrpo_cap: PositiveFloat = 3.0
    proved_weight: Annotated[float, Field(ge=0.0)] = 0.1
    failed_weight: Annotated[float, Field(ge=0.0)] = 1.0
    pkpo_k: Positive = 8
    pkpo_k_end: Positive = 1
    pkpo_anneal: Fraction = 0.5
    turn_discount: Fraction = 0.9
    obligation_weight: Annotated[float, Field(ge=0.0)] = 0.3
    obligation_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    obligation_floor: PositiveFloat = 0.05

    @model_validator(mode="after")
    def _some_weight(self) -> AdvantageConfig:
        if self.proved_weight == 0.0 and self.failed_weight == 0.0:
            raise ValueError("proved_weight and failed_weight are both 0: nothing would be learned")
        return self
