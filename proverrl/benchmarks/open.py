"""Opens the benchmark that a user names: a name, ``NAME:SPLIT``, a path, ``hf:ID[:split]``,
``leandojo:...``, or somebody's own ``package.module:function[:split]``.

Flows in: a text. Flows out: a ``Benchmark``, whose problems passed the audit of their language,
with the refused ones beside them. A name is looked for in ``$PROVERRL_DATA``, in ``data/`` and in
the working folder. Only ``hf:`` and ``leandojo:`` use the network. A file of our own problems is
held to its form instead, so that nothing of it is refused.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from proverrl.benchmarks.base import (
    BenchmarkFormat,
    Collection,
    LoadedProblem,
    RawBenchmark,
    Refused,
    find_split,
    hash_source,
    open_source,
    read_split,
    rows_source,
)
from proverrl.benchmarks.formats import read_source
from proverrl.benchmarks.known import KNOWN, KnownBenchmark, find_own_licence
from proverrl.benchmarks.leandojo import LEANDOJO_PREFIX, read_traced
from proverrl.errors import ProblemError
from proverrl.files.shipped import LOOKED, find_file, name_file, shipped_root
from proverrl.lang import find_language
from proverrl.plugins import bind, find_installed, is_place, list_installed
from proverrl.problems.load import make_row
from proverrl.types import Problem

DATA_VARIABLE = "PROVERRL_DATA"
HUB_PREFIX = "hf:"
_SUFFIXES = (".jsonl", ".json", ".parquet", ".dfy", ".lean")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that was read. ``place`` is the path or id that it came from, ``sha256`` that of
    what was read there (``proverrl.benchmarks.base.hash_source``), ``published`` the licence that
    its publisher states, empty where none is known."""

    name: str
    place: str
    format: str
    published: str
    sha256: str
    entries: tuple[LoadedProblem, ...]
    refused: tuple[Refused, ...]
    selection: str = ""
    """what ``select`` was asked for"""

    @cached_property
    def problems(self) -> list[Problem]:
        """The problems that loaded, in the order of the source."""
        return [entry.problem for entry in self.entries]

    @cached_property
    def references(self) -> dict[str, str]:
        """Id to reference body, of those that have one."""
        return {e.problem.id: e.reference for e in self.entries if e.reference is not None}

    def find_licence(self, problem: Problem) -> str:
        """The licence that the problem itself states, else that of its benchmark."""
        stated = problem.metadata.get("licence") or problem.metadata.get("license")
        return str(stated) if stated else self.published or find_own_licence(problem)

    @property
    def licence(self) -> str:
        """All licences of its problems, in the order in which they occur."""
        return "; ".join(dict.fromkeys(map(self.find_licence, self.problems)))

    @property
    def summary(self) -> str:
        """One line for a terminal."""
        return f"{len(self.entries)} problems, {len(self.refused)} refused ({self.format})"

    def select(
        self, levels: Sequence[int] = (), families: Sequence[str] = (), per_level: int = 0
    ) -> Benchmark:
        """The problems of some levels and families (names or patterns with ``*``); of each level
        only ``per_level``, as evenly spread over its problems as can be. What is empty or 0 leaves
        nothing out. Raises ``ProblemError`` if a level or a pattern has no problem, or a level too
        few."""
        has_levels = {problem.level for problem in self.problems}
        has_families = {problem.family for problem in self.problems}
        missing = [f"level {level}" for level in levels if level not in has_levels]
        missing += [f"family {name}" for name in families if not fnmatch.filter(has_families, name)]
        if missing:
            raise ProblemError(f"{self.place} has no problem of {', '.join(missing)}")
        patterns = families or ("*",)
        wanted = {name for each in patterns for name in fnmatch.filter(has_families, each)}
        by_level: defaultdict[int, list[str]] = defaultdict(list)
        for problem in self.problems:
            if problem.family in wanted and (not levels or problem.level in levels):
                by_level[problem.level].append(problem.id)
        kept: set[str] = set()
        for level, ids in by_level.items():
            count = per_level or len(ids)
            if count > len(ids):
                raise ProblemError(
                    f"{self.place} has {len(ids)} such problems of level {level}, not {count}"
                )
            kept.update(ids[number * len(ids) // count] for number in range(count))
        asked = {
            "levels": ",".join(map(str, levels)),
            "families": ",".join(families),
            "per level": per_level,
        }
        said = "; ".join(f"{key} {value}" for key, value in asked.items() if value)
        entries = tuple(entry for entry in self.entries if entry.problem.id in kept)
        return _refuse_empty(replace(self, entries=entries, selection=said))


def open_benchmark(text: str, *, format_name: BenchmarkFormat | None = None) -> Benchmark:
    """Read what ``text`` names; ``format_name`` None finds it out. Raises ``ProblemError`` if
    there is no such thing, or none of it is a problem."""
    if text.startswith(LEANDOJO_PREFIX):
        traced = admit(read_traced(text.removeprefix(LEANDOJO_PREFIX)))
        found = Benchmark(text, text, "leandojo", "", "", traced.entries, traced.refused)
        return _refuse_empty(found)
    if text.startswith(HUB_PREFIX):
        hub_id = text.removeprefix(HUB_PREFIX).partition(":")[0]
        known = next((k for k in KNOWN.values() if k.hub_id == hub_id), None)
        return _read(text, read_hub(text), known, format_name)
    if own := find_own(text):
        place, split = own
        source = read_own(place)
        return _keep_split(_read(text, source, None, format_name), source, split)
    name, split = divide_name(text)
    path, known = locate(name)
    source = open_source(path, name_file(path))
    return _keep_split(_read(text, source, known, format_name), source, split)


def _keep_split(whole: Benchmark, source: RawBenchmark, word: str) -> Benchmark:
    """The part that belongs to a split, ids as in the whole; of what was refused also what belongs
    to none that is known. A row names its split, a file's is the name of its folder. All of it
    where ``word`` is empty."""
    if not word:
        return whole
    split = read_split(word)
    named = {row.where: row.data.get("split") for row in source.rows}

    def may_belong(refused: Refused) -> bool:
        where = named.get(refused.where, Path(refused.where).parent.name)
        return find_split(where) in (split, None)

    return _refuse_empty(
        replace(
            whole,
            place=f"{whole.place}:{word}",
            sha256=hashlib.sha256(f"{whole.sha256}:{word}".encode()).hexdigest(),
            entries=tuple(entry for entry in whole.entries if entry.problem.split == split),
            refused=tuple(filter(may_belong, whole.refused)),
        )
    )


def admit(collection: Collection) -> Collection:
    """The same problems, less those that no proof could be held to: the audit of the language must
    pass each problem's text and admit its reference. Nothing is run."""
    kept = []
    refused = list(collection.refused)
    for entry in collection.entries:
        language = find_language(entry.problem.language)
        if reason := language.find_objection(entry.problem, entry.reference):
            refused.append(Refused(entry.problem.id, entry.where, reason))
        else:
            kept.append(entry)
    return replace(collection, entries=tuple(kept), refused=tuple(refused))


def read_hub(text: str) -> RawBenchmark:
    """All rows of a split of a data set on the Hugging Face hub, or in a local folder; without one,
    the only split there is, else ``test``. What the library has in its cache is not fetched again.
    Raises ``ProblemError`` if it cannot be had, or it has no such split."""
    name, _, split = text.removeprefix(HUB_PREFIX).partition(":")
    if not name:
        raise ProblemError(f"{text!r}: write hf:OWNER/NAME or hf:OWNER/NAME:SPLIT")
    import datasets

    try:
        found = datasets.load_dataset(name)
    except (OSError, ValueError) as error:
        first = str(error).strip().split("\n")[0]
        raise ProblemError(
            f"{text}: the data set cannot be had: {first}; check the id and the network, or "
            "download it elsewhere and give the path of its .jsonl file"
        ) from error
    splits = list(found)
    chosen = split or (splits[0] if len(splits) == 1 else "test")
    if chosen not in splits:
        raise ProblemError(f"{text}: no split {chosen!r}; it has {', '.join(splits)}")
    return rows_source(f"{HUB_PREFIX}{name}:{chosen}", [dict(row) for row in found[chosen]])


def find_own(text: str) -> tuple[str, str] | None:
    """The ``package.module:function`` that a benchmark of somebody's own is, by itself or by the
    name that an installed package gives it, and the split after it; else None."""
    name, _, rest = text.partition(":")
    if name in KNOWN or find_file(text).exists():
        return None
    if place := find_installed("benchmark", name):
        return place, rest
    function, _, split = rest.partition(":")
    place = f"{name}:{function}"
    # NAME:test is a split of a benchmark, of a name that may be misspelt.
    return (place, split) if is_place(place) and find_split(function) is None else None


def read_own(place: str) -> RawBenchmark:
    """The rows of somebody's own benchmark; a ``Problem`` is the row that it would be in a file.
    Raises ``UsageError`` if the function cannot be called, and ``ProblemError`` if it gives no list
    of problems or rows."""
    given: object = bind("benchmark", place, {})()
    if not isinstance(given, list | tuple):
        raise ProblemError(
            f"{place} gave a {type(given).__name__}; return a list of Problems, or of rows as they "
            "would stand in a file"
        )
    rows: list[dict[str, Any]] = []
    for number, item in enumerate(given, start=1):
        if not isinstance(item, Problem | Mapping):
            raise ProblemError(
                f"{place}, row {number}: a {type(item).__name__}; make it a Problem or a mapping"
            )
        rows.append(make_row(item) if isinstance(item, Problem) else dict(item))
    return rows_source(place, rows)


def is_source(text: str) -> bool:
    """True for a path or a name that ``open_benchmark`` takes, be it there or not."""
    if text.startswith((HUB_PREFIX, LEANDOJO_PREFIX)) or Path(text).exists() or find_own(text):
        return True
    return text.partition(":")[0] in KNOWN or Path(text).suffix in _SUFFIXES


def divide_name(text: str) -> tuple[str, str]:
    """The name and the split of ``NAME:SPLIT``; all of the text and no split where it is not that.
    Raises ``ProblemError`` if the benchmark has no such split."""
    name, colon, split = text.partition(":")
    known = KNOWN.get(name)
    if not colon or known is None or Path(text).exists():
        return text, ""
    if split not in known.splits:
        there = ", ".join(known.splits) or "none, give its name alone"
        raise ProblemError(f"benchmark {name!r} has no split {split!r}: it has {there}")
    return name, split


def locate(text: str) -> tuple[Path, KnownBenchmark | None]:
    """The path that ``text`` is or names, and what is known about it. Raises ``ProblemError`` if it
    is neither there nor known, or known and not there."""
    if not text:
        raise ProblemError("the name of a benchmark is empty; write . for the current folder")
    path = find_file(text)
    if path.exists():
        return path, _recognise(path)
    known = KNOWN.get(text)
    if known is None:
        if path.suffix or len(path.parts) > 1:
            raise ProblemError(
                f"cannot read {text}: No such file or directory; check the path ({LOOKED})"
            )
        names = [*KNOWN, *list_installed("benchmark")]
        near = difflib.get_close_matches(text.partition(":")[0], names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ProblemError(
            f"{text!r} is no file, no folder and no benchmark that is known here{hint} "
            "(proverrl problems list names them)"
        )
    place = find_known(known)
    if place is None:
        raise ProblemError(_explain_missing(text, known))
    return place, known


def find_known(known: KnownBenchmark) -> Path | None:
    """The path of a known benchmark on this machine; None where it is not."""
    places = (folder / place for folder in list_data_folders() for place in known.places)
    return next((place for place in places if place.exists()), None)


def list_data_folders() -> list[Path]:
    """The folders in which benchmarks are looked for."""
    named = os.environ.get(DATA_VARIABLE, "")
    return [*([Path(named)] if named else []), Path("data"), Path(), shipped_root()]


def _read(
    text: str,
    source: RawBenchmark,
    known: KnownBenchmark | None,
    format_name: BenchmarkFormat | None,
) -> Benchmark:
    own_name = source.name if source.path is None else source.path.stem
    origin = next((name for name, value in KNOWN.items() if value is known), own_name)
    collection = read_source(source, format_name=format_name, origin=origin)
    admitted = collection if collection.format == "problems" else admit(collection)
    found = Benchmark(
        name=text,
        place=source.name,
        format=admitted.format,
        published=known.licence if known else "",
        sha256=hash_source(source),
        entries=admitted.entries,
        refused=admitted.refused,
    )
    return _refuse_empty(found)


def _refuse_empty(benchmark: Benchmark) -> Benchmark:
    if benchmark.entries:
        return benchmark
    if not benchmark.refused:
        raise ProblemError(f"{benchmark.name} holds no problem")
    first = benchmark.refused[0]
    raise ProblemError(
        f"{benchmark.name}: all {len(benchmark.refused)} entries were refused as "
        f"{benchmark.format}; the first: {first.where}: {first.reason}"
    )


def _recognise(path: Path) -> KnownBenchmark | None:
    """The known benchmark that usually lies at a path of this name."""
    parts = path.resolve().parts
    endings = ((known, Path(place).parts) for known in KNOWN.values() for place in known.places)
    return next((known for known, ending in endings if parts[-len(ending) :] == ending), None)


def _explain_missing(name: str, known: KnownBenchmark) -> str:
    folder = list_data_folders()[0]
    lines = [
        f"benchmark {name!r} is not on this machine, and nothing is downloaded unasked.",
        f"  where to get it: {known.source}",
        f"  licence: {known.licence}",
        f"  put it at {folder / known.places[0]}, or name its path instead; "
        f"${DATA_VARIABLE} names another folder of data",
    ]
    if known.hub_id:
        lines.append(f"  or have it downloaded: {HUB_PREFIX}{known.hub_id}")
    return "\n".join(lines)
