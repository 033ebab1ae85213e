"""Exchanging constants: consistent, bounded, and never where arithmetic would break."""

from __future__ import annotations

import random

from proverrl.problems.renumber import renumber

STATEMENT = "ensures z == 12 * n + 5 && 12 <= 100 { z := 5; k1 := 0; z := 2 * a[i].1; }"


def test_equal_constants_stay_equal_and_small_ones_stay() -> None:
    seen = set()
    for seed in range(200):
        statement, body = renumber(STATEMENT, "invariant z == 12 * i + 5", random.Random(seed))
        words = statement.replace(";", " ;").split()
        large, small = words[3], words[7]
        assert 10 <= int(large) < 100
        assert 3 <= int(small) < 10
        assert body == f"invariant z == {large} * i + {small}"
        assert statement == (
            f"ensures z == {large} * n + {small} && {large} <= 100 "
            f"{{ z := {small}; k1 := 0; z := 2 * a[i].1; }}"
        )
        seen.add((large, small))
    assert len(seen) > 150


def test_distinct_constants_stay_distinct() -> None:
    statement = " ".join(str(n) for n in range(3, 40))
    for seed in range(20):
        changed, _ = renumber(statement, "", random.Random(seed))
        assert len(set(changed.split())) == 37


def test_a_computed_constant_keeps_the_whole_proof_as_it_is() -> None:
    body = "invariant z == 24 * i"
    assert renumber(STATEMENT, body, random.Random(0)) == (STATEMENT, body)
