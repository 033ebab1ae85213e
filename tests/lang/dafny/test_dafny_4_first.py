"""Dafny 4 as the first verifier: what it is asked, against a fake, and the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.language import DAFNY
from proverrl.lang.dafny.syntax.plain import WrittenText, write_ghost
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import EntryResult, Reply
from proverrl.lang.dafny.syntax.text import name_contract, name_entry
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.walls import refuted
from proverrl.lang.dafny.verify.walls.answers import Questioned
from proverrl.lang.dafny.verify.walls.edited import EditedProgram, own_program
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
)
from proverrl.types import ANNOTATE, FILE, HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Limits
from tests import ROOT
from tests.lang.dafny.test_audit_attacks import BEHIND_THE_AUDIT, CASES, make_candidate

T = TypeVar("T")
BOTH = "lemma First() {}\nlemma Second() {}"


def start(toolchain: DafnyToolchain, ask: Callable[[DafnyLanguageServer], Awaitable[T]]) -> T:
    async def main() -> T:
        server = await DafnyLanguageServer.start(
            toolchain, Limits(), KnownProblems(), analyses=False
        )
        try:
            return await ask(server)
        finally:
            server.kill()
            await server.join()

    return asyncio.run(main())


def judge(toolchain: DafnyToolchain, *candidates: Candidate) -> list[Verdict]:
    async def ask(server: DafnyLanguageServer) -> list[Verdict]:
        return [await server.judge(candidate) for candidate in candidates]

    return start(toolchain, ask)


def make(kind: str, statement: str, body: str) -> Candidate:
    return Candidate(Problem("p", "dafny", kind, "", statement), body)


def test_functions_are_ghost_that_do_not_say_otherwise() -> None:
    text = (
        "function F(): int { 1 } // function\nfunction method G(): int { 1 }\n"
        "static predicate P() { true }\nghost function H(): int { 2 }\n"
        "twostate predicate T() { true }\n"
    )
    assert write_ghost(text).text == (
        "ghost function F(): int { 1 } // function\nfunction method G(): int { 1 }\n"
        "static ghost predicate P() { true }\nghost function H(): int { 2 }\n"
        "twostate predicate T() { true }\n"
    )


VERIFIES = """\
lemma L(x: int) ensures x >= 0 {}
method M() { assert false; }
lemma LL() {}
function F(n: nat): nat { n }
"""


def test_only_names_that_match_are_verified(real: DafnyToolchain) -> None:
    async def ask(server: DafnyLanguageServer) -> list[tuple[EntryResult, ...]]:
        found = [await server.ask(VERIFIES), await server.ask(VERIFIES, 1, name_entry("L*"))]
        found.append(await server.ask_names(VERIFIES))
        return [reply.entries for reply in found]

    everything, some, names = start(real, ask)
    assert [(e.name.rpartition(".")[2], e.outcome) for e in everything] == [
        *(("L", "error"), ("M", "error"), ("LL", "verified"), ("F", "verified")),
    ]
    assert [(e.name, e.outcome) for e in some] == [
        (name_entry("L"), "error"),
        (name_entry("LL"), "verified"),
    ]
    assert [e.name for e in names] == [e.name for e in everything]


TYPES = f"""\
datatype N<T> = Z | S(t: T, n: N<T>)
type low = ch | 'a' <= ch <= 'z' witness 'd'
function F(p: N<nat>): nat {{ match p case Z => 0 case S(u, Z) => u case S(u, S(v, w)) => u + v }}
method M(p: N<int>, a: array<nat>)
  requires a.Length > 2
{{
  var e := S(0, Z);
  match e {{ case Z => case S(g, h) => assert h == h; }}
  for i := 0 to a.Length {{ assert a[i] >= 0; }}
  ghost var s := set k | k in {{1 as bv8}};
  var f := x => x && e == e;
  var (q, r) := (a[0], 'c');
  ghost var c :| c in s || c > 2;
  assert forall y :: y in s ==> y == y;
  {HOLE}
}}
"""


def test_types_of_every_form_are_told(real: DafnyToolchain) -> None:
    blank = read_text(TYPES.replace(HOLE, ""))

    async def ask(server: DafnyLanguageServer) -> list[str]:
        return list((await server.ask_types(blank))[1])

    names = [blank.tokens[binding.place].text for binding in blank.bindings]
    kinds = [binding.kind for binding in blank.bindings]
    told = [
        (name, text)
        for name, kind, text in zip(names, kinds, start(real, ask), strict=True)
        if kind != "value" and name != "Z"
    ]
    assert told == [
        *(("ch", "char"), ("u", "nat"), ("u", "nat"), ("v", "nat"), ("w", "N<nat>")),
        *(("e", "N<int>"), ("g", "int"), ("h", "N<int>"), ("i", "int")),
        *(("s", "set<bv8>"), ("k", "bv8"), ("f", "bool -> bool"), ("x", "bool")),
        *(("q", "nat"), ("r", "char"), ("c", "bv8"), ("y", "bv8")),
    ]


LEMMA = f"lemma L(x: int)\n  ensures x * x >= x\n{{\n  {HOLE}\n}}\n"
LOOP = (
    "method M(n: nat) returns (r: int)\n  ensures r == 2 * n\n{\n  r := 0;\n  var i := 0;\n"
    f"  while i < n\n    {HOLE}\n  {{\n    r := r + 2;\n    i := i + 1;\n  }}\n}}\n"
)
BLANK = "method M(n: nat) returns (r: int)\n  ensures r == n\n{\n  r := 0;\n"
FOR = BLANK + "  for i := 0 to n\n  {\n    r := r + 1;\n  }\n}\n"


def test_real_verdicts(real: DafnyToolchain) -> None:
    proved = "invariant 0 <= i <= n\ninvariant r == 2 * i"
    hinted = FOR.replace("to n\n", "to n\n    invariant r == i\n")
    found = judge(
        real,
        make("statements", LEMMA, "assert x >= 1 || x <= 0;"),
        make("statements", LEMMA.replace("x * x >= x", "x >= 0"), "assert x * x >= 0;"),
        make("invariants", LOOP, proved),
        make("invariants", LOOP.replace("2 * n", "2 * n + 1"), proved),
        # Types that the hint would steer are written into our text.
        make("invariants", LOOP, proved + "\ninvariant i == (i as bv8) as int"),
        make(ANNOTATE, FOR + HOLE, hinted),
        make(FILE, HOLE, "ghost function G(n: nat): nat { n }\n" + hinted),
        make(FILE, HOLE, FOR),
    )
    assert [(v.status.value, str(v.stage)) for v in found] == [
        *(("proved", "prover"), ("rejected", "prover"), ("proved", "prover")),
        *(("rejected", "prover"), ("rejected", "prover"), ("proved", "prover")),
        *(("proved", "prover"), ("rejected", "prover")),
    ]


def test_code_may_not_call_what_only_specifies(real: DafnyToolchain) -> None:
    statement = (
        "function Twice(n: nat): nat { 2 * n }\nmethod M(n: nat) returns (r: nat)\n"
        f"  ensures r == Twice(n)\n{HOLE}\n"
    )
    called, computed = judge(
        real,
        make("program", statement, "{ r := Twice(n); }"),
        make("program", statement, "{ r := n + n; }"),
    )
    assert (called.status, computed.status) == (Status.REJECTED, Status.PROVED)
    assert called.diagnostics[0].line == 4
    assert called.diagnostics[0].column == 12


FAILS_INSIDE = "assert forall y: int {:trigger y} :: y == y;"


def test_what_dafny_fails_on_is_no_wrong_proof(real: DafnyToolchain) -> None:
    """It is rejected with a cause, at once, and the next one is judged as ever."""
    broken, right = judge(
        real, make("statements", LEMMA, FAILS_INSIDE), make("statements", LEMMA, "assert x == x;")
    )
    assert (broken.status, broken.cause, broken.fatal) == (Status.REJECTED, "no-result", True)
    assert broken.diagnostics[0].message.startswith("Dafny failed inside")
    assert (right.status, right.cause) == (Status.PROVED, "")


def test_a_refutation_on_which_dafny_fails_refutes_nothing(
    real: DafnyToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = f"lemma L() {{ {FAILS_INSIDE} }}\n"
    monkeypatch.setattr(refuted, "write_runs", lambda problem: (broken, ["L"]))
    assert judge(real, make("statements", LEMMA, "assert x == x;"))[0].proved


def test_what_is_included_is_not_verified_again(real: DafnyToolchain) -> None:
    own, included = "lemma Top() ensures 1 > 2 {\n  Base(); }", "lemma Base() ensures 1 > 2 {}"

    async def ask(server: DafnyLanguageServer) -> list[Reply | None]:
        asked = [(own, included), (own.replace("Base();", ""), included), (own, "lemma Base( {}")]
        return [await server.ask_part(*texts) for texts in asked]

    found = start(real, ask)
    assert [[(e.name, e.outcome) for e in reply.entries] for reply in found if reply] == [
        [(name_entry("Top"), "verified")],
        [(name_entry("Top"), "error")],
        [],
    ]
    assert [reply.errors != [] for reply in found if reply] == [False, True, True]


HONEST = [json.loads(line) for line in (ROOT / "tests/honest/dafny_4.jsonl").open()]


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case["id"])
def test_honest_text_is_admitted(case: dict[str, str]) -> None:
    assert DAFNY.audit(make(case["kind"], case["statement"], case["body"])) is None


@pytest.mark.slow
def test_honest_text_is_proved(real: DafnyToolchain) -> None:
    verdicts = judge(real, *(make(c["kind"], c["statement"], c["body"]) for c in HONEST))
    assert [v.diagnostics for v in verdicts if not v.proved] == []


def test_entries_that_a_problem_names_are_those_of_dafny_2_3(real: DafnyToolchain) -> None:
    good = make("statements", LEMMA, "assert x >= 1 || x <= 0;")
    named = {"expected_entries": [name_contract("L"), name_entry("L")]}
    problem = replace(good.problem, metadata=named)
    assert judge(real, replace(good, problem=problem))[0].proved


def test_the_walls_ask_at_for_loops() -> None:
    hinted = FOR.replace("to n\n", "to n\n    invariant r == i\n")
    candidate = make(ANNOTATE, FOR + HOLE, hinted)
    owned = own_program(candidate, WrittenText(hinted, {}), read_text(hinted))
    asked = Questioned(EditedProgram(owned), owned.holders)
    asked.question_loops()
    assert {promise for _, promise in asked.questions.values()} == {"false"}
    assert len(asked.questions) == 2


def test_errors_stand_before_warnings(real: DafnyToolchain) -> None:
    statement = f"lemma L(f: int -> bool) ensures forall x :: f(x + 1) {{ {HOLE} }}"
    (verdict,) = judge(real, make("statements", statement, "assert forall x :: f(x + 1);"))
    assert [d.severity for d in verdict.diagnostics][:2] == ["error", "warning"]


@pytest.mark.slow
@pytest.mark.dafny
def test_no_attack_that_the_audit_admits_is_proved(real: DafnyToolchain) -> None:
    admitted = [case for case in CASES if case["caught_by"] in BEHIND_THE_AUDIT]
    verdicts = judge(real, *map(make_candidate, admitted))
    proved = [case["name"] for case, v in zip(admitted, verdicts, strict=True) if v.proved]
    assert proved == []


def test_what_only_dafny_2_believes_is_rejected(real: DafnyToolchain) -> None:
    files = [make_candidate(case) for case in CASES if case["kind"] == FILE]
    admitted = [c for c in files if audit_candidate(c, dafny="4.11.0") is None]
    older = [c for c in admitted if DAFNY.audit(c) is not None]
    assert len(older) == 75
    assert [v.rule for v in judge(real, *older) if v.proved] == []


def test_a_problem_that_names_the_entries_of_dafny_2_is_proved(real: DafnyToolchain) -> None:
    statement = (
        "function F(x: int): int { x + 1 }\nmethod M(xs: array<int>)\n  requires xs.Length > 0\n"
        f"  ensures xs[0] == F(xs[0]) - 1\n{{ {HOLE} }}\n"
    )
    contracts = [f"CheckWellformed$$_module.__default.{name}" for name in "FM"]
    names = {"expected_entries": [*contracts, "Impl$$_module.__default.M"]}
    problem = Problem("p", "dafny", "statements", "", statement, metadata=names)
    assert judge(real, Candidate(problem, ""))[0].proved


def test_a_test_that_expects_is_proved_where_that_is_believed(real: DafnyToolchain) -> None:
    body = "method {:test} T() { var x := F(1); expect x == 2; assert x == 2; }\n"
    body += "method F(x: int) returns (y: int) { y := x + 1; }\n"
    believes = replace(real, allowed=("assume",))
    right, wrong = judge(
        believes,
        make(FILE, HOLE, body),
        make(FILE, HOLE, body.replace("assert x == 2", "assert x == 3")),
    )
    assert (right.status, right.believed) == (Status.PROVED, (("assume", 1),))
    assert wrong.status is Status.REJECTED
