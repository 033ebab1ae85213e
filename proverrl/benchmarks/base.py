"""What all layouts share: a source, its rows and files, and what became of each problem in it.

Flows in: a path, or rows that were read elsewhere. Flows out: a ``Source`` to read from; a
``Collection`` of entries that loaded and of those that were refused, each with its reason.
Not handled here: which layout a source has (``proverrl.benchmarks.layouts``), whether a problem can
be held to its statement (``proverrl.benchmarks.admit``).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.config.benchmarks import BenchmarkLayout
from proverrl.errors import ProblemError
from proverrl.files.strict_json import load_json
from proverrl.types import Problem, Split

ROW_SUFFIXES = (".jsonl", ".json")
_HASHED_SUFFIXES = frozenset({".lean", ".dfy", ".json", ".jsonl", ".txt", ".csv"})
_SPLITS: Mapping[str, Split] = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "heldout",
    "heldout": "heldout",
    "": "heldout",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a source: ``where`` names file and line. ``error`` says why it has no ``data``."""

    where: str
    data: Mapping[str, Any]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of rows, a program, a folder, or rows that came from elsewhere (no ``path``)."""

    name: str
    path: Path | None
    rows: tuple[Row, ...] = ()
    is_rows: bool = False

    def list_files(self, suffix: str) -> list[Path]:
        """The files of a kind below the folder, sorted; the file itself when it is one."""
        if self.path is None or self.is_rows:
            return []
        if self.path.is_dir():
            return sorted(path for path in self.path.rglob(f"*{suffix}") if path.is_file())
        return [self.path] if self.path.suffix == suffix else []


@dataclass(frozen=True, slots=True)
class Entry:
    """A problem that loaded, its reference where there is one, and where it stood."""

    problem: Problem
    where: str
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that is no problem of ours, and why."""

    id: str
    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Collection:
    """Everything that a source held, in its order."""

    layout: BenchmarkLayout
    entries: tuple[Entry, ...]
    refused: tuple[Refused, ...]


class Collector:
    """Takes in the problems of a source one by one; ids are made unique by ``~2``, ``~3``, ..."""

    def __init__(self, layout: BenchmarkLayout, source: Source) -> None:
        self.layout = layout
        self.source = source
        self._entries: list[Entry] = []
        self._refused: list[Refused] = []
        self._names: Counter[str] = Counter()

    def free_id(self, name: str) -> str:
        """``name``, or a form of it that no problem of this source has yet."""
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}~{self._names[name]}"

    def add(self, problem: Problem, where: str, reference: str | None = None) -> None:
        self._entries.append(Entry(problem, where, reference))

    def refuse(self, problem_id: str, where: str, reason: str) -> None:
        self._refused.append(Refused(problem_id, where, reason))

    @contextmanager
    def reading(self, problem_id: str, where: str) -> Iterator[None]:
        """Whatever is wrong with the problem that is read inside becomes its refusal."""
        try:
            yield
        except ProblemError as error:
            prefix = f"problem {problem_id!r}: "
            self.refuse(problem_id, where, str(error).removeprefix(prefix))

    def iter_rows(self) -> Iterator[Row]:
        """The rows that can be read; the others are refused."""
        for row in self.source.rows:
            if row.error:
                self.refuse("", row.where, row.error)
            else:
                yield row

    def finish(self) -> Collection:
        return Collection(self.layout, tuple(self._entries), tuple(self._refused))


def open_source(path: Path, name: str = "") -> Source:
    """A path as a source; raises ``ProblemError`` when it is missing or cannot be read."""
    name = name or str(path)
    if path.is_dir() or path.suffix not in ROW_SUFFIXES:
        if not path.exists():
            raise ProblemError(f"cannot read {path}: No such file or directory; check the path")
        return Source(name, path)
    text = read_text(path)
    if path.suffix == ".json":
        return Source(name, path, tuple(_read_array(name, text)), is_rows=True)
    return Source(name, path, tuple(_read_lines(name, text)), is_rows=True)


def rows_source(name: str, rows: Sequence[Mapping[str, Any]]) -> Source:
    """Rows of a data set, counted from 1."""
    read = tuple(Row(f"{name}, row {i}", row) for i, row in enumerate(rows, start=1))
    return Source(name, None, read, is_rows=True)


def read_text(path: Path) -> str:
    """A file as text, without a byte order mark and with line breaks as ``\\n``.

    Raises:
        ProblemError: it cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ProblemError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8") from error


def hash_source(source: Source) -> str:
    """SHA-256, as hex: of a file its bytes, of a folder the names and bytes of the files in it that
    hold problems, of other rows their JSON with sorted keys."""
    if source.path is not None and source.path.is_file():
        return hashlib.sha256(source.path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    if source.path is not None:
        for path in sorted(source.path.rglob("*")):
            if path.is_file() and path.suffix in _HASHED_SUFFIXES:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(source.path).as_posix()}\0{content}\n".encode())
    else:
        for row in source.rows:
            digest.update(json.dumps(row.data, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def find_split(name: object) -> Split | None:
    """As ``read_split``; None for a word that is not known."""
    return _SPLITS.get(str(name or "").lower())


def read_split(name: object) -> Split:
    """The split that a benchmark's own word for it means; ``test`` is our ``heldout``.

    Raises:
        ProblemError: the word is not known.
    """
    split = find_split(name)
    if split is None:
        known = ", ".join(word for word in _SPLITS if word)
        raise ProblemError(f"field 'split' is {name!r}; use one of {known}")
    return split


def read_field(row: Mapping[str, Any], field: str, *, default: str | None = None) -> str:
    """A text field of a row.

    Raises:
        ProblemError: it is missing and has no default, or is no text.
    """
    value = row.get(field, default)
    if value is None:
        if default is not None:
            return default
        raise ProblemError(f"field {field!r} is missing; add it")
    if not isinstance(value, str):
        raise ProblemError(f"field {field!r} is a {type(value).__name__}; make it a string")
    return value.replace("\r\n", "\n")


def _read_lines(name: str, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            data = load_json(line, allow_nan=True)
        except json.JSONDecodeError as error:
            yield Row(where, {}, f"not JSON at column {error.colno} ({error.msg})")
            continue
        except ValueError as error:
            yield Row(where, {}, f"not JSON ({error})")
            continue
        yield _make_row(where, data)


def _read_array(name: str, text: str) -> Iterator[Row]:
    """A JSON array of objects; an object of objects counts as an array of its values."""
    try:
        data = load_json(text, allow_nan=True)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ProblemError(f"{name}, {place}: not JSON ({error.msg})") from error
    except ValueError as error:
        raise ProblemError(f"{name}: not JSON ({error})") from error
    if isinstance(data, dict):
        data = list(data.values()) if all(isinstance(v, dict) for v in data.values()) else [data]
    if not isinstance(data, list):
        raise ProblemError(f"{name} holds a {type(data).__name__}, not an array of objects")
    for number, item in enumerate(data, start=1):
        yield _make_row(f"{name}, row {number}", item)


def _make_row(where: str, data: object) -> Row:
    if isinstance(data, dict):
        return Row(where, data)
    return Row(where, {}, f"a {type(data).__name__}, not a JSON object")


def explain_no_dafny(source: Source, fits: Callable[[Sequence[Path]], bool], otherwise: str) -> str:
    """Why a source is not a folder of Dafny programs of some layout: it has none, or, in the words
    of ``otherwise``, none that ``fits``. Empty when it is one."""
    files = source.list_files(".dfy")
    if not files:
        return "it holds no .dfy file"
    return "" if fits(files) else otherwise
