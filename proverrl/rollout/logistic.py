"""A curve of accuracy over hint length, and the length at which it has a given value.

Flows in: shares of a proof that were given, attempts and proofs at each. Flows out: the three
parameters of acc(l) = c + (1 - c) / (1 + exp(-a (l - b))), as in SEELE (Li et al. 2025, arXiv
2509.06923), and a length. Pure and deterministic. Not handled here: when there is enough to fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

_STARTS = tuple(itertools.product((3.0, 8.0, 20.0), (0.1, 0.3, 0.5, 0.7, 0.9), (0.02, 0.2)))
_BOUNDS = ((0.01, -1.0, 0.0), (100.0, 2.0, 0.95))
"""Of slope, centre and floor."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """``floor`` is the accuracy without a hint, ``centre`` the length of the steepest rise."""

    slope: float
    centre: float
    floor: float

    def accuracy(self, length: float) -> float:
        """The expected share of proofs at a length from 0 to 1."""
        rise = 1.0 / (1.0 + math.exp(-self.slope * (length - self.centre)))
        return self.floor + (1.0 - self.floor) * rise

    def length_for(self, target: float) -> float:
        """The length with this accuracy; 0 if the floor is not below it. It may exceed 1.

        With s = (target - c) / (1 - c) it is b + ln(s / (1 - s)) / a; for 0.5, b + ln(1 - 2c) / a.
        """
        if self.floor >= target:
            return 0.0
        share = (target - self.floor) / (1.0 - self.floor)
        return max(0.0, self.centre + math.log(share / (1.0 - share)) / self.slope)


def fit_curve(
    lengths: Sequence[float], accuracies: Sequence[float], weights: Sequence[float]
) -> Curve:
    """The least squares fit, weighted by the number of attempts, from the best point of a grid. The
    slope is at most 100."""
    x, y, w = (np.asarray(v, dtype=np.float64) for v in (lengths, accuracies, weights))

    def residuals(theta: Floats) -> Floats:
        slope, centre, floor = theta
        rise = special.expit(slope * (x - centre))
        off: Floats = np.sqrt(w) * (y - floor - (1.0 - floor) * rise)
        return off

    start = min(_STARTS, key=lambda theta: float(np.sum(residuals(np.array(theta)) ** 2)))
    found = optimize.least_squares(
        residuals, start, jac="3-point", bounds=_BOUNDS, x_scale=(10.0, 1.0, 1.0), xtol=1e-12
    )
    return Curve(*map(float, found.x))
