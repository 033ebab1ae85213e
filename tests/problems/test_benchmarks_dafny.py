"""Dafny benchmarks: small files of every format, what they become, and real Dafny on some."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proverrl.benchmarks.base import open_source
from proverrl.benchmarks.formats import read_source
from proverrl.benchmarks.open import admit
from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.audit.strip import cut_lines, explain_dafny_4, strip_hints
from proverrl.types import ANNOTATE, HOLE, Candidate
from tests.benchmark_data import read, reasons, write_files, write_rows

BLANK = """\
method Count(n: nat) returns (r: nat)
  ensures r == n
{
  r := 0;
  while r < n
  {
    r := r + 1;
  }
}
"""
TRUTH = BLANK.replace("  while r < n\n", "  while r < n\n    invariant r <= n\n")


def test_dafnybench_tasks_and_its_own_rows(tmp_path: Path) -> None:
    # A byte order mark begins a program as it may begin a file.
    texts = {"hints_removed": f"\ufeff{BLANK}", "ground_truth": f"\ufeff{TRUTH}"}
    task = {"id": "count", **texts, "dialect": "raw"}
    row = {"test_ID": 7, "test_file": "count_no_hints.dfy", **task}
    del row["id"]
    for name, data in (("dafnybench_tasks", task), ("dafnybench_rows", row)):
        found = read(write_rows(tmp_path / f"{name}.jsonl", data))
        (entry,) = found.entries
        assert found.format == name
        assert (entry.problem.id, entry.problem.kind) == ("count", ANNOTATE)
        assert entry.problem.statement == f"{BLANK}\n{HOLE}"
        assert (entry.problem.split, entry.reference) == ("heldout", TRUTH)


def test_what_dafny_says_of_the_texts_as_handed_out_is_a_family(tmp_path: Path) -> None:
    texts = {"hints_removed": BLANK, "ground_truth": TRUTH, "without_hints": "rejected"}
    found = read(write_rows(tmp_path / "rows.jsonl", {"id": "count", **texts}))
    assert found.entries[0].problem.family == "without hints rejected"


def test_vericoding_asks_for_the_code_of_a_method(tmp_path: Path) -> None:
    row = {
        "id": "DA0000",
        "language": "dafny",
        "source": "apps",
        "vc-description": "Twice a number.",
        "vc-preamble": "function Twice(n: nat): nat { 2 * n }",
        "vc-helpers": "",
        "vc-spec": "method Solve(n: nat) returns (r: nat)\n  ensures r == Twice(n)",
        "vc-code": "{\n  assume {:axiom} false;\n}",
        "vc-postamble": "",
    }
    english = row | {"id": "DA0001", "vc-preamble": "Looking at this task, I see two."}
    lean = row | {"id": "LA0000", "language": "lean"}
    found = admit(read(write_rows(tmp_path / "tasks.jsonl", row, english, lean)))
    (entry,) = found.entries
    problem = entry.problem
    assert (found.format, problem.kind, problem.family) == ("vericoding", "program", "apps")
    assert problem.informal == "Twice a number."
    assert audit_candidate(Candidate(problem, "{ r := n + n; }")) is None
    assert audit_candidate(Candidate(problem, row["vc-code"])) is not None
    assert {refused.id for refused in found.refused} == {"DA0001", "LA0000"}


def test_numbers_of_the_shim_are_made_equal(tmp_path: Path) -> None:
    row = {
        "id": "shim",
        "dialect": "shim",
        "hints_removed": "method M() { var lim12 := 1; var st13 := lim12; }",
        "ground_truth": "method M() { var lim47 := 1; var st9 := lim47; assert st9 == 1; }",
    }
    (entry,) = read(write_rows(tmp_path / "t.jsonl", row)).entries
    assert entry.problem.statement.startswith("method M() { var lim0_ := 1; var st1_ := lim0_; }")
    assert entry.reference is not None
    assert "assert st1_ == 1;" in entry.reference
    assert entry.problem.metadata == {"dialect": "shim"}


def test_a_body_that_was_lost_with_the_hints_is_restored(tmp_path: Path) -> None:
    """Only for the two programs that are known to have lost theirs."""
    body = "{if (n == 0) then 1 else a * power(a, n - 1)}"
    head = "function power(a: int, n: int): int\n  requires 0 <= a && 0 <= n;\n"
    rows = [
        {"id": name, "hints_removed": head, "ground_truth": head + body + "\n"}
        for name in ("cs245-verification_tmp_tmp0h_nxhqp_power", "another")
    ]
    found = read(write_rows(tmp_path / "t.jsonl", *rows))
    assert [e.problem.statement for e in found.entries] == [f"{head}{body}\n\n{HOLE}"]
    assert [e.id for e in found.refused] == ["another"]


def test_the_folders_of_dafnybench(tmp_path: Path) -> None:
    files = {
        "ground_truth/a.dfy": TRUTH,
        "hints_removed/a_no_hints.dfy": BLANK,
        "ground_truth/b.dfy": TRUTH,
        "hints_removed/c_no_hints.dfy": BLANK,
        "ground_truth/d.dfy": TRUTH.replace("r <= n\n", "r <= n\n    invariant true\n    // }\n"),
        "hints_removed/d_no_hints.dfy": BLANK + "}\n",
        "ground_truth/e.dfy": TRUTH.replace("{\n  r := 0", "{\n  assume false;\n  r := 0"),
        "hints_removed/e_no_hints.dfy": BLANK,
        "hints_removed/f_no_hints.dfy": BLANK.replace("while r < n", "for i := 0 to n"),
    }
    found = read(write_files(tmp_path, files))
    assert found.format == "dafnybench"
    assert [(e.problem.id, e.reference) for e in found.entries] == [
        ("a", TRUTH),
        ("c", None),
        ("f", None),
    ]
    assert [e.problem.metadata for e in found.entries] == [{}, {}, {"dialect": "dafny4"}]
    assert reasons(found) == [
        ("b", "it has a ground truth and no text without hints"),
        ("d", "no proof can be held to its program: line 10: '}' closes nothing"),
        (
            "e",
            "the audit does not admit its own proof: line 4: keywords: 'assume' assumes "
            "what is to be proved",
        ),
    ]


MANY_HINTS = """\
// a remark with invariant in it
function Sum(n: nat): nat
  decreases n
{
  if n == 0 then 0 else n + Sum(n - 1)
}

lemma Up(n: nat)
  ensures Sum(n) >= n
{
  assert 1 == 1;
}

method Run(n: nat) returns (r: nat)
  requires n > 0 // assert nothing here
  ensures r == Sum(n)
{
  r := 0; assert r == 0;
  var i := 0;
  while i < n
    invariant 0 <= i <= n // bound
    invariant r == Sum(i)
    decreases n - i
  {
    i := i + 1;
    assert Sum(i) == i + Sum(i - 1) by {
      Up(i);
    }
    r := r + i;
    Up(i);
  }
}
"""


def test_hints_are_taken_out_and_nothing_else() -> None:
    blank, count = strip_hints(MANY_HINTS)
    assert count == 6
    kept = MANY_HINTS
    for hint in (
        "  assert 1 == 1;\n",
        " assert r == 0;",
        "    invariant 0 <= i <= n // bound\n",
        "    invariant r == Sum(i)\n",
        "    decreases n - i\n",
        "    assert Sum(i) == i + Sum(i - 1) by {\n      Up(i);\n    }\n",
    ):
        assert kept.count(hint) == 1
        kept = kept.replace(hint, "")
    assert blank == kept
    assert strip_hints(blank) == (blank, 0)


def test_programs_that_cannot_be_stripped_are_refused() -> None:
    for text, words in (
        ("method M() { for i := 0 to 3 { var ; } }", "line 1: outside the Dafny that can be read"),
        ("method M() { var ; }", "line 1: outside the Dafny that can be read"),
        ("method M() { }\n#x", "a line must not begin with #"),
    ):
        with pytest.raises(ProblemError, match=words):
            strip_hints(text)
    assert explain_dafny_4(BLANK) == ""
    assert cut_lines("a\n  b // c\nd", 4, 5) == "a\nd"
    assert cut_lines("a; b;\n", 3, 5) == "a;\n"
    assert cut_lines("a; b; c;\n", 3, 5) == "a;  c;\n"


def test_dafnycomp_keeps_contracts_and_loses_hints(tmp_path: Path) -> None:
    rows = [
        {"dafny": TRUTH, "source": "main_2node_1-1-2"},
        {"dafny": f"{TRUTH}method N() {{ assume false; }}\n", "source": "main_2node_1-3-4"},
        {"dafny": "method P() returns (r: int) ensures r == 1 { r := 1; }\n", "source": "plain"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = admit(read_source(open_source(path)))
    assert found.format == "dafnycomp"
    assert [(e.problem.id, e.problem.statement, e.reference) for e in found.entries] == [
        ("main_2node_1-1-2", f"{BLANK}\n{HOLE}", TRUTH)
    ]
    told = {entry.id: entry.reason for entry in found.refused}
    assert "assume" in told["main_2node_1-3-4"]
    assert told["plain"] == "it holds no proof hints, so that nothing is left to write"


def test_clover_and_mbpp(tmp_path: Path) -> None:
    clover = {
        "count/count_strong.dfy": TRUTH,
        "count/count_tests.dfy": TRUTH,
        "count/count_anno_check_template.dfy": TRUTH,
        "plain/plain_strong.dfy": "method P() returns (r: int) ensures r == 1 { r := 1; }\n",
    }
    found = read(write_files(tmp_path / "clover", clover))
    assert found.format == "clover"
    assert [(e.problem.id, e.problem.statement) for e in found.entries] == [
        ("count", f"{BLANK}\n{HOLE}")
    ]
    assert reasons(found) == [
        ("count_anno_check_template", "a template for comparing annotations, not a task"),
        ("count_tests", "unit tests of a program, not a task"),
        ("plain_strong", "it holds no proof hints, so that nothing is left to write"),
    ]
    mbpp = {"src/task_id_3.dfy": TRUTH, "test/task_id_3_test.dfy": TRUTH, "src/other.dfy": TRUTH}
    found = read(write_files(tmp_path / "mbpp", mbpp))
    assert found.format == "mbpp_dfy"
    assert [(e.problem.id, e.reference) for e in found.entries] == [("task_id_3", TRUTH)]
    assert [e.id for e in found.refused] == ["other", "task_id_3_test"]


MARKED = """\
method Count(n: nat) returns (r: nat)
  // post-conditions-start
  ensures r == n
  // post-conditions-end
{
  // impl-start
  r := 0;
  while r < n
    // invariants-start
    invariant r <= n
    invariant 0 <= r
    // invariants-end
  {
    r := r + 1;
  }
  // impl-end
}
"""


def test_the_marks_of_humaneval_give_the_hole(tmp_path: Path) -> None:
    asserted = MARKED.replace("  // impl-end", "  assert r == n; // assert-line\n  // impl-end")
    single = BLANK.replace(
        "  r := 0;", "  // impl-start\n  r := 0;\n  assert r == 0; // assert-line"
    )
    files = {
        "001-one.dfy": MARKED,
        "002-two.dfy": asserted,
        "003-none.dfy": BLANK,
        "004-line.dfy": single,
        "005-for.dfy": MARKED.replace("while r < n", "for i := 0 to n"),
    }
    found = read(write_files(tmp_path, files))
    assert found.format == "humaneval_dafny"
    one, two, line, loop = found.entries
    marked = MARKED[MARKED.index("    // invariants-start") : MARKED.index("  {\n    r := r")]
    assert one.problem.statement == MARKED.replace(marked, f"    {HOLE}\n")
    assert (one.problem.kind, one.reference) == (
        "invariants",
        "invariant r <= n\n    invariant 0 <= r",
    )
    assert (two.problem.kind, two.reference) == (ANNOTATE, asserted)
    assert two.problem.statement == MARKED.replace(marked, "") + f"\n{HOLE}"
    assert (line.problem.kind, line.reference) == ("statements", "assert r == 0;")
    assert f"  r := 0;\n  {HOLE}\n" in line.problem.statement
    assert loop.problem.metadata == {"dialect": "dafny4"}
    assert [e.id for e in found.refused] == ["003-none"]


def test_minif2f_dafny_only_where_its_definitions_are_not_needed(tmp_path: Path) -> None:
    definitions = (
        "module Int { function pow(b: int, k: nat): int { 1 } }\n"
        "function {:axiom} log(x: real): (l: real)\n  ensures x > 1.0 <==> l > 0.0\n"
        "datatype complex = Complex(re: real, im: real) | Zero { const norm: real := 1.0 }\n"
    )
    include = 'include "../definitions.dfy"\ninclude "../library.dfy"\n\n'
    files = {
        "dataset/definitions.dfy": definitions,
        "dataset/library.dfy": 'include "definitions.dfy"\nlemma two(x: int) ensures x == x {}\n',
        "dataset/valid/a.dfy": include + "lemma a(x: int)\n  ensures x * x >= 0\n{}",
        "dataset/test/b.dfy": include + "lemma b(x: real)\n  ensures log(x) > 0.0\n{}",
        "dataset/test/c.dfy": include + "lemma c()\n  ensures Complex(0.0, 0.0) == Zero\n{}",
        "dataset/test/d.dfy": include + "lemma d(x: int)\n  ensures Int.pow(x, 2) == 1\n{}",
        "dataset/test/e.dfy": include + "lemma e(x: int)\n  ensures x == x\n{ two(x); }",
        "dataset/test/f.dfy": include + "lemma f(x: int)\n  ensures x == x\n{ assert true; }",
    }
    found = read(write_files(tmp_path, files))
    assert found.format == "minif2f_dafny"
    (entry,) = found.entries
    assert entry.problem.statement == f"lemma a(x: int)\n  ensures x * x >= 0\n{{\n  {HOLE}\n}}\n"
    assert (entry.problem.kind, entry.problem.split) == ("statements", "valid")
    assert audit_candidate(Candidate(entry.problem, "assert x * x >= 0;")) is None
    named = {e.id: e.reason.partition(" of the")[0] for e in found.refused}
    assert named == {
        "b": "it leans on log",
        "c": "it leans on Complex, Zero",
        "d": "it leans on Int, pow",
        "e": "it leans on two",
        "f": "it does not end in an empty body {}",
    }
