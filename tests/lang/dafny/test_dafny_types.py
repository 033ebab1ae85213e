"""The types of our text are those that Dafny infers without a hint, whatever the hint says."""

import asyncio
import random
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from itertools import product

import pytest

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.audit.written_types import (
    get_blank,
    name_calc_line,
    read_insertions,
    read_untyped,
    write_types,
)
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText
from proverrl.lang.dafny.syntax.program import read_program
from proverrl.lang.dafny.syntax.reply import Reply, ReplyMessage, read_types
from proverrl.lang.dafny.syntax.tokens import read_file
from proverrl.lang.dafny.verify.judge import judge_candidate
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Stage, Status, Verdict
from tests.shared_verifier import ask_worker

TRACE_START = "    IsNullableRefType: ?{}"


def make_problem(statement: str, kind: str = "statements") -> Problem:
    return Problem("p", "dafny", kind, "", statement)


def write(problem: Problem, body: str, types: list[str | None]) -> WrittenText:
    """The candidate as it is sent when Dafny infers these types for all bindings, in order."""
    blank = read_untyped(problem.id, get_blank(problem))
    insertions = read_insertions(problem, blank, [name or "" for name in types])
    return write_types(Candidate(problem, body), blank, insertions)


def list_bindings(text: str) -> list[tuple[str, str]]:
    tokens, findings = read_file(text)
    assert not findings
    return [(tokens[b.place].text, b.kind) for b in read_program(tokens).bindings]


def test_every_name_without_a_type_is_found_in_the_order_of_the_parser() -> None:
    text = """
const c := 5
newtype Small = s | 0 <= s < 10
datatype L = N | C(h: int, t: L)
function F(l: L, k: nat): int
{
  var (u, v: int) := (1, 2);
  match l
  case N => var w :| w > 3; w
  case C(_, C(b, N)) => b
}
method M(x: int) returns (y: int) {
  var i, j: nat := 0, *;
  var a := new int[3];
  forall z, q: int | 0 <= z < q ensures z < q { }
  if g :| g > 2 { y := 1; }
  var f := p => (var d := p; d);
  ghost var h := set e | e < 3;
  ghost var m := map o | o == 1 :: (r, t: int) => r;
  assert exists n :: n > 3 && forall n2: int :: n2 == n2;
  while x < 3 { return x, 1; }
}
"""
    assert list_bindings(text) == [
        *(("c", "variable"), ("s", "variable"), ("u", "pattern"), ("w", "pattern")),
        *(("_", "pattern"), ("b", "pattern"), ("N", "pattern")),
        *(("i", "variable"), ("0", "value"), ("*", "value")),
        *(("a", "variable"), ("new", "value"), ("z", "variable"), ("g", "variable")),
        *(("1", "value"), ("f", "variable"), ("p", "value"), ("p", "lambda")),
        *(("d", "pattern"), ("h", "variable"), ("set", "value"), ("e", "variable")),
        *(("m", "variable"), ("map", "value"), ("o", "variable"), ("r", "variable")),
        *(("n", "variable"), ("x", "value"), ("1", "value")),
    ]


def test_types_stand_behind_our_names_before_and_after_the_body() -> None:
    problem = make_problem(f"lemma L() {{ var i := 0; {HOLE} var f := x => x + i; }}\n")
    types: list[str | None] = ["int", None, "int -> int", None, "int"]
    written = write(problem, "var j := 1;\n assert j == 1;", types)
    assert written.text == (
        "lemma L() { var i: int := 0; var j := 1;\n"
        " assert j == 1; var f: int -> int := (x: int) => x + i; }\n"
    )
    ours = "lemma L() { var i := 0; var j := 1;\n assert j == 1; var f := x => x + i; }\n"
    for line, marks in ((1, ("var i", ":= 0", "j")), (2, ("assert", ":= ", "=>", "x + i", "}"))):
        columns = [written.text.split("\n")[line - 1].index(mark) for mark in marks]
        sent = Reply((), tuple(ReplyMessage("error", line, column, "") for column in columns), ())
        assert [m.column for m in written.restore(sent).messages] == [
            ours.split("\n")[line - 1].index(mark) for mark in marks
        ]


def test_types_stand_in_an_annotated_program() -> None:
    ours = "method M() {\n  var i := 0;\n  i := i + 1;\n}\n"
    problem = make_problem(ours + HOLE, ANNOTATE)
    body = "method M() { // theirs\n  ghost var k := 7; var i := 0; assert i == 0;\n  i := i + 1; }"
    assert write(problem, body, ["nat", None, None]).text == body.replace("var i", "var i: nat")


def test_unknown_types_are_put_together() -> None:
    problem = make_problem(f"lemma L() {{ var i := 0; var s := i; {HOLE} }}\n")
    blank = read_untyped("p", get_blank(problem))
    trace = [
        "    IsNullableRefType: ?9",
        "DEBUG: (invariance) assigning proxy ?7.T := seq<?20>",
        "DEBUG: ProcessAssignable: assigning proxy ?20.T := D?<?21>",
        "DEBUG: Member selection (x):  ?5 :> ?21 :>   ----> (merging) assigning proxy ?21.T := ?30",
        "DEBUG: setting proxy ?30.T := C?12<int>",
        "DEBUG: setting proxy ?5.T := int",
        "DEBUG: setting proxy ?5.T := bv8",
    ]
    assert [
        i.text for i in read_insertions(problem, blank, read_types(trace, len(blank.bindings)))
    ] == [
        *(": int", ": seq<D?<C?12<int>>>"),
    ]


class SlowProcess(DafnyProcess):
    """Tells types after a while; nothing else."""

    def __init__(self, trace: list[str]) -> None:
        self.trace = trace
        self.num_asked = 0

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        raise AssertionError(source)

    ask_failures = ask

    async def ask_part(self, source: str, included: str) -> Reply | None:
        raise AssertionError(source)

    async def ask_names(self, source: str) -> Reply:
        raise AssertionError(source)

    ask_resolved = ask_names

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, list[str]]:
        self.num_asked += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return Reply((), (), ()), read_types(self.trace, len(program.bindings))


def test_no_worker_goes_without_the_types_that_another_asks_for() -> None:
    problem = make_problem(f"lemma L() {{ var i := 0; {HOLE} }}\n")
    trace = [TRACE_START.format(9), "DEBUG: setting proxy ?7.T := int"]
    known, told, mute = KnownProblems(), SlowProcess(trace), SlowProcess([])

    async def write_both() -> list[WrittenText | BaseException]:
        asks = (known.write_types(p, Candidate(problem, "")) for p in (told, mute, told))
        return await asyncio.gather(*asks, return_exceptions=True)

    first, refused, third = asyncio.run(write_both())
    assert isinstance(first, WrittenText)
    assert isinstance(third, WrittenText)
    assert first.text == third.text == "lemma L() { var i: int := 0;  }\n"
    assert isinstance(refused, ProblemError)
    # A problem that was refused is refused again.
    other, again = KnownProblems(), SlowProcess([])
    for _ in range(2):
        with pytest.raises(ProblemError, match="left to Dafny"):
            asyncio.run(other.write_types(again, Candidate(problem, "")))
    assert again.num_asked == 2


def test_a_pattern_of_which_dafny_does_not_tell_is_the_problems_fault() -> None:
    text = (
        "datatype N = Z | S(n: nat)\nlemma L(p: (N, N)) { match p case (Z, q) => " + HOLE + " }\n"
    )
    problem = make_problem(text)
    blank = read_untyped("p", get_blank(problem))
    assert [blank.tokens[b.place].text for b in blank.bindings] == ["Z", "q"]
    with pytest.raises(ProblemError, match="the type of 'q' is left to Dafny"):
        read_insertions(problem, blank, read_types([TRACE_START.format(9)], 2))
    told = [TRACE_START.format(9), "DEBUG: setting proxy ?8.T := N"]
    assert [i.text for i in read_insertions(problem, blank, read_types(told, 2))] == [": N"]


def test_a_problem_with_a_two_state_function_is_refused() -> None:
    text = f"twostate predicate T(c: object) {{ true }}\nlemma L() {{ {HOLE} }}\n"
    with pytest.raises(ProblemError, match="declares a two-state function"):
        read_untyped("p", text)


def test_the_line_before_a_hole_in_a_calc_has_a_name() -> None:
    inner = "{ calc { 1; == 1; } }"
    text = f"lemma L(x: int) {{ calc {{ 2; }} calc {{ 0; x + 1; == {inner} {HOLE} 1 + x; }} }}\n"
    problem = replace(make_problem(text), kind="calc", preamble="// before\n")
    given = Candidate(problem, "{ assert x; }")
    named, written = name_calc_line(given)
    assert named.source == given.source.replace("x + 1", "(var calc_line := x + 1; calc_line)")
    assert written.text == named.source
    for mark in ("calc { 0", "x + 1", "assert", "1 + x"):
        line = named.source.split("\n")[1]
        assert written.find_column(2, line.index(mark)) == given.source.split("\n")[1].index(mark)
    other = Candidate(make_problem(text), "")
    assert name_calc_line(other) == (other, WrittenText(other.source, {}))
    bare = replace(make_problem(f"lemma L() {{ calc {{ {HOLE} 2; }} }}\n"), kind="calc")
    with pytest.raises(ProblemError, match="no line of a calc before it"):
        name_calc_line(Candidate(bare, ""))


@pytest.mark.parametrize(
    "trace",
    [
        [],
        ["DEBUG: setting proxy ?0.T := int"],
        ["    IsNullableRefType: ?2"],
        ["    IsNullableRefType: ?2", "DEBUG: setting proxy ?0.T := seq<?7>"],
        [
            "    IsNullableRefType: ?2",
            "DEBUG: setting proxy ?0.T := seq<?7>",
            "DEBUG: setting proxy ?7.T := seq<?7>",
        ],
    ],
)
def test_a_type_that_dafny_does_not_tell_is_the_problems_fault(trace: list[str]) -> None:
    problem = make_problem(f"lemma L()\n{{ var i := 0; {HOLE} }}\n")
    blank = read_untyped("p", get_blank(problem))
    with pytest.raises(ProblemError, match=r"line 2: the type of 'i' is left to Dafny.* write"):
        read_insertions(problem, blank, read_types(trace, len(blank.bindings)))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("var s: seq := [1];", "s"),
        ("var a: array := new [1](_ => 1);", "a"),
        ("var o: O := Some(1);", "o"),
        ("var p: (int, O) := (0, Some(1));", "p"),
        ("var f: int -> O := x => Some(x);", "f"),
        ("var f := (o: O) => o == Some(1);", "o"),
        ("var o: O<seq> := Some([1]);", "o"),
        ("var (a: seq, b) := ([1], 2);", "a"),
        ("assert forall o: O :: o == o;", "o"),
        ("forall o: O | o == Some(1) ensures o.v == 1 { }", "o"),
    ],
)
@pytest.mark.parametrize("kind", ["statements", ANNOTATE])
def test_a_type_that_leaves_out_arguments_is_the_problems_fault(
    code: str, name: str, kind: str
) -> None:
    text = f"datatype O<T> = None | Some(v: T)\nlemma L(o: O)\n{{ {code}{{0}} }}\n{{1}}"
    places = ("", HOLE) if kind == ANNOTATE else (HOLE, "")
    problem = make_problem(text.replace("{0}", places[0]).replace("{1}", places[1]), kind)
    with pytest.raises(ProblemError, match=f"line 3: the type of '{name}' leaves arguments to D"):
        read_untyped("p", get_blank(problem))


# Ours: how a variable comes to be, how it is used as a number, and a number for which the use is
# negative among the integers and not among bit vectors.
SOURCES = [
    ("var v := 0;", "v"),
    ("var v, w := 0, 1;", "v"),
    ("var v := Id(0);", "v"),
    ("var v := if 1 < 2 then 0 else 1;", "v"),
    ("var v := var w := 0; w;", "v"),
    ("var v := [0];", "v[0]"),
    ("var v := [[0]];", "v[0][0]"),
    ("var v := map[7 := 0];", "v[7]"),
    ("var v := P(0);", "v.x"),
    ("var v := (0, true);", "v.0"),
    ("var (v, w) := (0, 1);", "v"),
    ("var P(v) := P(0);", "v"),
    ("var f := v => v; var v := 0;", "f(v)"),
    ("var f := () => 0; var v := f;", "v()"),
    ("var v := *; v := 0;", "v"),
    ("var v := multiset{0}; var w :| w in v;", "w"),
]
# The hint: how it speaks of the value, and of which type it wants it to be.
HINTS = [
    "assert {v} == (0 as {t});",
    "ghost var h: {t} := {v};",
    "Take{t}({v});",
    "assert Same{t}({v}) == {v};",
    "if {v} == (1 as {t}) {{ }}",
    "assert [{v}] == [0 as {t}];",
    "calc {{ {v}; 0 as {t}; }}",
    "forall b: {t} | b == {v} ensures b == {v} {{ }}",
    "ghost var h := map[{v} := 0 as {t}]; assert {v} in h;",
]
TYPES = ["bv8", "bv1", "bv32"]
PREAMBLE = "datatype P<T> = P(x: T)\nfunction method Id<T>(x: T): T { x }\n" + "".join(
    f"lemma Take{t}(x: {t}) {{ }}\nfunction Same{t}(x: {t}): {t} {{ x }}\n" for t in TYPES
)


def draw_steered(seed: int) -> Iterator[tuple[Problem, str]]:
    """Problems with a false postcondition, and hints that would make it true of bit vectors."""
    draw = random.Random(seed)
    cases = list(product(SOURCES, HINTS, TYPES))
    for (source, value), hint, name in draw.sample(cases, 60):
        use = draw.choice(
            [
                f"if {value} - 1 < 0 {{ r := -1; }} else {{ r := 1; }}",
                f"var u := {value}; u := u - 1; r := if u < 0 then -1 else 1;",
                f"r := 1; if exists n :: n == {value} - 1 && n < 0 {{ r := -1; }}",
            ]
        )
        kind = draw.choice(["statements", "assertions", ANNOTATE])
        body = hint.format(v=value, t=name)
        if kind == "assertions" and not body.startswith("assert"):
            kind = "statements"
        member = f"lemma M() returns (r: int)\n  ensures r > 0\n{{\n  {source}\n  %s\n  {use}\n}}\n"
        if kind == ANNOTATE:
            yield make_problem(PREAMBLE + member % "" + HOLE, kind), PREAMBLE + member % body
        else:
            yield make_problem(PREAMBLE + member % HOLE, kind), body


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_no_hint_steers_a_type() -> None:
    known = KnownProblems()

    async def judge_all(worker: DafnyProcess, toolchain: DafnyToolchain) -> tuple[int, int]:
        num_judged = num_refused = 0
        for problem, body in draw_steered(20_26):
            candidate = Candidate(problem, body)
            verdict = audit_candidate(candidate) or await judge_candidate(
                worker, candidate, known, toolchain
            )
            assert verdict.status in (Status.REJECTED, Status.UNSOUND), body
            num_judged += 1
            # Types that differ, and nothing else, are what is wrong with most.
            num_refused += verdict.stage is Stage.READING
        return num_judged, num_refused

    num_judged, num_refused = ask_worker(judge_all)
    assert num_judged == 60
    assert num_refused >= 50


HONEST = """
module A {{
  class C<T> {{ var f: T; constructor (t: T) {{ f := t; }} }}
  datatype D<X> = N | K(x: X, r: D<X>)
  newtype Small = x: int | 0 <= x < 10
  type Even = x: int | x % 2 == 0
  trait Tr {{ }}
}}
module B {{
  import opened A
  method M<Z>(c: C<int>, z: Z, d: D<seq<Z>>, s: Small, e: Even, t: Tr?, b: bool) {{
    var c1 := c; var z1 := z; var d1 := d; var s1 := s; var e1 := e; var t1 := t;
    var c2: C?<int> := null; var c3 := c2;
    var p := (1, (true, 'a')); var f := (x: int, y: bool) => x;
    var g := (x: Small) requires x > 0 => 1;
    var ar := new real[3]; var a2 := new int[2,3]; var un := (); var st := "abc";
    var o: object := c; var o2 := o; var cc := K(1, N); var m := map[1 := {{2}}];
    var ms := multiset{{1}}; var bv := 3 as bv7; var od := 3 as ORDINAL;
    ghost var q := iset x | x > 3; ghost var im := imap x | x > 0 :: x;
    var lam := x => z; var zz := lam(4); var n: nat := 3; var n2 := n;
    {0}
    match d1 case N => case K(x1, r1) => var x2 := x1;
    var v :| v > 3; if w: int :| w < v {{ }}
    forall y | y > 0 ensures y > 0 {{ }}
  }}
}}
"""


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_types_of_every_form_can_be_written_and_hold() -> None:
    problem = make_problem(HONEST.format(HOLE))

    async def ask(worker: DafnyProcess, toolchain: DafnyToolchain) -> tuple[WrittenText, str, int]:
        known = KnownProblems()
        written = await known.write_types(worker, Candidate(problem, ""))
        await known.check_types(worker, problem)
        verdict = await judge_candidate(worker, Candidate(problem, ""), KnownProblems(), toolchain)
        again = await worker.ask_resolved(written.text)
        return written, verdict.status.value, sum(m.kind == "error" for m in again.messages)

    written, status, num_errors = ask_worker(ask)
    assert (status, num_errors) == ("proved", 0)
    for typed in (
        *("d1: D<seq<Z>>", "t1: Tr?", "c3: C?<int>", "p: (int, (bool, char))", "n2: nat"),
        *("f: (int, bool) -> int", "g: Small --> int", "a2: array2<int>", "un: ()", "v: int"),
        *("(x: int) => z", "K(x1: seq<Z>, r1: D<seq<Z>>)", "bv: bv7", "od: ORDINAL", "o2: object"),
        *("iset x: int |", "forall y: int |", "if w: int :|", "m: map<int, set<int>>"),
    ):
        assert typed in written.text, typed


@pytest.mark.dafny
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (f"lemma L() {{ var x; {HOLE} }}\n", "with an empty body Dafny says '.*underspecified"),
        (f"lemma L() {{ var s := [];\n {HOLE} }}\n", "with an empty body Dafny says"),
        (
            "module A { datatype D = N } module B { import A lemma L() "
            f"{{ var d := A.N; {HOLE} }} }}\n",
            r"with the types that it infers written out \(.*D.*write them out",
        ),
    ],
)
@pytest.mark.usefixtures("recorded_dafny")
def test_a_problem_whose_types_cannot_be_found_or_written_is_refused(
    statement: str, why: str
) -> None:
    candidate = Candidate(make_problem(statement), "")

    def judge(worker: DafnyProcess, toolchain: DafnyToolchain) -> Awaitable[Verdict]:
        return judge_candidate(worker, candidate, KnownProblems(), toolchain)

    with pytest.raises(ProblemError, match=why):
        ask_worker(judge)
