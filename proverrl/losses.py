"""Losses: pure functions over the tokens of a batch.

The whole loss of a micro-batch is the named policy loss, with factors for the sampler's own
probabilities, a KL divergence to a reference, and entropy. With the settings' defaults nothing is
multiplied or added. Sums are divided by the whole batch's size, so that the losses of micro-batches
add up. Tokens outside the loss are not among the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proverrl.config import LossConfig, LossName
from proverrl.errors import RecordError
from proverrl.plugins import choose, refuse
from proverrl.rollout.samples import TrainingSample


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
    """The distance of the policy from where the ratio starts; ``clipped`` marks tokens whose
    gradient the loss cuts off."""
    detached = log_ratio.detach()
    clipped = torch.zeros_like(log_ratio) if clipped is None else clipped
    return {
        "ratio_clipped": clipped.sum().detach(),
        # k3 of Schulman (2020), "Approximating KL divergence": KL(sampler || policy), >= 0.
        "approx_kl": (detached.exp() - 1.0 - detached).sum(),
    }


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


def sampler_weights(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """w = p_old / p_sampler per token (learner over sampler, the same weights of the policy), at
    most ``sampler_cap`` (truncated importance sampling, Yao et al. 2025, "Your efficient RL
    framework secretly brings you off-policy RL training"); and sums of the weights and of k3's
    KL(sampler || learner), and the largest w or 1 / w."""
    log_ratio = (inputs.old_logprobs - inputs.sampler_logprobs).detach()
    weights = log_ratio.exp().clamp(max=inputs.settings.sampler_cap)
    metrics = {
        "weight": weights.sum(),
        "sampler_kl": (log_ratio.exp() - 1.0 - log_ratio).sum(),
        "sampler_ratio_max": log_ratio.abs().amax().exp(),
    }
    return weights, metrics


def kl_term(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """``kl`` times the mean of exp(d) - d - 1 over the batch's tokens, with d = log p_ref - log p,
    and its sum for the metrics: an estimate of KL(p || p_ref) that is unbiased and never negative
    (k3 of Schulman 2020, "Approximating KL divergence"). Weights of the policy loss do not apply.
    Raises ``RecordError`` if there are no ``ref_logprobs``."""
    if inputs.ref_logprobs is None:
        raise RecordError("a KL term needs the log-probabilities of the reference policy")
    difference = inputs.ref_logprobs - inputs.logprobs
    total = (difference.exp() - difference - 1.0).sum()
    return inputs.settings.kl * total / inputs.batch_tokens, total.detach()


def select_samples(
    samples: Sequence[TrainingSample], settings: LossConfig
) -> tuple[list[TrainingSample], dict[str, float]]:
    """The samples that may train, and counts of the others: ``mask_truncated`` drops those cut off
    at the token limit (overlong filtering: DAPO, Yu et al. 2025, arXiv 2503.14476). Advantages stay
    as they are, because the group was compared with them."""
    if not settings.mask_truncated:
        return list(samples), {}
    kept = [sample for sample in samples if not sample.truncated]
    return kept, {"samples_truncated": len(samples) - len(kept)}


LOSSES: dict[LossName, LossFn] = {
    "clipped_token": clipped_token,
    "clipped_sequence": clipped_sequence,
}


def compute_loss(inputs: LossInputs) -> tuple[Tensor, Metrics]:
    """The loss of a micro-batch.

    A micro-batch without a token in the loss costs 0. Raises ``UsageError`` if a plug-in gives no
    loss that can be learned from.
    """
    settings = inputs.settings
    if not len(inputs.logprobs):
        return inputs.logprobs.sum(), {}
    metrics: Metrics = {}
    if settings.sampler_cap:
        factors, metrics = sampler_weights(inputs)
        inputs = replace(inputs, weights=inputs.weights * factors)
    found = choose("loss", LOSSES, settings.name, settings.options)(inputs)
    if settings.name not in LOSSES and not _is_loss(found):
        wanted = "a scalar tensor with a gradient and a mapping of numbers"
        raise refuse("loss", settings.name, found, f"{len(inputs.logprobs)} tokens", wanted)
    loss, values = found
    metrics |= values
    moved = (inputs.logprobs.detach() - inputs.sampler_logprobs).abs().amax()
    metrics["ratio_max"] = moved.exp()
    if settings.needs_reference:
        term, metrics["reference_kl"] = kl_term(inputs)
        loss = loss + term
    if settings.entropy:
        loss = loss - settings.entropy * inputs.entropy.sum() / inputs.batch_tokens
    return loss, metrics


def _is_loss(found: Any) -> bool:
    """True if a plug-in's loss can be learned from. The guard refuses one that is not finite."""
    if not isinstance(found, tuple) or len(found) != 2:
        return False
    loss, values = found
    if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
        return False
    return isinstance(values, Mapping) and all(
        isinstance(value, int | float) or (isinstance(value, Tensor) and value.numel() == 1)
        for value in values.values()
    )
