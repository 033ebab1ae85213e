"""Estimates, intervals and tests against closed forms and brute force."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from proverrl.errors import UsageError
from proverrl.statistics import (
    DIFFERENCES,
    McNemar,
    clopper_pearson,
    compare_paired,
    compare_values,
    estimate,
    mcnemar,
    mean_interval,
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


def test_intervals_by_hand() -> None:
    # Nothing of 10: (1 - p)^10 = 0.025 at p = 1 - 0.025^0.1 = 0.3085; all of 10 is its mirror.
    assert clopper_pearson(0.0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert clopper_pearson(1.0, 10) == pytest.approx((0.025**0.1, 1.0))
    # 8 of 10 (Clopper and Pearson's own table: 0.444 to 0.975).
    assert clopper_pearson(0.8, 10) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    # 1 of 1, and what one draw says at least: 0.025 and more.
    assert clopper_pearson(1.0, 1) == pytest.approx((0.025, 1.0))
    assert clopper_pearson(0.5, 0) == (0.0, 1.0)
    # Counts need not be whole: 2.5 draws without a hit.
    assert clopper_pearson(0.0, 2.5) == pytest.approx((0.0, 1 - 0.025**0.4))


@given(st.integers(0, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_intervals_of_solved_problems_are_exact(n: int, data: st.DataObject) -> None:
    solved = data.draw(st.integers(0, n))
    values = data.draw(st.permutations([1.0] * solved + [0.0] * (n - solved)))
    low, high = mean_interval(values)
    if not n:
        assert (low, high) == (0.0, 1.0)
        return
    # Its definition: at the low end so many or more have 2.5 %, at the high end so many or fewer.
    if solved:
        assert binomial_tail(n, low, solved) == pytest.approx(0.025)
    if solved < n:
        assert binomial_tail(n, high, solved + 1) == pytest.approx(0.975)
    assert (low > 0.0, high < 1.0) == (solved > 0, solved < n)
    assert (low, high) == pytest.approx(stats.binomtest(solved, n).proportion_ci(0.95))


def binomial_tail(n: int, p: float, least: int) -> float:
    """The chance of ``least`` or more hits in ``n`` draws."""
    chances = (math.comb(n, i) * p**i * (1.0 - p) ** (n - i) for i in range(least, n + 1))
    return math.fsum(chances)


def test_wilson_is_not_enough_for_few_problems() -> None:
    # 1 of 5: its low end, 0.036, is above a rate of 0.02, so that only 0 of 5 holds that rate, with
    # probability 0.98^5 = 0.904. Clopper and Pearson's reaches down to 1 - 0.975^0.2 = 0.00505.
    assert stats.binomtest(1, 5).proportion_ci(0.95, method="wilson").low > 0.0362
    assert coverage_of_shares(5, 0.02, wilson) == pytest.approx(0.98**5)
    assert mean_interval([1.0, 0, 0, 0, 0])[0] == pytest.approx(1 - 0.975**0.2)


def wilson(values: Sequence[float]) -> tuple[float, float]:
    found = stats.binomtest(int(sum(values)), len(values)).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def coverage_of_shares(
    n: int, rate: float, interval: Callable[[Sequence[float]], tuple[float, float]]
) -> float:
    """How often the interval holds the rate, over all numbers of solved problems."""
    covered = 0.0
    for solved in range(n + 1):
        low, high = interval([1.0] * solved + [0.0] * (n - solved))
        if low <= rate <= high:
            covered += math.comb(n, solved) * rate**solved * (1 - rate) ** (n - solved)
    return covered


NUMBERS = (5, 10, 20, 50, 200)
RATES = (0.0, 0.02, 0.1, 0.5, 0.98, 1.0)


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("rate", RATES)
def test_intervals_of_shares_hold_the_rate(n: int, rate: float) -> None:
    assert coverage_of_shares(n, rate, mean_interval) >= 0.95


@functools.cache
def interval_of_counts(lost: int, same: int, won: int) -> tuple[float, float]:
    return mean_interval([-1.0] * lost + [0.0] * same + [1.0] * won, DIFFERENCES)


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize(("lost", "won"), [(0, 0), (0, 0.02), (0.02, 0.02), (0.1, 0.5), (0, 0.98)])
def test_intervals_of_differences_hold_the_truth(n: int, lost: float, won: float) -> None:
    """Exactly: over all numbers of problems that one side solved alone."""
    covered = 0.0
    for down in range(n + 1):
        for up in range(n + 1 - down):
            ways = math.comb(n, down) * math.comb(n - down, up)
            chance = ways * lost**down * won**up * (1 - lost - won) ** (n - down - up)
            if chance:
                low, high = interval_of_counts(down, n - down - up, up)
                covered += chance * (low <= won - lost <= high)
    assert covered >= 0.95


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("rate", RATES)
def test_intervals_of_pass_at_k_hold_the_truth(n: int, rate: float) -> None:
    """By simulation: 8 attempts a problem, of which a share is proved that itself is drawn, so that
    the values lie between 0 and 1; and the difference from a second side that proves as much."""
    draws = 100
    rng = np.random.default_rng(round(1000 * n + 100 * rate))
    chances = np.full((draws, n), rate)
    if 0.0 < rate < 1.0:
        chances = rng.beta(0.6 * rate, 0.6 * (1 - rate), size=(draws, n))
    first, second = rng.binomial(8, chances) / 8, rng.binomial(8, chances) / 8
    held = [mean_interval(row.tolist()) for row in first]
    # What is measured lies near 98 % for shares and above for differences; the seeds are fixed.
    assert sum(low <= rate <= high for low, high in held) >= 0.93 * draws
    gaps = [mean_interval(row.tolist(), DIFFERENCES) for row in second - first]
    assert sum(low <= 0.0 <= high for low, high in gaps) >= 0.93 * draws


def test_intervals_of_many_problems_are_normal() -> None:
    values = np.random.default_rng(1).beta(0.5, 0.8, size=3000).tolist()
    low, high = mean_interval(values)
    mean, error = float(np.mean(values)), standard_error(values)
    # Each end reaches further by the weight of the value that was not seen, about 1 / 3000.
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=1.2e-3)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.06)


@given(
    st.lists(st.sampled_from([0.0, 0.125, 0.3, 0.5, 1.0]), min_size=1, max_size=30), st.randoms()
)
@settings(max_examples=40, deadline=None)
def test_intervals_hold_the_mean_and_are_never_empty(values: list[float], random: Random) -> None:
    low, high = mean_interval(values)
    assert 0.0 <= low <= sum(values) / len(values) <= high <= 1.0
    # Of n alike problems the ends lie 1 - 0.025^(1/n) of the way to the bounds; nothing is nearer.
    least = 1 - 0.025 ** (1 / len(values))
    assert high - low >= 0.9 * least
    assert mean_interval(random.sample(values, len(values))) == (low, high)


def test_alike_values_leave_what_was_not_seen() -> None:
    # Of two problems that both gain 0.5 a third could lose 1: its weight exceeds w in (1 - w)^2 of
    # the draws, 2.5 % at w = 1 - 0.025^0.5, and 0.5 (1 - w) - w = 0.5 - 1.5 w; upwards 0.5 + 0.5 w.
    w = 1 - 0.025**0.5
    assert mean_interval([0.5, 0.5], DIFFERENCES) == pytest.approx((0.5 - 1.5 * w, 0.5 + 0.5 * w))
    # 50 problems without a difference: up to 7.1 points either way.
    w = 1 - 0.025**0.02
    assert mean_interval([0.0] * 50, DIFFERENCES) == pytest.approx((-w, w))


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
    assert mcnemar(first, second) == McNemar(1, 5, 2, 14 / 64)
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
    # Every one of 50 problems gains exactly 0.1, however much the problems differ.
    first = [i / 100 for i in range(50)]
    gap = compare_values(first, [value + 0.1 for value in first])
    w = 1 - 0.025**0.02
    assert gap.value == pytest.approx(0.1)
    assert (gap.low, gap.high) == pytest.approx((0.1 - 1.1 * w, 0.1 + 0.9 * w))
    # None of 9,999 draws of signs has all alike: 2 (0 + 1) / (9,999 + 1).
    assert gap.p == pytest.approx(2 / 10_000)
    same = compare_values(first, first)
    assert (same.value, same.low, same.high, same.p) == pytest.approx((0.0, -w, w, 1.0))
    with pytest.raises(UsageError, match="1 and 2 values"):
        compare_values([0.0], [0.0, 1.0])
    with pytest.raises(UsageError, match="0 and 0 values"):
        compare_values([], [])


def test_the_p_of_few_differences_by_hand() -> None:
    # Two problems that agree: 2 of 4 ways to turn them are as far from 0. One, or none: nothing.
    assert compare_values([0.0, 0.0], [0.5, 0.5]).p == 0.5
    assert compare_values([0.0, 0.3], [0.5, 0.3]).p == 1.0
    # Six that agree: 2 of 64; with a seventh that does not differ the same.
    assert compare_values([0.0] * 6, [0.25] * 6).p == 2 / 64
    assert compare_values([0.0] * 6 + [1.0], [0.25] * 6 + [1.0]).p == 2 / 64
    # 0.1, 0.2 and -0.3 cancel, though their floats do not.
    assert compare_values([0.3, 0.3, 0.3], [0.4, 0.5, 0.0]).p == 1.0


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.125, 0.0, 0.125, 0.5]), min_size=1, max_size=7))
@settings(max_examples=40, deadline=None)
def test_the_p_equals_all_ways_to_turn_the_problems(gaps: list[float]) -> None:
    # Eighths are exact, so that sums of them are.
    ways = list(itertools.product([-1, 1], repeat=len(gaps)))
    sums = [sum(s * gap for s, gap in zip(way, gaps, strict=True)) for way in ways]
    as_far = sum(abs(one) >= abs(sum(gaps)) for one in sums) / len(ways)
    found = compare_values([max(0.0, -gap) for gap in gaps], [max(0.0, gap) for gap in gaps])
    assert found.p == pytest.approx(as_far)


def test_the_p_of_many_differences_is_near_that_of_all_ways() -> None:
    # 14 that differ, of three sizes; one more than are counted.
    gaps = np.array([0.5] * 4 + [-0.5] + [0.25] * 5 + [-0.125] * 4)
    ways = np.array(list(itertools.product([-1, 1], repeat=len(gaps))))
    exact = float(np.mean(np.abs(ways @ gaps) >= abs(gaps.sum())))
    assert 0.03 < exact < 0.1
    found = compare_values([max(0.0, -gap) for gap in gaps], [max(0.0, gap) for gap in gaps])
    # Twice a tail of 9,999 draws, whose deviation is below sqrt(0.05 * 0.95 / 9,999) = 0.0022.
    assert found.p == pytest.approx(exact, abs=5 * 2 * 0.0022)
    assert found.p != exact


@pytest.mark.parametrize("sizes", [(1, 1), (0.5, 0.25, 0.1), (1,) * 6, (1, 0.7, 0.5, 0.1)])
def test_the_p_is_never_too_small(sizes: tuple[float, ...]) -> None:
    """Where neither side is better each problem falls either way: of all ways, p is a or less in a
    share of a at most, for every a."""
    found = []
    for way in itertools.product([False, True], repeat=len(sizes)):
        pairs = [(0.0, size) if up else (size, 0.0) for up, size in zip(way, sizes, strict=True)]
        found.append(compare_values([a for a, _ in pairs], [b for _, b in pairs]).p)
    assert all(sum(p <= a + 1e-12 for p in found) <= a * len(found) + 1e-9 for a in found)
    assert min(found) == pytest.approx(2 / len(found))


@pytest.mark.slow
def test_the_p_of_a_difference_is_near_the_normal_one() -> None:
    # 400 problems, 50 gained and 30 lost: mean 0.05; the variance of a difference is
    # 80/400 - 0.05^2 = 0.1975, of the mean 0.1975/400, so that the standard error is 0.02222.
    # Under flips it is 80/400/400, so that z = 0.05 / 0.02236 = 2.236 and p = 0.0253, and half a
    # step of 2/400 more for sums that are whole: z = 0.0475 / 0.02236, p = 0.0337.
    first = [0.0] * 50 + [1.0] * 30 + [1.0] * 320
    second = [1.0] * 50 + [0.0] * 30 + [1.0] * 320
    gap = compare_values(first, second)
    assert gap.value == pytest.approx(0.05)
    # 9,999 draws: a deviation of sqrt(0.034 * 0.966 / 9,999) = 0.0018 on each side.
    assert gap.p == pytest.approx(math.erfc(0.0475 / 0.02236 / math.sqrt(2)), abs=0.006)
    half = 1.96 * 0.02222
    assert 0.05 - half - 6e-3 <= gap.low < 0.05 - half
    assert 0.05 + half < gap.high <= 0.05 + half + 6e-3
    mirrored = compare_values(second, first)
    assert mirrored.value == -gap.value
    # A balanced exchange of 40 against 40 says nothing.
    assert compare_values([0.0] * 40 + [1.0] * 40, [1.0] * 40 + [0.0] * 40).p > 0.9


def test_counts_are_compared_as_their_values_are() -> None:
    # pass@2 of 4: of 1 proof 1 - 3/6 = 1/2, of 2 proofs 5/6, of none 0.
    first, second = [(4, 1), (4, 0), (4, 2)], [(4, 2), (4, 1), (4, 2)]
    values = compare_values([1 / 2, 0.0, 5 / 6], [5 / 6, 1 / 2, 5 / 6])
    assert compare_paired(first, second, 2) == values
    assert values.value == pytest.approx((1 / 3 + 1 / 2) / 3)
    assert values.p == 0.5
    with pytest.raises(UsageError, match="pass@2"):
        compare_paired([(4, 1)], [(1, 1)], 2)


@pytest.mark.slow
def test_unlike_numbers_of_attempts_do_not_pass_for_a_difference() -> None:
    """pass@4 of 4 attempts is 0 or 1 and of 16 something between, mostly near 1 here: differences
    are many small ones up and few large ones down, which turned around look unlikely."""
    rng = np.random.default_rng(2)
    raw, found = 0, 0
    for chances in rng.beta(0.54, 0.06, size=(300, 50)):
        first = [(4, int(c)) for c in rng.binomial(4, chances)]
        second = [(16, int(c)) for c in rng.binomial(16, chances)]
        sides = [[pass_at_k(n, c, 4) for n, c in side] for side in (first, second)]
        raw += compare_values(*sides).p <= 0.05
        found += compare_paired(first, second, 4).p <= 0.05
    # 15 of 300 are 5 %, with a deviation of 3.8.
    assert raw > 22
    assert found <= 22


def test_estimates_leave_out_problems_with_too_few_judged() -> None:
    # pass@2: 1 - C(2,2)/C(4,2) = 5/6; none of 4: 0; 1 judged attempt: no estimate.
    figures = estimate([(4, 2), (4, 0), (1, 1)], 2)
    assert figures["value"] == pytest.approx(5 / 12)
    assert figures["num_problems"] == 2
    # Deviations of 5/12 each: sqrt(2 (5/12)^2 / 1 / 2) = 5/12.
    assert figures["stderr"] == pytest.approx(5 / 12)
    # Low: 5/6 weighted against 0 and the 0 that was not seen. High: of 0, 5/6 and 1 with weights
    # anywhere on a triangle, its corner at 1 beyond h holds 6 (1 - h)^2 = 0.025; the density there
    # is 12 (1 - h) = 0.77, and 10,000 draws see 0.025 up to 0.0016, so that h is known up to 0.002.
    assert figures["low"] == pytest.approx(5 / 6 * (1 - 0.975**0.5))
    assert figures["high"] == pytest.approx(1 - (0.025 / 6) ** 0.5, abs=0.006)
    nothing = {"value": None, "stderr": None, "low": 0.0, "high": 1.0, "num_problems": 0}
    assert estimate([(1, 1)], 2) == nothing
