"""Raw rows and files for all formats, and the problems that were read from them.

Flows in: a path, or rows that were read elsewhere. Flows out: a ``RawBenchmark`` to read from; a
``Collection`` of problems that loaded and of those that were refused, each with its reason.
Not handled here: which format a benchmark has (``proverrl.benchmarks.formats``).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from proverrl.errors import ProblemError
from proverrl.files.lines import iter_given_lines, read_text
from proverrl.files.strict_json import load_json
from proverrl.types import Problem, Split

BenchmarkFormat = Literal[
    "problems",
    "dafnybench_tasks",
    "dafnybench_rows",
    "dafnycomp",
    "goedel",
    "deepseek",
    "minif2f_v2",
    "proofnet_verified",
    "lean_rows",
    "minif2f_lean4",
    "putnambench",
    "combibench",
    "verina",
    "clever",
    "lean_files",
    "dafnybench",
    "humaneval_dafny",
    "minif2f_dafny",
    "clover",
    "mbpp_dfy",
    "vericoding",
    "dafny_code",
    "dafny_hints",
    "verina_code",
    "clever_code",
]

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
class RawRow:
    """A row; ``where`` names file and line. ``error`` says why it has no ``data``."""

    where: str
    data: Mapping[str, Any]
    error: str = ""


@dataclass(frozen=True, slots=True)
class RawBenchmark:
    """A file of rows, a program, a folder, or rows that came from elsewhere (no ``path``)."""

    name: str
    path: Path | None
    rows: tuple[RawRow, ...] = ()
    is_rows: bool = False

    def list_files(self, suffix: str) -> list[Path]:
        """The files of a kind below the folder, sorted; the file itself when it is one."""
        if self.path is None or self.is_rows:
            return []
        if self.path.is_dir():
            return sorted(path for path in self.path.rglob(f"*{suffix}") if path.is_file())
        return [self.path] if self.path.suffix == suffix else []


@dataclass(frozen=True, slots=True)
class LoadedProblem:
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

    format: BenchmarkFormat
    entries: tuple[LoadedProblem, ...]
    refused: tuple[Refused, ...]


@dataclass(slots=True)
class Collector:
    """Takes in the problems of a source one by one; ids are made unique by ``~2``, ``~3``, ...
    ``origin`` goes into its problems."""

    source: RawBenchmark
    format: BenchmarkFormat
    origin: str = ""
    _entries: list[LoadedProblem] = field(default_factory=list)
    _refused: list[Refused] = field(default_factory=list)
    _names: Counter[str] = field(default_factory=Counter)

    def free_id(self, name: str) -> str:
        """``name``, or a form of it that no problem of this source has yet."""
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}~{self._names[name]}"

    def add(self, problem: Problem, where: str, reference: str | None = None) -> None:
        self._entries.append(LoadedProblem(problem, where, reference))

    def refuse(self, problem_id: str, where: str, reason: str) -> None:
        self._refused.append(Refused(problem_id, where, reason))

    @contextmanager
    def reading(self, problem_id: str, where: str) -> Iterator[None]:
        """Turn a ``ProblemError`` of the problem that is read inside into its refusal."""
        try:
            yield
        except ProblemError as error:
            prefix = f"problem {problem_id!r}: "
            self.refuse(problem_id, where, str(error).removeprefix(prefix))

    def iter_rows(self) -> Iterator[RawRow]:
        """The rows that can be read; the others are refused."""
        for row in self.source.rows:
            if row.error:
                self.refuse("", row.where, row.error)
            else:
                yield row

    def finish(self) -> Collection:
        return Collection(self.format, tuple(self._entries), tuple(self._refused))


def open_source(path: Path, name: str = "") -> RawBenchmark:
    """A path as a source; raises ``ProblemError`` when it is missing or cannot be read."""
    name = name or str(path)
    if path.suffix == ".parquet" or is_saved(path):
        return _read_arrow(name, path)
    if path.is_dir() or path.suffix not in ROW_SUFFIXES:
        if not path.exists():
            raise ProblemError(f"cannot read {path}: No such file or directory; check the path")
        return RawBenchmark(name, path)
    if path.suffix == ".json":
        return RawBenchmark(name, path, tuple(_read_array(name, read_text(path))), is_rows=True)
    lines = iter_given_lines(path, allow_nan=True)
    rows = tuple(RawRow(f"{name}, line {number}", row, fault) for number, row, fault in lines)
    return RawBenchmark(name, path, rows, is_rows=True)


def is_saved(path: Path) -> bool:
    """True for a folder that ``datasets`` wrote with ``save_to_disk``."""
    return (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file()


def _read_arrow(name: str, path: Path) -> RawBenchmark:
    """Rows of a parquet file, or of a data set that was saved to disk."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet  # type: ignore[import-untyped]

            rows = pyarrow.parquet.read_table(path).to_pylist()
        else:
            import datasets

            found = datasets.load_from_disk(str(path))
            if isinstance(found, datasets.DatasetDict):
                there = ", ".join(str(path / split) for split in found)
                raise ProblemError(f"{path} holds several splits; name one of them: {there}")
            rows = found.to_list()
    except (OSError, ValueError) as error:
        first = str(error).strip().split("\n")[0]
        raise ProblemError(f"cannot read {path}: {first}") from error
    return rows_source(name, rows)


def drop_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its nulls: in a column, what only some rows have is null in the others."""
    return {
        key: drop_nulls(value) if isinstance(value, dict) else value
        for key, value in row.items()
        if value is not None
    }


def rows_source(name: str, rows: Sequence[Mapping[str, Any]]) -> RawBenchmark:
    """Rows of a data set, counted from 1."""
    read = tuple(RawRow(f"{name}, row {i}", row) for i, row in enumerate(rows, start=1))
    return RawBenchmark(name, None, read, is_rows=True)


def hash_source(source: RawBenchmark) -> str:
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


def explain_no_rows(
    source: RawBenchmark, needed: Iterable[Sequence[str]], lacks: Iterable[str] = ()
) -> str:
    """The reason why rows do not fit; empty when they do. Of the first row that can be read each
    group of ``needed`` must have a field, and no field may be one of ``lacks``."""
    if not source.is_rows:
        return "it is not a file of rows"
    row = next((row for row in source.rows if not row.error), None)
    if row is None:
        return f"{source.rows[0].where}: {source.rows[0].error}" if source.rows else "no rows"
    for names in needed:
        if not any(name in row.data for name in names):
            return f"{row.where}: field {' or '.join(map(repr, names))} is missing"
    present = next((name for name in lacks if name in row.data), None)
    return f"{row.where}: field {present!r} is not of this format" if present else ""


def find_split(name: object) -> Split | None:
    """The split of ``read_split``; None for a word that is not known."""
    return _SPLITS.get(str(name or "").lower())


def read_split(name: object) -> Split:
    """The split that a benchmark's own word for it means; ``test`` is our ``heldout``. Raises
    ``ProblemError`` if the word is not known."""
    split = find_split(name)
    if split is None:
        known = ", ".join(word for word in _SPLITS if word)
        raise ProblemError(f"field 'split' is {name!r}; use one of {known}")
    return split


def read_field(row: Mapping[str, Any], field: str, *, default: str | None = None) -> str:
    """A text field of a row, as ``read_text`` reads files. Raises ``ProblemError`` if it is missing
    and has no default, or is no text."""
    value = row.get(field, default)
    if value is None:
        if default is not None:
            return default
        raise ProblemError(f"field {field!r} is missing; add it")
    if not isinstance(value, str):
        raise ProblemError(f"field {field!r} is a {type(value).__name__}; make it a string")
    return value.removeprefix("\ufeff").replace("\r\n", "\n")


def _read_array(name: str, text: str) -> Iterator[RawRow]:
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


def _make_row(where: str, data: object) -> RawRow:
    if isinstance(data, dict):
        return RawRow(where, data)
    return RawRow(where, {}, f"a {type(data).__name__}, not a JSON object")
