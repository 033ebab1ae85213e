"""Dafny programs whose proof hints are to be written: DafnyBench, Clover, MBPP-DFY.

Flows in: a source. Flows out: a ``Collection`` of problems of the kind ``annotate``, with the
ground truth as reference. DafnyBench comes without its hints; from the others they are taken here.
DafnyBench: Loughridge et al. 2024, arXiv 2406.08467. Clover: Sun et al. 2023, arXiv 2310.17807.
MBPP-DFY: Misu et al. 2024, arXiv 2402.00247.

Two things stand between DafnyBench's text and a statement that can be kept to the token. The shim
that made ``for`` loops readable for Dafny 2.3 (``dialect`` other than ``raw``) numbered its
variables anew in each text. And in two programs the removal of hints took the only line of a
function's body with it: without it the contract means nothing, and no hint may bring it back, so
it is restored.
Not handled here: whether a program can be read (``proverrl.benchmarks.admit``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proverrl.benchmarks.base import (
    Collection,
    Collector,
    Source,
    explain_no_dafny,
    read_field,
    read_text,
)
from proverrl.config.benchmarks import AnswerTask, BenchmarkLayout
from proverrl.errors import ProblemError
from proverrl.lang.dafny.strip import DAFNY_4, explain_dafny_4, strip_hints
from proverrl.types import ANNOTATE, HOLE, Problem

_LOST_BODY = "{if (n == 0) then 1 else a * power(a, n - 1)}"
# The last line that is left of the function, for each program whose body was lost.
_BODY_WAS_LOST = {
    "cs245-verification_tmp_tmp0h_nxhqp_A8_Q1": "  requires 0 <= n;\n",
    "cs245-verification_tmp_tmp0h_nxhqp_power": "  requires 0 <= a && 0 <= n;\n",
}
_NO_HINTS = "_no_hints"
_CLOVER_ROLES = {
    "_tests": "unit tests of a program, not a task",
    "_anno_check_template": "a template for comparing annotations, not a task",
}
_TASK_FIELDS = ("id", "hints_removed", "ground_truth")
_ROW_FIELDS = ("test_ID", "hints_removed", "ground_truth")


def make_annotate(
    problem_id: str, blank: str, *, origin: str, metadata: Mapping[str, Any] | None = None
) -> Problem:
    """A program to be given back with hints."""
    return Problem(
        id=problem_id,
        language="dafny",
        kind=ANNOTATE,
        preamble="",
        statement=f"{blank}\n{HOLE}",
        split="heldout",
        origin=origin,
        metadata={**({"dialect": DAFNY_4} if explain_dafny_4(blank) else {}), **(metadata or {})},
    )


# DafnyBench ---------------------------------------------------------------------------------------


def explain_no_tasks(source: Source) -> str:
    """Why the rows are not ``id``, ``hints_removed``, ``ground_truth``."""
    return _explain_rows(source, _TASK_FIELDS)


def explain_no_rows(source: Source) -> str:
    """Why the rows are not those of DafnyBench's own test.json."""
    return _explain_rows(source, _ROW_FIELDS)


def read_dafnybench_rows(
    source: Source,
    layout: BenchmarkLayout,
    *,
    origin: str,
    answers: AnswerTask,
    repaired: bool = True,
) -> Collection:
    """Rows with both texts; ``repaired`` False leaves lost bodies lost."""
    collector = Collector(layout, source)
    for row in collector.iter_rows():
        stem = str(row.data.get("test_file", "")).removesuffix(".dfy").removesuffix(_NO_HINTS)
        name = stem or str(row.data.get("id", row.data.get("test_ID", "")))
        with collector.reading(name, row.where):
            if not name:
                raise ProblemError("field 'id' is missing or empty; add it")
            blank = read_field(row.data, "hints_removed")
            truth = read_field(row.data, "ground_truth")
            dialect = read_field(row.data, "dialect", default="raw")
            if dialect != "raw":
                blank, truth = _number_in_order(blank), _number_in_order(truth)
            if repaired:
                blank = _restore_body(name, blank, truth)
            problem = make_annotate(
                collector.free_id(name),
                blank,
                origin=origin,
                metadata={} if dialect == "raw" else {"dialect": dialect},
            )
            collector.add(problem, row.where, truth)
    return collector.finish()


def explain_no_dafnybench(source: Source) -> str:
    """Why a source is not a folder with ``ground_truth`` and ``hints_removed``."""
    folders = {path.parent.name for path in source.list_files(".dfy")}
    missing = [name for name in ("ground_truth", "hints_removed") if name not in folders]
    return f"it has no folder {missing[0]}/ with .dfy files" if missing else ""


def read_dafnybench(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """Pairs ``ground_truth/NAME.dfy`` and ``hints_removed/NAME_no_hints.dfy``."""
    collector = Collector(layout, source)
    files = source.list_files(".dfy")
    truths = {path.stem: path for path in files if path.parent.name == "ground_truth"}
    blanks = {
        path.stem.removesuffix(_NO_HINTS): path
        for path in files
        if path.parent.name == "hints_removed"
    }
    for name in sorted(truths.keys() | blanks.keys()):
        path = blanks.get(name, truths.get(name))
        with collector.reading(name, str(path)):
            if name not in blanks:
                raise ProblemError("it has a ground truth and no text without hints")
            truth = read_text(truths[name]) if name in truths else None
            blank = _restore_body(name, read_text(blanks[name]), truth or "")
            problem = make_annotate(collector.free_id(name), blank, origin=origin)
            collector.add(problem, str(path), truth)
    return collector.finish()


def _explain_rows(source: Source, fields: tuple[str, ...]) -> str:
    if not source.is_rows:
        return "it is not a file of rows"
    row = next((row for row in source.rows if not row.error), None)
    if row is None:
        return f"{source.rows[0].where}: {source.rows[0].error}" if source.rows else "no rows"
    missing = next((field for field in fields if field not in row.data), None)
    return f"{row.where}: field {missing!r} is missing" if missing else ""


def _restore_body(name: str, blank: str, truth: str) -> str:
    head = _BODY_WAS_LOST.get(name)
    if head is None or _LOST_BODY in blank or _LOST_BODY not in truth or blank.count(head) != 1:
        return blank
    return blank.replace(head, f"{head}{_LOST_BODY}\n")


def _number_in_order(text: str) -> str:
    seen: dict[str, int] = {}
    return re.sub(r"\b(st|lim)\d+\b", lambda m: f"{m[1]}{seen.setdefault(m[0], len(seen))}_", text)


# Verified programs --------------------------------------------------------------------------------


def explain_no_clover(source: Source) -> str:
    """Why a source is not Clover's folder: its programs are called ``NAME_strong.dfy``."""
    return explain_no_dafny(
        source,
        lambda files: any(p.stem.endswith("_strong") for p in files),
        "no file ends in _strong.dfy",
    )


def read_clover(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """The programs ``NAME_strong.dfy``; other files are refused as what they are."""
    collector = Collector(layout, source)
    for path in source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            role = next((why for end, why in _CLOVER_ROLES.items() if path.stem.endswith(end)), "")
            if role:
                raise ProblemError(role)
            _add_verified(collector, path.stem.removesuffix("_strong"), path, origin)
    return collector.finish()


def explain_no_mbpp(source: Source) -> str:
    """Why a source is not a folder of ``task_id_N.dfy``."""
    return explain_no_dafny(
        source,
        lambda files: any(p.stem.startswith("task_id_") for p in files),
        "no task_id_N.dfy",
    )


def read_mbpp(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """The programs ``src/task_id_N.dfy``; their tests are refused as what they are."""
    collector = Collector(layout, source)
    for path in source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            if "test" in path.parent.name or path.stem.endswith(("_test", "-test")):
                raise ProblemError("unit tests of a program, not a task")
            if not path.stem.startswith("task_id_"):
                raise ProblemError("not called task_id_N.dfy")
            _add_verified(collector, path.stem, path, origin)
    return collector.finish()


def _add_verified(collector: Collector, name: str, path: Path, origin: str) -> None:
    truth = read_text(path)
    blank, num_hints = strip_hints(truth)
    if not num_hints:
        raise ProblemError("it holds no proof hints, so that nothing is left to write")
    problem = make_annotate(collector.free_id(name), blank, origin=origin)
    collector.add(problem, str(path), truth)
