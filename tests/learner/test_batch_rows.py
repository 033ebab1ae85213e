"""Rows of sequences within a budget of tokens."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from proverrl.learner.packed_rows import batch_rows
from proverrl.run.pairs import Pair


def test_rows_are_filled_with_what_is_of_like_length() -> None:
    pairs = [Pair((1,) * (length - 1), (2,)) for length in (3, 7, 2, 6, 12, 3, 4)]
    rows = [[pair.num_tokens for pair in row] for row in batch_rows(pairs, 10)]
    # What is longer than the budget goes alone.
    assert rows == [[2, 3, 3], [4, 6], [7], [12]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 40))
def test_every_sequence_has_a_place_and_rows_keep_the_budget(
    lengths: list[int], budget: int
) -> None:
    pairs = [Pair((number,) * (length - 1), (2,)) for number, length in enumerate(lengths)]
    rows = list(batch_rows(pairs, budget))
    assert sorted(map(id, itertools.chain(*rows))) == sorted(map(id, pairs))
    for row in rows:
        assert len(row) == 1 or sum(pair.num_tokens for pair in row) <= budget
