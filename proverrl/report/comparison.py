"""Evaluations on one benchmark set side by side, problem by problem.

Flows in: run records. Flows out: groups of columns whose attempts were kept, which of them are
compared, and warnings where columns were measured under unlike conditions. The figures are those
of ``proverrl.evaluation.compare``. Not handled here: what a solution cost
(``proverrl.evaluation.budgets``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.evaluation.attempts import AGAIN
from proverrl.evaluation.compare import (
    EXPECTED_TO_AGREE,
    Pair,
    count_solvers,
    measure_difference,
    pair_problems,
)
from proverrl.evaluation.tally import ProblemTally
from proverrl.report.headline import Column, group_by_benchmark, list_columns, list_ks
from proverrl.report.run import RunRecord
from proverrl.statistics import Difference, McNemar

_CONDITIONS = EXPECTED_TO_AGREE | {
    "interval": "method of intervals",
    "num_problems": "number of problems",
}


@dataclass(frozen=True)
class Shelf:
    """The columns of one benchmark whose attempts were kept. ``names`` are their problems, in the
    order of the file in which each was seen first."""

    columns: Sequence[Column]
    names: Sequence[str]

    def tally(self, column: int, name: str) -> ProblemTally | None:
        return self.columns[column].evaluation.problems.get(name)

    def known(self, name: str) -> ProblemTally:
        """Any tally of that problem, for its level and family."""
        tallies = (self.tally(place, name) for place in range(len(self.columns)))
        return next(tally for tally in tallies if tally is not None)

    def pair(self, one: int, other: int, num_judged: int) -> list[Pair]:
        """The problems that both columns have so many judged attempts at."""
        first, second = (self.columns[place].evaluation.problems for place in (one, other))
        return pair_problems(first, second, self.names, num_judged)


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """pass@k of ``title`` less that of ``base``, in shares, over the ``problems`` that both have k
    judged attempts at; ``excluded`` is how many of the others there are."""

    title: str
    base: str
    k: int
    gap: Difference
    problems: int
    excluded: int


def list_shelves(runs: Sequence[RunRecord]) -> list[Shelf]:
    """One for each benchmark that some column has attempts on."""
    shelves = []
    for group in group_by_benchmark(list_columns(runs)):
        columns = [column for column in group if column.evaluation.attempts.total]
        names: dict[str, None] = {}
        for column in columns:
            names |= dict.fromkeys(column.evaluation.problems)
        if columns:
            shelves.append(Shelf(columns, list(names)))
    return shelves


def list_pairs(columns: Sequence[Column]) -> list[tuple[int, int]]:
    """The compared pairs: each column with its own before; then with the first of the evaluations
    after training that has the same name, or, being that first itself, with the first of all."""
    places = {id(column.evaluation): place for place, column in enumerate(columns)}
    pairs = []
    for place, column in enumerate(columns):
        base = None if column.base is None else places.get(id(column.base))
        if base is not None:
            pairs.append((place, base))
    bases = {base for _, base in pairs}
    later = [place for place in range(len(columns)) if place not in bases]
    firsts: dict[str, int] = {}
    for place in later:
        first = firsts.setdefault(columns[place].evaluation.name, place)
        other = later[0] if first == place else first
        if place != other:
            pairs.append((place, other))
    return pairs


def list_differences(shelf: Shelf) -> list[ColumnDifference]:
    """Every pair of ``list_pairs`` at every k that both were evaluated at, where a problem has k
    judged attempts in both."""
    found = []
    for one, other in list_pairs(shelf.columns):
        columns = (shelf.columns[one], shelf.columns[other])
        for k in list_ks(columns):
            pairs = shelf.pair(other, one, k)
            if gap := measure_difference(pairs, k):
                left_out = len(shelf.names) - len(pairs)
                titles = (columns[0].title, columns[1].title)
                found.append(ColumnDifference(*titles, k, gap, len(pairs), left_out))
    return found


def count_overlap(shelf: Shelf, one: int, other: int) -> McNemar:
    """Counts of who solved the problems that both have a judged attempt at; with ``one == other``
    only ``both`` and ``neither`` can differ from zero."""
    return count_solvers(shelf.pair(one, other, 1))


def list_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Sentences about columns that can be compared with care only, or not at all. Others are about
    columns whose figures rest on other attempts than those that are kept."""
    groups = group_by_benchmark(list_columns(runs))
    warnings = []
    for column in (column for group in groups for column in group):
        damage = column.evaluation.attempts.list_damage(column.evaluation.summary)
        warnings += [f"{column.title}, {text}; {AGAIN}." for text in damage]
    if len(groups) > 1:
        names = "; ".join(
            f"{', '.join(column.title for column in group)} on {_benchmark(group[0])}"
            for group in groups
        )
        warnings.append(f"Different benchmarks, never set side by side: {names}.")
    for group in groups:
        for key, name in _CONDITIONS.items():
            values: dict[str, list[str]] = {}
            for column in group:
                summary = column.evaluation.summary
                whole = column.evaluation.level("all") or {}
                value = (whole if key == "num_problems" else summary).get(key)
                values.setdefault("not recorded" if value is None else str(value), []).append(
                    column.title
                )
            if len(values) > 1:
                told = "; ".join(f"{value}: {', '.join(who)}" for value, who in values.items())
                warnings.append(f"Compare with care, the {name} differs: {told}.")
    return warnings


def _benchmark(column: Column) -> str:
    digest, name = column.evaluation.benchmark
    return f"{name} ({digest[:12] or 'no checksum'})"
