"""Weights for the difference between the engine that samples and the one that learns.

Flows in: ``LossInputs``, with w = p_old / p_sampler per token (learner over sampler, same weights
of the policy). Flows out: detached factors of the policy loss, of shape (tokens,). A product over a
sequence is unbiased and grows with its length: 0.012 per token over 100 tokens is already exp(1.2)
= 3.3. Use the geometric mean for long proofs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from proverrl.config import WeightsName
from proverrl.losses.base import LossInputs, Metrics, mean_per_sample, sum_per_sample

DEFAULT_BOUNDS: dict[WeightsName, tuple[float, float]] = {
    "none": (0.0, 0.0),
    "token_truncate": (0.0, 2.0),
    "token_mask": (0.5, 5.0),
    "sequence_truncate": (0.0, 2.0),
    "sequence_mask": (0.0, 3.0),
    "geometric_mask": (0.5, 2.0),
    "decoupled": (0.0, 5.0),
    "negative_sequence_mask": (0.0, 0.5),
}
"""low and high when the configuration gives 0."""


def token_truncate(inputs: LossInputs, low: float, high: float) -> Tensor:
    """w per token, clipped to [low, high] (truncated importance sampling, Yao et al. 2025, "Your
    efficient RL framework secretly brings you off-policy RL training")."""
    return _log_ratio(inputs).exp().clamp(low, high)


def token_mask(inputs: LossInputs, low: float, high: float) -> Tensor:
    """w per token, 0 outside [low, high] (IcePop, Ring-1T, Ling Team 2025, arXiv 2510.18855).

    With ``low`` 0 the decoupled objective (Hilton et al. 2022, arXiv 2110.00641; with the cap in
    AReaL, Fu et al. 2025, arXiv 2505.24298): the clip is centred on p_old, and the weight corrects
    for the sampler.
    """
    ratio = _log_ratio(inputs).exp()
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)


def sequence_truncate(inputs: LossInputs, low: float, high: float) -> Tensor:
    """The product of w over the sample, clipped to [low, high]."""
    return sum_per_sample(inputs, _log_ratio(inputs)).exp().clamp(low, high)[inputs.sample]


def sequence_mask(inputs: LossInputs, low: float, high: float) -> Tensor:
    """The product of w over the sample; the sample is dropped when it is outside [low, high]."""
    ratio = sum_per_sample(inputs, _log_ratio(inputs)).exp()
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)[inputs.sample]


def geometric_mask(inputs: LossInputs, low: float, high: float) -> Tensor:
    """w per token, at most ``high``; the sample is dropped when the geometric mean of its w is
    outside [low, high]. Samples are not dropped merely for being long."""
    log_ratio = _log_ratio(inputs)
    mean = mean_per_sample(inputs, log_ratio).exp()
    kept = ((mean >= low) & (mean <= high))[inputs.sample]
    return torch.where(kept, log_ratio.exp().clamp(max=high), 0.0)


def negative_sequence_mask(inputs: LossInputs, low: float, high: float) -> Tensor:
    """0 for tokens with A < 0 of samples whose mean log(p_sampler / p) is above ``high``, 1 for
    all others: failures that the policy has left far behind teach nothing (DeepSeek-V3.2)."""
    gap = mean_per_sample(inputs, inputs.sampler_logprobs - inputs.logprobs.detach())
    dropped = (inputs.advantages < 0) & (gap > high)[inputs.sample]
    return (~dropped).to(inputs.old_logprobs.dtype)


WEIGHTS: dict[WeightsName, Callable[[LossInputs, float, float], Tensor]] = {
    "none": lambda inputs, low, high: torch.ones_like(inputs.old_logprobs),
    "token_truncate": token_truncate,
    "token_mask": token_mask,
    "sequence_truncate": sequence_truncate,
    "sequence_mask": sequence_mask,
    "geometric_mask": geometric_mask,
    "decoupled": token_mask,
    "negative_sequence_mask": negative_sequence_mask,
}


def importance_weights(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The weights that ``settings.weights`` asks for, and metrics of them: sums of the weights,
    of tokens with weight 0 and of k3's KL(sampler || learner), and the largest w or 1 / w."""
    settings = inputs.settings.weights
    low, high = DEFAULT_BOUNDS[settings.name]
    weights = WEIGHTS[settings.name](inputs, settings.low or low, settings.high or high)
    log_ratio = _log_ratio(inputs)
    metrics = {
        "weight": weights.sum(),
        "weight_zero": (weights == 0).sum(),
        "sampler_kl": (log_ratio.exp() - 1.0 - log_ratio).sum(),
        "sampler_ratio_max": log_ratio.abs().amax().exp(),
    }
    return weights.detach(), metrics


def _log_ratio(inputs: LossInputs) -> Tensor:
    return (inputs.old_logprobs - inputs.sampler_logprobs).detach()
