"""Losses: pure functions over the tokens of a batch, in literal dicts."""

from proverrl.losses.base import LossFn, LossInputs, Metrics
from proverrl.losses.entropy import EntropyControl
from proverrl.losses.kl import KL_ESTIMATORS
from proverrl.losses.masks import select_samples
from proverrl.losses.total import LOSSES, compute_loss
from proverrl.losses.weights import WEIGHTS

__all__ = [
    "KL_ESTIMATORS",
    "LOSSES",
    "WEIGHTS",
    "EntropyControl",
    "LossFn",
    "LossInputs",
    "Metrics",
    "compute_loss",
    "select_samples",
]
