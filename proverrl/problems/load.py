"""Reads and writes files of problems, one JSON object per line.

Flows in: a path, perhaps of a shipped file. Flows out: ``Problem`` records, and apart from them the
reference bodies that some lines carry under the key ``reference``: a problem never holds its own
answer.
Not handled here: whether a problem's reference proves it (``proverrl.problems.drafts``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from proverrl.errors import ProblemError, UsageError
from proverrl.files.disk import saving
from proverrl.files.lines import find_text_fault, iter_given_lines, reading_text, replacing
from proverrl.files.shipped import find_file
from proverrl.lang import find_language, list_names
from proverrl.lang.kinds import list_kinds
from proverrl.types import Problem, Split

_REFERENCE = "reference"
"""The field of a row that is no part of its problem."""
_TEXT_FIELDS = (*(f.name for f in fields(Problem) if f.name != "metadata"), _REFERENCE)
_REQUIRED = ("id", "language", "kind", "statement")


def load_problems(path: str | Path) -> list[Problem]:
    """All problems of a file, in its order.

    Raises ProblemError naming the file, the line and the field, and what to do about it, for a
    file that is missing or empty, a line that is not a problem, or an id that occurs twice.
    """
    return [problem for _, problem, _ in read_places(path)]


def load_references(path: str | Path) -> dict[str, str]:
    """Id to reference body, for the lines that carry one. Raises as ``load_problems``."""
    return {
        str(row["id"]): str(row["reference"])
        for _, row in _read_checked(path)
        if "reference" in row
    }


def read_problem(where: str, row: Mapping[str, Any]) -> Problem:
    """The problem of one row; ``where`` names its place. Raises as ``load_problems``."""
    _check_fields(where, row)
    return _build_problem(where, row)


def read_rows(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
) -> list[tuple[str, Problem, str | None]]:
    """Each problem of rows from elsewhere, after its place, with its reference. Raises as
    ``load_problems``."""
    found: list[tuple[str, Problem, str | None]] = []
    first: dict[str, int] = {}
    for number, (where, row) in enumerate(rows, start=1):
        problem = read_problem(where, row)
        _check_id(where, problem.id, first.setdefault(problem.id, number), number)
        found.append((where, problem, row.get("reference")))
    return found


def make_row(problem: Problem) -> dict[str, Any]:
    """A problem as a row for ``write_problems``; its reference is not part of it."""
    return {field.name: getattr(problem, field.name) for field in fields(Problem)} | {
        "metadata": dict(problem.metadata)
    }


def check_problems_name(path: Path) -> None:
    """Raises ``UsageError`` if a file of problems is to be written under a name that is not
    ``.jsonl``, which no command would read as problems."""
    if path.suffix != ".jsonl":
        raise UsageError(f"{path}: problems are written as .jsonl; give such a name")


def write_problems(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows in the given order and return their number; the file appears whole or not at all.

    The text depends on the rows only: keys keep their order, no spaces, UTF-8, a line break last.
    Raises RunError when it cannot be written.
    """
    target = Path(path)
    num_rows = 0
    with saving(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            num_rows += 1
    return num_rows


def benchmark_sha256(path: str | Path) -> str:
    """SHA-256 of the file's bytes, as hex: says which problems a figure was measured on."""
    path = find_file(path)
    with reading_text(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def read_places(
    path: str | Path, fault: Callable[[ProblemError], None] | None = None
) -> Iterator[tuple[str, Problem, str | None]]:
    """Each problem of a file after its place, with its reference. ``fault`` is told of each line
    that is none; without it, this raises as ``load_problems``."""
    for where, row in _read_checked(path, fault):
        try:
            problem = _build_problem(where, row)
        except ProblemError as error:
            if fault is None:
                raise
            fault(error)
        else:
            yield where, problem, row.get("reference")


def _read_checked(
    path: str | Path, fault: Callable[[ProblemError], None] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of each line, its fields checked. Blank lines are skipped, and wrong ones where
    ``fault`` is told of them."""
    path = find_file(path)
    first_lines: dict[str, int] = {}
    num_faults = 0
    for number, row, wrong in iter_given_lines(path, unique_keys=True):
        where = f"{path}, line {number}"
        try:
            _check_fields(where, row, wrong)
            _check_id(where, row["id"], first_lines.setdefault(row["id"], number), number)
        except ProblemError as error:
            if fault is None:
                raise
            fault(error)
            num_faults += 1
            continue
        yield where, row
    if not first_lines and not num_faults:
        raise ProblemError(f"{path} holds no problem; write one JSON object per line")


def _check_fields(where: str, row: Mapping[str, Any], wrong: str = "") -> None:
    """``wrong`` is the reason why the line holds no row."""
    if wrong:
        needed = ", ".join(_REQUIRED)
        raise ProblemError(f"{where}: {wrong}; write one JSON object per line, with {needed}")
    for field in _REQUIRED:
        if field not in row:
            raise ProblemError(f"{where}: field {field!r} is missing; add it")
    known = {*_TEXT_FIELDS, "metadata"}
    for field, value in row.items():
        if field not in known:
            raise ProblemError(
                f"{where}: field {field!r} is not known; put further values under 'metadata'"
            )
        if field in _TEXT_FIELDS and not isinstance(value, str):
            raise ProblemError(
                f"{where}: field {field!r} is a {type(value).__name__}; make it a string"
            )
        if field in _TEXT_FIELDS and (fault := find_text_fault(value)):
            raise ProblemError(f"{where}: field {field!r} {fault}; remove it")
    choices_of = {"language": list_names(), "split": get_args(Split)}
    for field, choices in choices_of.items():
        if field in row and row[field] not in choices:
            raise ProblemError(
                f"{where}: field {field!r} is {row[field]!r}; use one of {', '.join(choices)}"
            )
    kinds = (*find_language(row["language"]).kinds, *list_kinds(row["language"]))
    if row["kind"] not in kinds:
        raise ProblemError(
            f"{where}: field 'kind' is {row['kind']!r}; use one of {', '.join(sorted(kinds))}"
        )
    _check_metadata(where, row.get("metadata", {}))


def _check_id(where: str, name: str, first: int, number: int) -> None:
    if first != number:
        raise ProblemError(
            f"{where}: field 'id': {name!r} is already used on line {first}; "
            "give every problem its own id"
        )


def _check_metadata(where: str, metadata: Any) -> None:
    if not isinstance(metadata, dict):
        raise ProblemError(f"{where}: field 'metadata' must be a JSON object; write {{...}}")
    level = metadata.get("level", 0)
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise ProblemError(
            f"{where}: field 'metadata.level' is {level!r}; use a whole number, 0 for none"
        )
    entries = metadata.get("expected_entries", [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ProblemError(
            f"{where}: field 'metadata.expected_entries' must be a list of strings; fix or drop it"
        )
    if fault := next(filter(None, map(find_text_fault, entries)), ""):
        raise ProblemError(f"{where}: field 'metadata.expected_entries' {fault}; remove it")


def _build_problem(where: str, row: Mapping[str, Any]) -> Problem:
    try:
        given = {key: value for key, value in row.items() if key != _REFERENCE}
        return Problem(**{"preamble": "", **given})
    except ProblemError as error:
        raise ProblemError(f"{where}: {error}; fix the line") from error
