"""All layouts, and which one a source has.

Flows in: a ``Source``. Flows out: its ``Collection``, read by the layout that was named or by the
first that fits. A source that fits none gets an error that lists every layout and why it is not it.
Not handled here: finding the source (``proverrl.benchmarks.open``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from proverrl.benchmarks import dafny_marked, dafny_programs, lean_code, lean_files
from proverrl.benchmarks.base import Collection, Entry, Source
from proverrl.benchmarks.lean_rows import explain_misfit, read_lean_rows
from proverrl.config.benchmarks import AnswerTask, BenchmarkLayout
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.problems.load import load_places, load_references

_OUR_FIELDS = ("id", "language", "kind", "statement")


class ReadLayout(Protocol):
    """Reads a source that has the layout; ``origin`` goes into its problems."""

    def __call__(
        self, source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
    ) -> Collection: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """``explain_misfit`` says why a source is not of the layout; empty when it is."""

    explain_misfit: Callable[[Source], str]
    read: ReadLayout


def explain_not_ours(source: Source) -> str:
    """Why a source is not a file of our own problems."""
    if not source.is_rows or source.path is None:
        return "it is not a file of rows"
    row = next((row for row in source.rows if not row.error), None)
    if row is None:
        return f"{source.rows[0].where}: {source.rows[0].error}" if source.rows else "no rows"
    missing = next((field for field in _OUR_FIELDS if field not in row.data), None)
    return f"{row.where}: field {missing!r} is missing" if missing else ""


def read_ours(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """A file of our own problems, held to its form: a wrong line, and a problem that no proof could
    be held to, is an error here, not a refusal, and not one in the middle of a run."""
    assert source.path is not None
    references = load_references(source.path)
    entries = []
    for where, problem in load_places(source.path):
        # Whether the reference passes the audit is not asked: it need not be used.
        if objection := find_language(problem.language).find_objection(problem, None):
            raise ProblemError(f"{where}: problem {problem.id!r}: {objection}; fix the line")
        entries.append(Entry(problem, where, references.get(problem.id)))
    return Collection(layout, tuple(entries), ())


def _lean_rows(layout: BenchmarkLayout) -> Layout:
    return Layout(partial(explain_misfit, layout=layout), read_lean_rows)


LAYOUTS: Mapping[BenchmarkLayout, Layout] = {
    "problems": Layout(explain_not_ours, read_ours),
    "dafnybench_tasks": Layout(
        dafny_programs.explain_no_tasks, dafny_programs.read_dafnybench_rows
    ),
    "dafnybench_rows": Layout(dafny_programs.explain_no_rows, dafny_programs.read_dafnybench_rows),
    "goedel": _lean_rows("goedel"),
    "deepseek": _lean_rows("deepseek"),
    "minif2f_v2": _lean_rows("minif2f_v2"),
    "proofnet_verified": _lean_rows("proofnet_verified"),
    "formalmath": _lean_rows("formalmath"),
    "lean_rows": _lean_rows("lean_rows"),
    "verina": Layout(lean_code.explain_no_verina, lean_code.read_verina),
    "clever": Layout(lean_code.explain_no_clever, lean_code.read_clever),
    "putnambench": Layout(lean_files.explain_no_putnam, lean_files.read_lean_files),
    "combibench": Layout(lean_files.explain_no_combibench, lean_files.read_lean_files),
    "minif2f_lean4": Layout(lean_files.explain_no_minif2f, lean_files.read_lean_files),
    "lean_files": Layout(lean_files.explain_no_lean, lean_files.read_lean_files),
    "dafnybench": Layout(dafny_programs.explain_no_dafnybench, dafny_programs.read_dafnybench),
    "humaneval_dafny": Layout(dafny_marked.explain_no_humaneval, dafny_marked.read_humaneval),
    "minif2f_dafny": Layout(dafny_marked.explain_no_minif2f_dafny, dafny_marked.read_minif2f_dafny),
    "clover": Layout(dafny_programs.explain_no_clover, dafny_programs.read_clover),
    "mbpp_dfy": Layout(dafny_programs.explain_no_mbpp, dafny_programs.read_mbpp),
}
"""In the order in which they are tried: what says more about a source comes first."""


def read_source(
    source: Source,
    *,
    layout: BenchmarkLayout | None = None,
    origin: str = "",
    answers: AnswerTask = "given",
) -> Collection:
    """Everything in a source; ``layout`` None: the first that fits it.

    Raises:
        ProblemError: the source is empty, of no known layout, or not of the one that was named.
    """
    if source.is_rows and not source.rows:
        raise ProblemError(f"{source.name} holds no row; give a file with a problem in it")
    if layout is not None:
        if reason := LAYOUTS[layout].explain_misfit(source):
            raise ProblemError(f"{source.name} is not of the layout {layout}: {reason}")
        return LAYOUTS[layout].read(source, layout, origin=origin, answers=answers)
    tried: dict[BenchmarkLayout, str] = {}
    for name, known in LAYOUTS.items():
        reason = known.explain_misfit(source)
        if not reason:
            return known.read(source, name, origin=origin, answers=answers)
        tried[name] = reason
    raise ProblemError(f"{source.name} is of no known layout.{_describe(source, tried)}")


def _describe(source: Source, tried: Mapping[BenchmarkLayout, str]) -> str:
    """What was tried; a folder of row files says which files it holds."""
    lines = [f"\n  {name}: {reason}" for name, reason in tried.items()]
    inside = [] if source.is_rows else [*source.list_files(".jsonl"), *source.list_files(".json")]
    if inside:
        names = ", ".join(str(path) for path in inside[:5])
        lines.insert(0, f"\n  it holds files of rows; give one of them: {names}")
    return " Tried:" + "".join(lines)
