"""Policy losses that bound the ratio of the policy's probability to an older one: of each token,
clipped on both sides or bounded on one, or of the whole sample."""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import (
    LossInputs,
    Metrics,
    mean_per_sample,
    ratio_metrics,
    sequence_mean,
    token_mean,
)


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
    log_ratio = inputs.log_ratio
    positive = torch.full_like(log_ratio, inputs.settings.sapo_positive)
    temperature = torch.where(inputs.advantages > 0, positive, inputs.settings.sapo_negative)
    gate = torch.sigmoid(temperature * (log_ratio.exp() - 1.0)) * 4.0 / temperature
    return sequence_mean(inputs, -gate * inputs.advantages), ratio_metrics(log_ratio)


def dcpo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """Clip bounds by the token's old probability q, wide for rare tokens (DCPO, Yang et al. 2025,
    arXiv 2509.02333): 0.5 + 0.5 sqrt(max(1 - 4 dcpo_low / q, 0)) <= u <= 0.5 + 0.5 sqrt(1 +
    4 dcpo_high / q), the upper one at most ``dcpo_cap``, which is also the dual clip. Averaged over
    each sample's own tokens."""
    settings = inputs.settings
    q = inputs.old_logprobs.exp()
    low = 0.5 + 0.5 * (1.0 - 4.0 * settings.dcpo_low / q).clamp(min=0.0).sqrt()
    high = 0.5 + 0.5 * (1.0 + 4.0 * settings.dcpo_high / q).sqrt()
    ratio = inputs.log_ratio.exp()
    bounded = ratio.clamp(low, high.clamp(max=settings.dcpo_cap))
    per_token, clipped = _pessimistic(ratio, bounded, inputs.advantages, settings.dcpo_cap)
    return sequence_mean(inputs, per_token), ratio_metrics(inputs.log_ratio, clipped)


def cispo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """-min(u, cispo_cap) A log p with no gradient through u = p / p_old: a token above the cap
    still learns, with the cap as its weight (CISPO, MiniMax-M1, Chen et al. 2025, arXiv
    2506.13585)."""
    return _capped(inputs, inputs.log_ratio, inputs.settings.cispo_cap)


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


def gspo(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """One ratio per sample, the geometric mean of its tokens' ratios, clipped to [1 - gspo_low, 1 +
    gspo_high] (GSPO, Zheng et al. 2025, arXiv 2507.18071). It takes effect only from the second
    update on the same samples; before that every ratio is 1."""
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
    log_ratio, bound = inputs.log_ratio, inputs.settings.gmpo_clip
    within = log_ratio.clamp(-bound, bound)
    rising = inputs.advantages > 0
    kept = torch.where(rising, torch.minimum(log_ratio, within), torch.maximum(log_ratio, within))
    ratio = mean_per_sample(inputs, kept).exp()[inputs.sample]
    metrics = ratio_metrics(log_ratio, kept != log_ratio)
    return sequence_mean(inputs, -ratio * inputs.advantages), metrics


def _clipped(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    settings = inputs.settings
    ratio = inputs.log_ratio.exp()
    bounded = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    per_token, clipped = _pessimistic(ratio, bounded, inputs.advantages, settings.dual_clip)
    return per_token, ratio_metrics(inputs.log_ratio, clipped)


def _sequence_clipped(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """Each token carries its sample's clipped objective: with one advantage per sample, means over
    tokens are the sample's own value and gradient."""
    settings = inputs.settings
    ratio = mean_per_sample(inputs, inputs.log_ratio).exp()[inputs.sample]
    bounded = ratio.clamp(1.0 - settings.gspo_low, 1.0 + settings.gspo_high)
    per_token, clipped = _pessimistic(ratio, bounded, inputs.advantages, dual=0.0)
    return per_token, ratio_metrics(inputs.log_ratio, clipped)


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


def _capped(inputs: LossInputs, log_ratio: Tensor, cap: float) -> tuple[Tensor, Metrics]:
    ratio = log_ratio.detach().exp()
    per_token = -ratio.clamp(max=cap) * inputs.advantages * inputs.logprobs
    return token_mean(inputs, per_token), ratio_metrics(log_ratio, torch.gt(ratio, cap))
