"""Losses: pure functions over the tokens of a batch, in a literal dict.

Flows in: ``LossInputs``, whose tensors hold only the tokens in the loss, of shape (tokens,).
Flows out: a scalar to minimise (already divided by the whole batch's size, so that the losses
of micro-batches add up) and sums of metrics. Not handled here: masks (masked tokens are not
among the inputs) and KL to a reference model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from proverrl.config import LossName


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Tokens of a micro-batch; all tensors are (tokens,) and on one device.

    ``sample`` numbers the sample that a token belongs to, from 0, within the micro-batch.
    ``batch_tokens`` and ``batch_samples`` count over the whole batch of the optimizer step.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    sample: Tensor
    batch_tokens: int
    batch_samples: int
    clip_low: float
    clip_high: float


LossFn = Callable[[LossInputs], tuple[Tensor, dict[str, Tensor]]]


def clipped_token(inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's clipped objective a token, divided by the batch's tokens, with a separate upper clip
    (clip-higher and token-level loss: DAPO, Yu et al. 2025, arXiv 2503.14476)."""
    per_token, metrics = _clipped(inputs)
    return per_token.sum() / inputs.batch_tokens, metrics


def clipped_sequence(inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """The same objective averaged over each sample's tokens, then over samples (GRPO,
    Shao et al. 2024, arXiv 2402.03300)."""
    per_token, metrics = _clipped(inputs)
    num_samples = int(inputs.sample.max()) + 1
    zeros = torch.zeros(num_samples, dtype=per_token.dtype, device=per_token.device)
    totals = zeros.index_add(0, inputs.sample, per_token)
    counts = zeros.index_add(0, inputs.sample, torch.ones_like(per_token))
    return (totals / counts.clamp(min=1)).sum() / inputs.batch_samples, metrics


LOSSES: dict[LossName, LossFn] = {
    "clipped_token": clipped_token,
    "clipped_sequence": clipped_sequence,
}


def _clipped(inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
    log_ratio = inputs.logprobs - inputs.old_logprobs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - inputs.clip_low, 1.0 + inputs.clip_high)
    raw, bound = ratio * inputs.advantages, clipped * inputs.advantages
    metrics = {
        "ratio_clipped": (bound < raw).sum().detach(),
        # k3 of Schulman (2020), "Approximating KL divergence": KL(sampler || policy), >= 0.
        "approx_kl": (ratio - 1.0 - log_ratio).sum().detach(),
    }
    return -torch.minimum(raw, bound), metrics
