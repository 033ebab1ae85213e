"""Reads benchmark problems from Dafny files that people can read and Dafny can verify whole.

Flows in: the text of a ``.dfy`` file, one module a problem. Flows out: ``SourceProblem`` records
and the rows of a file of problems. A problem looks like this, without the outer margin::

    //@ count-up, level 1, invariants
    //@ What the program does, in a sentence or two.
    module CountUp {
      method CountUp(n: nat) returns (i: nat)
        ...
        while i < n
          //<
          invariant i <= n
          //>
        ...
    }

The lines between ``//<`` and ``//>`` are the reference and leave a hole. An ``annotate`` problem
may have several such places: its statement is the program without them. The module is only there
to keep names apart in the file; a problem is its content, moved to the margin.
Not handled here: whether Dafny agrees (``scripts/build_dafny_benchmark.py``).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from proverrl.errors import ProblemError
from proverrl.types import ANNOTATE, HOLE

ORIGIN = "proverrl-dafny"
CATEGORIES = (
    "invariants",
    "lemmas",
    "assertions",
    "sequences",
    "arrays",
    "sorting",
    "recursion",
    "calc",
)
HOLE_KINDS = ("invariants", "statements", "calc", "assertions", ANNOTATE)
LEVELS = range(1, 6)

_HEAD = re.compile(r"//@ ([a-z][a-z0-9-]*), level (\d+), (\w+)$")
_MODULE = re.compile(r"module (\w+) \{$")
_OPEN, _CLOSE = "//<", "//>"


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A problem as it stands in a source file; ``category`` is the file's name without ending."""

    category: str
    name: str
    level: int
    kind: str
    informal: str
    statement: str
    reference: str

    @property
    def id(self) -> str:
        return f"{ORIGIN}-{self.category}-{self.name}"


def parse_source(text: str, category: str) -> list[SourceProblem]:
    """The problems of one file, in its order.

    Raises ProblemError with the line and the remedy for text that is not in the form above.
    """
    problems: list[SourceProblem] = []
    head: re.Match[str] | None = None
    informal: list[str] = []
    content: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{category}.dfy, line {number}"
        if content is not None:
            if line != "}":
                content.append(line)
                continue
            assert head is not None
            problems.append(_build(where, category, head, informal, content))
            head, informal, content = None, [], None
        elif line.startswith("//@ "):
            if head is None:
                head = _HEAD.match(line)
                if head is None:
                    raise ProblemError(f"{where}: write '//@ name, level N, kind'")
            else:
                informal.append(line.removeprefix("//@ ").strip())
        elif module := _MODULE.match(line):
            _check_head(where, head, informal, module.group(1))
            content = []
        elif line and not line.startswith("//"):
            raise ProblemError(f"{where}: text outside of a module; indent it into one")
    if head is not None:
        raise ProblemError(f"{category}.dfy: problem {head.group(1)!r} never ends; add '}}'")
    names = [problem.name for problem in problems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ProblemError(f"{category}.dfy: two problems are called {twice[0]!r}; rename one")
    return problems


def build_rows(
    problems: Iterable[SourceProblem], entries: Mapping[str, Iterable[str]]
) -> list[dict[str, Any]]:
    """Rows for ``write_problems``; ``entries`` has for each id the names that Dafny verifies."""
    rows = []
    for problem in problems:
        if problem.id not in entries:
            raise ProblemError(
                f"problem {problem.id!r} has no recorded entries; "
                "run scripts/build_dafny_benchmark.py --verify"
            )
        rows.append(
            {
                "id": problem.id,
                "language": "dafny",
                "kind": problem.kind,
                "preamble": "",
                "statement": problem.statement,
                "split": "heldout",
                "origin": ORIGIN,
                "informal": problem.informal,
                "metadata": {
                    "level": problem.level,
                    "family": problem.category,
                    "category": problem.category,
                    "expected_entries": sorted(entries[problem.id]),
                },
                "reference": problem.reference,
            }
        )
    return rows


def _check_head(where: str, head: re.Match[str] | None, informal: list[str], module: str) -> None:
    if head is None or not informal:
        raise ProblemError(f"{where}: write two '//@' lines before the module")
    expected = "".join(part.capitalize() for part in head.group(1).split("-"))
    if module != expected:
        raise ProblemError(f"{where}: the module is called {module!r}; call it {expected!r}")
    if int(head.group(2)) not in LEVELS:
        raise ProblemError(f"{where}: level {head.group(2)} is not one of 1 to 5")
    if head.group(3) not in HOLE_KINDS:
        raise ProblemError(f"{where}: kind {head.group(3)!r} is not one of {', '.join(HOLE_KINDS)}")


def _build(
    where: str, category: str, head: re.Match[str], informal: list[str], content: list[str]
) -> SourceProblem:
    kind = head.group(3)
    kept: list[str] = []
    whole: list[str] = []
    holes: list[list[str]] = []
    inside = False
    for line in textwrap.dedent("\n".join(content)).split("\n"):
        mark = line.strip()
        if mark in (_OPEN, _CLOSE):
            if inside == (mark == _OPEN):
                raise ProblemError(f"{where}: the module above has a {mark} without its partner")
            inside = mark == _OPEN
            if inside:
                holes.append([])
                if kind != ANNOTATE:
                    kept.append(line.replace(_OPEN, HOLE))
        else:
            whole.append(line)
            (holes[-1] if inside else kept).append(line)
    if inside or not holes or (kind != ANNOTATE and len(holes) > 1):
        raise ProblemError(f"{where}: the module above needs exactly one //< ... //>")
    if not all(holes):
        raise ProblemError(f"{where}: the module above has an empty reference")
    statement = "\n".join(kept) + "\n"
    if kind == ANNOTATE:
        statement, reference = f"{statement}{HOLE}\n", "\n".join(whole) + "\n"
    else:
        reference = textwrap.dedent("\n".join(holes[0]))
    return SourceProblem(
        category, head.group(1), int(head.group(2)), kind, " ".join(informal), statement, reference
    )
