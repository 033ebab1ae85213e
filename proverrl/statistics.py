"""Estimates from counts of attempts, and comparisons of two evaluations problem by problem.

Flows in: counts or values, one per problem. Flows out: numbers; every interval and test over
problems comes from here, and the same values give the same interval. Problems are taken to be
independent; attempts on one problem are not. docs/evaluation.md explains the methods. Not handled
here: which attempts count (``proverrl.evaluation.compare``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from proverrl.errors import UsageError

Bounds = tuple[float, float]
Floats = NDArray[np.float64]

SHARES: Bounds = (0.0, 1.0)
DIFFERENCES: Bounds = (-1.0, 1.0)
"""The bounds of a share, and of the difference of two."""
TAILS = (0.025, 0.975)
STD_EPSILON = 1e-6
"""Added to a standard deviation before dividing by it."""
INTERVAL_METHOD = "gaffke-95"
"""The name of the intervals below in results."""
NUM_DRAWS = 10_000
NUM_FLIPS = 9_999
MOST_COUNTED = 13
"""Up to so many differences, all ways to flip their signs are counted; for more, ``NUM_FLIPS`` ways
are drawn."""
_HELD_AT_ONCE = 4_000_000
_DIGITS = 12
"""Differences that agree so far are the same: sums of floats that cancel miss 0 by a hair."""


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
    p: float


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased pass@k: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374). Raises
    ``UsageError`` unless 1 <= k <= n and 0 <= c <= n."""
    n, c = num_samples, num_correct
    if not (1 <= k <= n and 0 <= c <= n):
        raise UsageError(f"pass@{k} cannot be estimated from {c} correct of {n} samples")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod((n - c - i) / (n - i) for i in range(k))


def standard_error(values: Sequence[float]) -> float:
    """The error of the mean: the sample deviation over the root of the number; 0 for one value."""
    return float(stats.sem(values)) if len(values) > 1 else 0.0


def mean_interval(values: Sequence[float], bounds: Bounds = SHARES) -> tuple[float, float]:
    """95 % interval for the mean of independent values of which only the bounds are known (Gaffke
    2005; Learned-Miller and Thomas 2019, arXiv 1905.06208); without values, the bounds.

    For each end, one unseen value at that end's bound is added. All are weighted at random 10,000
    times, as in the Bayesian bootstrap, and the end cuts off 2.5 % of the weighted means. If all
    values lie at the bounds, this is ``clopper_pearson``.
    """
    return _interval(Counter(float(value) for value in values), bounds)


def clopper_pearson(share: float, count: float) -> tuple[float, float]:
    """95 % interval for a probability of which ``share`` was seen in ``count`` draws (Clopper and
    Pearson 1934); ``count`` need not be whole. (0, 1) of no draws."""
    return _interval({0.0: (1.0 - share) * count, 1.0: share * count}, SHARES)


def compare_values(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Mean of ``second`` less mean of ``first``, values between 0 and 1, paired by place.

    The interval is ``mean_interval`` of the differences. p is that of the permutation test that
    swaps a problem's two values: exact up to 13 problems that differ, from 9,999 draws beyond; 1
    when at most one problem differs. Raises ``UsageError`` if the two differ in length
    or are empty.
    """
    gaps = _subtract(first, second)
    return Difference(sum(gaps) / len(gaps), *mean_interval(gaps, DIFFERENCES), _flip_signs(gaps))


def compare_paired(
    first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]], k: int
) -> Difference:
    """pass@k of ``second`` less that of ``first``, from (judged, proved) counts paired by place, as
    ``compare_values``. Values of unlike numbers of attempts cannot be swapped. So p is of as many
    attempts on both sides, drawn from those of the side that has more. Raises ``UsageError`` if the
    two differ in length or are empty, or a problem has fewer than k judged attempts."""
    gaps = _subtract(*([pass_at_k(n, c, k) for n, c in side] for side in (first, second)))
    sizes = [min(n, m) for (n, _), (m, _) in zip(first, second, strict=True)]
    rng = np.random.default_rng(0)
    alike = _subtract(
        *(
            [
                pass_at_k(size, int(rng.hypergeometric(c, n - c, size)), k)
                for (n, c), size in zip(side, sizes, strict=True)
            ]
            for side in (first, second)
        )
    )
    return Difference(sum(gaps) / len(gaps), *mean_interval(gaps, DIFFERENCES), _flip_signs(alike))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """Exact test on the problems that one side solved and the other did not (McNemar 1947): under
    equal chances each falls to either side like a fair coin. Raises ``UsageError`` if the two
    differ in length."""
    if len(first) != len(second):
        raise UsageError(f"{len(first)} and {len(second)} outcomes cannot be paired")
    pairs = Counter(zip(first, second, strict=True))
    only_first, only_second = pairs[True, False], pairs[False, True]
    num = only_first + only_second
    return McNemar(
        only_first=only_first,
        only_second=only_second,
        both=pairs[True, True],
        p=float(stats.binomtest(only_first, num).pvalue) if num else 1.0,
    )


def estimate(counts: Sequence[tuple[int, int]], k: int) -> dict[str, float | int | None]:
    """pass@k over problems from (judged, proved) counts, as it is stored: value, standard error,
    interval, and how many problems had at least k judged attempts (the others have no unbiased
    estimate and are left out). Without one, value and standard error are None."""
    values = [pass_at_k(n, c, k) for n, c in counts if n >= k]
    low, high = mean_interval(values)
    return {
        "value": sum(values) / len(values) if values else None,
        "stderr": standard_error(values) if values else None,
        "low": low,
        "high": high,
        "num_problems": len(values),
    }


def _interval(weights: Mapping[float, float], bounds: Bounds) -> tuple[float, float]:
    """``weights`` says how often each value was seen."""
    low, high = (
        _find_end({**weights, bound: weights.get(bound, 0.0) + 1.0}, tail)
        for bound, tail in zip(bounds, TAILS, strict=True)
    )
    return low, high


def _find_end(weights: Mapping[float, float], tail: float) -> float:
    """The quantile of the mean of values whose weights are drawn from a Dirichlet distribution."""
    seen = sorted((value, weight) for value, weight in weights.items() if weight > 0.0)
    values, counts = np.array(seen).T
    if len(values) == 1:
        return float(values[0])
    if len(values) == 2:
        # The weight of one of two values has a beta distribution.
        share = special.betaincinv(counts[1], counts[0], tail)
        return float(values[0] + (values[1] - values[0]) * share)
    means = draw_means(values, counts, np.random.default_rng(0))
    return float(np.quantile(means, tail))


def draw_means(values: Floats, counts: Floats, rng: np.random.Generator) -> Floats:
    """Means of the values under random weights, as in the Bayesian bootstrap."""

    def draw(num: int) -> Floats:
        drawn = rng.standard_gamma(counts, size=(num, len(values)))
        means: Floats = drawn @ values / drawn.sum(axis=1)
        return means

    return _draw_in_slices(draw, NUM_DRAWS, len(values))


def _draw_in_slices(draw: Callable[[int], Floats], num: int, width: int) -> Floats:
    """``num`` draws, so few at a time that a large benchmark stays small in memory."""
    slices = -(-num * width // _HELD_AT_ONCE)
    return np.concatenate([draw(len(part)) for part in np.array_split(np.empty(num), slices)])


def _subtract(first: Sequence[float], second: Sequence[float]) -> list[float]:
    if len(first) != len(second) or not first:
        raise UsageError(f"{len(first)} and {len(second)} values cannot be paired")
    return [round(b - a, _DIGITS) for a, b in zip(first, second, strict=True)]


def _flip_signs(gaps: Sequence[float]) -> float:
    moved = [gap for gap in gaps if gap]
    if len(moved) < 2:
        return 1.0
    if len(moved) <= MOST_COUNTED:
        found = stats.permutation_test(
            (moved,),
            lambda values, axis: np.round(np.mean(values, axis=axis), _DIGITS),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2**MOST_COUNTED,
        )
        return float(found.pvalue)
    # Of problems that differ by as much it only counts how many are flipped.
    sizes, counts = np.unique(np.abs(moved), return_counts=True)
    rng = np.random.default_rng(0)

    def draw(num: int) -> Floats:
        flipped = rng.binomial(counts, 0.5, size=(num, len(sizes)))
        means: Floats = np.round((2 * flipped - counts) @ sizes / len(moved), _DIGITS)
        return means

    means = _draw_in_slices(draw, NUM_FLIPS, len(sizes))
    seen = round(math.fsum(moved) / len(moved), _DIGITS)
    beyond = min(np.sum(means <= seen), np.sum(means >= seen))
    return min(1.0, 2 * (int(beyond) + 1) / (NUM_FLIPS + 1))


def centre(values: Sequence[float]) -> list[float]:
    """Each value minus the mean of all. Equal values give exact zeros."""
    if not values or min(values) == max(values):
        return [0.0] * len(values)
    mean = sum(values) / len(values)
    return [value - mean for value in values]


def deviation(values: Sequence[float]) -> float:
    """The population standard deviation."""
    return math.sqrt(sum(value * value for value in centre(values)) / len(values))


def standardize(values: Sequence[float]) -> list[float]:
    """(value - mean) / (population std + 1e-6)."""
    scale = deviation(values) + STD_EPSILON
    return [value / scale for value in centre(values)]
