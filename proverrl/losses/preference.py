"""The loss over pairs of answers of which one is preferred.

Flows in: log-probabilities of whole answers under the policy and under the one it began with.
Flows out: a scalar, and figures. Not handled here: how the log-probabilities are computed
(``proverrl.loops.preferences``).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from proverrl.losses.base import Metrics


def dpo_loss(
    chosen: Tensor, rejected: Tensor, first_chosen: Tensor, first_rejected: Tensor, *, beta: float
) -> tuple[Tensor, Metrics]:
    """Direct preference optimization: the mean of ``-log sigmoid(beta * margin)``, where the margin
    of a pair is how much more the policy has moved towards the chosen answer than towards the
    rejected one (Rafailov et al. 2023, arXiv 2305.18290).

    All four are log-probabilities summed over an answer's tokens, of shape [pairs]; those of the
    first policy carry no gradient.
    """
    margin = beta * ((chosen - first_chosen) - (rejected - first_rejected))
    metrics = {
        "margin": margin.detach().mean(),
        "accuracy": (margin.detach() > 0).float().mean(),
        "chosen_moved": (chosen - first_chosen).detach().mean(),
        "rejected_moved": (rejected - first_rejected).detach().mean(),
    }
    return -functional.logsigmoid(margin).mean(), metrics
