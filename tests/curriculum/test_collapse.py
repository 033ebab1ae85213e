"""Figures of composed rounds against counts made by hand, and every rule that fires on them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from proverrl.curriculum.collapse import (
    RULES,
    RoundFigures,
    RuleName,
    distinct_share,
    examine_round,
    find_ngrams,
    find_warnings,
    overlap_share,
)
from proverrl.errors import RecordError
from proverrl.problems.contamination import make_skeleton
from proverrl.types import HOLE, Problem

HEALTHY = RoundFigures(
    round=1,
    problems=20,
    skeletons=20,
    templates=18,
    top_template=0.1,
    operator_entropy=1.5,
    distinct=0.6,
    overlap=0.4,
    always=0.1,
    never=0.3,
    reward=0.4,
    length=60.0,
)


def compose(problem_id: str, statement: str, operator: str = "negate") -> Problem:
    lineage = {"parents": ["p"], "operator": operator, "round": 1}
    return Problem(
        id=problem_id,
        language="dafny",
        kind="invariants",
        preamble="",
        statement=f"{statement} {HOLE}",
        metadata={"lineage": lineage},
    )


def test_skeletons_see_through_names_and_layout() -> None:
    one = make_skeleton(compose("a", "method Sum(n: nat) ensures n < 3"))
    two = make_skeleton(compose("b", "method  Total(k: nat)\n  // more\n  ensures k < 3"))
    other = make_skeleton(compose("c", "method Sum(n: nat) ensures n < 4"))
    assert one == two == "method n0 ( n1 : nat ) ensures n1 < 3"
    assert one != other


def test_ngrams_and_their_shares() -> None:
    assert find_ngrams("abcd", 3) == [("a", "b", "c"), ("b", "c", "d")]
    assert find_ngrams("ab", 3) == []
    # abab: ab, ba, ab; abc: ab, bc. Distinct: ab, ba, bc of 5.
    assert distinct_share(["abab", "abc"], 2) == 3 / 5
    # The first has {ab, ba}, of which ab is in the second: 1/2; the second {ab, bc}: 1/2.
    assert overlap_share(["abab", "abc"], 2) == 0.5
    assert overlap_share(["abab", "x"], 2) == 0.0
    assert (distinct_share([], 2), overlap_share([], 2)) == (1.0, 0.0)


def test_a_round_is_counted() -> None:
    problems = [
        compose("a", "method Sum(n: nat) ensures n < 3", "negate"),
        compose("b", "method Add(m: nat) ensures m < 3", "negate"),
        compose("c", "method Add(m: nat) ensures m < 42", "chain_calls"),
        compose("d", "lemma L()", "negate"),
    ]
    figures = examine_round(7, problems, [1.0, 0.0, 0.5, 0.0], [0.5, 0.25], n=11)
    # Skeletons: a and b are one, c, d. Templates: a, b and c are one. Tokens: 11, 11, 11 and 4.
    # 11-grams: one each of a, b, c, and two different ones; a's and b's stand twice.
    assert figures.operator_entropy == pytest.approx(0.5623351446)
    assert figures.overlap == pytest.approx(2 / 3)
    assert figures == RoundFigures(
        round=7,
        problems=4,
        skeletons=3,
        templates=2,
        top_template=0.75,
        operator_entropy=figures.operator_entropy,
        distinct=2 / 3,
        overlap=figures.overlap,
        always=0.25,
        never=0.5,
        reward=0.375,
        length=(11 * 3 + 4) / 4,
    )
    assert figures.variety == 0.75
    assert figures.metrics()["compose_variety"] == 0.75
    assert "compose_round" not in figures.metrics()


def test_an_empty_round_and_one_without_rates() -> None:
    empty = examine_round(1, [], [], [])
    assert (empty.problems, empty.variety, empty.overlap, empty.reward) == (0, 1.0, 0.0, 0.0)
    assert find_warnings([empty]) == []
    assert find_warnings([]) == []
    with pytest.raises(RecordError, match="round 2: 1 problems but 0 solve rates"):
        examine_round(2, [compose("a", "lemma L()")], [], [])


def test_a_healthy_run_gives_no_warning() -> None:
    assert find_warnings([HEALTHY] * 6) == []


@pytest.mark.parametrize(
    ("rule", "last", "words"),
    [
        ("few_skeletons", replace(HEALTHY, skeletons=9), "20 problems have 9 skeletons"),
        ("one_template", replace(HEALTHY, top_template=0.55), "55% of the problems"),
        ("operators_fade", replace(HEALTHY, operator_entropy=0.7), "from 1.50 to 0.70"),
        ("overlap", replace(HEALTHY, overlap=0.95), "95% of a problem"),
        ("all_solved", replace(HEALTHY, always=0.6), "60% of the problems"),
        ("none_solved", replace(HEALTHY, never=0.8), "80% of the problems"),
        ("length_drift", replace(HEALTHY, length=121.0), "121.0 tokens, 60.0"),
        ("length_drift", replace(HEALTHY, length=29.0), "29.0 tokens, 60.0"),
        ("unreadable", replace(HEALTHY, written=12, malformed=7), "7 of 12 statements hold no"),
        # Also where too few are left for the other rules, which this round would break.
        (
            "unreadable",
            replace(HEALTHY, problems=1, skeletons=0, written=12, malformed=11, always=1.0),
            "11 of 12 statements",
        ),
        (
            "reward_without_variety",
            replace(HEALTHY, reward=0.46, skeletons=16, round=4),
            "from 0.400 to 0.460 while skeletons a problem fell from 1.00 to 0.80",
        ),
    ],
)
def test_each_rule_fires_alone(rule: RuleName, last: RoundFigures, words: str) -> None:
    (warning,) = find_warnings([HEALTHY, HEALTHY, HEALTHY, last])
    assert warning.rule == rule
    assert warning.round == last.round
    assert words in warning.text


@pytest.mark.parametrize(
    "last",
    [
        replace(HEALTHY, skeletons=10),
        replace(HEALTHY, top_template=0.5),
        replace(HEALTHY, operator_entropy=0.75),
        replace(HEALTHY, overlap=0.9),
        replace(HEALTHY, always=0.5),
        replace(HEALTHY, never=0.75),
        replace(HEALTHY, length=120.0),
        replace(HEALTHY, length=30.0),
        replace(HEALTHY, written=12, malformed=6),
        replace(HEALTHY, written=7, malformed=7),
        replace(HEALTHY, reward=0.44, skeletons=16),
        replace(HEALTHY, reward=0.9, skeletons=17),
    ],
)
def test_a_figure_at_its_limit_is_no_warning(last: RoundFigures) -> None:
    assert find_warnings([HEALTHY, HEALTHY, HEALTHY, last]) == []


def test_the_window_is_waited_for() -> None:
    gaming = replace(HEALTHY, reward=0.9, skeletons=12)
    assert find_warnings([HEALTHY, HEALTHY, gaming]) == []
    assert len(find_warnings([HEALTHY, HEALTHY, HEALTHY, gaming])) == 1


def test_a_small_round_says_nothing() -> None:
    small = replace(HEALTHY, problems=7, skeletons=1, always=1.0)
    assert find_warnings([HEALTHY, small]) == []
    # Nor is it the first round that others are compared with.
    assert find_warnings([replace(small, length=1.0), HEALTHY]) == []


def test_every_rule_has_a_name() -> None:
    assert set(get_args(RuleName)) == set(RULES)
