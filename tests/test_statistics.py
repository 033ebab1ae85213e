"""Estimates, intervals and tests against closed forms and brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.errors import UsageError
from proverrl.statistics import (
    McNemar,
    bootstrap_difference,
    bootstrap_interval,
    estimate,
    mcnemar,
    pass_at_k,
    standard_error,
)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(16, 1, 8, 0.5), (16, 4, 8, 0.9615384615), (5, 2, 2, 0.7), (8, 0, 8, 0.0), (8, 1, 8, 1.0)],
)
def test_pass_at_k_anchors(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected)


@given(st.integers(1, 10), st.data())
@settings(max_examples=80, deadline=None)
def test_pass_at_k_equals_all_subsets(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@given(st.integers(1, 2000), st.data())
@settings(max_examples=50, deadline=None)
def test_pass_at_k_equals_the_binomial_form(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    # Whole numbers, so that nothing is lost.
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert pass_at_k(n, c, k) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 5, 1), (4, 1, 0)])
def test_pass_at_k_refuses_nonsense(n: int, c: int, k: int) -> None:
    with pytest.raises(UsageError, match=f"pass@{k}"):
        pass_at_k(n, c, k)


def test_bootstrap_interval_of_a_coin() -> None:
    # 100 problems, half solved: the mean's standard error is 0.05, the interval 0.5 +- 0.098.
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert low == pytest.approx(0.402, abs=0.011)
    assert high == pytest.approx(0.598, abs=0.011)
    assert bootstrap_interval([1.0] * 7) == (1.0, 1.0)
    assert np.isclose(bootstrap_interval([0.25] * 3), 0.25).all()
    assert bootstrap_interval([]) == (0.0, 0.0)


def binomial_quantile(n: int, p: float, share: float) -> int:
    """The smallest count at which the distribution function reaches ``share``."""
    total = 0.0
    for count in range(n + 1):
        total += math.comb(n, count) * p**count * (1 - p) ** (n - count)
        if total >= share:
            return count
    return n


@given(st.integers(20, 300), st.floats(0.05, 0.95))
@settings(max_examples=25, deadline=None)
def test_intervals_of_solved_problems_are_binomial(n: int, share: float) -> None:
    # Resampling n zeros and ones of which s are ones draws a binomial count of n and s / n.
    solved = min(n - 1, max(1, round(share * n)))
    low, high = bootstrap_interval([1.0] * solved + [0.0] * (n - solved))
    p = solved / n
    # 10,000 resamples see the quantile of a share between 1.9 and 3.2 % (3 sigma and some).
    assert binomial_quantile(n, p, 0.019) / n <= low + 1e-9
    assert low <= binomial_quantile(n, p, 0.032) / n + 1e-9
    assert binomial_quantile(n, p, 0.968) / n <= high + 1e-9
    assert high <= binomial_quantile(n, p, 0.981) / n + 1e-9


def test_intervals_of_many_problems_are_normal() -> None:
    values = np.random.default_rng(1).beta(0.5, 0.8, size=3000).tolist()
    low, high = bootstrap_interval(values)
    mean, error = float(np.mean(values)), standard_error(values)
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=5e-4)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.04)


def test_small_resampling_equals_enumeration() -> None:
    # All 27 equally likely resamples of three values: quantiles of their means, by counting.
    values = [0.0, 0.5, 1.0]
    means = sorted(sum(pick) / 3 for pick in itertools.product(values, repeat=3))
    # 1 of 27 is 3.7 %: the 2.5 % quantile is the least mean, the 97.5 % quantile the largest.
    assert bootstrap_interval(values) == pytest.approx((means[0], means[-1]))


def test_standard_errors() -> None:
    # 0, 0, 1, 1: squared deviations sum to 1; 1 / (4 - 1) / 4 = 1 / 12.
    assert standard_error([0.0, 0.0, 1.0, 1.0]) == pytest.approx(math.sqrt(1 / 12))
    assert standard_error([0.7]) == 0.0


def flip_coins(first: Sequence[bool], second: Sequence[bool]) -> float:
    """McNemar's p by all ways in which the problems that differ might have fallen."""
    differ = [b for a, b in zip(first, second, strict=True) if a != b]
    seen = abs(2 * sum(differ) - len(differ))
    ways = list(itertools.product([0, 1], repeat=len(differ)))
    return sum(abs(2 * sum(way) - len(way)) >= seen for way in ways) / len(ways)


def test_mcnemar_by_hand() -> None:
    # 1 problem only the first solved, 5 only the second: 2 (C(6,0) + C(6,1)) / 2^6 = 14 / 64.
    first = [True] + [False] * 5 + [True, True, False]
    second = [False] + [True] * 5 + [True, True, False]
    assert mcnemar(first, second) == McNemar(1, 5, 2, 1, 14 / 64)
    assert mcnemar([True], [True]).p == 1.0
    # 0 against 2000: 2^-1999, which a float still holds as 0; nothing overflows.
    assert mcnemar([False] * 2000, [True] * 2000).p == 0.0
    with pytest.raises(UsageError, match="2 and 1 outcomes"):
        mcnemar([True, False], [True])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
@settings(max_examples=60, deadline=None)
def test_mcnemar_equals_all_coin_flips(pairs: list[tuple[bool, bool]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    assert mcnemar(first, second).p == pytest.approx(flip_coins(first, second))
    assert mcnemar(first, second).p == mcnemar(second, first).p


def test_differences_are_paired() -> None:
    # Every problem gains exactly 0.1, however much the problems differ: no spread at all.
    first = [i / 100 for i in range(50)]
    gap = bootstrap_difference(first, [value + 0.1 for value in first])
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.1, 0.1, 0.1))
    assert gap.p == pytest.approx(2 / 10_001)
    same = bootstrap_difference(first, first)
    assert (same.value, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(UsageError, match="1 and 2 values"):
        bootstrap_difference([0.0], [0.0, 1.0])


@pytest.mark.slow
def test_the_p_of_a_difference_is_near_the_normal_one() -> None:
    # 400 problems, 50 gained and 30 lost: mean 0.05; the variance of a difference is
    # 80/400 - 0.05^2 = 0.1975, of the mean 0.1975/400, so that z = 0.05 / 0.02222 = 2.250 and
    # p = erfc(2.250 / sqrt 2) = 0.0244.
    first = [0.0] * 50 + [1.0] * 30 + [1.0] * 320
    second = [1.0] * 50 + [0.0] * 30 + [1.0] * 320
    gap = bootstrap_difference(first, second)
    assert gap.value == pytest.approx(0.05)
    assert gap.p == pytest.approx(math.erfc(2.250 / math.sqrt(2)), abs=0.012)
    assert gap.low == pytest.approx(0.05 - 1.96 * 0.02222, abs=0.004)
    mirrored = bootstrap_difference(second, first)
    assert mirrored.value == -gap.value
    # A balanced exchange of 40 against 40 says nothing.
    assert bootstrap_difference([0.0] * 40 + [1.0] * 40, [1.0] * 40 + [0.0] * 40).p > 0.9


def test_estimates_leave_out_problems_with_too_few_judged() -> None:
    # pass@2: 1 - C(2,2)/C(4,2) = 5/6; none of 4: 0; 1 judged attempt: no estimate.
    figures = estimate([(4, 2), (4, 0), (1, 1)], 2)
    assert figures["value"] == pytest.approx(5 / 12)
    assert figures["num_problems"] == 2
    # Deviations of 5/12 each: sqrt(2 (5/12)^2 / 1 / 2) = 5/12.
    assert figures["stderr"] == pytest.approx(5 / 12)
    assert estimate([(1, 1)], 2)["num_problems"] == 0
