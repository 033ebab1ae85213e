"""How good values are: do they rank prefixes, and do they mean what they say.

Flows in: scores in [0, 1], labels, and the problem of each. Flows out: ``ValueMetrics``.
Not handled here: intervals; pairs of one problem are not independent, so count problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class ValueMetrics:
    """``auc`` is the chance that a solved pair scores above an unsolved one, ties half; ``within``
    the same for pairs of one problem only, weighted by how many there are, which is what a search
    in one problem needs (NaN without such pairs). ``brier`` is the mean squared error,
    ``brier_base`` that of always saying the mean; ``calibration`` the mean distance between score
    and share of solved over ten bins of equal width, weighted by their pairs."""

    num_pairs: int
    num_problems: int
    share_solved: float
    auc: float
    within: float
    brier: float
    brier_base: float
    calibration: float


def measure_values(
    scores: Sequence[float], solved: Sequence[bool], problems: Sequence[str]
) -> ValueMetrics:
    """All figures of aligned sequences that are not empty."""
    count = len(scores)
    share = sum(solved) / count
    rows = list(zip(scores, solved, strict=True))
    return ValueMetrics(
        num_pairs=count,
        num_problems=len(set(problems)),
        share_solved=share,
        auc=compute_auc(scores, solved),
        within=compute_within(scores, solved, problems),
        brier=sum((score - label) ** 2 for score, label in rows) / count,
        brier_base=share * (1.0 - share),
        calibration=compute_calibration(scores, solved),
    )


def compute_auc(scores: Sequence[float], solved: Sequence[bool]) -> float:
    """The area under the ROC curve by ranks; ties count half. NaN when all labels agree."""
    num_solved = sum(solved)
    num_pairs = num_solved * (len(solved) - num_solved)
    return _count_wins(scores, solved) / num_pairs if num_pairs else math.nan


def compute_within(
    scores: Sequence[float], solved: Sequence[bool], problems: Sequence[str]
) -> float:
    """The AUC over the pairs that share a problem."""
    rows: dict[str, list[tuple[float, bool]]] = {}
    for score, label, problem in zip(scores, solved, problems, strict=True):
        rows.setdefault(problem, []).append((score, label))
    wins = total = 0.0
    for group in rows.values():
        labels = [label for _, label in group]
        wins += _count_wins([score for score, _ in group], labels)
        total += sum(labels) * (len(labels) - sum(labels))
    return wins / total if total else math.nan


def compute_calibration(scores: Sequence[float], solved: Sequence[bool]) -> float:
    """The expected calibration error over bins of equal width."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(NUM_BINS)]
    for score, label in zip(scores, solved, strict=True):
        bins[min(NUM_BINS - 1, int(score * NUM_BINS))].append((score, label))
    gaps = (abs(sum(s for s, _ in rows) - sum(label for _, label in rows)) for rows in bins)
    return sum(gaps) / len(scores)


def _count_wins(scores: Sequence[float], solved: Sequence[bool]) -> float:
    """How many (solved, unsolved) pairs are in the right order, ties half."""
    good = sum(solved)
    ranks = stats.rankdata(scores)
    # Less the pairs of two solved ones, each with itself too.
    return float(ranks[np.asarray(solved, dtype=bool)].sum() - good * (good + 1) / 2)
