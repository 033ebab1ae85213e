"""Two evaluations on the same problems, set against each other problem by problem.

Flows in: ``evals/NAME.json`` and ``NAME.jsonl`` of each. Flows out: for all problems and for each
group of them both estimates of pass@k, their paired difference, and McNemar's test; and in words
what else differs between the two. Attempts that a summary counts and that are not stored, or the
other way round, are an error, unless what is there is to be compared. Both sides' figures are over
the problems that have at least k judged attempts on both; how many were left out is said beside
them. Not handled here: equal cost (``proverrl.evaluation.budgets``), more than two sides at once
(each pair is compared apart, and no p is corrected for their number).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from proverrl.errors import UsageError
from proverrl.evaluation.attempts import (
    AGAIN,
    AttemptRow,
    describe_gaps,
    read_attempts,
    read_summary,
)
from proverrl.statistics import Difference, McNemar, compare_paired, estimate, mcnemar
from proverrl.types import Status

Grouping = Literal["level", "family", "category"]

EXPECTED_TO_AGREE = (
    "toolchain",
    "rlimit",
    "deadline_seconds",
    "temperature",
    "top_p",
    "samples_per_problem",
    "max_new_tokens",
    "mode",
    "rollout",
    "layout",
    "proverrl_version",
)
"""What changes a figure besides the policy: a difference is said beside the comparison."""
_WHERE_NOT_SAID = {"top_p": 1.0}
"""What results of earlier versions were made with."""

REQUIRED = ("benchmark_sha256", "samples_per_problem", "levels")
"""What a summary must say for its evaluation to be compared."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One evaluation: its summary, and its attempts by problem in order of their numbers."""

    path: Path
    summary: Row
    attempts: Mapping[str, Sequence[AttemptRow]]

    @property
    def ks(self) -> list[int]:
        """The k that its summary has estimates for."""
        return sorted(int(k) for k in self.summary["levels"][0].get("pass", {}))


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """A group of problems at one k. ``first`` and ``second`` are estimates as they are stored,
    over ``num_paired`` of the group's problems; ``difference`` is second minus first, None where no
    problem is left. Unjudged attempts are those of the whole group."""

    group: str
    k: int
    num_problems: int
    num_paired: int
    first: Mapping[str, float | int | None]
    second: Mapping[str, float | int | None]
    difference: Difference | None
    solved: McNemar
    unjudged: tuple[int, int]


def read_side(path: Path, tell: Callable[[str], None] | None = None) -> Side:
    """One evaluation, from its ``NAME.json`` (the attempts lie beside it). ``tell`` is given a
    sentence for everything that is missing, doubled or cut; without it that is an error.

    Raises:
        UsageError: a file is missing, damaged, or not an evaluation's.
    """
    place = path.with_suffix(".json")
    summary = read_summary(place)
    for key in REQUIRED:
        if not summary.get(key):
            raise UsageError(f"{place} has no {key}; {AGAIN}")
    attempts: dict[str, dict[int, AttemptRow]] = {}
    for row in read_attempts(path, tell):
        attempts.setdefault(row["problem_id"], {})[row["attempt"]] = row
    gaps = describe_gaps({name: set(rows) for name, rows in attempts.items()}, summary)
    if gaps and tell is None:
        raise UsageError(
            f"{place.with_suffix('.jsonl')} does not hold what {place.name} counts: {gaps}; "
            f"{AGAIN}, or compare what there is with --common"
        )
    if gaps and tell:
        tell(f"{place.with_suffix('.jsonl')}: {gaps}")
    ordered = {name: [rows[n] for n in sorted(rows)] for name, rows in attempts.items()}
    return Side(place, summary, ordered)


def keep_common(sides: Sequence[Side], tell: Callable[[str], None]) -> list[Side]:
    """The sides with those problems only that all of them have; ``tell`` is given how many went.

    Raises:
        UsageError: they have no problem in common.
    """
    common = set.intersection(*(set(side.attempts) for side in sides))
    if not common:
        raise UsageError("the evaluations have no problem in common; evaluate them on one file")
    for side in sides:
        if lost := len(side.attempts) - len(common):
            tell(f"{side.path}: {lost} problems are left out, since another side has none of them")
    return [
        replace(side, attempts={n: rows for n, rows in side.attempts.items() if n in common})
        for side in sides
    ]


def check_comparable(first: Side, second: Side) -> list[str]:
    """What differs between two evaluations besides the policy, a line each with both values.

    Raises:
        UsageError: they are not on the same problems.
    """
    one, two = first.summary.get("benchmark_sha256"), second.summary.get("benchmark_sha256")
    if one != two:
        raise UsageError(
            f"{second.path} and {first.path} cannot be compared: benchmark_sha256 is "
            f"{two!r} and {one!r}; evaluate both on one file of problems"
        )
    only = first.attempts.keys() ^ second.attempts.keys()
    if only:
        raise UsageError(
            f"{second.path} and {first.path} are not on the same problems: {len(only)} of them "
            f"were evaluated on one side only, such as {min(only)!r}; compare those that both "
            "have with --common"
        )
    found = []
    for key in EXPECTED_TO_AGREE:
        one, two = (s.summary.get(key, _WHERE_NOT_SAID.get(key)) for s in (first, second))
        if one != two:
            found.append(f"{key} differs: {one!r} in {first.path}, {two!r} in {second.path}")
    return found


def compare_sides(
    first: Side, second: Side, *, ks: Sequence[int], by: Grouping = "level"
) -> list[GroupComparison]:
    """All problems, then each group of them where there are several, at every k."""
    names = sorted(first.attempts)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(str(first.attempts[name][0].get(by, "")), []).append(name)
    parts = [("all", names)]
    if len(groups) > 1:
        parts += [(value or "(none)", groups[value]) for value in sorted(groups, key=_order)]
    return [_compare_group(label, part, first, second, k) for label, part in parts for k in ks]


def choose_ks(sides: Sequence[Side]) -> list[int]:
    """The k that every side has estimates for.

    Raises:
        UsageError: there is none.
    """
    common = set.intersection(*(set(side.ks) for side in sides))
    if not common:
        told = "; ".join(f"{side.path} has {side.ks}" for side in sides)
        raise UsageError(f"the evaluations have no k in common ({told}); name it with -k")
    return sorted(common)


def _order(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdecimal() else (0, value)


def _compare_group(
    label: str, names: Sequence[str], first: Side, second: Side, k: int
) -> GroupComparison:
    sides = (first, second)
    judged = [[_judged(side.attempts[name]) for name in names] for side in sides]
    pairs = [(a, b) for a, b in zip(*judged, strict=True) if min(len(a), len(b)) >= k]
    ones, twos = [a for a, _ in pairs], [b for _, b in pairs]
    counts = [[(len(side), sum(side)) for side in part] for part in (ones, twos)]
    return GroupComparison(
        group=label,
        k=k,
        num_problems=len(names),
        num_paired=len(pairs),
        first=estimate(counts[0], k),
        second=estimate(counts[1], k),
        difference=compare_paired(counts[0], counts[1], k) if pairs else None,
        solved=mcnemar([any(a[:k]) for a in ones], [any(b[:k]) for b in twos]),
        unjudged=(_count_unjudged(first, names), _count_unjudged(second, names)),
    )


def _judged(attempts: Sequence[AttemptRow]) -> list[bool]:
    """Whether each judged attempt is a proof, in order."""
    return [row["status"] is Status.PROVED for row in attempts if row["status"].judged]


def _count_unjudged(side: Side, names: Sequence[str]) -> int:
    return sum(not row["status"].judged for name in names for row in side.attempts[name])
