"""The sections ``[loss]`` and ``[guard]``: what is minimised, and when a run is stopped.

Flows in: tables of TOML. Flows out: checked values. The functions that a name chooses stand in
``proverrl.losses``. Not handled here: the optimizer (``[learner]``).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, PositiveFloat, Section

LossName = Literal[
    "clipped_token",
    "clipped_sequence",
    "dr_grpo_constant",
    "gspo",
    "luspo",
    "gmpo",
    "sapo",
    "dcpo",
    "cispo",
    "aipo",
    "prime_rl",
    "kimina",
    "trajectory_balance",
]
WeightsName = Literal[
    "none",
    "token_truncate",
    "token_mask",
    "sequence_truncate",
    "sequence_mask",
    "geometric_mask",
    "decoupled",
    "negative_sequence_mask",
]
KlName = Literal["k1", "k2", "k3"]
CovarianceName = Literal["none", "clip", "kl"]
GuardAction = Literal["stop", "warn", "off"]

NotNegativeFloat = Annotated[float, Field(ge=0.0)]

# These divide by the sampler's probabilities themselves; a second factor would correct twice.
SELF_CORRECTED: frozenset[LossName] = frozenset({"aipo", "prime_rl"})
# These look at probabilities of the sampler and of the update only.
WITHOUT_OLD_FORWARD: frozenset[WeightsName] = frozenset({"none", "negative_sequence_mask"})


class WeightsConfig(Section):
    """Weights for the difference between sampler and learner; see ``proverrl.losses.weights``.

    ``low`` and ``high`` bound the ratio of probabilities; 0 takes the method's own bound. Samples
    more than ``max_staleness`` policy versions old are left out; 0 keeps all.
    """

    name: WeightsName = "none"
    low: NotNegativeFloat = 0.0
    high: NotNegativeFloat = 0.0
    max_staleness: NonNegative = 0

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.high and self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self


class KlConfig(Section):
    """KL divergence to the policy that the loop started from; 0 keeps no copy of it."""

    coefficient: NotNegativeFloat = 0.0
    estimator: KlName = "k3"


class EntropyConfig(Section):
    """A bonus for entropy, constant or adaptive; see ``proverrl.losses.entropy``.

    Under ``adaptive`` the coefficient starts at ``coefficient``, moves by ``step`` an update and
    acts only while entropy is at most ``target_share`` of the first update's.
    """

    coefficient: NotNegativeFloat = 0.0
    adaptive: bool = False
    step: PositiveFloat = 0.005
    target_share: Fraction = 0.5


class DistillConfig(Section):
    """Self-distillation from the verifier's messages; see ``proverrl.learner.distill``. ``weight``
    0 keeps no teacher. At most ``max_pairs`` failed attempts per step are learned from."""

    weight: NotNegativeFloat = 0.0
    alpha: Fraction = 0.5
    top_tokens: Positive = 100
    ratio_cap: PositiveFloat = 2.0
    teacher_rate: Fraction = 0.05
    max_pairs: Positive = 64


class LossConfig(Section):
    """The loss, its constants and what is added to it. A constant is read by the loss that its
    docstring names and by no other."""

    name: LossName = "clipped_token"
    clip_low: Fraction = 0.2
    clip_high: NotNegativeFloat = 0.28
    dual_clip: NotNegativeFloat = 0.0
    constant_length: NonNegative = 0
    gspo_low: Fraction = 3e-4
    gspo_high: NotNegativeFloat = 4e-4
    gmpo_clip: PositiveFloat = 0.4
    sapo_positive: PositiveFloat = 1.0
    sapo_negative: PositiveFloat = 1.05
    dcpo_low: PositiveFloat = 0.16
    dcpo_high: PositiveFloat = 0.2
    dcpo_cap: Annotated[float, Field(gt=1.0)] = 10.0
    cispo_cap: PositiveFloat = 5.0
    aipo_cap: PositiveFloat = 2.0
    drop_threshold: PositiveFloat = 0.2
    drop_penalty: NotNegativeFloat = 1e-3
    kimina_tau: PositiveFloat = 0.4
    kimina_partition: Literal["exact", "mean"] = "exact"
    balance_scale: PositiveFloat = 15.0
    mask_truncated: bool = False
    top_entropy_share: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    positive_mask_entropy: NotNegativeFloat = 0.0
    positive_mask_probability: Fraction = 0.99
    covariance: CovarianceName = "none"
    clip_cov_share: Fraction = 2e-4
    clip_cov_low: float = 1.0
    clip_cov_high: float = 5.0
    kl_cov_share: Fraction = 2e-3
    kl_cov_weight: NotNegativeFloat = 1.0
    weights: WeightsConfig = WeightsConfig()
    kl: KlConfig = KlConfig()
    entropy: EntropyConfig = EntropyConfig()
    distill: DistillConfig = DistillConfig()

    @model_validator(mode="after")
    def _names_fit_together(self) -> Self:
        if self.name == "dr_grpo_constant" and not self.constant_length:
            raise ValueError(
                "dr_grpo_constant divides by a length: set loss.constant_length, for example to "
                "sampling.max_new_tokens"
            )
        if self.name in SELF_CORRECTED and self.weights.name not in WITHOUT_OLD_FORWARD:
            raise ValueError(
                f"{self.name} divides by the sampler's probabilities itself: with "
                f"loss.weights.name = {self.weights.name!r} that would be corrected twice"
            )
        if 0.0 < self.dual_clip <= 1.0 + self.clip_high:
            raise ValueError("dual_clip is 0 (off) or above 1 + clip_high")
        return self

    @property
    def needs_old_logprobs(self) -> bool:
        """True when the learner must score the samples itself before its first update, because
        the weights compare its own probabilities with the sampler's."""
        return self.weights.name not in WITHOUT_OLD_FORWARD

    @property
    def needs_reference(self) -> bool:
        """True when a frozen copy of the first policy must be kept (as much memory again as the
        weights take)."""
        return self.kl.coefficient > 0.0


class GuardConfig(Section):
    """What happens when an update looks wrong: ``stop``, ``warn`` or ``off``.

    ``stop`` saves the batch and ends the run before the update. ``not_finite`` has no ``off``,
    since such an update destroys the weights: with ``warn`` it is left out.
    """

    not_finite: Literal["stop", "warn"] = "stop"
    ratio: GuardAction = "warn"
    max_ratio: Annotated[float, Field(gt=1.0)] = 1000.0
    entropy: GuardAction = "warn"
    min_entropy: NotNegativeFloat = 0.005
    reward_jump: GuardAction = "warn"
    max_reward_jump: Fraction = 0.35
    reward_window: Positive = 10
