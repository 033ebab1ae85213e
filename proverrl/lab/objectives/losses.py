"""Losses in place of the clip per token. Each reads its constants from ``[loss.options]``."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from proverrl.config.base import Section
from proverrl.losses import (
    LossInputs,
    Metrics,
    clip_tokens,
    mean_per_sample,
    ratio_metrics,
    sequence_mean,
    sum_per_sample,
    take_worse,
    token_mean,
)

Above = Annotated[float, Field(gt=0.0)]


class DrGrpoOptions(Section):
    """``length``: the number of tokens to divide by, such as ``sampling.max_new_tokens``."""

    length: Annotated[int, Field(ge=1)]


class GspoOptions(Section):
    """The sample's ratio is clipped to [1 - ``low``, 1 + ``high``]."""

    low: Annotated[float, Field(ge=0.0, le=1.0)] = 3e-4
    high: Annotated[float, Field(ge=0.0)] = 4e-4


class CispoOptions(Section):
    """``cap``: the largest weight of a token."""

    cap: Above = 5.0


class KiminaOptions(Section):
    """``tau``: the temperature of the mirror descent."""

    tau: Above = 0.4


def dr_grpo_constant(inputs: LossInputs, *, options: DrGrpoOptions) -> tuple[Tensor, Metrics]:
    """The clipped objective summed, divided by samples times ``length`` tokens, so that a sample's
    length does not change the weight of its tokens (Dr. GRPO, Liu et al. 2025, arXiv
    2503.20783)."""
    per_token, metrics = clip_tokens(inputs)
    return (per_token * inputs.weights).sum() / (inputs.batch_samples * options.length), metrics


def gspo(inputs: LossInputs, *, options: GspoOptions) -> tuple[Tensor, Metrics]:
    """One ratio per sample, the geometric mean of its tokens' ratios, clipped (GSPO, Zheng et al.
    2025, arXiv 2507.18071). It takes effect only from the second update on the same samples; before
    that every ratio is 1. With one advantage per sample, means over tokens are the sample's own
    value and gradient."""
    ratio = mean_per_sample(inputs, inputs.log_ratio).exp()[inputs.sample]
    bounded = ratio.clamp(1.0 - options.low, 1.0 + options.high)
    per_token, clipped = take_worse(ratio, bounded, inputs.advantages)
    return sequence_mean(inputs, per_token), ratio_metrics(inputs.log_ratio, clipped)


def cispo(inputs: LossInputs, *, options: CispoOptions) -> tuple[Tensor, Metrics]:
    """-min(u, ``cap``) A log p with no gradient through u = p / p_old: a token above the cap still
    learns, with the cap as its weight (CISPO, MiniMax-M1, Chen et al. 2025, arXiv 2506.13585)."""
    ratio = inputs.log_ratio.detach().exp()
    per_token = -ratio.clamp(max=options.cap) * inputs.advantages * inputs.logprobs
    return token_mean(inputs, per_token), ratio_metrics(inputs.log_ratio, ratio > options.cap)


def kimina(inputs: LossInputs, *, options: KiminaOptions) -> tuple[Tensor, Metrics]:
    """(r - tau log Z - tau log(p / p_old))^2 per sample, p of the whole sample, averaged over
    samples (mirror descent of Kimi k1.5, arXiv 2501.12599, and Kimina-Prover Preview, Wang et al.
    2025, arXiv 2504.11354). tau log Z is tau log(mean exp(r / tau)) over the group, so that a group
    of one teaches nothing.

    Advantages must be rewards minus one number per group (``dr_grpo``), the same for all tokens of
    a sample; the number drops out, dividing by a standard deviation does not.
    """
    rewards = mean_per_sample(inputs, inputs.advantages)
    # A sample without a token in the loss has weight 0 and a group of its own.
    counts = sum_per_sample(inputs, torch.ones_like(inputs.logprobs))
    group = torch.where(counts > 0, inputs.group + 1, 0)
    baseline = log_partition(rewards, group, options.tau)
    residual = rewards - baseline - options.tau * sum_per_sample(inputs, inputs.log_ratio)
    squares = mean_per_sample(inputs, inputs.weights) * residual**2
    return squares.sum() / inputs.batch_samples, ratio_metrics(inputs.log_ratio)


def log_partition(rewards: Tensor, group: Tensor, tau: float) -> Tensor:
    """tau log(mean exp(r / tau)) over each sample's group; all tensors of shape (samples,). Group
    numbers are at most the number of samples."""
    zeros = torch.zeros(len(rewards) + 1, dtype=rewards.dtype, device=rewards.device)
    # The largest reward comes out of the exponential, so that none overflows.
    top = (zeros - torch.inf).scatter_reduce(0, group, rewards, "amax")
    totals = zeros.index_add(0, group, ((rewards - top[group]) / tau).exp())
    counts = zeros.index_add(0, group, torch.ones_like(rewards))
    return top[group] + tau * (totals[group] / counts[group]).log()
