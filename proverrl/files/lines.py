"""Files that appear whole, and JSON lines: append, read back, check against types, cut at a step.

A damaged file is a ``RunError`` with the place, the field and the remedy.
A figure that is not finite is written as null, since browsers refuse NaN.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proverrl.errors import ProblemError, RunError
from proverrl.files.disk import check_replaceable, saving, write_error
from proverrl.files.strict_json import load_json, read_object

ROW = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
"""The rules for rows and the rows inside them: nothing is converted, fields that are not named
pass through, NaN does not."""


def read_row(path: Path, adapter: TypeAdapter[Any], remedy: str) -> dict[str, Any]:
    """The JSON object in a file, its fields checked. Raises RunError naming the file."""
    try:
        row = read_object(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as JSON: {error}; {remedy}") from error
    check_fields(adapter, row, str(path), remedy)
    return row


def iter_typed_lines(
    path: Path,
    adapter: TypeAdapter[Any],
    remedy: str,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The rows of a JSON lines file, their fields checked, each with the number of its line and its
    place in bytes. ``tell`` is given a sentence about a last line that is being written or was cut,
    which is left out. Raises RunError naming file and line."""
    # Of a million rows each call more costs half a second.
    validate = adapter.validator.validate_python
    for line, place, row in iter_numbered_lines(path, tell):
        try:
            validate(row)
        except ValidationError as error:
            raise _describe(error, f"{path}, line {line}", remedy) from error
        yield line, place, row


def check_fields(adapter: TypeAdapter[Any], value: object, where: str, remedy: str) -> None:
    """Raise RunError at the first field that is not what it should be."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        raise _describe(error, where, remedy) from error


def _describe(error: ValidationError, where: str, remedy: str) -> RunError:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part)[:60] for part in first["loc"])
    told = ": ".join(part for part in (where, field, first["msg"]) if part)
    return RunError(f"{told}; {remedy}")


METRICS_FILE = "metrics.jsonl"
RESOLVED_FILE = "resolved.json"
ROLLOUTS_FOLDER = "rollouts"
EVALS_FOLDER = "evals"


def make_file_name(text: str) -> str:
    """The text as the name of a file or folder on any system: a ``/`` or a ``:`` becomes ``_``."""
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "_"


@contextmanager
def reading_text(path: Path) -> Iterator[None]:
    """Inside, whatever keeps ``path`` from being read as text is a ``ProblemError``."""
    try:
        yield
    except OSError as error:
        raise ProblemError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8") from error


def read_text(path: Path) -> str:
    """A file as text, without a byte order mark and with line breaks as ``\\n``. Raises
    ``ProblemError`` if it cannot be read."""
    with reading_text(path):
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


def iter_given_lines(
    path: Path, *, unique_keys: bool = False, allow_nan: bool = False
) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The lines of somebody else's JSON lines that are not blank: number, object, and the reason
    why one holds none. See ``load_json``; raises ``ProblemError`` if the file cannot be read."""
    with reading_text(path), path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            row, fault = {}, ""
            try:
                text = line.rstrip("\n")
                row = load_json(text, unique_keys=unique_keys, allow_nan=allow_nan)
            except json.JSONDecodeError as error:
                fault = f"not JSON at column {error.colno} ({error.msg})"
            except ValueError as error:
                fault = f"not JSON ({error})"
            if not isinstance(row, dict):
                row, fault = {}, f"a {type(row).__name__}, not a JSON object"
            yield number, row, fault


def find_text_fault(text: str) -> str:
    """The reason why no file could hold a text; empty when one can."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"holds half of a surrogate pair at character {error.start}"
    return ""


def encode_line(row: Mapping[str, Any]) -> str:
    """One JSON object as a line with its newline; NaN and infinities become null."""
    text = json.dumps(make_strict(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A policy may write half a surrogate pair, which UTF-8 cannot hold.
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def make_strict(value: Any) -> Any:
    """The value as JSON can hold it; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): make_strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_strict(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)  # also takes numpy and torch scalars
    return number if math.isfinite(number) else None


def append_line(stream: TextIO, row: Mapping[str, Any], path: Path) -> None:
    """Write one line and flush it, so that it outlives a kill. Raises RunError."""
    try:
        stream.write(encode_line(row))
        stream.flush()
    except OSError as error:
        raise write_error(path, error) from error


def write_atomically(path: Path, text: str, *, errors: str = "strict") -> None:
    """The file appears whole or not at all; ``errors`` says what becomes of half a surrogate pair.
    Raises ``RunError`` if it cannot be written."""
    with replacing(path, errors) as stream:
        stream.write(text)


def write_whole(path: Path, text: str) -> Path:
    """As ``write_atomically``, with the folders that it needs; half a surrogate pair, which a
    policy may write and UTF-8 cannot hold, becomes a question mark."""
    with saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text, errors="replace")
    return path


def write_lines_atomically(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """As ``write_atomically``, a line per row."""
    with saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.writelines(encode_line(row) for row in rows)


def check_place(path: Path) -> None:
    """Raise ``RunError`` where a file cannot be written, before the work that it is to hold."""
    check_replaceable(path)
    with saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def replacing(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """A file beside ``path`` that takes its place at the end; a reader never sees half of it."""
    check_replaceable(path)
    partial = path.with_name(path.name + ".partial")
    with saving(path):
        try:
            with partial.open("w", encoding="utf-8", errors=errors, newline="\n") as stream:
                yield stream
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """All objects of a JSON lines file, in order; as ``iter_numbered_lines``."""
    return [row for *_, row in iter_numbered_lines(path, lambda text: None)]


def iter_numbered_lines(
    path: Path, tell: Callable[[str], None]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The objects of a JSON lines file one at a time, each with its line's number and byte offset.

    A last line that a kill left half-written is dropped: it has no newline or is not JSON; ``tell``
    is given a sentence about it. A bad line anywhere else raises RunError with its number.
    """
    try:
        with path.open("rb") as stream:
            yield from _iter_lines(stream, path, tell)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error


def _iter_lines(
    stream: BinaryIO, path: Path, tell: Callable[[str], None]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    place = 0
    for number, line in enumerate(stream, start=1):
        if not line.endswith(b"\n"):
            tell(f"{path}, line {number}: the last line was cut off")
            return
        if not line.isspace():
            try:
                row = load_json(line)
            except ValueError as error:
                if not next(stream, b"").endswith(b"\n"):
                    tell(f"{path}, line {number}: the last line was cut off or is damaged: {error}")
                    return
                raise _line_error(path, number, error) from error
            if not isinstance(row, dict):
                raise _line_error(path, number, type(row).__name__)
            yield number, place, row
        place += len(line)


def _line_error(path: Path, number: int, found: object) -> RunError:
    return RunError(
        f"{path}, line {number}: not a JSON object: {found}; restore the file, or delete the line"
    )


def only_evaluates(run_dir: Path) -> bool:
    """True when a run folder holds evaluations and no training, which writes metrics before it
    evaluates."""
    return (run_dir / EVALS_FOLDER).is_dir() and not (run_dir / METRICS_FILE).exists()


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> int:
    """Rewrite ``path`` atomically with the rows that ``keep`` accepts; returns how many went."""
    rows = read_json_lines(path)
    kept = [row for row in rows if keep(row)]
    write_lines_atomically(path, kept)
    return len(rows) - len(kept)
