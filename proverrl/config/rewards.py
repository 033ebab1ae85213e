"""The sections ``[reward]``, what a rollout earns for its verdicts, and ``[audit]``, how those
are checked.

Flows in: a table of TOML. Flows out: checked values. The functions that the names choose stand in
``proverrl.rewards.REWARDS`` and ``proverrl.rewards.CORRECTIONS``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, Section

RewardName = Literal["proved", "obligations", "turn_discounted"]
CorrectionName = Literal["none", "backward", "forward"]


class AuditConfig(Section):
    """Second looks at refused proofs; see ``proverrl.loops.audit``.

    ``rate`` of them are judged again by another worker, with ``factor`` times the resource limit
    and the deadline; 0 audits none.
    """

    rate: Fraction = 0.02
    factor: Annotated[float, Field(gt=1.0)] = 4.0


class RewardConfig(Section):
    """What a rollout earns; see ``proverrl.rewards``.

    ``false_negative_rate`` is a number, or ``"online"`` for what the audits find.
    """

    name: RewardName = "proved"
    obligation_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    turn_discount: Fraction = 0.9
    overlong_weight: Annotated[float, Field(ge=0.0)] = 0.0
    overlong_buffer: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    correction: CorrectionName = "none"
    false_positive_rate: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    false_negative_rate: Annotated[float, Field(ge=0.0, lt=1.0)] | Literal["online"] = 0.0

    @model_validator(mode="after")
    def _better_than_chance(self) -> RewardConfig:
        known = 0.0 if self.false_negative_rate == "online" else self.false_negative_rate
        if self.false_positive_rate + known >= 1.0:
            raise ValueError(
                "false_positive_rate + false_negative_rate must be below 1: such a verifier says "
                "no more than chance"
            )
        if self.correction != "none" and self.name != "proved":
            raise ValueError('correction applies to a yes or no: it needs reward.name = "proved"')
        if self.correction == "none" and self.false_negative_rate == "online":
            raise ValueError('false_negative_rate = "online" is read by a correction: set one')
        return self
