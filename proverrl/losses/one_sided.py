"""Losses that weigh the log-probability by a ratio with a bound on one side.

Flows in: ``LossInputs``. Flows out: a scalar to minimise and sums of metrics. Not handled here:
``loss.weights`` with ``aipo`` or ``prime_rl``; the configuration refuses what would correct twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import LossInputs, Metrics, ratio_metrics, token_mean


def cispo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """-min(u, cispo_cap) A log p with no gradient through u = p / p_old: a token above the cap
    still learns, with the cap as its weight (CISPO, MiniMax-M1, Chen et al. 2025, arXiv
    2506.13585)."""
    log_ratio = inputs.logprobs - inputs.old_logprobs
    return _capped(inputs, log_ratio, inputs.settings.cispo_cap)


def aipo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The same with u = p / p_sampler and ``aipo_cap``: it needs no probabilities of an old policy,
    which suits late samples (AIPO, LlamaRL, Wu et al. 2025, arXiv 2505.24034)."""
    log_ratio = inputs.logprobs - inputs.sampler_logprobs
    return _capped(inputs, log_ratio, inputs.settings.aipo_cap)


def prime_rl(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """-(p / p_sampler) A without clip, but a token whose probability has already moved by more than
    ``drop_threshold`` in the direction of its advantage is dropped; plus ``drop_penalty`` times the
    squared log-ratio of every token (the default loss of the prime-rl trainer)."""
    settings = inputs.settings
    log_ratio = inputs.logprobs - inputs.sampler_logprobs
    moved = inputs.logprobs.detach().exp() - inputs.sampler_logprobs.exp()
    dropped = ((inputs.advantages > 0) & (moved > settings.drop_threshold)) | (
        (inputs.advantages < 0) & (moved < -settings.drop_threshold)
    )
    # A dropped token's ratio may be infinite, and infinity times 0 is not a number.
    ratio = log_ratio.masked_fill(dropped, -torch.inf).exp()
    per_token = -ratio * inputs.advantages + settings.drop_penalty * log_ratio**2
    return token_mean(inputs, per_token), ratio_metrics(log_ratio, dropped)


def _capped(inputs: LossInputs, log_ratio: Tensor, cap: float) -> tuple[Tensor, Metrics]:
    ratio = log_ratio.detach().exp()
    per_token = -ratio.clamp(max=cap) * inputs.advantages * inputs.logprobs
    return token_mean(inputs, per_token), ratio_metrics(log_ratio, torch.gt(ratio, cap))
