"""Pooled proof hints of whole programs: places by hand, what a verdict says of them, and the search
on real Dafny."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proverrl.config.search import SearchConfig
from proverrl.lang.dafny.search import pooled
from proverrl.lang.dafny.search.pooled import (
    assert_apart,
    begin,
    find_refused,
    insert,
    is_covered,
    list_failing,
    list_false,
    list_hints,
    place,
    pose,
    put_together,
)
from proverrl.lang.records import RefusedHints
from proverrl.search.base import Functions
from proverrl.search.pooled_hints import PooledHints
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from scripts.measure_pooled_hints import Attempts, Task
from tests.dafny_search import Dafny, Script, open_dafny, run

PROGRAM = """lemma Least(n: nat)
  ensures n * n >= n
{
}
method Both(n: nat) returns (r: int)
  ensures r == 2 * n
{
  r := 0;
  var i := 0;
  while i < n
  {
    r := r + 2;
    i := i + 1;
  }
  var j := n;  // down
  while 0 != j { j := j - 1; }
}
"""
BOTH = Problem("both", "dafny", "annotate", "", f"{PROGRAM}{HOLE}\n")
RANGE, SUM = "11:3 invariant i <= n", "11:3 invariant r == 2 * i"
DOWN = "16:16 decreases j"
LOST = "11:3 invariant r < 9"


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    yield from open_dafny()


def write(*changes: tuple[str, str]) -> str:
    """The program with texts put before others."""
    text = PROGRAM
    for before, new in changes:
        assert text.count(before) == 1
        text = text.replace(before, new + before)
    return text


def refuse(body: str, *errors: tuple[str, str], resolved: bool = True) -> Verdict:
    """Errors at the first character of texts of the body."""
    found = []
    for message, text in errors:
        before = body[: body.index(text)]
        column = len(before) - before.rfind("\n") - 1
        line = before.count("\n") + 1
        found.append(Diagnostic("error", message, body_line=line, body_column=column))
    counts = (Obligations("Both", 9, 5),) if resolved else ()
    stage = Stage.PROVER if resolved else Stage.READING
    return Verdict(Status.REJECTED, tuple(found), obligations=counts, stage=stage)


def test_hints_have_their_places_in_the_problems_program() -> None:
    body = write(
        ("{\n    r := r", "invariant i <= n // true\n  invariant r ==\n    2 * i;\n  "),
        ("{ j := j", "decreases j "),
        ("  var j := n", "  assert i == n;\n  Least(n);\n"),
    )
    hints = list_hints(BOTH, body)
    assert [hint.text for hint in hints] == [
        RANGE,
        f"{SUM};",
        "15:3 assert i == n;",
        "15:3 Least(n);",
        DOWN,
    ]
    # The measure is that of the second loop; a last semicolon of a clause does not count.
    assert [bool(hint.measure) for hint in hints] == [False, False, False, False, True]
    assert hints[1].key == SUM
    assert is_covered(BOTH, body)
    # Put together they are the program with the same hints.
    whole = put_together(BOTH, [hint.text for hint in reversed(hints)])
    assert {hint.key for hint in list_hints(BOTH, whole)} == {hint.key for hint in hints}
    assert put_together(BOTH, []) == PROGRAM
    assert put_together(BOTH, [RANGE, SUM, DOWN]) == write(
        ("{\n    r := r", "  invariant i <= n\n    invariant r == 2 * i\n  "),
        (" { j := j", "\n    decreases j\n "),
    )


def test_a_body_begins_with_its_hints() -> None:
    assert begin(BOTH, []) == ""
    assert begin(BOTH, [SUM, RANGE]) == (
        PROGRAM[: PROGRAM.index("{\n    r := r")]
        + "  invariant r == 2 * i\n    invariant i <= n\n  "
    )
    last = "assert r >= 0;"
    assert begin(BOTH, [f"17:1 {last}", RANGE]) == put_together(
        BOTH, [RANGE, f"17:1 {last}"]
    ).removesuffix("}\n")


def test_what_is_declared_is_not_pooled_and_changed_programs_have_no_hints() -> None:
    body = write(
        ("{\n    r := r", "invariant i <= n\n  "),
        ("  var j := n", "  ghost var g := i;\n  assert g <= n;\n"),
    )
    assert [hint.text for hint in list_hints(BOTH, body)] == [RANGE]
    assert not is_covered(BOTH, body)
    helper = body + "lemma Own() ensures true { }\n"
    assert [hint.text for hint in list_hints(BOTH, helper)] == [RANGE]
    for bad in (
        body.replace("r + 2", "r + 3"),
        write(("  var j", "  assume false;\n")),
        "method (",
    ):
        assert list_hints(BOTH, bad) == []
        assert not is_covered(BOTH, bad)
        assert find_refused(Candidate(BOTH, bad), refuse(bad, ("parse", bad[:3]))) is None


def test_what_a_verdict_says_of_hints_and_of_what_does_not_end() -> None:
    body = put_together(BOTH, [RANGE, LOST, "15:3 Least(j);"])
    maintained = ("This loop invariant might not be maintained by the loop.", "r < 9")
    endless = ("cannot prove termination; try supplying a decreases clause", "while 0")
    post = ("A postcondition might not hold on this return path.", "lemma")
    measure = list_hints(BOTH, put_together(BOTH, [DOWN]))[0].measure
    found = find_refused(Candidate(BOTH, body), refuse(body, maintained, endless, post))
    assert found == RefusedHints(frozenset(), frozenset({LOST}), frozenset({measure}))
    unresolved = refuse(body, ("unresolved identifier: j", "Least(j)"), resolved=False)
    assert find_refused(Candidate(BOTH, body), unresolved) == RefusedHints(
        frozenset({"15:3 Least ( j ) ;"})
    )
    assert find_refused(Candidate(BOTH, body), Verdict(Status.EXHAUSTED)) is None


@pytest.mark.slow
@pytest.mark.dafny
def test_good_hints_of_failed_programs_are_a_proof_on_real_dafny(
    dafny: Dafny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooled, "guessed_kinds", frozenset())
    programs = [
        put_together(BOTH, [RANGE, LOST, "16:16 invariant j > 0", "16:16 decreases n"]),
        put_together(BOTH, [SUM, "16:16 decreases j", "17:1 assert r > 7;"]),
        put_together(BOTH, [SUM, "16:16 decreases j", "16:16 decreases n"]),
    ]
    settings = {"calls": 12, "width": 3, "whole_share": 0.25}
    result = run(dafny, Script({"": programs}), BOTH, name="pooled_hints", **settings)
    assert result.proofs[0].confirmed
    kept = {hint.text for hint in list_hints(BOTH, result.proofs[0].body)}
    assert {RANGE, SUM} <= kept
    assert kept & {LOST, "17:1 assert r > 7;", "16:16 decreases n"} == set()
    assert not run(dafny, Script({"": programs}), BOTH, name="best_of_n", calls=12).proved


def test_what_is_asserted_apart_is_told_by_its_number() -> None:
    few = [RANGE, "15:3 Least(n);"]
    assert assert_apart(BOTH, few) == ""
    hints = [f"11:3 invariant {i} <= n" for i in range(6)] + [
        "15:3 Least(n);",
        "17:1 assert(true);",
    ]
    body = assert_apart(BOTH, hints)
    lines = [line.strip() for line in body.split("\n")]
    # Before the loop and at its end: the condition, that it is false, and each invariant.
    assert sum(line == "ghost var guessed0: int :| 0 <= guessed0;" for line in lines) == 1
    assert sum("!= 0;" in line for line in lines) == 2
    assert lines.count("assert guessed1 == 1 ==> (0 <= n);") == 1
    assert sum(" ==> " in line for line in lines) == 12
    assert "Least(n);" in lines
    told = refuse(body, ("false", "assert guessed0 == 6 ==>"), ("false", "assert guessed1 != 0"))
    told_again = refuse(body, ("false", "assert guessed1 == 1 ==>"))
    assert [list_false(body, verdict) for verdict in (told, told_again)] == [{5}, {0}]


def test_failures_are_of_the_declaration_that_they_stand_in() -> None:
    text = (
        "module A.B { method M() { assert x; } }\n"
        "module A.C { class D { method M() { assert y; } } }\n"
        "method One() { assert z; } method Two() { assert w; }\n"
    )
    found = [
        list_failing(text, Verdict(Status.REJECTED, (Diagnostic("error", "no", line, column),)))
        for line, column in ((1, text.index("x")), (2, 37), (3, 15), (3, 42))
    ]
    assert found == [{"A.B.M": 1}, {"A.C.D.M": 2}, {"One": 3}, {"Two": 3}]


def test_a_files_own_text_keeps_its_symbols_and_ends_of_lines() -> None:
    text = "method M(n: nat)\r\n{\n  while 0 ≤ n { }\n}\n"
    problem = pose("m", text)
    assert "0 <= n" in problem.statement
    [hint] = list_hints(
        problem, problem.statement.replace("{ }", "\n  invariant n < 9 { }").replace(HOLE, "")
    )
    assert hint.text == "3:16 invariant n < 9"
    assert place(text, [hint.text]) == [(3, 15, "invariant n < 9")]
    assert insert(text, [hint.text]) == (
        "method M(n: nat)\r\n{\n  while 0 ≤ n\r\n    invariant n < 9\r\n  { }\n}\n"
    )
    assert insert(text, ["4:1 assert n < 9;"]) == (
        "method M(n: nat)\r\n{\n  while 0 ≤ n { }\n  assert n < 9;\r\n}\n"
    )


def test_a_symbol_that_is_written_as_a_word_keeps_its_place() -> None:
    text = "lemma L()\n{\n  assert ∀ x :: x == x;\n  ∀ x {\n  }\n}\n"
    written = "lemma L()\n{\n  assert  forall  x :: x == x;\n   forall  x {\n  }\n}\n"
    assert place(text, [f"4:{written.split(chr(10))[3].index('forall') + 1} assert true;"]) == [
        (4, 3, "assert true;")
    ]


def test_failures_without_a_line_are_of_no_declaration() -> None:
    whole = (Diagnostic("error", "at the limit"), Diagnostic("error", "no", 1, 20))
    found = list_failing("method One() { assert z; }\n", Verdict(Status.EXHAUSTED, whole))
    assert found == {"One": 1}


@pytest.mark.slow
@pytest.mark.dafny
def test_guessed_hints_alone_are_a_proof_on_real_dafny(dafny: Dafny) -> None:
    """Bounds, what two counters have in common, and what a guard says at the end of its loop."""
    config = SearchConfig(name="pooled_hints", calls=12)
    search = PooledHints(BOTH, Functions(None, dafny.verify, confirm=dafny.verify), config)
    result = dafny.runner.run(search.run())
    assert result.proofs[0].confirmed
    assert result.tokens == 0
    kept = {hint.text for hint in list_hints(BOTH, result.proofs[0].body)}
    assert {RANGE, "11:3 invariant 2 * i == r"} <= kept
    assert kept & {"11:3 invariant r <= n", "11:3 invariant i < r"} == set()


def test_the_measurement_draws_true_and_corrupted_hints() -> None:
    hints = list_hints(BOTH, put_together(BOTH, [RANGE, SUM, DOWN]))
    task = Task(BOTH, hints)
    attempts = Attempts(task, keep=0.5, corrupt=0.5, seed=0)
    written = [list_hints(BOTH, attempts.write()) for _ in range(40)]
    true = {hint.key for hint in hints}
    num_true = sum(hint.key in true for found in written for hint in found)
    # 120 draws of 1/2: within four standard deviations of 5.5. What is corrupted takes the place
    # of a hint; in the measure there is nothing to corrupt.
    assert 38 <= num_true <= 82
    assert {len(found) for found in written} == {2, 3}
    wrong = {hint.text for found in written for hint in found if hint.key not in true}
    assert "11:3 invariant i < n" in wrong
    assert attempts.num == 40
    # Both searches draw the same ones.
    again = Attempts(task, keep=0.5, corrupt=0.5, seed=0)
    assert [list_hints(BOTH, again.write()) for _ in range(40)] == written


def test_texts_in_quotes_keep_their_blanks() -> None:
    said = 'assert |"a  b"| == 4 && |"{ :"| == 3; // so'
    body = write(("  var j := n", f"  {said}\n"))
    hint = list_hints(BOTH, body)[0]
    assert hint.text == '15:3 assert | "a  b" | == 4 && | "{ :" | == 3 ;'
    assert list_hints(BOTH, put_together(BOTH, [hint.text]))[0].key == hint.key
