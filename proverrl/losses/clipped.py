"""Policy losses that clip the ratio of each token's probability to an older one."""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import LossInputs, Metrics, ratio_metrics, sequence_mean, token_mean


def clipped_token(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """PPO's clipped objective per token, divided by the batch's tokens, with a separate upper clip
    (clip-higher and token-level loss: DAPO, Yu et al. 2025, arXiv 2503.14476)."""
    per_token, metrics = clip_tokens(inputs)
    return token_mean(inputs, per_token), metrics


def clipped_sequence(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The same objective averaged over each sample's tokens, then over samples (GRPO,
    Shao et al. 2024, arXiv 2402.03300)."""
    per_token, metrics = clip_tokens(inputs)
    return sequence_mean(inputs, per_token), metrics


def clip_tokens(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The loss of each token, its ratio clipped to [1 - ``clip_low``, 1 + ``clip_high``]."""
    settings = inputs.settings
    ratio = inputs.log_ratio.exp()
    bounded = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    per_token, clipped = take_worse(ratio, bounded, inputs.advantages)
    return per_token, ratio_metrics(inputs.log_ratio, clipped)


def take_worse(ratio: Tensor, bounded: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """Minus the smaller of the ratio's and the bounded ratio's objective, and what was clipped."""
    raw = ratio * advantages
    bound = bounded * advantages
    return -torch.minimum(raw, bound), bound < raw
