"""What a loss is given, and the ways to sum a loss over tokens. Sums are divided by the whole
batch's size, so that the losses of micro-batches add up. Tokens outside the loss are not among the
inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from proverrl.config import LossConfig


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Tokens of a micro-batch. All tensors are on one device.

    Of shape (tokens,): ``logprobs`` of the policy being updated (with gradient), ``old_logprobs``
    of the learner before the step's first update where ``settings.needs_old_logprobs`` and the
    sampler's otherwise, ``sampler_logprobs``, ``ref_logprobs`` of the first policy (None when
    there is no KL term), ``entropy`` of the next-token distribution in nats, ``advantages``,
    ``weights`` (detached factors of the policy loss, 1 where nothing corrects it), ``sample`` (the
    number of the token's sample, from 0, within the micro-batch) and ``position`` (0 for the first
    token after the prompt, tokens out of the loss counted).

    Of shape (samples,): ``group`` (samples of one number share their prompt; where
    ``settings.needs_groups`` they are whole groups) and ``truncated`` (cut off at the token limit).

    ``batch_tokens`` and ``batch_samples`` count over the whole batch of the optimizer step.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    sampler_logprobs: Tensor
    ref_logprobs: Tensor | None
    entropy: Tensor
    advantages: Tensor
    weights: Tensor
    sample: Tensor
    position: Tensor
    group: Tensor
    truncated: Tensor
    batch_tokens: int
    batch_samples: int
    settings: LossConfig

    @property
    def log_ratio(self) -> Tensor:
        """log(p / p_old) per token, with gradient."""
        return self.logprobs - self.old_logprobs


Metrics = dict[str, Tensor]
"""Sums over tokens, which the learner divides by ``batch_tokens``; the learner takes the maximum
of those whose name ends in ``_max``."""

LossFn = Callable[[LossInputs], tuple[Tensor, Metrics]]


def token_mean(inputs: LossInputs, per_token: Tensor) -> Tensor:
    """Sum over tokens / tokens of the batch: every token weighs the same."""
    return (per_token * inputs.weights).sum() / inputs.batch_tokens


def sequence_mean(inputs: LossInputs, per_token: Tensor) -> Tensor:
    """Mean over each sample's tokens, summed / samples of the batch: every sample weighs the
    same."""
    return mean_per_sample(inputs, per_token * inputs.weights).sum() / inputs.batch_samples


def sum_per_sample(inputs: LossInputs, per_token: Tensor) -> Tensor:
    """Sums over each sample's tokens, of shape (samples,), samples without a token in the loss
    included."""
    zeros = torch.zeros(len(inputs.truncated), dtype=per_token.dtype, device=per_token.device)
    return zeros.index_add(0, inputs.sample, per_token)


def mean_per_sample(inputs: LossInputs, per_token: Tensor) -> Tensor:
    """Means over each sample's tokens, of shape (samples,); 0 where there are none."""
    counts = sum_per_sample(inputs, torch.ones_like(per_token))
    return sum_per_sample(inputs, per_token) / counts.clamp(min=1)


def ratio_metrics(log_ratio: Tensor, clipped: Tensor | None = None) -> Metrics:
    """How far the policy has moved from where the ratio starts; ``clipped`` marks tokens whose
    gradient the loss cuts off."""
    detached = log_ratio.detach()
    clipped = torch.zeros_like(log_ratio) if clipped is None else clipped
    return {
        "ratio_clipped": clipped.sum().detach(),
        # k3 of Schulman (2020), "Approximating KL divergence": KL(sampler || policy), >= 0.
        "approx_kl": (detached.exp() - 1.0 - detached).sum(),
    }
