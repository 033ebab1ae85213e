"""Subgoals of Dafny proofs: sketches and their problems by hand, and the search on real Dafny."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lang.dafny.search.branches import are_disjoint, read_branches
from proverrl.lang.dafny.search.sketch import blank, fill
from proverrl.lang.dafny.search.subgoals import is_circular, lift
from proverrl.lang.records import Prefix, Sketch, Subgoal
from proverrl.search.base import Functions, Proposal, Search
from proverrl.search.wiring import make_search
from proverrl.types import HOLE, Candidate, Problem, Verdict
from tests.dafny_search import CALC, LEM, LOOP, TWO, WRONG, Dafny, Script, open_dafny, run
from tests.search_world import run_stopped


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    yield from open_dafny()


# Text --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_branches_have_paths_and_exclude_each_other() -> None:
    text = "if a > 3 { A(); } else if x in {1, 2} { match l { case N(h, t) => B(h); } }"
    branches, _ = read_branches(text)
    assert [(text[b.start : b.end].strip(), b.path) for b in branches] == [
        ("A();", ("a > 3",)),
        ("match l { case N(h, t) => B(h); }", ("!(a > 3)", "x in {1, 2}")),
        ("B(h);", ("!(a > 3)", "x in {1, 2}", "(l).N?")),
        ("", ("!(a > 3)", "!(x in {1, 2})")),
    ]
    assert branches[3].is_missing
    assert are_disjoint(branches[0].arms, branches[2].arms)
    assert not are_disjoint(branches[1].arms, branches[2].arms)


@pytest.mark.slow
def test_a_path_over_names_of_its_own_cannot_be_said_outside() -> None:
    branches, claims = read_branches("var k := m; if k > 0 { assert m > 0; } assert k >= 0;")
    assert [b.path for b in branches] == [None, None]
    # m is known outside, but not the path to it; k is not known at all.
    assert [(c.text, c.path) for c in claims] == [("m > 0", None), ("k >= 0", None)]


@pytest.mark.slow
def test_filled_holes_are_needed_no_more() -> None:
    sketch = Sketch("a /*{H1}*/ b /*{H2}*/", (Subgoal("H1"), Subgoal("H2", ("H1",))))
    assert fill(sketch, {"H1": " x "}) == Sketch("a x b /*{H2}*/", (Subgoal("H2"),))
    # The marks have eight characters.
    assert blank(sketch) == "a          b         "


# Real Dafny --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_failing_branches_become_holes(dafny: Dafny) -> None:
    sketch = dafny.sketch(LEM, "if m > 3 { Lem(m); } else { assert m == 7; }")
    assert sketch is not None
    # The branch that calls the lemma comes last, where it may use the others.
    assert sketch.body == "if m > 3 { /*{R2}*/ } else { /*{H1}*/ }"
    assert sketch.subgoals == (Subgoal("H1"), Subgoal("R2", ("H1",)))
    first = lift(LEM, sketch, sketch.subgoals[0], ())
    last = lift(LEM, sketch, sketch.subgoals[1], ("H1",))
    assert first is not None
    assert last is not None
    assert "requires !(m > 3)\n  ensures" in first.statement
    hypothesis = "requires forall m: nat :: (!(m > 3)) ==> (Val(m) == 18 * m + 22)\n"
    assert hypothesis in last.statement
    # In the last hole the lemma may be called for less, and never for the same.
    assert dafny.judge(last, "Lem(m - 1);").proved
    assert not dafny.judge(last, "Lem(m);").proved
    assert not dafny.judge(last, "").proved
    assert dafny.judge(first, "if m > 0 { Lem(m - 1); }").proved
    assert not dafny.judge(first, "Lem(m);").proved


@pytest.mark.slow
def test_a_branch_that_dafny_did_not_name_is_found_when_the_sketch_is_closed(
    dafny: Dafny,
) -> None:
    body = "if m > 3 { } else if m == 0 { }"
    sketch = dafny.sketch(LEM, body)
    assert sketch is not None
    assert sketch.body == "if m > 3 { /*{H1}*/ } else if m == 0 { }"
    better = dafny.closed(LEM, sketch)
    assert better is not None
    assert better.body == "if m > 3 { /*{H1}*/ } else if m == 0 { } else { /*{H2}*/ }"
    assert dafny.closed(LEM, better) == better


@pytest.mark.slow
def test_what_is_no_part_of_a_problem_is_refused(dafny: Dafny) -> None:
    # The only hole would be the whole body.
    assert dafny.sketch(LEM, "Lem(m);") is None
    assert dafny.sketch(LEM, "assert m >= 0;") is None
    assert dafny.sketch(LEM, "nonsense") is None
    # A lemma of its own that promises the same is the problem again.
    twice = dafny.sketch(LEM, "assert Val(m) == 18 * m + 22; assert Val(m) > 21;")
    assert twice is not None
    assert lift(LEM, twice, twice.subgoals[0], ()) is None
    assert is_circular(LEM, replace(LEM, statement=LEM.statement.replace("Lem", "Other")))
    asks = LEM.statement.replace("  ensures", "  requires Val(m) == 18 * m + 22\n  ensures")
    assert is_circular(LEM, replace(LEM, statement=asks))
    fewer = LEM.statement.replace("  ensures", "  requires m > 3\n  ensures")
    assert not is_circular(LEM, replace(LEM, statement=fewer))


@pytest.mark.slow
def test_assertions_become_lemmas_that_know_the_ones_before(dafny: Dafny) -> None:
    sketch = dafny.sketch(LEM, "assert Val(m) >= 22; assert Val(m) > m;")
    # All of the proof would be left: the postcondition fails too.
    assert sketch is None
    body = "assert Val(m) % 2 == 0; assert Val(m) >= 22; assert Val(m) == 18 * m + 22;"
    sketch = dafny.sketch(LEM, body)
    assert sketch is not None
    second = lift(LEM, sketch, sketch.subgoals[1], ("H1",))
    assert second is not None
    assert second.statement == (
        "lemma {:induction false} LemH2(m: nat)\n  requires Val(m) % 2 == 0\n"
        f"  ensures Val(m) >= 22\n{{\n  {HOLE}\n}}\n"
    )
    alone = lift(LEM, sketch, sketch.subgoals[1], ())
    assert alone is not None
    assert dafny.judge(alone, "if m > 0 { LemH2(m - 1); }").proved
    # The lemma that it comes from is not there to be called.
    assert not dafny.judge(alone, "Lem(m);").proved


@pytest.mark.slow
def test_a_calculation_keeps_its_steps(dafny: Dafny) -> None:
    body = "== 2 * Fn(n - 1) + 46 * n;\n== 23 * (n - 1) * n + 38 + 46 * n;"
    sketch = dafny.sketch(CALC, body)
    assert sketch is not None
    assert sketch.body == body.replace("== 23", "== { /*{H1}*/ } 23")
    part = lift(CALC, sketch, sketch.subgoals[0], ())
    assert part is not None
    assert part.kind == "statements"
    assert dafny.judge(part, "Show(n - 1);").proved
    assert dafny.judge(CALC, body.replace("== 23", "== { Show(n - 1); } 23")).proved


@pytest.mark.slow
def test_the_last_step_of_a_calculation_is_written_once_more(dafny: Dafny) -> None:
    sketch = dafny.sketch(CALC, "== 2 * Fn(n - 1) + 46 * n;")
    assert sketch is not None
    last = "== 2 * Fn(n - 1) + 46 * n;\n== { /*{H1}*/ } 23 * n * (n + 1) + 38;"
    assert sketch.body == last
    assert dafny.judge(CALC, last.replace("/*{H1}*/", "Show(n - 1);")).proved


@pytest.mark.slow
def test_clauses_that_hold_stay(dafny: Dafny) -> None:
    sketch = dafny.sketch(LOOP, "invariant 0 <= m <= cap\ninvariant b == 11 * m + 54")
    assert sketch is not None
    assert sketch.body == "invariant 0 <= m <= cap\n/*{H1}*/"
    assert dafny.closed(LOOP, sketch) == sketch
    part = lift(LOOP, sketch, sketch.subgoals[0], ())
    assert part is not None
    assert part.kind == "invariants"
    kept = "  while m < cap\n    invariant 0 <= m <= cap\n    /*{HOLE}*/\n  {\n"
    assert kept in part.statement
    assert dafny.judge(part, "invariant b == 10 * m + 54").proved
    # A clause that held only beside a wrong one goes too when the sketch is closed.
    pair = dafny.sketch(LOOP, "invariant 0 <= m\ninvariant b == 54\ninvariant b >= 54 && b < 55")
    assert pair is None or "b == 54" not in pair.body


@pytest.mark.slow
def test_two_branches_found_apart_are_a_proof(dafny: Dafny) -> None:
    halves = ["ForG(n);", "ForF(n);"]
    script = {f"{{\n  {HOLE}": [WRONG], "": halves}
    result = run(dafny, Script(script), TWO, name="subgoals")
    assert result.proved
    assert result.proofs[0].body == "if n % 2 == 0 { ForF(n); } else { ForG(n); }"
    assert result.proofs[0].confirmed
    assert result.calls <= 16
    # Every call and every token is one of a turn's.
    assert sum(turn.is_call for turn in result.turns) == result.calls
    assert sum(turn.num_tokens for turn in result.turns) == result.tokens
    assert result.proofs[0].calls == result.calls
    *_, record = result.tree["sketches"].values()
    assert record["outcome"] == "solved"
    # The same writer of whole bodies proves nothing with the same calls.
    again = run(dafny, Script(script), TWO, name="best_of_n")
    assert not again.proved


@pytest.mark.slow
def test_it_says_what_blocks(dafny: Dafny) -> None:
    script = {f"{{\n  {HOLE}": [WRONG], "": ["ForG(n);"]}
    result = run(dafny, Script(script), TWO, name="subgoals", calls=10)
    assert not result.proved
    # The second hole was solved with the first one given; the first one stays open in both tries.
    records = list(result.tree["sketches"].values())
    assert records[0]["solved"] == ["H2"]
    assert records[0]["blocking"] == {"H1": ["H2"]}
    assert records[1]["blocking"] == {"H1": []}
    nodes = {node["id"]: node for node in result.tree["graph"]["nodes"]}
    first, second = (name for name in nodes if name.endswith(("0.0.H1", "0.0.H2")))
    assert nodes[first]["solved"] is False
    assert nodes[second]["solved"] is True
    assert {"source": first, "target": second} in result.tree["graph"]["edges"]


@pytest.mark.slow
def test_a_body_that_holds_the_mark_of_the_hole_has_no_parts(dafny: Dafny) -> None:
    bodies = [f'assert "{HOLE}" == "";', "if m > 0 { Lem(m - 1); }"]
    result = run(dafny, Script({"": bodies}), LEM, name="subgoals", calls=6)
    assert [proof.body for proof in result.proofs] == bodies[1:]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 4, 7, 9])
def test_it_goes_on_where_it_was(dafny: Dafny, after: int) -> None:
    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        # What is written depends on the seed alone.
        if f"{{\n  {HOLE}" in problem.statement:
            return [Proposal(f"assert {seed % 2} >= 0; {WRONG}", 2, -1.0)]
        return [Proposal("ForF(n);" if seed % 3 == 0 else "ForG(n);", 1, -1.0)]

    def build() -> Search:
        functions = Functions(propose, dafny.verify)
        config = SearchConfig(name="subgoals", calls=16, width=1)
        return make_search(TWO, functions, config, seed=5)

    whole = dafny.runner.run(build().run())
    assert run_stopped(build, dafny.runner.run, after) == whole


@pytest.mark.slow
def test_other_problems_are_refused() -> None:
    async def verify(candidate: Candidate) -> Verdict:
        raise AssertionError

    functions = Functions(Script({"": [""]}).propose, verify)
    lean = replace(LEM, language="lean", kind="tactic")
    with pytest.raises(UsageError, match="has no sketches"):
        make_search(lean, functions, SearchConfig(name="subgoals"))
