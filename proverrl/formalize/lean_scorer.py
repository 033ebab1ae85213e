"""LeanScorer: one score for a statement from the ratings of its parts (Mathesis, Yu et al. 2025,
arXiv 2506.07047).

Flows in: a letter for each part of what is meant, A said, B said with a minor deviation, C not
said. Flows out: a Sugeno integral between 0 and 1. Of more than ten parts the published code floors
the share of A in tenths and takes all others for B, which hides a C; here a C is seen first.
"""

from __future__ import annotations

from proverrl.errors import UsageError

ACCEPTED = 0.6
"""The paper accepts a statement from this score on."""
_MOST = 10
_VALUES = {"A": 1.0, "B": 0.5}


def lean_score(ratings: str) -> float:
    """``max_i min(f_(i), mu(parts i to n))`` with the values ``f`` of the parts in ascending order,
    rounded to two digits; 0 where any part is C. Raises ``UsageError`` for no part or another
    letter."""
    if not ratings or set(ratings) - {"A", "B", "C"}:
        raise UsageError(f"ratings {ratings!r}: give one of A, B and C for each part")
    if "C" in ratings:
        return 0.0
    if len(ratings) > _MOST:
        num_said = _MOST * ratings.count("A") // len(ratings)
        ratings = "A" * num_said + "B" * (_MOST - num_said)
    ascending = sorted(ratings, reverse=True)
    tails = (ascending[i:] for i in range(len(ascending)))
    score = max(min(_VALUES[tail[0]], _measure(tail, len(ratings))) for tail in tails)
    return round(score, 2)


def _measure(parts: list[str], num: int) -> float:
    """How much a set of parts counts: its share, less for each B in it."""
    num_deviating = parts.count("B")
    discount = 0.1 if num_deviating <= 1 else 0.2
    return max(len(parts) / num * (1.0 - discount * num_deviating), 0.0)
