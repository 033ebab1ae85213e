"""Evaluations on one benchmark set side by side, problem by problem.

Flows in: run records. Flows out: groups of columns whose attempts were kept, paired differences of
pass@k with intervals over problems, who solved what, and warnings where columns were measured under
unlike conditions. Not handled here: what a solution cost (``budgets``), how it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.evaluation.attempts import AGAIN, describe_gaps
from proverrl.report.attempts import ProblemTally
from proverrl.report.headline import Column, group_by_benchmark, list_columns, list_ks
from proverrl.report.run import RunRecord
from proverrl.statistics import compare_paired


@dataclass(frozen=True)
class Shelf:
    """The columns of one benchmark whose attempts were kept. ``names`` are their problems, in the
    order of the file in which each was seen first."""

    columns: Sequence[Column]
    names: Sequence[str]

    def tally(self, column: int, name: str) -> ProblemTally | None:
        return self.columns[column].evaluation.attempts.problems.get(name)

    def known(self, name: str) -> ProblemTally:
        """Any tally of that problem, for its level and family."""
        tallies = (self.tally(place, name) for place in range(len(self.columns)))
        return next(tally for tally in tallies if tally is not None)


@dataclass(frozen=True, slots=True)
class Difference:
    """pass@k of ``title`` less that of ``base``, in shares, over the ``problems`` that both have k
    judged attempts at; ``p`` is that of no difference. ``excluded`` is how many of the others there
    are."""

    title: str
    base: str
    k: int
    value: float
    low: float
    high: float
    p: float
    problems: int
    excluded: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """How often only the first, only the second, both and neither solved a problem that both have
    a judged attempt at; ``unknown`` counts the problems where one of them has none."""

    only_first: int
    only_second: int
    both: int
    neither: int
    unknown: int


def list_shelves(runs: Sequence[RunRecord]) -> list[Shelf]:
    """One for each benchmark that some column has attempts on."""
    shelves = []
    for group in group_by_benchmark(list_columns(runs)):
        columns = [column for column in group if column.evaluation.attempts.total]
        names: dict[str, None] = {}
        for column in columns:
            names |= dict.fromkeys(column.evaluation.attempts.problems)
        if columns:
            shelves.append(Shelf(columns, list(names)))
    return shelves


def list_pairs(columns: Sequence[Column]) -> list[tuple[int, int]]:
    """What is compared: each column with its own before; then with the first of the evaluations
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


def list_differences(shelf: Shelf) -> list[Difference]:
    """Every pair of ``list_pairs`` at every k that both were evaluated at."""
    found = []
    for one, other in list_pairs(shelf.columns):
        columns = (shelf.columns[one], shelf.columns[other])
        for k in list_ks(columns):
            difference = measure_difference(shelf, one, other, k)
            if difference is not None:
                found.append(difference)
    return found


def measure_difference(shelf: Shelf, one: int, other: int, k: int) -> Difference | None:
    """None when no problem has k judged attempts in both."""
    counts, bases = [], []
    for name in shelf.names:
        tallies = (shelf.tally(one, name), shelf.tally(other, name))
        if any(tally is None or tally.judged < k for tally in tallies):
            continue
        own, base = ((t.judged, t.solved) for t in tallies if t is not None)
        counts.append(own)
        bases.append(base)
    if not counts:
        return None
    found = compare_paired(bases, counts, k)
    return Difference(
        title=shelf.columns[one].title,
        base=shelf.columns[other].title,
        k=k,
        value=found.value,
        low=found.low,
        high=found.high,
        p=found.p,
        problems=len(counts),
        excluded=len(shelf.names) - len(counts),
    )


def count_overlap(shelf: Shelf, one: int, other: int) -> Overlap:
    """Who solved which problem; with ``one == other`` only ``both`` and ``neither`` can differ
    from zero."""
    only_first = only_second = both = neither = 0
    for name in shelf.names:
        first, second = shelf.tally(one, name), shelf.tally(other, name)
        if first is None or second is None or not first.judged or not second.judged:
            continue
        only_first += bool(first.solved and not second.solved)
        only_second += bool(second.solved and not first.solved)
        both += bool(first.solved and second.solved)
        neither += not (first.solved or second.solved)
    unknown = len(shelf.names) - only_first - only_second - both - neither
    return Overlap(only_first, only_second, both, neither, unknown)


_CONDITIONS: tuple[tuple[str, Callable[[Column], Any]], ...] = (
    ("verifier (toolchain)", lambda column: column.evaluation.summary.get("toolchain")),
    ("attempts a problem", lambda column: column.evaluation.summary.get("samples_per_problem")),
    ("temperature", lambda column: column.evaluation.summary.get("temperature")),
    ("top-p", lambda column: column.evaluation.summary.get("top_p", 1.0)),
    ("mode", lambda column: column.evaluation.summary.get("mode")),
    ("method of intervals", lambda column: column.evaluation.summary.get("interval")),
    (
        "number of problems",
        lambda column: (column.evaluation.level("all") or {}).get("num_problems"),
    ),
)


def list_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Sentences about columns that can be compared with care only, or not at all, and about those
    whose attempts are not the ones that their figures rest on."""
    groups = group_by_benchmark(list_columns(runs))
    warnings = []
    for column in (column for group in groups for column in group):
        attempts = column.evaluation.attempts
        damage = list(attempts.damage)
        if attempts.path and (gaps := describe_gaps(attempts.numbers, column.evaluation.summary)):
            damage.append(f"{attempts.path}: {gaps}")
        warnings += [f"{column.title}, {text}; {AGAIN}." for text in damage]
    if len(groups) > 1:
        names = "; ".join(
            f"{', '.join(column.title for column in group)} on {_benchmark(group[0])}"
            for group in groups
        )
        warnings.append(f"Different benchmarks, never set side by side: {names}.")
    for group in groups:
        for name, read in _CONDITIONS:
            values: dict[str, list[str]] = {}
            for column in group:
                value = read(column)
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
