"""Losses whose ratio belongs to the whole sample.

Flows in: ``LossInputs``. Flows out: a scalar to minimise and sums of metrics. Not handled here:
squared losses (``squared``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import LossInputs, Metrics, mean_per_sample, ratio_metrics, sequence_mean


def gspo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """One ratio per sample, the geometric mean of its tokens' ratios, clipped to
    [1 - gspo_low, 1 + gspo_high] (GSPO, Zheng et al. 2025, arXiv 2507.18071).

    It takes effect only from the second update on the same samples; before that every ratio is 1.
    """
    per_token, metrics = _sequence_clipped(inputs)
    return sequence_mean(inputs, per_token), metrics


def luspo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """GSPO with each sample's loss multiplied by its length, so that long samples do not weigh less
    (LUSPO, length-unbiased sequence policy optimization)."""
    per_token, metrics = _sequence_clipped(inputs)
    return (per_token * inputs.weights).sum() / inputs.batch_samples, metrics


def gmpo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The geometric mean of ratios whose logarithms are clipped per token to +-gmpo_clip, on the
    side towards which the advantage pushes (GMPO, Zhao et al. 2025, arXiv 2507.20673)."""
    log_ratio = inputs.logprobs - inputs.old_logprobs
    bound = inputs.settings.gmpo_clip
    within = log_ratio.clamp(-bound, bound)
    rising = inputs.advantages > 0
    kept = torch.where(rising, torch.minimum(log_ratio, within), torch.maximum(log_ratio, within))
    ratio = mean_per_sample(inputs, kept).exp()[inputs.sample]
    metrics = ratio_metrics(log_ratio, kept != log_ratio)
    return sequence_mean(inputs, -ratio * inputs.advantages), metrics


def _sequence_clipped(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """Each token carries its sample's clipped objective: with one advantage per sample, means over
    tokens are the sample's own value and gradient."""
    settings = inputs.settings
    log_ratio = inputs.logprobs - inputs.old_logprobs
    ratio = mean_per_sample(inputs, log_ratio).exp()[inputs.sample]
    raw = ratio * inputs.advantages
    bound = ratio.clamp(1.0 - settings.gspo_low, 1.0 + settings.gspo_high) * inputs.advantages
    return -torch.minimum(raw, bound), ratio_metrics(log_ratio, bound < raw)
