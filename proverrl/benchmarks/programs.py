"""Files and rows with whole Dafny programs: DafnyBench, DafnyComp, Clover, MBPP-DFY,
HumanEval-Dafny, miniF2F, vericoding.

Flows in: a ``Collector`` with its source. Flows out: its problems; what a text becomes is said in
``proverrl.lang.dafny.benchmark_texts``. The ground truth is the reference. DafnyBench comes without
its hints; from the others they are taken here, or with ``read_code`` the code of a method.
Contracts stay: DafnyComp has them written as well, of several methods at once, and the kind
``program`` asks for one.
DafnyBench: Loughridge et al. 2024, arXiv 2406.08467. Clover: Sun et al. 2023, arXiv 2310.17807.
MBPP-DFY: Misu et al. 2024, arXiv 2402.00247. DafnyComp: Yan et al. 2025, arXiv 2507.16331.
vericoding: Bursuc et al. 2025, arXiv 2509.22908.
"""

from __future__ import annotations

from pathlib import Path

from proverrl.benchmarks.base import Collector, read_field
from proverrl.errors import ProblemError
from proverrl.files.lines import read_text
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.strip import DAFNY_4, explain_dafny_4, strip_hints
from proverrl.lang.dafny.benchmark_texts import (
    cut_lemma,
    cut_marked,
    list_coded,
    make_annotate,
    number_in_order,
    restore_body,
)
from proverrl.lang.dafny.syntax.plain import write_ghost
from proverrl.problems.includes import join_includes
from proverrl.types import HOLE, Problem

_NO_HINTS = "_no_hints"
_TESTS = "unit tests of a program, not a task"
_ROLES = {
    "_tests": _TESTS,
    "_test": _TESTS,
    "-test": _TESTS,
    "_anno_check_template": "a template for comparing annotations, not a task",
}


def read_dafnybench_rows(collector: Collector, *, repaired: bool = True) -> None:
    """Rows with both texts; ``repaired`` False leaves lost bodies lost."""
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
                blank, truth = number_in_order(blank), number_in_order(truth)
            if repaired:
                blank = restore_body(name, blank, truth)
            metadata = {} if dialect == "raw" else {"dialect": dialect}
            if group := read_field(row.data, "without_hints", default=""):
                # What Dafny says of the text as it is handed out; a line of its own in reports.
                metadata["family"] = f"without hints {group}"
            problem_id = collector.free_id(name)
            problem = make_annotate(problem_id, blank, origin=collector.origin, metadata=metadata)
            collector.add(problem, row.where, truth)


def read_dafnybench(collector: Collector) -> None:
    """Pairs ``ground_truth/NAME.dfy`` and ``hints_removed/NAME_no_hints.dfy``."""
    files = collector.source.list_files(".dfy")
    truths = {path.stem: path for path in files if path.parent.name == "ground_truth"}
    blanks = {
        path.stem.removesuffix(_NO_HINTS): path
        for path in files
        if path.parent.name == "hints_removed"
    }
    for name in sorted(truths.keys() | blanks.keys()):
        path = blanks.get(name) or truths[name]
        with collector.reading(name, str(path)):
            if name not in blanks:
                raise ProblemError("it has a ground truth and no text without hints")
            truth = read_text(truths[name]) if name in truths else None
            blank = restore_body(name, read_text(blanks[name]), truth or "")
            problem = make_annotate(collector.free_id(name), blank, origin=collector.origin)
            collector.add(problem, str(path), truth)


def read_dafnycomp(collector: Collector) -> None:
    """Rows with a whole program; the id is its ``source``, the chain of methods that it joins."""
    for row in collector.iter_rows():
        name = str(row.data.get("source", ""))
        with collector.reading(name, row.where):
            if not name:
                raise ProblemError("field 'source' is missing or empty; add it")
            _add_stripped(collector, name, row.where, read_field(row.data, "dafny"))


def read_vericoding(collector: Collector) -> None:
    """Rows with the parts of a program: a method with its contract, whose code is to be written.
    The family is the benchmark that a row was taken from; what specifies is made ghost."""
    for row in collector.iter_rows():
        name = str(row.data.get("id", ""))
        with collector.reading(name, row.where):
            if not name:
                raise ProblemError("field 'id' is missing or empty; add it")
            language = read_field(row.data, "language", default="dafny")
            if language != "dafny":
                raise ProblemError(f"a task in {language}; only those in Dafny are read")
            parts = ("vc-preamble", "vc-helpers", "vc-spec", "vc-postamble")
            before, helpers, spec, after = (read_field(row.data, p, default="") for p in parts)
            head = "\n\n".join(part for part in (before, helpers, spec) if part)
            problem = Problem(
                id=collector.free_id(name),
                language="dafny",
                kind="program",
                preamble="",
                # Code that called what specifies it would prove nothing.
                statement=write_ghost(f"{head}\n{HOLE}\n{after}").text,
                split="heldout",
                origin=collector.origin,
                informal=read_field(row.data, "vc-description", default=""),
                metadata={
                    "family": read_field(row.data, "source", default=collector.origin),
                    "dialect": DAFNY_4,
                },
            )
            collector.add(problem, row.where)


def read_clover(collector: Collector) -> None:
    """The programs ``NAME_strong.dfy``; other files are refused as what they are."""
    for path in collector.source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            _refuse_role(path)
            _add_verified(collector, path.stem.removesuffix("_strong"), path)


def read_mbpp(collector: Collector) -> None:
    """The programs ``src/task_id_N.dfy``; their tests are refused as what they are."""
    for path in collector.source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            _refuse_role(path)
            if not path.stem.startswith("task_id_"):
                raise ProblemError("not called task_id_N.dfy")
            _add_verified(collector, path.stem, path)


def read_humaneval(collector: Collector) -> None:
    """One problem per program with marks; the id is the file's name."""
    for path in collector.source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            truth = read_text(path)
            problem, reference = cut_marked(collector.free_id(path.stem), truth, collector.origin)
            collector.add(problem, str(path), reference)


def read_minif2f_dafny(collector: Collector) -> None:
    """One problem per lemma, without the definitions, if it needs none of them."""
    for path in collector.source.list_files(".dfy"):
        if path.parent.name not in ("valid", "test"):
            continue
        with collector.reading(path.stem, str(path)):
            statement = cut_lemma(path, read_text(path))
            problem = Problem(
                id=collector.free_id(path.stem),
                language="dafny",
                kind="statements",
                preamble="",
                statement=statement,
                split="valid" if path.parent.name == "valid" else "heldout",
                origin=collector.origin,
            )
            collector.add(problem, str(path))


def read_code(collector: Collector) -> None:
    """Files with whole programs: a problem for each method with a contract and code, which is to be
    written. The id is the file's name, with that of the method where there are several."""
    for path in collector.source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            _refuse_role(path)
            truth = read_text(path)
            found = list_coded(truth)
            for method, statement, code in found:
                name = path.stem if len(found) == 1 else f"{path.stem}-{method}"
                problem = Problem(
                    id=collector.free_id(name),
                    language="dafny",
                    kind="program",
                    preamble="",
                    statement=statement,
                    split="heldout",
                    origin=collector.origin,
                    metadata={"dialect": DAFNY_4} if explain_dafny_4(truth) else {},
                )
                collector.add(problem, str(path), code)


def read_hints(collector: Collector) -> None:
    """Files with whole programs, each with what it includes: its hints are taken, and to be found
    again. The id is the file's name."""
    for path in collector.source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            text, _ = join_includes(path, find_language("dafny"), str(collector.source.path))
            _add_stripped(collector, path.stem, str(path), text)


def _refuse_role(path: Path) -> None:
    """Raise ``ProblemError``: the file is a test or a template of another one."""
    role = next((why for end, why in _ROLES.items() if path.stem.endswith(end)), "")
    if role or path.parent.name in ("test", "tests"):
        raise ProblemError(role or _TESTS)


def _add_verified(collector: Collector, name: str, path: Path) -> None:
    _add_stripped(collector, name, str(path), read_text(path))


def _add_stripped(collector: Collector, name: str, where: str, truth: str) -> None:
    blank, num_hints = strip_hints(truth)
    if not num_hints:
        raise ProblemError("it holds no proof hints, so that nothing is left to write")
    problem = make_annotate(collector.free_id(name), blank, origin=collector.origin)
    collector.add(problem, where, truth)
