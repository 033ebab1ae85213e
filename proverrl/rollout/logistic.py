"""A curve of accuracy over hint length, and the length at which it has a given value.

Flows in: shares of a proof that were given, attempts and proofs at each. Flows out: the three
parameters of acc(l) = c + (1 - c) / (1 + exp(-a (l - b))), as in SEELE (Li et al. 2025, arXiv
2509.06923), and a length. Pure and deterministic. Not handled here: when there is enough to fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SLOPES, _CENTRES, _FLOORS = (3.0, 8.0, 20.0), (0.1, 0.3, 0.5, 0.7, 0.9), (0.02, 0.2)
_MAX_LOG_SLOPE = math.log(100.0)
_MAX_FLOOR_LOGIT = 3.0
_ITERATIONS = 200

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
        """The length of this accuracy; 0 where the floor is not below it. It may lie above 1.

        With s = (target - c) / (1 - c) it is b + ln(s / (1 - s)) / a; for 0.5, b + ln(1 - 2c) / a.
        """
        if self.floor >= target:
            return 0.0
        share = (target - self.floor) / (1.0 - self.floor)
        return max(0.0, self.centre + math.log(share / (1.0 - share)) / self.slope)


def fit_curve(
    lengths: Sequence[float], accuracies: Sequence[float], weights: Sequence[float]
) -> Curve:
    """The least squares fit (Levenberg-Marquardt from the best point of a grid), weighted by the
    number of attempts. The slope is at most 100."""
    x, y, w = (np.asarray(v, dtype=np.float64) for v in (lengths, accuracies, weights))
    grid = [
        np.array([math.log(a), b, math.log(c / (1.0 - c))])
        for a in _SLOPES
        for b in _CENTRES
        for c in _FLOORS
    ]
    best = min(grid, key=lambda theta: _cost(theta, x, y, w))
    cost, damping = _cost(best, x, y, w), 1e-3
    for _ in range(_ITERATIONS):
        residual, jacobian = _linearize(best, x, y)
        normal = jacobian.T @ (w[:, None] * jacobian)
        pull = jacobian.T @ (w * residual)
        ridge = damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(3))
        step = np.linalg.solve(normal + ridge, pull)
        moved = _bound(best + step)
        new = _cost(moved, x, y, w)
        if new < cost:
            best, cost, damping = moved, new, max(damping / 10.0, 1e-12)
        else:
            damping *= 10.0
            if damping > 1e12:
                break
    slope, centre, floor = math.exp(best[0]), float(best[1]), 1.0 / (1.0 + math.exp(-best[2]))
    return Curve(slope, centre, floor)


def _bound(theta: Floats) -> Floats:
    low, high = [-_MAX_LOG_SLOPE, -1.0, -30.0], [_MAX_LOG_SLOPE, 2.0, _MAX_FLOOR_LOGIT]
    return np.clip(theta, low, high)


def _parts(theta: Floats, x: Floats) -> tuple[float, float, Floats]:
    slope = math.exp(theta[0])
    floor = 1.0 / (1.0 + math.exp(-theta[2]))
    rise = 1.0 / (1.0 + np.exp(-slope * (x - theta[1])))
    return slope, floor, rise


def _cost(theta: Floats, x: Floats, y: Floats, w: Floats) -> float:
    _, floor, rise = _parts(theta, x)
    return float(np.sum(w * (y - floor - (1.0 - floor) * rise) ** 2))


def _linearize(theta: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Residuals, and the derivative of the curve by log slope, centre and logit of the floor."""
    slope, floor, rise = _parts(theta, x)
    bend = (1.0 - floor) * rise * (1.0 - rise)
    columns = [bend * slope * (x - theta[1]), -bend * slope, floor * (1.0 - floor) * (1.0 - rise)]
    return y - floor - (1.0 - floor) * rise, np.stack(columns, axis=1)
