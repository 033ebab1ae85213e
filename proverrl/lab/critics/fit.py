"""The bound that divides right statements from wrong ones by their gaps: fitted on judged pairs.

Flows in: critiques with labels, as gaps. Flows out: the largest gap of what is right, which divides
right from wrong with the best balanced accuracy. Not handled here: the gaps
(``proverrl.lab.critics.likelihood``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from proverrl.errors import ProblemError


def fit_most(gaps: Sequence[float], truths: Sequence[bool]) -> tuple[float, float]:
    """The bound with the best balanced accuracy where what is not above it is called right, halfway
    between two gaps, the smallest of several; and that accuracy. Raises ``ProblemError`` unless
    some are right and some wrong."""
    num_right = sum(truths)
    num_wrong = len(truths) - num_right
    if not num_right or not num_wrong:
        raise ProblemError(
            "a bound needs right and wrong statements; make pairs with `proverrl problems "
            "critiques`"
        )
    bounds = [(low + high) / 2 for low, high in pairwise(sorted({0.0, *gaps, max(gaps) + 2.0}))]

    def accuracy(bound: float) -> float:
        said = [(gap <= bound, truth) for gap, truth in zip(gaps, truths, strict=True)]
        right = sum(says and truth for says, truth in said) / num_right
        wrong = sum(not says and not truth for says, truth in said) / num_wrong
        return (right + wrong) / 2

    best = max(bounds, key=lambda bound: (accuracy(bound), -bound))
    return best, accuracy(best)
