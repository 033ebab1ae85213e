"""Reads what ``proverrl verify PATH...`` is given.

Flows in: paths of .dfy files, of folders, of JSON lines (``-`` is standard input). Flows out, in
input order: a ``Submission`` for each thing to judge, an ``Unusable`` for each that cannot be.
A line is ``{"id", "problem": {...}, "body", "prelude"?}``, audited against its problem, or
``{"id", "language", "code"}``, a bare program. One bad line never stops the others.
Not handled here: judging (``proverrl.verify.make``); Lean, which has no back end yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from proverrl.errors import ProblemError, UsageError
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verify.dafny_audit import KINDS

NO_LEAN = "there is no Lean back end in this version; only Dafny can be verified"
_SUFFIXES = (".dfy", ".lean")
_STATEMENT_KEYS = {"id", "problem", "body", "prelude"}
_CODE_KEYS = {"id", "language", "code"}


@dataclass(frozen=True, slots=True)
class Submission:
    """One candidate; ``id`` is the line's own, or the path of a file."""

    id: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something that cannot be judged. ``line`` counts from 1; 0 is the file as a whole.

    ``kind`` tells a line that is wrong from one whose back end is missing.
    """

    id: str
    kind: Literal["malformed", "no-backend"]
    file: str
    line: int
    reason: str

    @property
    def message(self) -> str:
        """``FILE:LINE: reason``, as a compiler says it."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


def read_inputs(paths: Sequence[str], stdin: Iterable[str]) -> Iterator[Submission | Unusable]:
    """Everything that the paths hold, in order; raises ``UsageError`` for a missing path."""
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise UsageError(f"no such file or folder: {path}")
    for path in paths:
        if path == "-":
            yield from read_lines(stdin, "-")
        elif Path(path).is_dir():
            found = sorted(p for p in Path(path).rglob("*") if p.suffix in _SUFFIXES)
            if not found:
                yield Unusable(path, "malformed", path, 0, "this folder holds no .dfy file")
            for place in found:
                yield _read_program(place)
        elif Path(path).suffix in _SUFFIXES:
            yield _read_program(Path(path))
        else:
            yield from _read_line_file(path)


def read_lines(lines: Iterable[str], file: str) -> Iterator[Submission | Unusable]:
    """JSON lines; blank lines are skipped but counted."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_line(line, file, number)


def verdict_to_json(entry_id: str, verdict: Verdict) -> dict[str, Any]:
    """The output object of one entry, with keys in a fixed order."""
    return {
        "id": entry_id,
        "status": verdict.status.value,
        "diagnostics": [asdict(diagnostic) for diagnostic in verdict.diagnostics],
        "axioms": list(verdict.axioms),
        "seconds": round(verdict.seconds, 3),
        "toolchain": verdict.toolchain,
        "checks": list(verdict.checks),
    }


def make_file_candidate(name: str, text: str) -> Candidate:
    """A bare Dafny program: all of it is the body, and there is no statement to hold it to."""
    return Candidate(Problem(name, "dafny", "file", "", HOLE), text)


def _read_program(path: Path) -> Submission | Unusable:
    name = str(path)
    if path.suffix == ".lean":
        return Unusable(name, "no-backend", name, 0, NO_LEAN)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return Unusable(name, "malformed", name, 0, f"cannot be read: {error}")
    return Submission(name, make_file_candidate(name, text))


def _read_line_file(path: str) -> Iterator[Submission | Unusable]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        yield Unusable(path, "malformed", path, 0, f"cannot be read: {error}")
        return
    yield from read_lines(text.split("\n"), path)


def _read_line(line: str, file: str, number: int) -> Submission | Unusable:
    entry_id = ""

    def refuse(reason: str, kind: Literal["malformed", "no-backend"] = "malformed") -> Unusable:
        return Unusable(entry_id, kind, file, number, reason)

    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        return refuse(f"not JSON: {error}")
    if not isinstance(raw, dict):
        return refuse("not a JSON object")
    entry_id = str(raw.get("id") or "")
    if not entry_id:
        return refuse("the id is missing")
    keys = _STATEMENT_KEYS if "problem" in raw else _CODE_KEYS
    required = keys - {"prelude"}
    if missing := sorted(required - raw.keys()):
        return refuse(f"missing: {', '.join(missing)}")
    if unknown := sorted(raw.keys() - keys):
        return refuse(f"unknown: {', '.join(unknown)}; known are: {', '.join(sorted(keys))}")
    texts = [key for key in ("body", "prelude", "code", "language") if key in raw]
    if wrong := [key for key in texts if not isinstance(raw[key], str)]:
        return refuse(f"not a text: {', '.join(wrong)}")
    language = raw["language"] if "code" in raw else _find_language(raw["problem"])
    if language == "lean":
        return refuse(NO_LEAN, "no-backend")
    if language != "dafny":
        return refuse(f"unknown language {language!r}; known is: dafny")
    if "code" in raw:
        return Submission(entry_id, make_file_candidate(entry_id, raw["code"]))
    try:
        problem = _read_problem(raw["problem"])
    except ProblemError as error:
        return refuse(str(error))
    return Submission(entry_id, Candidate(problem, raw["body"], raw.get("prelude", "")))


def _find_language(raw: object) -> object:
    return raw.get("language", "dafny") if isinstance(raw, dict) else "dafny"


def _read_problem(raw: object) -> Problem:
    """A problem by the names of its fields; a ``reference`` beside them is not read."""
    if not isinstance(raw, dict):
        raise ProblemError("problem is not a JSON object")
    given = {key: value for key, value in raw.items() if key != "reference"}
    known = [field.name for field in fields(Problem)]
    if unknown := sorted(given.keys() - set(known)):
        raise ProblemError(
            f"problem has unknown fields: {', '.join(unknown)}; known are: {', '.join(known)}"
        )
    given.setdefault("preamble", "")
    given.setdefault("language", "dafny")
    if missing := sorted({"id", "kind", "statement"} - given.keys()):
        raise ProblemError(f"problem lacks: {', '.join(missing)}")
    metadata = given.setdefault("metadata", {})
    wrong = [key for key, value in given.items() if key != "metadata" and type(value) is not str]
    if wrong or not isinstance(metadata, dict):
        raise ProblemError(f"problem has fields of a wrong type: {', '.join(wrong) or 'metadata'}")
    entries = metadata.get("expected_entries", [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ProblemError("problem.metadata.expected_entries must be a list of names")
    if given["kind"] not in KINDS:
        raise ProblemError(f"unknown kind {given['kind']!r}; known are: {', '.join(KINDS)}")
    return Problem(**given)
