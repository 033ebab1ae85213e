"""What stands beside the policy loss: factors for the sampler's own probabilities, KL divergence to
a reference, and a mask of truncated samples, which do not count in the loss's divisor."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from proverrl.config import LossConfig
from proverrl.errors import RecordError
from proverrl.losses.base import LossInputs, Metrics
from proverrl.rollout.samples import TrainingSample


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
