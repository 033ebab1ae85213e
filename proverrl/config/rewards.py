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
    """Second looks at refused proofs, by another worker; see ``proverrl.loops.audit``."""

    rate: Fraction = 0.02
    """share of distinct refused candidates that are judged again; 0 audits none"""
    factor: Annotated[float, Field(gt=1.0)] = 4.0
    """factor for the resource limit (Dafny's rlimit, Lean's heartbeats) and the deadline"""


class RewardConfig(Section):
    """What a rollout earns; see ``proverrl.rewards``."""

    name: RewardName = "proved"
    """``proved``: 1 for a proof, else 0; ``obligations``: a failed proof earns up to
    ``reward.obligation_share`` for entries that verify, which is always less than a proof earns;
    ``turn_discounted``: a proof in a later turn is worth less"""
    obligation_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """``obligations``: the most that a failed proof can earn, below 1"""
    turn_discount: Fraction = 0.9
    """``turn_discounted``: factor for each turn before the proof"""
    overlong_weight: Annotated[float, Field(ge=0.0)] = 0.0
    """penalty for a completion of ``sampling.max_new_tokens``, and a proportional one within the
    buffer before it; 0 is no penalty. Such penalties give different rewards to equal verdicts, so a
    group of equal verdicts counts as mixed; ``grpo.mixed_verdicts`` leaves such groups out"""
    overlong_buffer: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """the buffer, as a share of ``sampling.max_new_tokens``"""
    correction: CorrectionName = "none"
    """for a verifier that errs: ``backward`` (unbiased) or ``forward`` (bounded); with ``proved``
    only. Within one group both are a constant factor"""
    false_positive_rate: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of wrong proofs that the verifier accepts"""
    false_negative_rate: Annotated[float, Field(ge=0.0, lt=1.0)] | Literal["online"] = 0.0
    """share of right proofs that it refuses; ``"online"`` uses what the audits find, at most
    half"""

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
