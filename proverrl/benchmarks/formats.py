"""All formats, and the choice of the one that a benchmark has.

Flows in: a ``RawBenchmark``. Flows out: its ``Collection``, read by the format that was named or by
the first that fits. If none fits, the error lists every format and why it is not that.
Not handled here: finding the benchmark (``proverrl.benchmarks.open``), repositories whose files
hold many theorems (``proverrl.benchmarks.leandojo``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proverrl.benchmarks import code_blocks, programs, statement_rows
from proverrl.benchmarks.base import (
    BenchmarkFormat,
    Collection,
    Collector,
    RawBenchmark,
    drop_nulls,
    explain_no_rows,
)
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.errors import ProblemError
from proverrl.files.lines import read_text
from proverrl.lang import find_language
from proverrl.problems.load import read_places, read_rows
from proverrl.types import Split

_Read = Callable[[Collector], None]
_SOLVED_FOLDER = "with_solution"
_SPLIT_FOLDERS: dict[str, Split] = {"valid": "valid", "test": "heldout"}


@dataclass(frozen=True, slots=True)
class Format:
    """``explain_misfit`` says why a benchmark is not of the format; empty when it is."""

    explain_misfit: Callable[[RawBenchmark], str]
    read: _Read


def _read_ours(collector: Collector) -> None:
    """A file of our own problems, held to its form. A wrong line, or a problem that no proof could
    be held to, is an error here and not a refusal."""
    path = collector.source.path
    if path is None:
        read = read_rows((row.where, drop_nulls(row.data)) for row in collector.source.rows)
    else:
        read = list(read_places(path))
    for where, problem, reference in read:
        # The reference is not audited: it need not be used.
        if objection := find_language(problem.language).find_objection(problem, None):
            raise ProblemError(f"{where}: problem {problem.id!r}: {objection}; fix the line")
        collector.add(problem, where, reference)


def _read_statements(collector: Collector) -> None:
    """Lean files with one statement each: miniF2F (yangky11), PutnamBench, CombiBench. The id is
    the file's name without its ending. PutnamBench gives the official answer in a comment behind a
    blank, CombiBench in a file ``with_solution/NAME_sol.lean``."""
    for path in collector.source.list_files(".lean"):
        if not _is_statement(path):
            continue
        with collector.reading(path.stem, str(path)):
            solved = path.parent / _SOLVED_FOLDER / f"{path.stem}_sol.lean"
            is_solved = collector.format == "combibench" and solved.exists()
            given = LeanText(
                name=path.stem,
                where=str(path),
                text=read_text(path),
                split=_SPLIT_FOLDERS.get(path.parent.name.lower(), "heldout"),
                solved=read_text(solved) if is_solved else "",
            )
            add_lean(collector, given)


def _is_statement(path: Path) -> bool:
    """False for a second form of another file, and for the build's own."""
    return path.parent.name != _SOLVED_FOLDER and path.name != "lakefile.lean"


def _rows(read: _Read, *fields: str) -> Format:
    needed = [(field,) for field in fields]
    return Format(partial(explain_no_rows, needed=needed), read)


def _statement_rows(format_name: BenchmarkFormat) -> Format:
    explain = partial(statement_rows.explain_misfit, format_name=format_name)
    return Format(explain, statement_rows.read_lean_rows)


def _files(suffix: str, read: _Read, explain: Callable[[list[Path]], str]) -> Format:
    """Files of a kind, about which ``explain`` says why they are not of the format."""

    def explain_misfit(source: RawBenchmark) -> str:
        files = source.list_files(suffix)
        return explain(files) if files else f"it holds no {suffix} file"

    return Format(explain_misfit, read)


def _any(fits: Callable[[Path], object], otherwise: str) -> Callable[[list[Path]], str]:
    return lambda files: "" if any(map(fits, files)) else otherwise


def _explain_no_dafnybench(source: RawBenchmark) -> str:
    folders = {path.parent.name for path in source.list_files(".dfy")}
    missing = [name for name in ("ground_truth", "hints_removed") if name not in folders]
    return f"it has no folder {missing[0]}/ with .dfy files" if missing else ""


def _explain_no_verina(source: RawBenchmark) -> str:
    has_task = any(path.name == "task.lean" for path in source.list_files(".lean"))
    return "" if has_task else "it holds no task.lean"


def _explain_no_clever(files: list[Path]) -> str:
    has_marks = code_blocks.CLEVER_MARK.search(read_text(files[0]))
    return "" if has_marks else f"{files[0].name} has no '-- start_def' marks"


def _explain_no_putnam(files: list[Path]) -> str:
    other = next((path for path in files if not path.name.startswith("putnam_")), None)
    return f"{other.name} is not called putnam_..." if other else ""


def _explain_no_minif2f(files: list[Path]) -> str:
    folders = {path.parent.name.lower() for path in files if _is_statement(path)}
    fits = folders <= _SPLIT_FOLDERS.keys()
    return "" if fits else "its .lean files do not stand in folders called Valid and Test"


_explain_no_combibench = _any(
    lambda path: {"CombiBench", _SOLVED_FOLDER} & set(path.parts[-3:-1]),
    f"no folder is called CombiBench or {_SOLVED_FOLDER}",
)
_explain_no_minif2f_dafny = _any(
    lambda path: "definitions.dfy" in read_text(path)[:400], "no file includes definitions.dfy"
)
_explain_no_clover = _any(lambda path: path.stem.endswith("_strong"), "no file ends in _strong.dfy")
_explain_no_mbpp = _any(lambda path: path.stem.startswith("task_id_"), "no task_id_N.dfy")


def _explain_no_humaneval(files: list[Path]) -> str:
    has_mark = any("// impl-start" in read_text(path) for path in files[:20])
    return "" if has_mark else "no file has a '// impl-start' mark"


FORMATS: Mapping[BenchmarkFormat, Format] = {
    "problems": _rows(_read_ours, "id", "language", "kind", "statement"),
    "dafnybench_tasks": _rows(programs.read_dafnybench_rows, "id", "hints_removed", "ground_truth"),
    "dafnybench_rows": _rows(
        programs.read_dafnybench_rows, "test_ID", "hints_removed", "ground_truth"
    ),
    "vericoding": _rows(programs.read_vericoding, "vc-spec", "vc-code"),
    "dafnycomp": _rows(programs.read_dafnycomp, "dafny", "source"),
    "goedel": _statement_rows("goedel"),
    "deepseek": _statement_rows("deepseek"),
    "minif2f_v2": _statement_rows("minif2f_v2"),
    "proofnet_verified": _statement_rows("proofnet_verified"),
    "lean_rows": _statement_rows("lean_rows"),
    "verina": Format(_explain_no_verina, code_blocks.read_verina),
    "clever": _files(".lean", code_blocks.read_clever, _explain_no_clever),
    "putnambench": _files(".lean", _read_statements, _explain_no_putnam),
    "combibench": _files(".lean", _read_statements, _explain_no_combibench),
    "minif2f_lean4": _files(".lean", _read_statements, _explain_no_minif2f),
    "lean_files": _files(".lean", _read_statements, lambda files: ""),
    "dafnybench": Format(_explain_no_dafnybench, programs.read_dafnybench),
    "humaneval_dafny": _files(".dfy", programs.read_humaneval, _explain_no_humaneval),
    "minif2f_dafny": _files(".dfy", programs.read_minif2f_dafny, _explain_no_minif2f_dafny),
    "clover": _files(".dfy", programs.read_clover, _explain_no_clover),
    "mbpp_dfy": _files(".dfy", programs.read_mbpp, _explain_no_mbpp),
    "dafny_code": _files(".dfy", programs.read_code, lambda files: ""),
    "dafny_hints": _files(".dfy", programs.read_hints, lambda files: ""),
    "verina_code": Format(_explain_no_verina, partial(code_blocks.read_verina, code=True)),
    "clever_code": _files(".lean", partial(code_blocks.read_clever, code=True), _explain_no_clever),
}
"""The formats in the order in which they are tried: those that ask for more come first."""

_ASKED_FOR: frozenset[BenchmarkFormat] = frozenset(
    ("dafny_code", "dafny_hints", "verina_code", "clever_code")
)
"""Formats that make another task of a source; a source is never recognised as one of them."""


def read_source(
    source: RawBenchmark,
    *,
    format_name: BenchmarkFormat | None = None,
    origin: str = "",
) -> Collection:
    """Everything in a source; ``format_name`` None: the first that fits it. Raises ``ProblemError``
    if the source is empty, of no known format, or not of the one that was named."""
    if source.is_rows and not source.rows:
        raise ProblemError(f"{source.name} holds no row; give a file with a problem in it")
    tried: dict[BenchmarkFormat, str] = {}
    found = [name for name in FORMATS if name not in _ASKED_FOR]
    for name in found if format_name is None else (format_name,):
        known = FORMATS[name]
        if reason := known.explain_misfit(source):
            tried[name] = reason
            continue
        collector = Collector(source, name, origin)
        known.read(collector)
        return collector.finish()
    if format_name is not None:
        raise ProblemError(
            f"{source.name} is not of the format {format_name}: {tried[format_name]}"
        )
    raise ProblemError(f"{source.name} is of no known format.{_describe(source, tried)}")


def _describe(source: RawBenchmark, tried: Mapping[BenchmarkFormat, str]) -> str:
    """The formats that were tried, and for a folder of row files which files it holds."""
    lines = [f"\n  {name}: {reason}" for name, reason in tried.items()]
    inside = [] if source.is_rows else [*source.list_files(".jsonl"), *source.list_files(".json")]
    if inside:
        names = ", ".join(str(path) for path in inside[:5])
        lines.insert(0, f"\n  it holds files of rows; give one of them: {names}")
    return " Tried:" + "".join(lines)
