"""What stands beside the policy loss: KL divergence to a reference, and masks of whole samples and
of old tokens. A masked token still counts in the loss's divisor; a sample that is left out does
not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from proverrl.config import KlName, LossConfig
from proverrl.errors import RecordError
from proverrl.losses.base import LossInputs
from proverrl.rollout.samples import TrainingSample


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
    """``kl.coefficient`` times the estimate's mean over the batch's tokens, and the estimate's sum
    for the metrics. Weights of the policy loss do not apply. Raises ``RecordError`` if there are no
    ``ref_logprobs``."""
    settings = inputs.settings.kl
    if inputs.ref_logprobs is None:
        raise RecordError("a KL term needs the log-probabilities of the reference policy")
    total = KL_ESTIMATORS[settings.estimator](inputs.logprobs, inputs.ref_logprobs).sum()
    return settings.coefficient * total / inputs.batch_tokens, total.detach()


def select_samples(
    samples: Sequence[TrainingSample], settings: LossConfig, version: int
) -> tuple[list[TrainingSample], dict[str, float]]:
    """The samples that may train a policy of ``version``, and counts of the others.

    ``mask_truncated`` drops those cut off at the token limit (overlong filtering: DAPO, Yu et al.
    2025, arXiv 2503.14476). Tokens older than ``weights.max_staleness`` versions are context only,
    and a sample without any other is dropped. Advantages stay as they are, because the group was
    compared with them.
    """
    limit = settings.weights.max_staleness
    fresh = [new for s in samples if (new := mask_old(s, version - limit))] if limit else samples
    kept = [s for s in fresh if not (settings.mask_truncated and s.truncated)]
    counts: dict[str, float] = {}
    if limit:
        counts["samples_too_old"] = len(samples) - len(fresh)
        learned = [sum(map(sum, (s.loss_mask for s in some))) for some in (samples, fresh)]
        counts["tokens_too_old"] = learned[0] - learned[1]
    if settings.mask_truncated:
        counts["samples_truncated"] = len(fresh) - len(kept)
    return kept, counts


def mask_old(sample: TrainingSample, oldest: int) -> TrainingSample | None:
    """The sample with the tokens of versions below ``oldest`` out of the loss; None if no other is
    in it."""
    if sample.policy_version >= oldest:
        return sample
    mask = tuple(
        kept if version >= oldest else 0
        for kept, version in zip(sample.loss_mask, sample.token_versions, strict=True)
    )
    return replace(sample, loss_mask=mask) if any(mask) else None
