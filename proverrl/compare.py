"""Two evaluations on the same problems, set against each other problem by problem.

Flows in: ``evals/NAME.json`` and ``NAME.jsonl`` of each. Flows out: for all problems and for each
group of them both estimates of pass@k, their paired difference, and McNemar's test; and in words
what else differs between the two.
Both sides' figures are over the problems that have at least k judged attempts on both; how many
were left out is said beside them.
Not handled here: equal cost (``proverrl.matched_budget``), more than two sides at once (each pair
is compared apart, and no p is corrected for their number).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from proverrl.errors import UsageError
from proverrl.matched_budget import read_attempts
from proverrl.statistics import (
    Difference,
    McNemar,
    bootstrap_difference,
    estimate,
    mcnemar,
    pass_at_k,
)
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

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One evaluation: its summary, and its attempts by problem in order of their numbers."""

    path: Path
    summary: Row
    attempts: Mapping[str, Sequence[Row]]

    @property
    def ks(self) -> list[int]:
        """The k that its summary has estimates for."""
        levels = self.summary.get("levels") or [{}]
        return sorted(int(k) for k in levels[0].get("pass") or {})


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """A group of problems at one k. ``first`` and ``second`` are estimates as they are stored,
    over ``num_paired`` of the group's problems; ``difference`` is second less first. Unjudged
    attempts are those of the whole group."""

    group: str
    k: int
    num_problems: int
    num_paired: int
    first: Mapping[str, float | int]
    second: Mapping[str, float | int]
    difference: Difference
    solved: McNemar
    unjudged: tuple[int, int]


def read_side(path: Path) -> Side:
    """One evaluation, from its ``NAME.json`` (the attempts lie beside it).

    Raises:
        UsageError: a file is missing or is not an evaluation's.
    """
    summary = path.with_suffix(".json")
    try:
        read: dict[str, Any] = json.loads(summary.read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(
            f"{summary} cannot be read; give RUN/evals/NAME.json of a finished evaluation"
        ) from error
    attempts: dict[str, list[Row]] = {}
    for row in sorted(read_attempts(path), key=lambda row: int(row["attempt"])):
        attempts.setdefault(str(row["problem_id"]), []).append(row)
    return Side(summary, read, attempts)


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
            f"were evaluated on one side only, such as {min(only)!r}"
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
    return GroupComparison(
        group=label,
        k=k,
        num_problems=len(names),
        num_paired=len(pairs),
        first=estimate([(len(a), sum(a)) for a in ones], k),
        second=estimate([(len(b), sum(b)) for b in twos], k),
        difference=bootstrap_difference(
            [pass_at_k(len(a), sum(a), k) for a in ones],
            [pass_at_k(len(b), sum(b), k) for b in twos],
        ),
        solved=mcnemar([any(a[:k]) for a in ones], [any(b[:k]) for b in twos]),
        unjudged=(_count_unjudged(first, names), _count_unjudged(second, names)),
    )


def _judged(attempts: Sequence[Row]) -> list[bool]:
    """Whether each judged attempt is a proof, in order."""
    statuses = [Status(row["status"]) for row in attempts]
    return [status is Status.PROVED for status in statuses if status.judged]


def _count_unjudged(side: Side, names: Sequence[str]) -> int:
    return sum(not Status(row["status"]).judged for name in names for row in side.attempts[name])
