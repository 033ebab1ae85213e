"""Regularisers on the tokens whose covariance of advantage and log-probability is high, which is
where entropy is lost (Cui et al. 2025, arXiv 2505.22617).

Flows in: ``LossInputs``. Flows out: a mask or a term of the loss. Not handled here: means over
more than the micro-batch; the covariance is taken within it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proverrl.losses.base import LossInputs
from proverrl.losses.clipped import clip_mask


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
    count = max(1, int(settings.kl_cov_share * len(covariance)))
    top = covariance.topk(count).indices
    distance = (inputs.logprobs - inputs.old_logprobs).abs()[top].sum()
    return settings.kl_cov_weight * distance / inputs.batch_tokens
