"""The sections ``[loss]`` and ``[guard]``: what is minimised, and when a run is stopped.

The functions that a name chooses stand in ``proverrl.losses``. Not handled here: the optimizer
(``[learner]``).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from proverrl.config.base import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Options,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)
from proverrl.plugins import is_place

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
GuardAction = Literal["stop", "warn", "off"]

# These divide by the sampler's probabilities themselves; a second factor would correct twice.
SELF_CORRECTED: frozenset[LossName] = frozenset({"aipo", "prime_rl"})
# These look at probabilities of the sampler and of the update only.
WITHOUT_OLD_FORWARD: frozenset[WeightsName] = frozenset({"none", "negative_sequence_mask"})


class WeightsConfig(Section):
    """Weights for the difference between sampler and learner; see ``proverrl.losses.weights``."""

    name: WeightsName = "none"
    """``token_truncate`` (bounds 0 and 2), ``token_mask`` (0.5, 5), ``sequence_truncate`` (0, 2),
    ``sequence_mask`` (0, 3), ``geometric_mask`` (0.5, 2; for long proofs), ``decoupled`` (0, 5), or
    ``negative_sequence_mask`` (drops failures whose mean log-ratio is above 0.5)"""
    low: NonNegativeFloat = 0.0
    """lower bound of the ratio; 0 uses the method's own"""
    high: NonNegativeFloat = 0.0
    """upper bound; 0 uses the method's own"""
    max_staleness: NonNegative = 0
    """tokens more than so many policy versions old do not train, nor does a sample of such tokens
    alone; 0 keeps all"""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.high and self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self


class KlConfig(Section):
    """KL divergence to the policy that the loop started from."""

    coefficient: NonNegativeFloat = 0.0
    """weight of the KL divergence to the policy that the loop started from, of which a copy is then
    kept"""
    estimator: KlName = "k3"
    """``k1``, ``k2`` or ``k3``"""


class EntropyConfig(Section):
    """A bonus for entropy."""

    coefficient: NonNegativeFloat = 0.0
    """weight of the mean entropy, which is subtracted from the loss"""


class LossConfig(Section):
    """The loss, its constants and what is added to it. A constant is read by the loss that its
    docstring names and by no other."""

    name: Annotated[str, name_of("loss", LossName)] = "clipped_token"
    """``clipped_token``, ``clipped_sequence``, ``dr_grpo_constant``, ``gspo``, ``luspo``, ``gmpo``,
    ``sapo``, ``dcpo``, ``cispo``, ``aipo``, ``prime_rl`` or ``kimina``, which wants
    ``advantage.name = "dr_grpo"`` ([algorithms.md](algorithms.md#losses-loss))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    clip_low: Fraction = 0.2
    """``clipped_*``, ``dr_grpo_constant``: the probability ratio is clipped below 1 minus this"""
    clip_high: NonNegativeFloat = 0.28
    """and above 1 plus this"""
    dual_clip: NonNegativeFloat = 0.0
    """the same losses: bounds the loss of a token with a negative advantage at this times the
    advantage; 3 is usual"""
    constant_length: NonNegative = 0
    """``dr_grpo_constant``: the number of tokens to divide the sum by; set it to
    ``sampling.max_new_tokens``"""
    gspo_low: Fraction = 3e-4
    """``gspo``, ``luspo``: the sample's ratio is clipped below 1 minus this"""
    gspo_high: NonNegativeFloat = 4e-4
    """and above 1 plus this"""
    gmpo_clip: PositiveFloat = 0.4
    """``gmpo``: a token's log-ratio is clipped at this"""
    sapo_positive: PositiveFloat = 1.0
    """``sapo``: how fast tokens with a positive advantage fade as the ratio leaves 1"""
    sapo_negative: PositiveFloat = 1.05
    """the same for all others"""
    dcpo_low: PositiveFloat = 0.16
    """``dcpo``: width of the clip below, at probability 1"""
    dcpo_high: PositiveFloat = 0.2
    """width of the clip above; both grow for rare tokens"""
    dcpo_cap: Annotated[float, Field(gt=1.0)] = 10.0
    """``dcpo``: largest ratio"""
    cispo_cap: PositiveFloat = 5.0
    """``cispo``: largest weight of a token"""
    aipo_cap: PositiveFloat = 2.0
    """``aipo``: largest weight of a token"""
    drop_threshold: PositiveFloat = 0.2
    """``prime_rl``: a token is dropped when its probability has moved by more than this in the
    direction of its advantage"""
    drop_penalty: NonNegativeFloat = 1e-3
    """``prime_rl``: weight of the squared log-ratio"""
    kimina_tau: PositiveFloat = 0.4
    """``kimina``: temperature of the mirror descent"""
    mask_truncated: bool = False
    """samples cut off at the token limit do not train"""
    weights: WeightsConfig = WeightsConfig()
    kl: KlConfig = KlConfig()
    entropy: EntropyConfig = EntropyConfig()

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
    def needs_groups(self) -> bool:
        """True when the loss compares samples of one prompt, which then share a micro-batch; a
        plug-in may."""
        return self.name == "kimina" or is_place(self.name)

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
    """the loss or the gradient is infinite or not a number; ``warn`` skips the update; there is no
    ``off``"""
    ratio: GuardAction = "warn"
    """a token's probability has moved too far from the sampler's"""
    max_ratio: Annotated[float, Field(gt=1.0)] = 1000.0
    """the largest factor that is not too far"""
    entropy: GuardAction = "warn"
    """entropy has collapsed"""
    min_entropy: NonNegativeFloat = 0.005
    """entropy has collapsed when its mean is below this, in nats per token"""
    reward_jump: GuardAction = "warn"
    """the solve rate jumped, the sign of a verifier that is being cheated"""
    max_reward_jump: Fraction = 0.35
    """a jump is more than this above the mean of the last steps"""
    reward_window: Positive = 10
    """so many last steps; before that nothing counts as a jump"""
