"""Filters: a problem that each stops, on real Dafny; what is counted; what Lean would be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from proverrl.compose.filters import (
    FILTERS,
    Filter,
    FilterRun,
    Stop,
    make_filters,
    make_negation,
    run_filters,
)
from proverrl.config.selfplay import FilterName
from proverrl.errors import ToolchainError, VerifierError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang import find_language
from proverrl.lang.dafny.compose.attack import (
    build_runs,
    list_exploits,
    list_plain_proofs,
    list_values,
    unroll_loops,
    write_witnesses,
)
from proverrl.lang.dafny.compose.declarations import read_program, rename
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.lang.lean.compose import make_absurd
from proverrl.problems.contamination import make_skeleton
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Verifier
from tests.fake_verifier import FakeVerifier
from tests.filter_tools import LEMMA, LOOP, make_tools


def loop(name: str, text: str = LOOP) -> Problem:
    return Problem(name, "dafny", "invariants", "", text)


def lemma(name: str, text: str = LEMMA) -> Problem:
    return Problem(name, "dafny", "statements", "", text)


def run(
    problems: Sequence[Problem],
    verifier: Verifier,
    *,
    held_out: Sequence[Problem] = (),
    existing: Sequence[Problem] = (),
    names: Sequence[FilterName] = tuple(FILTERS),
) -> FilterRun:
    async def main() -> FilterRun:
        tools = make_tools(verifier, existing=existing, held_out=held_out)
        try:
            return await run_filters(problems, make_filters(tools, names), tools)
        finally:
            await verifier.aclose()

    return asyncio.run(main())


STOPPED = {
    "duplicate": loop("duplicate", rename(LOOP, {"Sum": "Go", "n": "m", "i": "j", "r": "v"})),
    "leak": loop("leak", LOOP.replace("7", "11")),
    "does-not-resolve": lemma("does-not-resolve", LEMMA.replace("F(m) ==", "G(m) ==")),
    "no-end": lemma("no-end", LEMMA.replace("F(n - 1)", "F(n)")),
    "trivial": loop("trivial", LOOP.replace("r == 7 * n + 5", "n >= 0")),
    "contradiction": loop(
        "contradiction", LOOP.replace("  ens", "  requires n < 4 && n > 6\n  ens")
    ),
    "weak": loop("weak", LOOP.replace("r == 7 * n + 5", "r % 7 == 5 || r == 0")),
    "false-loop": loop("false-loop", LOOP.replace("ensures r ==", "ensures r >")),
    "false-lemma": lemma("false-lemma", LEMMA.replace("9 * m + 4", "8 * m + 4")),
}
HELD_OUT = loop("held", rename(LOOP.replace("7", "11"), {"Sum": "Fold", "i": "k", "r": "t"}))


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_each_filter_stops_its_example_on_real_dafny() -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    verifier, _ = GENERATOR.open_verifier(1)
    good = [lemma("good-lemma"), loop("good-loop")]
    found = run([*good, *STOPPED.values()], verifier, held_out=[HELD_OUT])
    assert found.kept == tuple(good)
    reasons = {stop.problem_id: (stop.filter, stop.reason) for stop in found.stops}
    assert reasons == {
        "duplicate": ("duplicate", "the same but for names"),
        "leak": ("leak", "renamed as held"),
        "does-not-resolve": ("well_formed", "does not resolve"),
        "no-end": ("well_formed", "fails with any body"),
        "trivial": ("trivial", "proved by an empty body"),
        "contradiction": ("satisfiable", "its requires contradict each other"),
        "weak": ("weak_contract", "a program that does nothing meets its contract"),
        "false-loop": ("refuted", "a small run breaks it"),
        "false-lemma": ("refuted", "its negation is proved"),
    }
    (refuted,) = [stop for stop in found.stops if stop.problem_id == "false-lemma"]
    assert refuted.kept is not None
    assert (refuted.kept.parents, refuted.kept.operator) == (("false-lemma",), "negate")
    assert refuted.kept.reference == refuted.body
    kept = Candidate(refuted.kept.problem, refuted.body)

    async def judge() -> bool:
        fresh, _ = GENERATOR.open_verifier(1)
        try:
            return (await fresh.verify(kept, deadline_seconds=120.0)).proved
        finally:
            await fresh.aclose()

    assert asyncio.run(judge())


def refuse(candidate: Candidate) -> Verdict:
    entry = Obligations("Impl$$_module.__default.Sum", 5, 3)
    return Verdict(Status.REJECTED, obligations=(entry,), stage=Stage.PROVER)


def test_calls_are_counted_once_for_each_question() -> None:
    verifier = FakeVerifier(refuse)
    found = run([loop("a"), loop("b", LOOP.replace("7", "8"))], verifier)
    # Each: the empty body (well_formed; trivial asks it again and is told from memory), the body
    # "invariant true", three exploits (empty, the input handed back, the default), the runs.
    assert found.calls == {"well_formed": 2, "trivial": 2, "weak_contract": 4, "refuted": 2}
    assert found.calls.total() == verifier.num_calls == 10
    assert [problem.id for problem in found.kept] == ["a", "b"]


def test_a_duplicate_is_the_later_of_two_and_existing_problems_count() -> None:
    twin = loop("twin", LOOP.replace("Sum", "Go"))
    names: tuple[FilterName, ...] = ("duplicate",)
    found = run([loop("a"), twin], FakeVerifier(refuse), names=names)
    assert [stop.problem_id for stop in found.stops] == ["twin"]
    found = run([twin], FakeVerifier(refuse), names=names, existing=[loop("a")])
    assert found.kept == ()
    assert make_skeleton(twin) == make_skeleton(loop("a"))
    assert make_skeleton(twin) != make_skeleton(loop("a", LOOP.replace("7", "8")))


def test_a_problem_that_holds_a_held_out_one_whole_is_a_leak() -> None:
    more = f"lemma More(a: int)\n  ensures a * a >= 0\n{{\n}}\n{HELD_OUT.statement}"
    names: tuple[FilterName, ...] = ("leak",)
    found = run([loop("more", more)], FakeVerifier(refuse), held_out=[HELD_OUT], names=names)
    assert [stop.reason for stop in found.stops] == ["near as held"]
    # The same family with another number shares runs, and is no leak.
    assert run([loop("kin")], FakeVerifier(refuse), held_out=[HELD_OUT], names=names).stops == ()


@pytest.mark.parametrize(
    ("number", "name"), [(0, "well_formed"), (1, "weak_contract"), (3, "refuted")]
)
def test_a_late_question_that_is_not_judged_stops_as_well(number: int, name: FilterName) -> None:
    names: tuple[FilterName, ...] = ("well_formed", "weak_contract", "refuted")
    verifier = FakeVerifier(refuse, script={number: Status.TIMEOUT})
    found = run([loop("a")], verifier, names=names)
    assert [(stop.filter, stop.reason) for stop in found.stops] == [(name, "not judged")]


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.CRASHED])
def test_what_is_not_judged_is_stopped(status: Status) -> None:
    found = run([loop("a")], FakeVerifier(lambda _: status))
    assert [(stop.filter, stop.reason) for stop in found.stops] == [("well_formed", "not judged")]


def test_a_program_that_cannot_be_taken_apart_is_stopped() -> None:
    text = f"class C {{ method M() ensures 1 > 0 {{ {HOLE} }} }}\n"
    found = run([lemma("class", text), loop("a")], FakeVerifier(refuse))
    (stop,) = found.stops
    assert (stop.problem_id, stop.filter, stop.reason) == ("class", "well_formed", "cannot be read")
    assert stop.body == "the hole must stand in a top-level method, function or lemma"
    assert [problem.id for problem in found.kept] == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("lemma {:induction false}", "lemma {:verify false}", "attributes"),
        ("lemma {:induction false}", "lemma H() { assume false; }\nlemma", "keywords"),
        ("lemma {:induction false}", "lemma H() ensures false\nlemma", "missing-body"),
        ("function F", 'include "x.dfy"\nfunction F', "keywords"),
    ],
)
def test_a_statement_that_assumes_is_stopped_before_any_call(old: str, new: str, rule: str) -> None:
    verifier = FakeVerifier(refuse)
    names: tuple[FilterName, ...] = ("well_formed",)
    (stop,) = run([lemma("a", LEMMA.replace(old, new))], verifier, names=names).stops
    assert (stop.filter, stop.reason) == ("well_formed", f"refused by the audit: {rule}")
    assert verifier.num_calls == 0


def test_a_broken_verifier_is_raised() -> None:
    def fail(_: Candidate) -> Verdict:
        raise VerifierError("no machine")

    with pytest.raises(ExceptionGroup) as caught:
        run([loop("a")], FakeVerifier(fail))
    assert caught.group_contains(VerifierError, match="no machine")


def test_a_filter_of_ones_own_fits_the_protocol() -> None:
    async def no_loops(problem: Problem) -> Stop | None:
        return Stop("trivial", problem.id, "a loop") if "while" in problem.statement else None

    async def main() -> FilterRun:
        tools = make_tools(FakeVerifier(refuse), existing=(), held_out=())
        filters: dict[FilterName, Filter] = {"trivial": no_loops}
        return await run_filters([loop("a"), lemma("b")], filters, tools)

    assert [problem.id for problem in asyncio.run(main()).kept] == ["b"]


def test_small_values_and_witnesses() -> None:
    tree = "datatype T = Leaf | Node(l: T, v: int, r: T)\n" + LEMMA
    program = read_program(tree)
    assert list_values("nat", program) == ["0", "1", "3", "2"]
    assert list_values("T", program) == [
        "Leaf",
        "Node(Node(Leaf, 3, Leaf), 3, Node(Leaf, 3, Leaf))",
    ]
    assert list_values("map<int, int>", program) == []
    assert write_witnesses(lemma("w")) == (
        "if !((F(0) == 9 * 0 + 4)) { }\nelse if !((F(1) == 9 * 1 + 4)) { }\n"
        "else if !((F(3) == 9 * 3 + 4)) { }\nelse if !((F(2) == 9 * 2 + 4)) { }"
    )
    assert list_plain_proofs(lemma("w")) == ["if m > 0 { Law(m - 1); }"]
    negation = make_negation(lemma("w"))
    assert negation is not None
    assert "ensures exists m: nat :: !(F(m) == 9 * m + 4)\n" in negation.problem.statement
    assert make_negation(loop("l")) is None


def test_runs_fix_the_inputs_and_deny_the_contract() -> None:
    runs = build_runs(loop("r"))
    assert runs is not None
    first = read_program(
        runs.body.replace("method RunProbe1", f"{'method X() {'}{HOLE}}}\nmethod RunProbe1")
    ).declarations[0]
    assert first.clauses == (("requires", "n == 0"), ("ensures", "!((r == 7 * n + 5))"))
    assert first.body.count("if i < n {") == 5
    assert "assert !(i < n);" in first.body
    assert "while" not in runs.body
    assert build_runs(lemma("l")) is None


def test_a_loop_three_deep_is_not_unrolled() -> None:
    body = "{ while a { while b { while c { } } } }"
    assert unroll_loops(body) is None
    assert unroll_loops("{ while a { while b { x := 1; } } }") is not None


def test_exploits_do_nothing() -> None:
    bodies = [
        read_program(c.body + f"lemma H() {{ {HOLE} }}").declarations[0].body
        for c in list_exploits(loop("e"))
    ]
    assert bodies == ["{\n}", "{\n  r := 0;\n}"]
    given = loop("e", LOOP.replace("n: nat", "n: nat, k: int"))
    texts = [candidate.body for candidate in list_exploits(given)]
    assert any("r := k;" in text for text in texts)
    assert list(list_exploits(lemma("l"))) == []


def lean(text: str) -> Problem:
    return Problem("t", "lean", "tactics", "", f"{text} := by\n  {HOLE}\n")


def test_what_lean_would_be_asked() -> None:
    absurd = make_absurd(lean("theorem t (x : ℝ) (h : x > x) : x = 2"))
    assert absurd is not None
    assert (
        absurd.statement == f"theorem t_absurd (x : ℝ) (h : x > x) :\n    False := by\n  {HOLE}\n"
    )

    def judge(candidate: Candidate) -> Verdict:
        if candidate.body == "sorry":
            return Verdict(Status.INCOMPLETE)
        if "False" in candidate.problem.statement and candidate.body == "simp_all":
            return Verdict(Status.PROVED, checks=("fake",))
        return Verdict(Status.REJECTED, (Diagnostic("error", "no"),))

    verifier = FakeVerifier(judge)
    found = run([lean("theorem t (x : ℝ) (h : x > x) : x = 2")], verifier)
    assert [(s.filter, s.body) for s in found.stops] == [("satisfiable", "simp_all")]


@pytest.mark.parametrize(
    ("before", "rule"),
    [
        ("", ""),
        ("axiom bad : False\n", "commands"),
        ("macro_rules | `($a = $b) => `(True)\n", "commands"),
        ("#eval 1\n", "commands"),
        ("theorem u : False := by (sorry)\n", "holes"),
        ("theorem u : False := by admit\n", "holes"),
    ],
)
def test_lean_cheats_in_a_composed_statement_are_those_of_the_audit(before: str, rule: str) -> None:
    problem = lean("theorem t : (1 : Nat) = 2")
    composing = find_language("lean").composing
    assert composing is not None
    composed = replace(problem, statement=before + problem.statement)
    assert [found for found, _ in composing.find_cheats(composed)] == ([rule] if rule else [])
