"""Reads the inputs of ``proverrl verify PATH...``.

Flows in: paths of .dfy and .lean files, of folders, of JSON lines (``-`` is standard input). Flows
out, in input order and one at a time: a ``Submission`` for each thing to judge, an ``Unusable``
for each that cannot be. A line is ``{"id", "problem": {...}, "body", "prelude"?}``, audited against
its problem, or ``{"id", "language", "code"}``, a bare file.
Covered: lines and files that are too long, not UTF-8, not JSON, nested too deeply, ambiguous (a
key twice) or of wrong types; one bad line never stops the others, and memory holds one line. An
id may occur twice: verdicts come in input order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from proverrl.errors import ProblemError
from proverrl.files.lines import find_text_fault
from proverrl.files.strict_json import load_json
from proverrl.lang import find_language, find_suffixes
from proverrl.lang.records import Project
from proverrl.problems.includes import (
    MAX_FILE_BYTES,
    Included,
    IncludeError,
    is_nothing,
    join_includes,
    list_apart,
    place_diagnostic,
)
from proverrl.problems.input_paths import check_paths, list_programs
from proverrl.problems.load import read_problem
from proverrl.text_cache import cache_texts
from proverrl.types import FILE, HOLE, Candidate, Problem, Verdict

MAX_LINE_BYTES = MAX_FILE_BYTES
_MAX_REASON = 300
UnusableKind = Literal["malformed", "bad-problem", "no-backend"]
_STATEMENT_KEYS = {"id", "problem", "body", "prelude"}
_CODE_KEYS = {"id", "language", "code"}


@dataclass(frozen=True, slots=True)
class Submission:
    """One candidate; ``id`` is the line's own, or the path of a file. ``file`` and ``line`` are its
    place, as for ``Unusable``; no file where it was not read from one. ``included`` are the files
    that stand behind it in the candidate, ``apart`` what may be judged instead (``includes``)."""

    id: str
    candidate: Candidate
    file: str = ""
    line: int = 0
    included: tuple[Included, ...] = ()
    apart: tuple[Candidate, ...] = ()

    @property
    def key(self) -> str:
        """The hash of problem and candidate."""
        return self.candidate.key

    def refuse(self, kind: UnusableKind, reason: str) -> Unusable:
        """The entry for this candidate when it cannot be judged."""
        return Unusable(self.id, kind, self.file, self.line, " ".join(reason.split()), self.key)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something that cannot be judged. ``line`` counts from 1; 0 is the file as a whole.

    ``kind`` tells a line that cannot be read from a problem that no proof can be held to, and both
    from a back end that is missing. ``key`` is empty where no candidate could be read.
    """

    id: str
    kind: UnusableKind
    file: str
    line: int
    reason: str
    key: str = ""

    @property
    def message(self) -> str:
        """``FILE:LINE: reason``, as a compiler says it."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """The output object of the entry, in the place of a verdict."""
        return {
            "id": self.id,
            "key": self.key,
            "status": "error",
            "cause": self.kind,
            "file": self.file,
            "line": self.line,
            "message": self.message,
        }


VerifyInput = Submission | Unusable


def read_inputs(
    paths: Sequence[str], stdin: BinaryIO, project: Project | None = None
) -> Iterator[VerifyInput]:
    """Everything that the paths hold, in order; raises as ``check_paths``. Files of the project
    see each other."""
    check_paths(paths)
    of_project = project.files if project else ()
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from _read_folder(path)
        elif project and Path(path) in of_project:
            yield _read_program(Path(path), str(project.path.parent), of_project)
        elif Path(path).suffix in find_suffixes():
            yield _read_program(Path(path), None)
        else:
            yield from _read_line_file(path, stdin)


def count_inputs(paths: Sequence[str]) -> int | None:
    """The number of entries that the paths hold, for a progress bar; None with standard input."""
    total = 0
    for path in paths:
        if path == "-":
            return None
        if Path(path).is_dir():
            total += len(list_programs(path))
        elif Path(path).suffix in find_suffixes():
            total += 1
        else:
            total += _count_lines(path)
    return total


def read_lines(stream: BinaryIO, file: str) -> Iterator[VerifyInput]:
    """JSON lines; blank lines are skipped but counted."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            reason = f"the line is longer than {MAX_LINE_BYTES} bytes"
            yield Unusable("", "malformed", file, number, reason)
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            reason = f"not UTF-8: {error.reason} at byte {error.start}"
            yield Unusable("", "malformed", file, number, reason)
            continue
        if line := line.strip():
            yield _read_line(line, file, number)


def verdict_to_json(submission: Submission, verdict: Verdict) -> dict[str, Any]:
    """The output object of one entry, with keys in a fixed order; ``cause`` where it has one.

    ``key`` is the hash of what was judged, problem and candidate.
    """
    entry = {
        "id": submission.id,
        "key": submission.key,
        "status": verdict.status.value,
        "diagnostics": [
            asdict(place_diagnostic(diagnostic, submission.included))
            for diagnostic in verdict.diagnostics
        ],
        "goals": list(verdict.goals),
        "obligations": [asdict(entry) for entry in verdict.obligations],
        "axioms": list(verdict.axioms),
        "seconds": round(verdict.seconds, 3),
        "header_seconds": round(verdict.header_seconds, 3),
        "queue_seconds": round(verdict.queue_seconds, 3),
        "toolchain": verdict.toolchain,
        "stage": verdict.stage.value,
        "rule": verdict.rule,
        "believed": dict(verdict.believed),
        "at_limit": verdict.at_limit,
        "checks": list(verdict.checks),
    }
    if is_empty_file(submission, verdict):
        entry["nothing_to_prove"] = True
    return entry | {"cause": verdict.cause} if verdict.cause else entry


def is_empty_file(submission: Submission, verdict: Verdict) -> bool:
    """True if a bare file was refused only because it holds nothing to be proved."""
    return submission.candidate.problem.kind == FILE and is_nothing(verdict)


def make_file_candidate(name: str, text: str, language: str = "dafny") -> Candidate:
    """A bare file: all of it is the body, and there is no statement to hold it to."""
    return Candidate(Problem(name, language, FILE, "", HOLE), text)


def refuse_stranger(entry: Submission) -> Unusable | None:
    """The refusal of somebody else's problem whose text holds what no bare file may; else None."""
    problem = entry.candidate.problem
    if problem.kind == FILE:
        return None
    try:
        found = _find_cheat(problem.language, problem.kind, problem.preamble, problem.statement)
    except ProblemError as error:
        # A kind of a plug-in may have to read a problem to show it.
        return entry.refuse("bad-problem", str(error))
    return entry.refuse("bad-problem", f"its own text: {found}") if found else None


@cache_texts
def _find_cheat(language: str, kind: str, preamble: str, statement: str) -> str:
    return find_language(language).find_cheat(Problem("p", language, kind, preamble, statement))


def _count_lines(path: str) -> int:
    num_lines, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while chunk := file.read(2**20):
                num_lines += chunk.count(b"\n")
                last = chunk
    except OSError:
        return 1
    return num_lines + (not last.endswith(b"\n"))


def _read_folder(folder: str) -> Iterator[VerifyInput]:
    found = list_programs(folder)
    if not found:
        found = [(Path(folder), f"this folder holds no {' or '.join(find_suffixes())} file")]
    for path, reason in found:
        name = str(path)
        yield (
            Unusable(name, "malformed", name, 0, reason) if reason else _read_program(path, folder)
        )


def _read_program(path: Path, folder: str | None, beside: Sequence[Path] = ()) -> VerifyInput:
    name, language = str(path), find_suffixes()[path.suffix]
    try:
        of = find_language(language)
        text, included = join_includes(path, of, folder, beside)
        apart = list_apart(path, of, folder, text, included, beside) if included else ()
    except IncludeError as error:
        return Unusable(name, "malformed", name, error.line, str(error))
    except ProblemError as error:
        return Unusable(name, "malformed", name, 0, str(error))
    candidate = make_file_candidate(name, text, language)
    each = tuple(replace(candidate, body=body, own_lines=number) for body, number in apart)
    return Submission(name, candidate, name, included=included, apart=each)


def _read_line_file(path: str, stdin: BinaryIO) -> Iterator[VerifyInput]:
    try:
        with nullcontext(stdin) if path == "-" else open(path, "rb") as file:
            yield from read_lines(file, path)
    except OSError as error:
        yield Unusable(path, "malformed", path, 0, f"cannot be read: {error.strerror}")


def read_entry(raw: object, file: str, number: int) -> VerifyInput:
    """A line's object, or one like it that came another way; ``file`` and ``number`` are its
    place."""
    if not isinstance(raw, dict):
        return Unusable("", "malformed", file, number, "not a JSON object")
    entry_id = ""
    try:
        entry_id = _read_id(raw)
        return Submission(entry_id, _read_candidate(entry_id, raw), file, number)
    except ProblemError as error:
        return Unusable(entry_id, "malformed", file, number, str(error)[:_MAX_REASON])


def _read_line(line: str, file: str, number: int) -> VerifyInput:
    try:
        raw = load_json(line, unique_keys=True)
    except json.JSONDecodeError as error:
        # Its own line number is always 1.
        ends = ", ".join(find_suffixes())
        reason = f"not JSON at column {error.colno} ({error.msg}); give {ends} or JSON lines"
        return Unusable("", "malformed", file, number, reason)
    except (ValueError, RecursionError) as error:
        return Unusable("", "malformed", file, number, f"not JSON: {error}"[:_MAX_REASON])
    return read_entry(raw, file, number)


def _read_id(raw: dict[str, Any]) -> str:
    given = raw.get("id")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if given is None or given == "":
        raise ProblemError("the id is missing")
    if not isinstance(given, str):
        raise ProblemError("not a text: id")
    _check_text("id", given)
    return given


def _read_candidate(entry_id: str, raw: dict[str, Any]) -> Candidate:
    keys = _STATEMENT_KEYS if "problem" in raw else _CODE_KEYS
    if missing := sorted(keys - {"prelude"} - raw.keys()):
        raise ProblemError(f"missing: {', '.join(missing)}")
    if unknown := sorted(raw.keys() - keys):
        known = ", ".join(sorted(keys))
        told = ", ".join(name[:40] for name in unknown)[:120]
        raise ProblemError(f"unknown: {told}; known are: {known}")
    for key in ("body", "prelude", "code", "language"):
        if key in raw:
            _check_text(key, raw[key])
    if "code" not in raw:
        given = raw["problem"]
        if not isinstance(given, dict):
            raise ProblemError("problem is not a JSON object")
        problem = read_problem("problem", {"language": "dafny"} | given)
        return Candidate(problem, raw["body"], raw.get("prelude", ""))
    return make_file_candidate(entry_id, raw["code"], find_language(raw["language"]).name)


def _check_text(name: str, value: object) -> None:
    """Refuse what is not a text, or is one that no file could hold."""
    if not isinstance(value, str):
        raise ProblemError(f"not a text: {name}")
    if fault := find_text_fault(value):
        raise ProblemError(f"{name} {fault}")
