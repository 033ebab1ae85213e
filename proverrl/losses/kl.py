"""KL divergence to a reference policy, estimated from the sampled tokens.

Flows in: ``LossInputs`` with ``ref_logprobs``. Flows out: a term to add to the loss. Not handled
here: the reference's forward pass (``proverrl.learner.learner``).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from proverrl.config import KlName
from proverrl.errors import RecordError
from proverrl.losses.base import LossInputs


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
