"""Proofs inside programs: they may declare variables and call lemmas, and change nothing.

Also what Dafny leaves out without a word: an iterator that it did not verify is not proved.
"""

import pytest

from proverrl.lang.dafny.audit.bodies import audit
from proverrl.lang.dafny.syntax.cursor import list_declared, list_methods
from proverrl.lang.dafny.syntax.reply import parse_reply
from proverrl.lang.dafny.syntax.tokens import read_file
from proverrl.lang.dafny.verify.judge import judge_reply
from proverrl.types import HOLE, Candidate, Problem, Status

ADMITTED = [
    "assert P by { var x := 1; assert x == 1; }",
    "assert P by { var x, y: int := 1, 2; ghost var z :| z > x; }",
    "assert P by { var (a, b) := pair; L(a); }",
    "assert P by { assert m[1 := 2] == d.(head := 3).tail; }",
    "assert P by { assert map[1 := 2] == map x | x in {1} :: x := x + 1; }",
    "assert P by { assert var y := 2; y > 1; }",
    "assert P by { if x :| x > 0 { L(x); } else { } }",
    "assert P by { if { case x :| x > 0 => L(x); case true => } }",
    "assert P by { calc { 1; == { L(1); } var q := 1; q; } }",
    "calc == { m; { var x := L(1); assert x == 1; } n; }",
    "calc {:induction false} == { m; n; }",
    "assert P by { } x := 1;",
    "calc { m; n; } x := 1; return;",
]
REFUSED = [
    ("assert P by { x := 1; }", "assignment", 16),
    ("assert P by { x :| x > 0; }", "assignment", 16),
    ("assert P by { var y := 1; y := 2; }", "assignment", 28),
    ("assert P by { x, y := 1, 2; }", "assignment", 19),
    ("assert P by { a[0] := 1; }", "assignment", 19),
    ("assert P by { this.f := 1; }", "assignment", 21),
    ("assert P by { if P { } x := 1; }", "assignment", 25),
    ("assert P by { if P { x := 1; } }", "assignment", 23),
    ("assert P by { match t case A => x := 1; }", "assignment", 34),
    ("assert P by { label A: x := 1; }", "assignment", 25),
    ("assert P by { assert forall y :: y == y; x := 1; }", "assignment", 43),
    ("assert P by { assert Q by { } x := L(1); }", "assignment", 32),
    ("calc { m; { x := L(1); } n; }", "assignment", 14),
    ("calc {:induction false} == { m; { x := L(1); } n; }", "assignment", 36),
    ("calc { m; { assert P by { x := 1; } } n; }", "assignment", 28),
    ("assert P by { return; }", "keywords", 14),
    ("assert P by { Go(); }", "names", 14),
    ("assert P by { this.Go<int>(); }", "names", 19),
]


def make_program(statements: str) -> str:
    return f"method Go()\n{{ }}\nlemma M()\n{{\n{statements}\n}}\n"


@pytest.mark.parametrize("statements", ADMITTED)
def test_a_proof_may_declare(statements: str) -> None:
    assert audit("file", make_program(statements)) == []


@pytest.mark.parametrize(("statements", "rule", "column"), REFUSED)
def test_a_proof_may_not_change(statements: str, rule: str, column: int) -> None:
    findings = audit("file", make_program(statements))
    assert [(f.category, f.rule, f.line, f.column) for f in findings] == [
        ("cheat", rule, 5, column)
    ]


def test_a_character_that_runs_into_a_word_is_refused() -> None:
    assert [f.rule for f in read_file("'a'b")[1]] == ["characters"]
    assert [t.text for t in read_file("'a' b '\\n' x'y'")[0]] == ["'a'", "b", "'\\n'", "x'y'", ""]


def test_literals_are_ascii() -> None:
    for text in ('"\u00e9"', "'\u00e9'", '@"\u00e9"'):
        assert [(f.category, f.rule) for f in read_file(text)[1]] == [("syntax", "characters")]
    assert read_file('// \u00e9\n"\\u00e9"')[1] == []


def test_declared_names() -> None:
    text = (
        "predicate method P() function method {:fuel F, 2} F() ghost method {:trigger {1}} G() "
        "constructor Init() constructor() iterator I() lemma L()"
    )
    tokens, _ = read_file(text)
    assert list_methods(tokens) == {"G", "Init", "I", "MoveNext"}
    assert list_declared(tokens, "function", "predicate") == {"P", "F"}


def judge_iterator(program: str, *entries: str) -> tuple[Status, str]:
    lines = [f"Verifying {name} ...\n  [1 proof obligation]  verified\n" for name in entries]
    candidate = Candidate(Problem("p", "dafny", "file", "", HOLE), program)
    judgement = judge_reply(parse_reply("\n".join(lines)), candidate, None)
    return judgement.status, "".join(d.message for d in judgement.diagnostics)


def test_an_iterator_that_was_skipped_is_not_proved() -> None:
    program = "iterator Go_on() yields (x: int) ensures false { }"
    valid = "CheckWellformed$$_module.Go__on.Valid"
    skipped = (Status.UNSOUND, "Dafny skipped these iterators: Go__on")
    assert judge_iterator(program, valid) == skipped
    assert judge_iterator(program, "CheckWellformed$$_module.Go__on") == skipped
    assert judge_iterator(program, valid, "Impl$$_module.Go__on") == (Status.PROVED, "")
    silent = program.replace("ensures false ", "")
    assert judge_iterator(silent, valid) == (Status.PROVED, "")
