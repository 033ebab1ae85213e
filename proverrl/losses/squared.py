"""A squared loss that fits the log-probability of a whole sample to its reward.

Advantages must be rewards minus one number per group (``dr_grpo``), the same for all tokens of a
sample; the number drops out, dividing by a standard deviation does not. The partition function is
estimated from the group, so that a group of one teaches nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import (
    LossInputs,
    Metrics,
    mean_per_sample,
    ratio_metrics,
    sum_per_sample,
)


def kimina(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """(r - tau log Z - tau log(p / p_old))^2 per sample, p of the whole sample, averaged over
    samples (mirror descent of Kimi k1.5, arXiv 2501.12599, and Kimina-Prover Preview, Wang et al.
    2025, arXiv 2504.11354). tau log Z is tau log(mean exp(r / tau)) over the group."""
    settings = inputs.settings
    rewards = mean_per_sample(inputs, inputs.advantages)
    baseline = log_partition(rewards, _groups(inputs), settings.kimina_tau)
    residual = rewards - baseline - settings.kimina_tau * sum_per_sample(inputs, inputs.log_ratio)
    return _squared_mean(inputs, residual), ratio_metrics(inputs.log_ratio)


def log_partition(rewards: Tensor, group: Tensor, tau: float) -> Tensor:
    """tau log(mean exp(r / tau)) over each sample's group; all tensors of shape (samples,)."""
    # The largest reward comes out of the exponential, so that none overflows.
    empty = torch.full((len(rewards) + 1,), -torch.inf, dtype=rewards.dtype, device=rewards.device)
    top = empty.scatter_reduce(0, group, rewards, "amax")
    shifted = ((rewards - top[group]) / tau).exp()
    return top[group] + tau * _group_mean(shifted, group).log()


def _groups(inputs: LossInputs) -> Tensor:
    """The groups of samples, those without a token in the loss in a separate group."""
    counts = sum_per_sample(inputs, torch.ones_like(inputs.logprobs))
    return torch.where(counts > 0, inputs.group + 1, 0)


def _group_mean(values: Tensor, group: Tensor) -> Tensor:
    """Of shape (samples,): each sample has its group's mean. Group numbers are at most the number
    of samples."""
    zeros = torch.zeros(len(values) + 1, dtype=values.dtype, device=values.device)
    totals = zeros.index_add(0, group, values)
    counts = zeros.index_add(0, group, torch.ones_like(values))
    return totals[group] / counts[group]


def _squared_mean(inputs: LossInputs, residual: Tensor) -> Tensor:
    """A sample without tokens has weight 0 and a residual that depends on nothing."""
    return (mean_per_sample(inputs, inputs.weights) * residual**2).sum() / inputs.batch_samples
