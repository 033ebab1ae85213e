"""Estimates from counts of attempts, and comparisons of two evaluations problem by problem.

Flows in: counts or values, one a problem. Flows out: numbers. Pure; the same seed gives the same
interval. A problem is the unit that is resampled: attempts on one problem are not independent of
each other, problems are taken to be.
Not handled here: which attempts count (``proverrl.compare``, ``proverrl.evaluate``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proverrl.errors import UsageError

NUM_RESAMPLES = 10_000
Z_95 = 1.96
"""Standard deviations on either side of an interval of 95 %."""
_RESAMPLED_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference, its 95 % interval, and the two-sided p of no difference."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class McNemar:
    """Problems that only one side solved, and the exact two-sided p of equal chances."""

    only_first: int
    only_second: int
    both: int
    neither: int
    p: float


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased pass@k: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374).

    Raises:
        UsageError: unless 1 <= k <= n and 0 <= c <= n.
    """
    n, c = num_samples, num_correct
    if not (1 <= k <= n and 0 <= c <= n):
        raise UsageError(f"pass@{k} cannot be estimated from {c} correct of {n} samples")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod((n - c - i) / (n - i) for i in range(k))


def standard_error(values: Sequence[float]) -> float:
    """Of the mean over problems: the sample deviation over the root of their number; 0 for one."""
    if len(values) < 2:
        return 0.0
    return float(np.std(np.asarray(values, dtype=np.float64), ddof=1) / math.sqrt(len(values)))


def bootstrap_interval(values: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the mean, resampling ``values`` (one a problem) 10,000 times
    (Efron and Tibshirani 1993, chapter 13)."""
    if not values:
        return (0.0, 0.0)
    low, high = np.quantile(_resample_means(values, seed), [0.025, 0.975])
    return float(low), float(high)


def bootstrap_difference(
    first: Sequence[float], second: Sequence[float], *, seed: int = 0
) -> Difference:
    """Mean of ``second`` less mean of ``first``, paired by place, problems resampled together.

    p is twice the smaller share of resampled differences on either side of 0, both counted with
    one more than were seen, so that it is never 0. Without any difference p is 1.

    Raises:
        UsageError: they are not as many.
    """
    if len(first) != len(second):
        raise UsageError(f"{len(first)} and {len(second)} values cannot be paired")
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if not any(differences):
        return Difference(0.0, 0.0, 0.0, 1.0)
    means = _resample_means(differences, seed)
    low, high = np.quantile(means, [0.025, 0.975])
    # Sums of floats that cancel may miss 0 by a hair.
    below, above = (means <= 1e-12).sum(), (means >= -1e-12).sum()
    p = min(1.0, 2.0 * (float(min(below, above)) + 1.0) / (NUM_RESAMPLES + 1.0))
    return Difference(sum(differences) / len(differences), float(low), float(high), p)


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """Exact test on the problems that one side solved and the other did not (McNemar 1947): under
    equal chances each falls to either side like a fair coin.

    Raises:
        UsageError: they are not as many.
    """
    if len(first) != len(second):
        raise UsageError(f"{len(first)} and {len(second)} outcomes cannot be paired")
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    num = only_first + only_second
    tail = sum(math.comb(num, i) for i in range(min(only_first, only_second) + 1))
    return McNemar(
        only_first=only_first,
        only_second=only_second,
        both=sum(a and b for a, b in pairs),
        neither=sum(not a and not b for a, b in pairs),
        # Whole numbers up to the division, so that large counts lose nothing.
        p=min(1.0, 2 * tail / 2**num),
    )


def _resample_means(values: Sequence[float], seed: int) -> NDArray[np.float64]:
    """Means of 10,000 resamples, in slices so that a large benchmark stays small in memory."""
    data = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = np.empty(NUM_RESAMPLES)
    step = max(1, min(500, _RESAMPLED_AT_ONCE // len(data)))
    for start in range(0, NUM_RESAMPLES, step):
        size = min(step, NUM_RESAMPLES - start)
        picks = rng.integers(0, len(data), size=(size, len(data)))
        means[start : start + size] = data[picks].mean(axis=1)
    return means


def wilson(share: float, count: float) -> tuple[float, float]:
    """The interval of 95 % for a probability of which ``share`` was seen in ``count`` draws
    (Wilson 1927); ``count`` need not be whole. (0, 1) of no draws."""
    if count <= 0:
        return (0.0, 1.0)
    square = Z_95 * Z_95
    centre = (share + square / (2.0 * count)) / (1.0 + square / count)
    spread = share * (1.0 - share) / count + square / (4.0 * count * count)
    half = Z_95 * math.sqrt(max(0.0, spread)) / (1.0 + square / count)
    return max(0.0, centre - half), min(1.0, centre + half)


def estimate(counts: Sequence[tuple[int, int]], k: int) -> dict[str, float | int]:
    """pass@k over problems from (judged, proved) counts, as it is stored: value, standard error,
    interval, and how many problems had at least k judged attempts (the others have no unbiased
    estimate and are left out)."""
    values = [pass_at_k(n, c, k) for n, c in counts if n >= k]
    low, high = bootstrap_interval(values)
    return {
        "value": sum(values) / len(values) if values else 0.0,
        "stderr": standard_error(values),
        "low": low,
        "high": high,
        "num_problems": len(values),
    }
