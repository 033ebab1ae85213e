"""Losses that clip the probability ratio of each token.

Flows in: ``LossInputs``. Flows out: a scalar to minimise and sums of metrics. Not handled here:
ratios of whole sequences (``sequence``), losses without an old policy (``one_sided``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import LossInputs, Metrics, ratio_metrics, sequence_mean, token_mean


def clipped_token(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """PPO's clipped objective per token, divided by the batch's tokens, with a separate upper clip
    (clip-higher and token-level loss: DAPO, Yu et al. 2025, arXiv 2503.14476).

    Reads ``clip_low``, ``clip_high`` and ``dual_clip``: when that is set, a token with A < 0 costs
    at most ``dual_clip * |A|`` (dual clip: Ye et al. 2020, arXiv 1912.09729).
    """
    per_token, metrics = _clipped(inputs)
    return token_mean(inputs, per_token), metrics


def clipped_sequence(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The same objective averaged over each sample's tokens, then over samples (GRPO,
    Shao et al. 2024, arXiv 2402.03300)."""
    per_token, metrics = _clipped(inputs)
    return sequence_mean(inputs, per_token), metrics


def dr_grpo_constant(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The same objective summed, divided by samples times ``constant_length`` tokens, so that a
    sample's length does not change the weight of its tokens (Dr. GRPO, Liu et al. 2025, arXiv
    2503.20783)."""
    per_token, metrics = _clipped(inputs)
    total = (per_token * inputs.weights).sum()
    return total / (inputs.batch_samples * inputs.settings.constant_length), metrics


def sapo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """A sigmoid gate in place of the clip: sigmoid(t (u - 1)) * 4 / t * A, whose slope is 1 at
    u = 1 and falls off smoothly; t is ``sapo_positive`` for A > 0 and ``sapo_negative`` otherwise
    (SAPO, soft adaptive policy optimization, 2025)."""
    settings = inputs.settings
    log_ratio = inputs.logprobs - inputs.old_logprobs
    positive = torch.full_like(log_ratio, settings.sapo_positive)
    temperature = torch.where(inputs.advantages > 0, positive, settings.sapo_negative)
    gate = torch.sigmoid(temperature * (log_ratio.exp() - 1.0)) * 4.0 / temperature
    nothing_clipped = torch.zeros_like(log_ratio)
    loss = sequence_mean(inputs, -gate * inputs.advantages)
    return loss, ratio_metrics(log_ratio, nothing_clipped)


def dcpo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """Clip bounds by the token's old probability q, wide for rare tokens (DCPO, Yang et al. 2025,
    arXiv 2509.02333): 0.5 + 0.5 sqrt(max(1 - 4 dcpo_low / q, 0)) <= u <= 0.5 + 0.5 sqrt(1 +
    4 dcpo_high / q), the upper one at most ``dcpo_cap``, which is also the dual clip. Averaged over
    each sample's own tokens."""
    settings = inputs.settings
    log_ratio = inputs.logprobs - inputs.old_logprobs
    q = inputs.old_logprobs.exp()
    low = 0.5 + 0.5 * (1.0 - 4.0 * settings.dcpo_low / q).clamp(min=0.0).sqrt()
    high = 0.5 + 0.5 * (1.0 + 4.0 * settings.dcpo_high / q).sqrt()
    ratio = log_ratio.exp()
    bounded = ratio.clamp(low, high.clamp(max=settings.dcpo_cap))
    per_token, clipped = _pessimistic(ratio, bounded, inputs.advantages, settings.dcpo_cap)
    return sequence_mean(inputs, per_token), ratio_metrics(log_ratio, clipped)


def clip_mask(inputs: LossInputs) -> Tensor:
    """True for tokens whose gradient the clip of ``clipped_token`` cuts off."""
    ratio = (inputs.logprobs - inputs.old_logprobs).exp().detach()
    too_high = (inputs.advantages > 0) & (ratio > 1.0 + inputs.settings.clip_high)
    too_low = (inputs.advantages < 0) & (ratio < 1.0 - inputs.settings.clip_low)
    return too_high | too_low


def _clipped(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    settings = inputs.settings
    log_ratio = inputs.logprobs - inputs.old_logprobs
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    per_token, clipped = _pessimistic(ratio, bounded, inputs.advantages, settings.dual_clip)
    return per_token, ratio_metrics(log_ratio, clipped)


def _pessimistic(
    ratio: Tensor, bounded: Tensor, advantages: Tensor, dual: float
) -> tuple[Tensor, Tensor]:
    """Minus the smaller of the ratio's and the bounded ratio's objective, and what was clipped."""
    raw = ratio * advantages
    bound = bounded * advantages
    objective = torch.minimum(raw, bound)
    clipped = bound < raw
    if dual:
        floor = dual * advantages
        over = (advantages < 0) & (objective < floor)
        objective = torch.where(over, floor, objective)
        clipped = clipped | over
    return -objective, clipped
