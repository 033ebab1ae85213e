"""Walls: what is proved without the program, or proves anything, is no proof."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from proverrl.lang.dafny.syntax.cursor import Cursor
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import EntryResult, Reply, ReplyMessage
from proverrl.lang.dafny.verify.judge import judge_candidate
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.walls.answers import Questioned
from proverrl.lang.dafny.verify.walls.edited import OwnedProgram, own_program
from proverrl.lang.dafny.verify.walls.forget import forget_program
from proverrl.lang.dafny.verify.walls.refuted import find_refuted, write_runs
from proverrl.lang.dafny.verify.walls.relevance import WallFinding, ask_relevance
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import HOLE, Candidate, Problem, Stage, Status, Verdict
from tests.shared_verifier import ask_worker


def own(problem: Problem, body: str) -> OwnedProgram:
    candidate = Candidate(problem, body)
    written = WrittenText(candidate.source, {})
    program = read_text(candidate.source, admitted=True)
    return own_program(candidate, written, program)


def forget(
    statement: str, body: str, *, kind: str = "statements", keep_promises: bool = False
) -> str:
    owned = own(Problem("p", "dafny", kind, "", statement), body)
    return forget_program(owned, owned.holders, keep_promises=keep_promises).write().text


PROGRAM = f"""\
const N: int := 5
function F(x: int): int requires x > 0 ensures F(x) > 1 {{ x + N }}
lemma About(x: int) ensures x == x {{ }}
method Other(a: array<int>) returns (k: int) modifies a ensures k == 3 {{ k := 3; }}
method M(a: array<int>, n: int) returns (r: int, b: bool)
  requires a.Length > 2
  modifies a
  ensures r == F(n)
{{
  var x, y: int := 1, 2;
  ghost var g := x;
  a[0], r := x, y;
  r := Other(a);
  forall i | 0 <= i < 2 {{ a[i] := i; }}
  if x > 1 {{ return 4, true; }}
  {HOLE}
}}
"""
FORGOTTEN = """\
const N: int     {0}
function F(x: int): int requires x > 0                   {0}
lemma About(x: int)                    {0}
method Other(a: array<int>) returns (k: int) modifies a                {0}
method M(a: array<int>, n: int) returns (r: int, b: bool)
  requires a.Length > 2
  modifies a
  ensures r == F(n)
{{
  var x, y: int := 1, 2; x := *; y := *;
  ghost var g := x; g := *;
  a[0], r := x, y; a[0] := *; r := *;
  r := Other(a); r := *; modify a;
  forall i | 0 <= i < 2 {{ a[i] := i; }} modify a;
  if x > 1 {{ r, b :=        4, true; r := *; b := *; return; }}
  {1}
}}
"""


def squeeze(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_program_is_forgotten_line_by_line() -> None:
    body = "ghost var mine := x; assert mine == 1;"
    assert squeeze(forget(PROGRAM, body)) == squeeze(FORGOTTEN.format("", body))


def test_fields_are_forgotten_however_they_are_named() -> None:
    statement = f"""\
class Pair {{
  var left: int
  method Set(others: set<Pair>) modifies this, others {{
    this.left := 2;
    (this).left := 3;
    forall c | c in others {{ c.left := var d := 1; d; }}
    {HOLE}
  }}
}}
"""
    text = squeeze(forget(statement, "assert true;"))
    assert text[3:6] == [
        "this.left := 2; this.left := *;",
        "(this).left := 3; (this).left := *;",
        "forall c | c in others { c.left := var d := 1; d; } modify this, others;",
    ]


def test_promises_of_others_may_stay() -> None:
    text = forget(PROGRAM, "assert true;", keep_promises=True).splitlines()
    assert squeeze(text[1]) == ["function F(x: int): int requires x > 0 ensures F(x) > 1"]
    assert squeeze(text[3])[0].endswith("modifies a ensures k == 3")


def test_code_of_the_policy_is_forgotten_and_its_ghosts_are_not() -> None:
    text = forget(PROGRAM, "y := 3; ghost var z := y;", kind="program")
    assert "y := 3; y := *; ghost var z := y;\n" in text


def test_conditions_of_the_policy_are_evaluated_and_forgotten() -> None:
    body = "while y < 3 invariant y < 9 { if y == 1 { y := 2; } else { } }"
    text = forget(PROGRAM, body, kind="program").splitlines()[-2]
    assert squeeze(text) == [
        "ghost var guard_8 := y < 3; while * invariant y < 9 { ghost var guard_10 := y == 1; "
        "if * { y := 2; y := *; } else { } }"
    ]


@pytest.mark.parametrize(
    ("clause", "split"),
    [
        ("assert A && B;", "assert A ; assert B;"),
        ("assert A && (B && C) && D;", "assert A ; assert (B && C) ; assert D;"),
        ("assert A && B ==> C;", "assert A && B ==> C;"),
        (
            "assert A && forall z :: z > 0 && z > 1;",
            "assert A ; assert forall z :: z > 0 && z > 1;",
        ),
        ("assert && A && B;", "assert && A ; assert B;"),
        ("assert A && B by { }", "assert A && B by { }"),
    ],
)
def test_conjuncts_stand_alone(clause: str, split: str) -> None:
    statement = f"lemma L(A: bool, B: bool, C: bool, D: bool)\n{{\n{HOLE}\n}}\n"
    assert squeeze(forget(statement, clause).splitlines()[2]) == squeeze(split)


def test_places_of_the_rewritten_text() -> None:
    owned = own(Problem("p", "dafny", "statements", "", PROGRAM), "assert true;")
    written = forget_program(owned, owned.holders, keep_promises=False).write()
    source = owned.program.text
    for line, text in enumerate(written.text.splitlines(), start=1):
        for column, character in enumerate(text):
            place, inserted = written.locate(line, column)
            if inserted:
                assert character in inserted
            elif character != " ":
                assert source[place] == character
    line = written.text.splitlines().index("  var x, y: int := 1, 2; x := *; y := *;") + 1
    assert written.locate(line, 25) == (source.index("1, 2;") + 5, " x := *; y := *;")


LOOP = f"""\
method M(n: nat) returns (r: int)
  ensures r == 2 * n
{{
  r := 0;
  var i := 0;
  while i < n
    {HOLE}
  {{
    i := i + 1;
    r := r + 2;
  }}
}}
"""
LOOP_PROBLEM = Problem("loop", "dafny", "invariants", "", LOOP)


class ScriptedDafny:
    """Says of each text that the lines and columns fail which hold one of ``marks``."""

    def __init__(self, *scripts: Sequence[tuple[str, str, str]]) -> None:
        self._scripts = list(scripts)
        self.texts: list[str] = []

    async def ask(self, source: str) -> Reply:
        self.texts.append(source)
        messages: list[ReplyMessage] = []
        for mark, said, note in self._scripts.pop(0):
            for index, line in enumerate(source.splitlines(), start=1):
                if mark in line:
                    messages.append(ReplyMessage("error", index, line.index(mark), said))
            for index, line in enumerate(source.splitlines(), start=1):
                if note and note in line:
                    place = ReplyMessage("related", index, line.index(note), "this one")
                    messages.append(place)
        outcome = "errors" if messages else "verified"
        return Reply((EntryResult("Impl$$M", 3, outcome),), tuple(messages), ())


ENTRY = "This loop invariant might not hold on entry."
KEPT = "This loop invariant might not be maintained by the loop."


def ask(dafny: ScriptedDafny, body: str) -> WallFinding:
    async def blank() -> OwnedProgram:
        return own(LOOP_PROBLEM, "")

    return asyncio.run(ask_relevance(dafny.ask, own(LOOP_PROBLEM, body), blank))


@pytest.mark.parametrize("body", ["ghost var k := 0;", "ghost var M := 0;", "M(0);"])
def test_neither_a_name_nor_a_call_takes_a_question_away(body: str) -> None:
    statement = f"""\
lemma M(n: nat)
  ensures F(n) == 1
{{
{HOLE}
}}
function F(n: nat): int {{ 1 }}
"""
    owned = own(Problem("p", "dafny", "statements", "", statement), body)
    asked = Questioned(forget_program(owned, owned.holders, keep_promises=False), owned.holders)
    asked.question_runs()
    assert asked.num_questions == 4


ENDLESS = ("while", "decreases expression might not decrease", "")
POST = (" r := r", "A postcondition might not hold on this return path.", "r == 2 * n")
QUESTIONS = (("assert (false)", "assertion violation", ""), ("assert (r", "violation", ""))


def test_what_fails_without_the_program_is_taken_away_before_it_lends_anything() -> None:
    last = (POST, ENDLESS, *QUESTIONS)
    dafny = ScriptedDafny((("r == 2 * i", KEPT, ""),), (POST, ENDLESS), last)
    found = ask(dafny, "invariant i <= n && r == 2 * i")
    assert found == WallFinding((), 1)
    clauses = [squeeze(text)[6] for text in dafny.texts]
    assert clauses == ["invariant i <= n invariant r == 2 * i", *2 * ["invariant i <= n"]]


def test_where_all_of_it_fails_nothing_else_is_asked() -> None:
    dafny = ScriptedDafny((("r == 2 * i", KEPT, ""), ("i <= n", ENTRY, "")))
    assert ask(dafny, "invariant i <= n && r == 2 * i") == WallFinding((), 1)


def test_a_claim_that_holds_without_the_program_and_not_with_an_empty_hole_is_believed() -> None:
    # With what our other declarations promise, and again without.
    # What did not fail is asked again without the questions that did.
    scripts = 2 * ((), QUESTIONS, (), (POST, *QUESTIONS))
    # Then it is asked without what is no plain assertion, as with an empty hole.
    plain = ((POST, ENDLESS), (POST, ENDLESS, *QUESTIONS))
    found = ask(ScriptedDafny(*scripts, *plain), "invariant forall k: int :: k == k")
    assert found.believed == ("ensures r == 2 * n",)
    # What plain assertions prove holds whatever the program does.
    assert ask(ScriptedDafny(*scripts, (), QUESTIONS, ()), "invariant i <= n").believed == ()
    # With an empty hole it is proved too, so nothing of it is the policy's doing.
    proved = ask(ScriptedDafny((), QUESTIONS, (), QUESTIONS), "invariant i <= n")
    assert proved == WallFinding((), 1)


def test_a_loop_in_which_anything_holds_is_believed_at_once() -> None:
    dafny = ScriptedDafny((POST,), (POST,), (POST,), (POST, *QUESTIONS))
    found = ask(dafny, "decreases n - i")
    assert "false" in found.believed
    assert len(dafny.texts) == 4


PRELUDE = """\
datatype List = Nil | Cons(head: int, tail: List)
type Some = x: seq<int> | 1 <= |x| witness [1]
type No = b: bool | !b
function Above(x: int): int requires x > 0 ensures x > 0 { x }
lemma Never(f: No) ensures !f { }
"""
CALC = "calc { 1 / 0 == 1; == true; <== true; } calc { 1 / 0 != 1; == true; <== true; }"
BUGS = {
    "a calc that turns": CALC,
    "a choice after a conjunction": (
        "assert false && true ==> (var y: int :| false; (y, 1).0 == 1);"
    ),
    "a statement in what forall ensures": "forall ensures (assert false; false) { }",
    "a key of a map": (
        "ghost var m := map z | 0 < z < 3 :: Above(z) := 1; "
        "assert forall z :: z == 0 ==> (z > 0 ==> Above(z) > 0);"
    ),
    "a negated subset of bool": "var f: No := false; Never(!f);",
}
GOAL = "r == 2 * n + 1"
FORMS = {
    "bare": "{bug}",
    "where the goal fails": "if !(r == 2 * n + 1) {{ {bug} }}",
    "in a proof of the goal": "assert r == 2 * n + 1 by {{ if r != 2 * n + 1 {{ {bug} }} }}",
    "behind a fact of the program": "if i == n {{ {bug} }}",
    "beside a fact of the program": "assert r == 2 * i && r == 2 * n + 1 by {{ {bug} }}",
}
FALSE_STATEMENT = f"""\
method M(n: nat) returns (r: int)
  ensures r == 2 * n + 1
{{
  r := 0;
  var i := 0;
  while i < n
    invariant 0 <= i <= n
    invariant r == 2 * i
  {{
    i := i + 1;
    r := r + 2;
  }}
  {HOLE}
}}
"""


class BareProblems(KnownProblems):
    """Problems as they are, whatever their types, and with ``refutes`` false whatever small inputs
    show of them, so that the other walls are asked."""

    def __init__(self, *, refutes: bool = False) -> None:
        super().__init__()
        self._refutes = refutes

    async def find_refuted(self, *given: Any) -> str:
        return await super().find_refuted(*given) if self._refutes else ""

    async def write_types(self, process: DafnyProcess, candidate: Candidate) -> WrittenText:
        return WrittenText(candidate.source, {})


def judge(candidates: list[Candidate], *, refutes: bool = False) -> Iterator[Verdict]:
    """What real Dafny and the walls say, without the audit."""
    known = BareProblems(refutes=refutes)

    async def judge_all(worker: DafnyProcess, toolchain: DafnyToolchain) -> list[Verdict]:
        return [await judge_candidate(worker, one, known, toolchain) for one in candidates]

    yield from ask_worker(judge_all)


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("recorded_dafny")
def test_no_bug_of_dafny_proves_what_the_program_does(bug: str) -> None:
    problem = Problem("false", "dafny", "statements", PRELUDE, FALSE_STATEMENT)
    candidates = [Candidate(problem, form.format(bug=BUGS[bug])) for form in FORMS.values()]
    found = {
        form: (verdict.status, verdict.stage, verdict.rule)
        for form, verdict in zip(FORMS, judge(candidates), strict=True)
    }
    assert found == dict.fromkeys(FORMS, (Status.UNSOUND, Stage.WALL, "relevance"))


BUG = "(false && true ==> (var y: int :| false; (y, 1).0 == 1))"
"""One expression from which anything follows."""

DEMANDING = FALSE_STATEMENT.replace("  ensures", "  requires n > 3\n  ensures")
DIVIDED = "10 / (r + 3 - 2 * i)"
SUM = "function Sum(n: nat): nat\n{ if n == 0 then 0 else n + Sum(n - 1) }\n"
SQUARE = f"lemma L(n: nat)\n  ensures Sum(n) == n * n\n{{\n  {HOLE}\n}}\n"
STREAM = f"""\
codatatype S = C(head: int, tail: S)
copredicate Pos(s: S) {{ s.head > 0 && Pos(s.tail) }}
function Up(n: int): S {{ C(n, Up(n + 1)) }}
colemma L(n: int)
  ensures Pos(Up(n))
{{
  {HOLE}
}}
"""
IN_LOOP = """\
method M(n: nat) returns (r: int)
  requires n > 3
  ensures r == 3 * n
{
  r := 0;
  var i := 0;
  while i < n
    invariant 0 <= i <= n
    invariant r == 3 * i
  {
    i := i + 1;
    r := r + 2;
    /*{HOLE}*/
  }
}
"""
HIDDEN = {
    "beside a fact of a method that demands": (DEMANDING, f"assert r == 2 * i ==> {BUG};"),
    "beside a fact in a loop": (IN_LOOP, f"assert r == 3 * i - 1 ==> {BUG};"),
    "in cases of what needs the program": (
        DEMANDING,
        f"if {{ case {DIVIDED} > 0 => {CALC} case {DIVIDED} <= 0 => {CALC} }}",
    ),
    "in a match of what needs the program": (
        DEMANDING,
        f"match Cons({DIVIDED}, Nil) {{ case Cons(x, y) => {CALC} case Nil => }}",
    ),
    "behind a call of the lemma itself": (
        SUM + SQUARE,
        f"if n > 1 {{ L(n - 1); assert Sum(n) == n * n || {BUG}; }}",
    ),
    "in a colemma": (STREAM, CALC),
}


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_no_place_hides_a_bug() -> None:
    problems = [Problem("p", "dafny", "statements", PRELUDE, text) for text, _ in HIDDEN.values()]
    bodies = [body for _, body in HIDDEN.values()]
    verdicts = judge([Candidate(p, body) for p, body in zip(problems, bodies, strict=True)])
    found = {place: verdict.status for place, verdict in zip(HIDDEN, verdicts, strict=True)}
    assert found == dict.fromkeys(HIDDEN, Status.UNSOUND)


STEPS = """\
function F(n: int): int
  ensures F(n) == n + 1
{
  n
}
lemma L(n: nat)
  ensures Sum(n) >= 0
{
}
"""
OWN = f"""\
lemma H(a: int, b: int, c: int)
  requires c == 1
  ensures a == b
{{
  assert a == b || {BUG};
}}
"""
HELPED = """\
lemma {:induction false} H(n: nat)
  ensures 2 * Sum(n) == n * (n + 1)
{
}
lemma {:induction false} L(n: nat)
  ensures 2 * Sum(n) + 1 == n * (n + 1) + 1
{
}
"""


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_hints_in_several_declarations_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cursor, "refuse_unread_choice", lambda self: None)
    square = SUM + SQUARE.replace(HOLE, "")
    told = square.replace("{\n", f"{{\n  assert Sum(n) == n * n || {BUG};\n")
    steps = SUM + STEPS
    helped = SUM + HELPED
    bodies = [
        (square, told.replace("{ if", "{ assert true; if")),
        (square, told.replace("nat\n{", "nat\n  decreases n\n{")),
        (square, square.replace("{\n", "{\n  H(Sum(n), n * n, Sum(1));\n") + OWN),
        (steps, steps.replace("  n\n", f"  assert {BUG}; n\n").replace("{\n}", "{ assert true; }")),
        (
            helped,
            helped.replace("{\n}", "{ if n > 0 { H(n - 1); } }", 1).replace("{\n}", "{ H(n); }"),
        ),
    ]
    problems = [Problem("p", "dafny", "annotate", "", text + HOLE) for text, _ in bodies]
    candidates = [Candidate(p, body) for p, (_, body) in zip(problems, bodies, strict=True)]
    assert [v.status for v in judge(candidates)] == [*4 * [Status.UNSOUND], Status.PROVED]


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_where_nothing_can_be_forgotten_nothing_may_follow() -> None:
    statement = f"lemma L(x: int)\n  ensures x == x + 1\n{{\n  {HOLE}\n}}\n"
    problem = Problem("pure", "dafny", "statements", PRELUDE, statement)
    verdicts = judge([Candidate(problem, bug) for bug in BUGS.values()])
    assert [(v.status, v.stage, v.rule) for v in verdicts] == (
        [(Status.UNSOUND, Stage.WALL, "consequence")] * len(BUGS)
    )


PLACES = {
    "a lemma about its parameters": (
        "statements",
        "datatype Colour = Red | Blue\ndatatype Dot = Dot(colour: Colour, size: int)\n"
        f"lemma L(d: Dot)\n  ensures d.colour == Red\n{{\n{HOLE}\n}}\n",
        "if d.colour != Red {{ ghost var Dot(Red, s) := d; }}",
    ),
    "a colemma": (
        "statements",
        f"copredicate P(n: int) {{ P(n) }}\ncolemma C(n: int)\n  ensures P(n)\n{{\n{HOLE}\n"
        "  assert n == n + 1;\n}\n",
        "{bug}",
    ),
    "a line of our calc": (
        "calc",
        f"lemma L(n: int)\n  ensures n + 1 == n\n{{\n  calc {{\n    true;\n{HOLE}\n  }}\n}}\n",
        "<==> (false && true ==> (var y: int :| false; (y, 1).0 == 1)); <==> false;",
    ),
    "a method that assigns a field of this": (
        "statements",
        "class C {\n  var x: int\n  method M()\n    modifies this\n    ensures x == 5\n  {\n"
        f"    this.x := 4;\n    {HOLE}\n  }}\n}}\n",
        "if this.x != 5 {{ {bug} }}",
    ),
    "a lemma that ensures false": (
        "statements",
        f"lemma L(n: int)\n  ensures false;\n{{\n{HOLE}\n}}\n",
        "{bug}",
    ),
    "a lemma that ensures false and demands something": (
        "statements",
        f"lemma L(n: int)\n  requires n < 3\n  ensures false\n{{\n{HOLE}\n}}\n",
        "assert n < 3; {bug}",
    ),
}


def test_small_inputs_are_tried_on_what_is_claimed() -> None:
    lemma = f"lemma L(n: nat)\n  requires n > 0\n  ensures n > 1\n{{\n{HOLE}\n}}\n"
    text, names = write_runs(Problem("l", "dafny", "statements", "", lemma))
    assert names == ["L"] * 4
    assert "lemma RunProbe1()\n  ensures (1 > 0) && !((1 > 1))\n{ }\n" in text
    # A claim may turn at the numbers that the problem writes.
    lemma = f"lemma L(x: int)\n  ensures x != 1000003\n{{\n{HOLE}\n}}\n"
    text, names = write_runs(Problem("l", "dafny", "statements", "", lemma))
    assert names == ["L"] * 7
    for number in (1000002, 1000003, 1000004):
        assert f"ensures !(({number} != 1000003))\n" in text
    # Numbers below 0 are tried of an int alone.
    lemma = f"lemma L(x: int, n: nat)\n  ensures x != -7\n{{\n{HOLE}\n}}\n"
    text, names = write_runs(Problem("l", "dafny", "statements", "", lemma))
    assert "!(((-8) != -7))" in text
    assert len(names) == 7
    text, names = write_runs(LOOP_PROBLEM)
    assert names == ["M"] * 4
    assert text.count("ensures !((r == 2 * n))") == 4
    # No name of the problem is that of a run, which would leave Dafny unable to read any.
    lemma = f"lemma RunProbe0() {{ }}\nlemma L(n: nat)\n  ensures n > 1\n{{\n{HOLE}\n}}\n"
    text, names = write_runs(Problem("l", "dafny", "statements", "", lemma))
    assert (names, text.count("lemma RunProbes")) == (["L"] * 4, 4)
    # Others may call what holds the hole.
    lemma += "lemma Calls(n: nat)\n  ensures n > 1\n{\n  L(n);\n}\n"
    text, _ = write_runs(Problem("l", "dafny", "statements", "", lemma))
    assert "lemma L(n: nat)" in text
    assert HOLE not in text
    # A member of a class is not tried.
    method = f"class C {{ method M() ensures false {{ {HOLE} }} }}"
    assert write_runs(Problem("c", "dafny", "statements", "", method)) == ("", [])


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_small_inputs_are_tried_where_the_program_calls_what_holds_the_hole() -> None:
    lemma = f"lemma L(n: nat)\n  ensures n > 1\n{{\n{HOLE}\n}}\n"
    calls = lemma + "lemma Calls(n: nat)\n  ensures n > 1\n{\n  L(n);\n}\n"
    recursive = (
        "method M(n: nat) returns (r: int)\n  ensures r == n + 1\n{{\n"
        "  if n == 0 {{ r := {0}; }} else {{ r := M(n - 1); r := r + 1; }}\n{1}\n}}\n"
    )
    texts = [lemma, calls, recursive.format(0, HOLE), recursive.format(1, HOLE)]

    async def ask(worker: DafnyServerWorker, toolchain: DafnyToolchain) -> list[str]:
        problems = [Problem("p", "dafny", "statements", "", text) for text in texts]
        return [await find_refuted(worker, problem) for problem in problems]

    assert ask_worker(ask) == ["L", "L", "M", ""]


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_a_bug_is_seen_wherever_it_stands() -> None:
    candidates = [
        Candidate(Problem(place, "dafny", kind, "", statement), form.format(bug=CALC))
        for place, (kind, statement, form) in PLACES.items()
    ]
    found = dict(zip(PLACES, judge(candidates, refutes=True), strict=True))
    assert {place: verdict.status for place, verdict in found.items()} == (
        dict.fromkeys(PLACES, Status.UNSOUND)
    )
    assert [verdict.rule for verdict in found.values()] == [
        "refuted",
        "relevance",
        "refuted",
        "relevance",
        "refuted",
        "refuted",
    ]


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_honest_proofs_pass() -> None:
    lemma = f"""\
function Sum(n: nat): nat {{ if n == 0 then 0 else n + Sum(n - 1) }}
lemma Step(n: nat) requires n > 0 ensures Sum(n) == n + Sum(n - 1) {{ }}
lemma L(n: nat)
  ensures 2 * Sum(n) == n * (n + 1)
{{
  {HOLE}
}}
"""
    square = f"lemma S(k: nat)\n  ensures k * k >= k\n{{\n  {HOLE}\n}}\n"
    absurd = f"lemma A(k: nat)\n  requires k * k < k\n  ensures false;\n{{\n  {HOLE}\n}}\n"
    fill = f"""\
method Fill(n: nat) returns (a: array<int>)
  ensures a.Length == n && forall i :: 0 <= i < n ==> a[i] == i
  {HOLE}
"""
    divides = f"""\
predicate Divides(d: int, n: int) {{ exists k :: d * k == n }}
lemma Sums(d: int, a: int, b: int)
  requires Divides(d, a) && Divides(d, b)
  ensures Divides(d, a + b)
{{
  {HOLE}
}}
"""
    halves = f"""\
function Half(n: nat): nat {{ n / 2 }}
lemma H(a: nat, b: nat)
  ensures Half(2 * a) + Half(2 * b) == a + b
{{
  {HOLE}
}}
"""
    cube = f"lemma C(n: int)\n  ensures (n * n * n - n) % 3 == 0\n{{\n  {HOLE}\n}}\n"
    bodies = [
        (LOOP_PROBLEM, "invariant 0 <= i <= n\ninvariant r == 2 * i", "relevance:1"),
        (LOOP_PROBLEM, "invariant 0 <= i <= n && r == 2 * i\ndecreases n - i", "relevance:1"),
        (
            Problem("sum", "dafny", "statements", "", lemma),
            "if n > 0 { Step(n); L(n - 1); }",
            "relevance:1",
        ),
        (
            Problem("square", "dafny", "statements", "", square),
            "if k * k < k { assert k >= 1; assert k * k >= 1 * k; assert false; }",
            "relevance:0",
        ),
        (
            Problem("absurd", "dafny", "statements", "", absurd),
            "assert k >= 1; assert k * k >= 1 * k;",
            "relevance:0",
        ),
        (
            Problem("fill", "dafny", "program", "", fill),
            "{ a := new int[n]; forall i | 0 <= i < n { a[i] := i; } }",
            "relevance:1",
        ),
        # Several variables at once keep their types, with nothing known of them.
        (
            Problem("sums", "dafny", "statements", "", divides),
            "var i, j :| d * i == a && d * j == b; assert d * (i + j) == a + b;",
            "relevance:1",
        ),
        (
            Problem("halves", "dafny", "statements", "", halves),
            "var x, y, z := 10 / (Half(4) - 1), (b, a).0, [Half(6), 1]; assert x + y == 10 + b;",
            "relevance:1",
        ),
        # What is promised is not asked where the prover would run out on it.
        (
            Problem("cube", "dafny", "statements", "", cube),
            "ghost var k := n / 3;"
            "if n % 3 == 0 { assert n * n * n - n == 3 * (k * (n * n - 1)); }"
            "else if n % 3 == 1 { assert n * n * n - n == (n - 1) * (n * (n + 1));"
            "  assert n * n * n - n == 3 * (k * (n * (n + 1))); }"
            "else { assert n * n * n - n == (n + 1) * (n * (n - 1)); assert n + 1 == 3 * (k + 1);"
            "  assert n * n * n - n == 3 * ((k + 1) * (n * (n - 1))); }",
            "relevance:0",
        ),
    ]
    verdicts = list(judge([Candidate(problem, body) for problem, body, _ in bodies]))
    assert [v.status for v in verdicts] == [Status.PROVED] * len(bodies)
    assert [v.checks[-2] for v in verdicts] == [check for _, _, check in bodies]
    # Where claims speak of the program it is asked for less.
    assert [v.checks[-1] for v in verdicts] == [
        f"consequence:{number}" for number in (0, 0, 4, 6, 2, 2, 0, 4, 10)
    ]
