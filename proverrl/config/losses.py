"""The sections ``[loss]`` and ``[guard]``: what is minimised, and when a run is stopped.

The functions that a name chooses stand in ``proverrl.losses``. Not handled here: the optimizer
(``[learner]``).
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
from proverrl.plugins import is_place

LossName = Literal["clipped_token", "clipped_sequence"]


class LossConfig(Section):
    """The loss, and what is added to it."""

    name: Annotated[str, name_of("loss", LossName)] = "clipped_token"
    """``clipped_token`` or ``clipped_sequence`` ([algorithms.md](algorithms.md#losses-loss))"""
    options: Options = Field(default_factory=dict)
    """of a plug-in, ``name = "package.module:function"`` ([plugins.md](plugins.md))"""
    clip_low: Fraction = 0.2
    """the probability ratio is clipped below 1 minus this"""
    clip_high: NonNegativeFloat = 0.28
    """and above 1 plus this"""
    mask_truncated: bool = False
    """samples cut off at the token limit do not train"""
    sampler_cap: NonNegativeFloat = 0.0
    """a token's loss is weighed by the learner's probability over the sampler's, at most this,
    where they differ by engine or rounding; 2 is usual, 0: not weighed"""
    kl: NonNegativeFloat = 0.0
    """weight of the KL divergence to the policy that the loop started from, of which a copy is then
    kept"""
    entropy: NonNegativeFloat = 0.0
    """weight of the mean entropy, which is subtracted from the loss"""

    @property
    def needs_old_logprobs(self) -> bool:
        """True when the learner must score the samples itself before its first update, because
        its own probabilities are compared with the sampler's."""
        return self.sampler_cap > 0.0

    @property
    def needs_groups(self) -> bool:
        """True when the loss may compare samples of one prompt, as a plug-in's may: they share a
        micro-batch."""
        return is_place(self.name)

    @property
    def needs_reference(self) -> bool:
        """True when a frozen copy of the first policy must be kept (as much memory again as the
        weights take)."""
        return self.kl > 0.0


class GuardConfig(Section):
    """Reactions to an update that looks wrong. One whose loss or gradient is not finite always ends
    the run, before it is made."""

    action: Literal["stop", "warn", "off"] = "warn"
    """where a token's probability has moved by a factor above 1,000 from the sampler's, where the
    mean entropy is below 0.005 nats per token, and where the solve rate is 0.35 above the mean of
    the last ten steps, the sign of a verifier that is being cheated: ``stop``, ``warn`` or
    ``off``"""
