"""Terms beside the policy loss: KL divergence to a reference, and regularisers on the tokens whose
covariance of advantage and log-probability is high, which is where entropy is lost (Cui et al.
2025, arXiv 2505.22617). Covariances are within the micro-batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from proverrl.config import KlName
from proverrl.errors import RecordError
from proverrl.losses.base import LossInputs
from proverrl.losses.ratios import clip_mask


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """log p - log p_ref: unbiased for KL(p || p_ref), of high variance. As a loss its gradient is
    zero on average, so it belongs in metrics or rewards (Schulman 2020, "Approximating KL
    divergence"; all three estimators are from there)."""
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Half of the squared log-ratio: biased as a value, and on the policy's own samples its
    gradient is that of KL(p || p_ref)."""
    return 0.5 * (logprobs - reference) ** 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = log p_ref - log p: unbiased as a value, never negative."""
    difference = reference - logprobs
    return difference.exp() - difference - 1.0


KL_ESTIMATORS: dict[KlName, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def kl_term(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """``kl.coefficient`` times the estimate's mean over the batch's tokens, and the estimate's
    sum for the metrics. Weights of the policy loss do not apply.

    Raises:
        RecordError: there are no ``ref_logprobs``.
    """
    settings = inputs.settings.kl
    if inputs.ref_logprobs is None:
        raise RecordError("a KL term needs the log-probabilities of the reference policy")
    total = KL_ESTIMATORS[settings.estimator](inputs.logprobs, inputs.ref_logprobs).sum()
    return settings.coefficient * total / inputs.batch_tokens, total.detach()


def covariances(inputs: LossInputs) -> Tensor:
    """(A - mean A)(log p - mean log p) per token, detached, of shape (tokens,)."""
    logprobs = inputs.logprobs.detach()
    advantages = inputs.advantages
    return (advantages - advantages.mean()) * (logprobs - logprobs.mean())


def clip_cov_mask(inputs: LossInputs, generator: torch.Generator) -> Tensor:
    """True for tokens that stay in the policy loss (Clip-Cov): of those with covariance between
    ``clip_cov_low`` and ``clip_cov_high`` that the clip does not cut off already, as many as
    ``clip_cov_share`` of all tokens (at least one) are taken out at random."""
    settings = inputs.settings
    covariance = covariances(inputs)
    within = (covariance > settings.clip_cov_low) & (covariance < settings.clip_cov_high)
    candidates = torch.nonzero(within & ~clip_mask(inputs)).squeeze(-1)
    keep = torch.ones_like(covariance, dtype=torch.bool)
    count = max(1, int(settings.clip_cov_share * len(covariance)))
    order = torch.randperm(len(candidates), generator=generator)[:count]
    keep[candidates[order.to(candidates.device)]] = False
    return keep


def kl_cov_term(inputs: LossInputs) -> Tensor:
    """``kl_cov_weight`` times |log(p / p_old)| on the ``kl_cov_share`` of tokens (at least one)
    with the highest covariance, divided by the batch's tokens (KL-Cov)."""
    settings = inputs.settings
    covariance = covariances(inputs)
    top = covariance.topk(max(1, int(settings.kl_cov_share * len(covariance)))).indices
    return settings.kl_cov_weight * inputs.log_ratio.abs()[top].sum() / inputs.batch_tokens
