"""Reads what ``proverrl verify PATH...`` is given.

Flows in: paths of .dfy and .lean files, of folders, of JSON lines (``-`` is standard input). Flows
out, in input order and one at a time: a ``Submission`` for each thing to judge, an ``Unusable``
for each that cannot be. A line is ``{"id", "problem": {...}, "body", "prelude"?}``, audited against
its problem, or ``{"id", "language", "code"}``, a bare file.
Covered: lines and files that are too long, not UTF-8, not JSON, nested too deeply, ambiguous (a
key twice) or of wrong types; one bad line never stops the others, and memory holds one line. An
id may occur twice: verdicts come in input order. Not handled here: judging, and whether a
language's back end is there (``proverrl.verify.make``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

from proverrl.errors import ProblemError, UsageError
from proverrl.types import HOLE, Candidate, Language, Problem, Split, Verdict
from proverrl.verify.dafny_audit import KINDS

MAX_LINE_BYTES = 16 * 2**20
_MAX_REASON = 300
_LANGUAGES: dict[str, Language] = {".dfy": "dafny", ".lean": "lean"}
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


def read_inputs(paths: Sequence[str], stdin: BinaryIO) -> Iterator[Submission | Unusable]:
    """Everything that the paths hold, in order; raises ``UsageError`` for a missing path."""
    check_paths(paths)
    for path in paths:
        if path == "-":
            yield from read_lines(stdin, "-")
        elif Path(path).is_dir():
            found = sorted(p for p in Path(path).rglob("*") if p.suffix in _LANGUAGES)
            if not found:
                yield Unusable(
                    path, "malformed", path, 0, "this folder holds no .dfy or .lean file"
                )
            for place in found:
                yield _read_program(place)
        elif Path(path).suffix in _LANGUAGES:
            yield _read_program(Path(path))
        else:
            yield from _read_line_file(path)


def check_paths(paths: Sequence[str]) -> None:
    """Raise ``UsageError`` for a path that is not there."""
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise UsageError(f"no such file or folder: {path}")


def count_inputs(paths: Sequence[str]) -> int | None:
    """How many entries the paths hold, for a progress bar; None when standard input is one."""
    total = 0
    for path in paths:
        if path == "-":
            return None
        if Path(path).is_dir():
            total += sum(p.suffix in _LANGUAGES for p in Path(path).rglob("*"))
        elif Path(path).suffix in _LANGUAGES:
            total += 1
        else:
            total += _count_lines(path)
    return total


def read_lines(stream: BinaryIO, file: str) -> Iterator[Submission | Unusable]:
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
    """The output object of one entry, with keys in a fixed order; ``cause`` when not judged.

    ``key`` is the hash of what was judged, problem and candidate.
    """
    entry = {
        "id": submission.id,
        "key": submission.candidate.key,
        "status": verdict.status.value,
        "diagnostics": [asdict(diagnostic) for diagnostic in verdict.diagnostics],
        "goals": list(verdict.goals),
        "obligations": [asdict(entry) for entry in verdict.obligations],
        "axioms": list(verdict.axioms),
        "seconds": round(verdict.seconds, 3),
        "header_seconds": round(verdict.header_seconds, 3),
        "queue_seconds": round(verdict.queue_seconds, 3),
        "toolchain": verdict.toolchain,
        "checks": list(verdict.checks),
    }
    return entry | {"cause": verdict.cause} if verdict.cause else entry


def make_file_candidate(name: str, text: str, language: Language = "dafny") -> Candidate:
    """A bare file: all of it is the body, and there is no statement to hold it to."""
    return Candidate(Problem(name, language, "file", "", HOLE), text)


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


def _read_program(path: Path) -> Submission | Unusable:
    name = str(path)
    try:
        if path.stat().st_size > MAX_LINE_BYTES:
            reason = f"the file is longer than {MAX_LINE_BYTES} bytes"
            return Unusable(name, "malformed", name, 0, reason)
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return Unusable(name, "malformed", name, 0, f"cannot be read: {error}")
    return Submission(name, make_file_candidate(name, text, _LANGUAGES[path.suffix]))


def _read_line_file(path: str) -> Iterator[Submission | Unusable]:
    try:
        with open(path, "rb") as file:
            yield from read_lines(file, path)
    except OSError as error:
        yield Unusable(path, "malformed", path, 0, f"cannot be read: {error}")


def _read_line(line: str, file: str, number: int) -> Submission | Unusable:
    entry_id = ""
    try:
        raw = _parse_object(line)
        entry_id = _read_id(raw)
        return Submission(entry_id, _read_candidate(entry_id, raw))
    except ProblemError as error:
        reason = str(error)
    except (ValueError, RecursionError) as error:
        reason = f"not JSON: {error}"
    return Unusable(entry_id, "malformed", file, number, reason[:_MAX_REASON])


def _parse_object(line: str) -> dict[str, Any]:
    raw = json.loads(line, object_pairs_hook=_build_object)
    if not isinstance(raw, dict):
        raise ProblemError("not a JSON object")
    return raw


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(f"the key {twice[:40]!r} occurs twice in one object")
    return built


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
        raise ProblemError(f"unknown: {_list_names(unknown)}; known are: {known}")
    for key in ("body", "prelude", "code", "language"):
        if key in raw:
            _check_text(key, raw[key])
    if "code" not in raw:
        return Candidate(_read_problem(raw["problem"]), raw["body"], raw.get("prelude", ""))
    return make_file_candidate(entry_id, raw["code"], _check_language(raw["language"]))


def _check_text(name: str, value: object) -> None:
    """Refuse what is not a text, or is one that no file could hold."""
    if not isinstance(value, str):
        raise ProblemError(f"not a text: {name}")
    if "\0" in value:
        raise ProblemError(f"{name} holds a NUL character")
    if value.isascii():
        return
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProblemError(
            f"{name} holds half of a surrogate pair at character {error.start}"
        ) from error


def _check_language(language: object) -> Language:
    if language not in _LANGUAGES.values():
        known = ", ".join(_LANGUAGES.values())
        raise ProblemError(f"unknown language {_clip(language)}; known are: {known}")
    return cast("Language", language)


def _list_kinds(language: Language) -> tuple[str, ...]:
    if language == "dafny":
        return tuple(KINDS)
    # Here, so that Dafny alone loads nothing of Lean's.
    from proverrl.verify.lean_audit import LEAN_KINDS

    return LEAN_KINDS


def _clip(value: object) -> str:
    return repr(value)[:60]


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(name[:40] for name in names)[:120]


def _read_problem(raw: object) -> Problem:
    """A problem by the names of its fields; a ``reference`` beside them is not read."""
    if not isinstance(raw, dict):
        raise ProblemError("problem is not a JSON object")
    given = {key: value for key, value in raw.items() if key != "reference"}
    known = [field.name for field in fields(Problem)]
    if unknown := sorted(given.keys() - set(known)):
        raise ProblemError(
            f"problem has unknown fields: {_list_names(unknown)}; known are: {', '.join(known)}"
        )
    given.setdefault("preamble", "")
    given.setdefault("language", "dafny")
    if missing := sorted({"id", "kind", "statement"} - given.keys()):
        raise ProblemError(f"problem lacks: {', '.join(missing)}")
    metadata = given.setdefault("metadata", {})
    wrong = [key for key, value in given.items() if key != "metadata" and type(value) is not str]
    if wrong or not isinstance(metadata, dict):
        raise ProblemError(f"problem has fields of a wrong type: {', '.join(wrong) or 'metadata'}")
    for key, value in given.items():
        if key != "metadata":
            _check_text(f"problem.{key}", value)
    _check_metadata(metadata)
    if given.get("split", "train") not in get_args(Split):
        known_splits = ", ".join(get_args(Split))
        raise ProblemError(f"unknown split {_clip(given['split'])}; known are: {known_splits}")
    kinds = _list_kinds(_check_language(given["language"]))
    if given["kind"] not in kinds:
        raise ProblemError(f"unknown kind {_clip(given['kind'])}; known are: {', '.join(kinds)}")
    return Problem(**given)


def _check_metadata(metadata: dict[str, Any]) -> None:
    entries = metadata.get("expected_entries", [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ProblemError("problem.metadata.expected_entries must be a list of names")
    for entry in entries:
        _check_text("problem.metadata.expected_entries", entry)
    level = metadata.get("level", 0)
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise ProblemError("problem.metadata.level must be a whole number, 0 for none")
