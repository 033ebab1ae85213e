"""Figures and a section of the report that an installed package brings.

Flows in: entry points of the group ``proverrl.report``. Flows out: ``ReportSection``s, which add
fields to attempts and to results, lines for people, and tables to the page. They add: no field of
ours can be changed, and no status. One that cannot be used is left out with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.plugins import find_installed, find_package, list_installed, load, make
from proverrl.types import Candidate, Problem, Verdict

GROUP = "report"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """A table behind a click: its name, a line beside it, a mark at its end, a paragraph, and rows
    of cells."""

    name: str
    note: str
    mark: str
    text: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class SectionPart:
    """The part of a section about one file: a title, a remark, and cards with tables."""

    title: str
    remark: str
    heads: Sequence[str]
    cards: Sequence[Card]


class ReportSection:
    """The base of a section; a package overrides what it needs. ``title`` and ``lead`` head the
    section of the page."""

    title: str = ""
    lead: str = ""

    def note(
        self, problem: Problem, candidate: Candidate | None, verdict: Verdict | None
    ) -> Mapping[str, Any]:
        """Fields for the row of an attempt; ``verdict`` is None for what a search found."""
        return {}

    def summarise(
        self,
        problems: Sequence[Problem],
        rows: Sequence[Row],
        group: Callable[[Sequence[Problem]], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """Fields for a result, of the attempts that it counts; ``group`` gives the figures of some
        problems. What stands under ``levels`` follows the rows of the levels."""
        return {}

    def tell(self, title: str, summary: Row) -> str:
        """A line about a result; empty where there is nothing to say."""
        return ""

    def show(self, label: str, run: Path) -> Sequence[SectionPart]:
        """The parts that the page shows of a run. Raises ``RunError`` for a damaged file."""
        return ()


@cache
def list_sections() -> tuple[ReportSection, ...]:
    """The sections of installed packages, in the order of their names."""
    found = []
    for name in sorted(list_installed(GROUP)):
        try:
            found.append(_load_section(name))
        except UsageError as error:
            warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=2)
    return tuple(found)


def _load_section(name: str) -> ReportSection:
    key = f"report {name!r} of the installed package {find_package(GROUP, name)}"
    return make(key, load(key, find_installed(GROUP, name)), ReportSection)


def note_all(
    problem: Problem, candidate: Candidate | None, verdict: Verdict | None
) -> dict[str, Any]:
    """The fields of all sections for the row of an attempt."""
    fields: dict[str, Any] = {}
    for section in list_sections():
        fields |= section.note(problem, candidate, verdict)
    return fields


def tell_all(title: str, summary: Row) -> list[str]:
    """The lines of all sections about a result."""
    return [line for section in list_sections() if (line := section.tell(title, summary))]
