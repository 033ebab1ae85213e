"""The whole loss: weights, the named policy loss, and what is added to it. With the
settings' defaults nothing is multiplied or added, and the value is that of the named loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from proverrl.config import LossName
from proverrl.losses.base import LossFn, LossInputs, Metrics
from proverrl.losses.clipped import clipped_sequence, clipped_token
from proverrl.losses.regularisers import kl_term, sampler_weights
from proverrl.plugins import choose, refuse

LOSSES: dict[LossName, LossFn] = {
    "clipped_token": clipped_token,
    "clipped_sequence": clipped_sequence,
}


def compute_loss(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The loss of a micro-batch.

    A micro-batch without a token in the loss costs 0. Raises ``UsageError`` if a plug-in gives no
    loss that can be learned from.
    """
    settings = inputs.settings
    if not len(inputs.logprobs):
        return inputs.logprobs.sum(), {}
    metrics: Metrics = {}
    if settings.sampler_cap:
        factors, metrics = sampler_weights(inputs)
        inputs = replace(inputs, weights=inputs.weights * factors)
    found = choose("loss", LOSSES, settings.name, settings.options)(inputs)
    if settings.name not in LOSSES and not _is_loss(found):
        wanted = "a scalar tensor with a gradient and a mapping of numbers"
        raise refuse("loss", settings.name, found, f"{len(inputs.logprobs)} tokens", wanted)
    loss, values = found
    metrics |= values
    moved = (inputs.logprobs.detach() - inputs.sampler_logprobs).abs().amax()
    metrics["ratio_max"] = moved.exp()
    if settings.needs_reference:
        term, metrics["reference_kl"] = kl_term(inputs)
        loss = loss + term
    if settings.entropy:
        loss = loss - settings.entropy * inputs.entropy.sum() / inputs.batch_tokens
    return loss, metrics


def _is_loss(found: Any) -> bool:
    """Whether somebody's own loss can be learned from; what is not finite is the guard's to say."""
    if not isinstance(found, tuple) or len(found) != 2:
        return False
    loss, values = found
    if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
        return False
    return isinstance(values, Mapping) and all(
        isinstance(value, int | float) or (isinstance(value, Tensor) and value.numel() == 1)
        for value in values.values()
    )
