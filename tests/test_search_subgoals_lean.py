"""Subgoals of Lean: goals as theorems, sketches by hand as Lean 4.35.0 answers them, and whole
decompositions on a real Lean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import ProblemError
from proverrl.lang.lean.search.extract import (
    Goal,
    Hypothesis,
    drop_hypotheses,
    mentions,
    parse_goal,
    write_theorem,
)
from proverrl.lang.lean.search.subgoals import close, fill, lift, make_sketch, refine
from proverrl.lang.records import Sketch, Subgoal
from proverrl.search.base import Functions, Proposal
from proverrl.search.samples import collect_samples
from proverrl.search.wiring import make_search
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import refuse_text
from tests.lean_search import SPLIT, Lean, follow_script, open_lean

P = Problem(
    "p",
    "lean",
    "tactics",
    "import Mathlib\n",
    f"theorem foo (x : Int) (h0 : 0 < x) : x ≠ 0 := by\n  {HOLE}\n",
)

# Goals as theorems


def test_a_goal_is_read_and_stated() -> None:
    goal = parse_goal(
        "case succ\nα : Type u_1\nx y : ℕ\ninst✝ : Monoid α\na✝¹ : x = y\na✝ : y =\n  x\n"
        "z : ℕ := f (a := 1)\n⊢ x + 1 =\n    y + 1"
    )
    assert goal == Goal(
        (
            Hypothesis(("α",), "Type u_1"),
            Hypothesis(("x", "y"), "ℕ"),
            Hypothesis(("inst_1",), "Monoid α"),
            Hypothesis(("a_1",), "x = y"),
            Hypothesis(("a_2",), "y =\n  x"),
            Hypothesis(("z",), "ℕ"),
        ),
        "x + 1 =\n    y + 1",
        ("inst_1", "a_1", "a_2"),
    )
    assert write_theorem("t", goal) == (
        "theorem t.{u_1}\n"
        "    (α : Type u_1)\n"
        "    (x y : ℕ)\n"
        "    [inst_1 : Monoid α]\n"
        "    (a_1 : x = y)\n"
        "    (a_2 : y =\n"
        "      x)\n"
        "    (z : ℕ) :\n"
        "    x + 1 =\n"
        "        y + 1 := by\n"
        f"  {HOLE}\n"
    )
    assert parse_goal("l : List ℕ\n⊢ l[0]? = l.get?_x").target == "l[0]? = l.get?_x"
    bare = write_theorem("t", parse_goal("⊢ 1 = 1"))
    assert bare == f"theorem t :\n    1 = 1 := by\n  {HOLE}\n"


@pytest.mark.parametrize(
    "text",
    [
        "⊢ ?m.12 = 1",
        "⊢ f ?a = 1",
        "x : ?α\n⊢ True",
        "⊢ f ⋯ = 1",
        "no goals",
        "x\n⊢ True",
        "⊢ sorry = 1",
    ],
)
def test_what_cannot_be_stated_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match=r"cannot be stated|no goal|no hypothesis"):
        parse_goal(text)


def test_a_hypothesis_that_the_rest_speaks_of_stays() -> None:
    goal = parse_goal("a b c : p\nh : q a.1\n⊢ r h.symm")
    # h is in the target and speaks of a; b and c are not spoken of.
    assert drop_hypotheses(goal, {"a", "b", "h"}) == Goal(
        (Hypothesis(("a", "c"), "p"), Hypothesis(("h",), "q a.1")), "r h.symm"
    )
    assert mentions("exact h.2 -- g", ["h", "g", "h2"]) == {"h"}


# Sketches

FAILING = (
    "have a : q := by\n"
    "    have b : r := by\n"
    "      simp\n"
    "    exact b\n"
    "  have c : s := by exact foo\n"
    "  constructor\n"
    "  · omega\n"
    "  · cases h with\n"
    "    | inl g => exact g\n"
    "    | inr g =>\n"
    "      exact g\n"
    "  done"
)


def failed(*places: tuple[int, int], text: str = "no") -> Verdict:
    errors = tuple(
        Diagnostic("error", text, body_line=line, body_column=column) for line, column in places
    )
    return Verdict(Status.REJECTED, errors, stage=Stage.PROVER)


def hole(number: int) -> str:
    return f'fail "hole H{number}"'


@pytest.mark.parametrize(
    ("places", "old", "new"),
    [
        # The innermost block that holds the error; a block on the line of its word gets a line.
        ([(3, 6)], "simp", hole(1)),
        ([(4, 4)], "have b : r := by\n      simp\n    exact b", hole(1)),
        ([(3, 6), (4, 4)], "have b : r := by\n      simp\n    exact b", hole(1)),
        ([(5, 25)], " exact foo", f"\n    {hole(1)}"),
        ([(7, 4)], "omega", hole(1)),
        ([(9, 21)], " exact g\n    | inr", f"\n      {hole(1)}\n    | inr"),
        ([(11, 6)], "      exact g\n  done", f"      {hole(1)}\n  done"),
        # In the theorem's own block: the tactic that fails and all after it.
        ([(12, 2)], "done", hole(1)),
        ([(8, 4)], "cases h with" + FAILING.partition("cases h with")[2][:-7], hole(1)),
        ([(6, 2)], FAILING[FAILING.index("constructor") :], hole(1)),
        ([(5, 11)], FAILING[FAILING.index("have c") :], hole(1)),
    ],
)
def test_what_failed_becomes_a_hole(places: list[tuple[int, int]], old: str, new: str) -> None:
    sketch = make_sketch(Candidate(P, FAILING), failed(*places))
    assert sketch == Sketch(FAILING.replace(old, new), (Subgoal("H1"),))


def test_holes_are_numbered_in_the_order_of_the_text() -> None:
    sketch = make_sketch(Candidate(P, FAILING), failed((7, 4), (3, 6)))
    assert sketch is not None
    assert sketch.subgoals == (Subgoal("H1"), Subgoal("H2", ("H1",)))
    assert sketch.body.index("H1") < sketch.body.index("H2")
    assert close(P, sketch) == Candidate(P, sketch.body)
    # What a block leaves open is told of the word that opens it; the theorem's own of no place.
    unsolved = make_sketch(Candidate(P, FAILING), failed((5, 16), text="unsolved goals\n⊢ s"))
    assert unsolved == make_sketch(Candidate(P, FAILING), failed((5, 25)))
    left = Verdict(
        Status.REJECTED, (Diagnostic("error", "unsolved goals\n⊢ s"),), stage=Stage.PROVER
    )
    ended = make_sketch(Candidate(P, FAILING), left)
    assert ended is not None
    assert ended.body == f"{FAILING}\n  {hole(1)}"


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        # All of it fails; it was not read; the error is elsewhere; a term without a block.
        ("omega", failed((1, 0))),
        ("omega", refuse_text(Status.REJECTED, "size", ())),
        ("omega", Verdict(Status.TIMEOUT)),
        ("skip", Verdict(Status.REJECTED, (Diagnostic("error", "x"),), stage=Stage.PROVER)),
    ],
)
def test_what_is_no_sketch(body: str, verdict: Verdict) -> None:
    assert make_sketch(Candidate(P, body), verdict) is None
    term = Problem("p", "lean", "term", "", P.statement.replace(":= by", ":="))
    assert make_sketch(Candidate(term, "foo x"), failed((1, 0))) is None


BODY = (
    f"have h1 : x + 0 = x := by\n    {hole(1)}\n  have h2 : 0 ≤ x := by\n"
    f"    have h3 : 1 ≤ x := by\n      {hole(2)}\n    · {hole(3)}\n  omega"
)
GOALS = (
    "x : Int\nh0 : 0 < x\n⊢ x + 0 = x",
    "x : Int\nh0 : 0 < x\nh1 : x + 0 = x\n⊢ 1 ≤ x",
    "x : Int\nh0 : 0 < x\nh1 : x + 0 = x\nh3 : 1 ≤ x\n⊢ 0 ≤ x",
)


def answer(*goals: str, more: tuple[Diagnostic, ...] = ()) -> Verdict:
    """What Lean says of a sketch whose holes have these goals."""
    told = (
        Diagnostic("error", f"hole H{n}\n{goal}", body_line=BODY[: BODY.index(hole(n))].count("\n"))
        for n, goal in enumerate(goals, 1)
    )
    return Verdict(Status.REJECTED, (*told, *more), stage=Stage.PROVER)


def build_sketch(*goals: str) -> Sketch:
    plain = Sketch(BODY, (Subgoal("H1"), Subgoal("H2", ("H1",)), Subgoal("H3", ("H1", "H2"))))
    found = refine(P, plain, close(P, plain), answer(*(goals or GOALS)))
    assert found is not None
    return found


def test_a_sketch_learns_its_goals_and_what_each_hole_needs() -> None:
    sketch = build_sketch()
    assert sketch.subgoals == (Subgoal("H1"), Subgoal("H2", ("H1",)), Subgoal("H3", ("H1", "H2")))
    # Asked again it stays as it is, so that its holes can be filled.
    assert refine(P, sketch, close(P, sketch), answer(*GOALS)) == sketch
    # A hypothesis that says something else is no hole's, whatever its name.
    other = GOALS[1].replace("x + 0 = x", "True")
    assert build_sketch(GOALS[0], other, GOALS[2]).subgoals[1] == Subgoal("H2")
    # A goal that cannot be stated has no theorem.
    odd = answer(GOALS[0], "⊢ ?m.3", GOALS[2])
    assert refine(P, sketch, close(P, sketch), odd) is None


def test_several_goals_become_several_holes_and_none_goes() -> None:
    body = f"constructor\n  {hole(1)}"
    plain = Sketch(body, (Subgoal("H1"),))
    both = Verdict(
        Status.REJECTED, (Diagnostic("error", "hole H1\n⊢ p\n\n⊢ q"),), stage=Stage.PROVER
    )
    found = refine(P, plain, close(P, plain), both)
    assert found is not None
    assert found.body == f"constructor\n  · {hole(1)}\n  · {hole(2)}"
    none = Verdict(Status.REJECTED, (Diagnostic("error", "hole H1\n"),), stage=Stage.PROVER)
    assert refine(P, plain, close(P, plain), none) is None
    two = Sketch(f"have h : p := by\n    {hole(1)}\n  {hole(2)}", plain.subgoals)
    left = refine(P, two, close(P, two), answer("⊢ p", more=(Diagnostic("error", "hole H2\n"),)))
    assert left == Sketch(f"have h : p := by\n    {hole(1)}", (Subgoal("H1"),))


def test_another_error_makes_a_sketch_with_more_holes() -> None:
    sketch = build_sketch()
    more = Diagnostic("error", "no", body_line=7, body_column=2)
    worse = refine(P, sketch, close(P, sketch), answer(*GOALS, more=(more,)))
    assert worse is not None
    assert worse.body == BODY.replace("omega", hole(4))


def test_both_forms_of_a_hole() -> None:
    sketch = build_sketch()
    third = sketch.subgoals[2]
    alone, given = lift(P, sketch, third, ()), lift(P, sketch, third, third.needs)
    assert alone is not None
    assert given is not None
    start = "theorem foo_H3\n    (x : Int)\n    (h0 : 0 < x)"
    assert alone.statement == f"{start} :\n    0 ≤ x := by\n  {HOLE}\n"
    assert given.statement == (
        f"{start}\n    (h1 : x + 0 = x)\n    (h3 : 1 ≤ x) :\n    0 ≤ x := by\n  {HOLE}\n"
    )
    assert (alone.id, given.id, given.preamble) == ("p.H3", "p.H3+H1+H2", "import Mathlib\n")
    # A hole that is the problem again is no part of it.
    again = build_sketch("x : Int\nh0 : 0 < x\n⊢ x ≠ 0", *GOALS[1:])
    assert lift(P, again, again.subgoals[0], ()) is None


def test_the_text_around_a_theorem_stays() -> None:
    problem = Problem(
        "p",
        "lean",
        "term",
        "",
        f"namespace N\n/-- doc -/\ntheorem foo {{x : Int}} : x = x :=\n  {HOLE}\n\nend N\n",
    )
    sketch = build_sketch()
    lifted = lift(problem, sketch, sketch.subgoals[0], ())
    assert lifted is not None
    assert lifted.kind == "tactics"
    assert lifted.statement == (
        "namespace N\ntheorem foo_H1\n    (x : Int)\n    (h0 : 0 < x) :\n    x + 0 = x := by\n"
        f"  {HOLE}\n\nend N\n"
    )


def test_proofs_are_spliced_in_the_columns_of_their_holes() -> None:
    sketch = build_sketch()
    proofs = {"H1": "simp", "H2": "intro a\n  cases a with\n  | b =>\n    c", "H3": "d\n  e"}
    whole = (
        "have h1 : x + 0 = x := by\n"
        "    simp\n"
        "  have h2 : 0 ≤ x := by\n"
        "    have h3 : 1 ≤ x := by\n"
        "      intro a\n"
        "      cases a with\n"
        "      | b =>\n"
        "        c\n"
        "    · d\n"
        "      e\n"
        "  omega"
    )
    assert fill(sketch, proofs).body == whole
    # Some first, then the rest: those that are left keep their names and need the others no more.
    rest = fill(sketch, {"H1": proofs["H1"], "H3": proofs["H3"]})
    assert rest.subgoals == (Subgoal("H2"),)
    assert fill(rest, proofs).body == whole


def test_hypotheses_without_a_name_get_one_where_a_proof_uses_it() -> None:
    sketch = build_sketch("x : Int\na✝ : q\n⊢ r", *GOALS[1:])
    lifted = lift(P, sketch, sketch.subgoals[0], ())
    assert lifted is not None
    assert "(a_1 : q)" in lifted.statement
    named = fill(sketch, {"H1": "exact f a_1"}).body
    assert named.startswith(
        "have h1 : x + 0 = x := by\n    rename_i a_1\n    exact f a_1\n  have h2"
    )
    assert "rename_i" not in fill(sketch, {"H1": "simp"}).body


def test_a_sketch_with_its_holes_is_no_sample_of_the_problem() -> None:
    body = "constructor\n  · simp\n  · exact wrong"
    sketches: list[str] = []

    async def verify(candidate: Candidate) -> Verdict:
        if candidate.problem != SPLIT:
            return Verdict(Status.REJECTED, stage=Stage.PROVER)
        if "hole H1" not in candidate.body:
            return failed((3, 4))
        sketches.append(candidate.body)
        error = Diagnostic("error", "hole H1\nx : Nat\n⊢ 0 ≤ x", body_line=3)
        return Verdict(Status.REJECTED, (error,), stage=Stage.PROVER)

    async def propose(*_: Any) -> list[Proposal]:
        return [Proposal(body, 3, -1.0)]

    config = SearchConfig(name="subgoals", calls=8, width=1, max_idle=2)
    search = make_search(SPLIT, Functions(propose, verify), config)
    asyncio.run(search.run())
    assert sketches == [body.replace("exact wrong", hole(1))]
    # It is known, though, and stands among what was verified.
    assert sketches[0] in [turn.body for turn in search.all_turns]
    found = collect_samples(search)
    assert [s.body for s in found if s.problem == SPLIT] == [body]


# Real Lean


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    yield from open_lean()


DRAFT = (
    "have h1 : x + 0 = x := by\n    exact wrong\n  have h2 : 0 ≤ x := by simp wrong\n"
    "  constructor\n  · intro h\n    omega\n  · cases hp with\n    | inl a => exact a\n"
    "    | inr b =>\n      exact Or.inl b"
)


@pytest.mark.lean
def test_a_draft_is_closed_lifted_and_spliced(lean: Lean) -> None:
    """Errors in two blocks, one of which hides another; Lean reads the theorems back."""
    sketch = make_sketch(Candidate(SPLIT, DRAFT), lean.judge(SPLIT, DRAFT))
    for _ in range(3):
        assert sketch is not None
        closed = close(SPLIT, sketch)
        sketch = refine(SPLIT, sketch, closed, lean.judge(SPLIT, closed.body))
    assert sketch is not None
    assert refine(SPLIT, sketch, closed, lean.judge(SPLIT, closed.body)) == sketch
    assert sketch.subgoals == (Subgoal("H1"), Subgoal("H2", ("H1",)), Subgoal("H3", ("H1", "H2")))
    bodies = {}
    for subgoal, body in zip(sketch.subgoals, ("rfl", "omega", "exact Or.inr a"), strict=True):
        for given in ((), subgoal.needs):
            lifted = lift(SPLIT, sketch, subgoal, given)
            assert lifted is not None
            assert lean.judge(lifted, body).proved, lifted.statement
        bodies[subgoal.name] = body
    whole = fill(sketch, bodies).body
    assert lean.judge(SPLIT, whole).proved
    assert "| inl a =>\n      exact Or.inr a\n" in whole


@pytest.mark.lean
def test_a_search_solves_a_problem_by_its_parts(lean: Lean) -> None:
    """No whole body is right; what failed is proved apart, a part by parts of its own."""
    script = follow_script(
        {
            "split_H2_H1": ["exact Or.inl b"],
            "split_H2": ["cases hp with\n  | inl a => exact Or.inr a\n  | inr b => simp"],
            "split_H1": ["simp", "omega"],
            "theorem split": ["constructor\n  · simp\n  · exact wrong"],
        }
    )
    result = lean.search(script, SPLIT, name="subgoals", calls=96)
    assert result.stopped == "proved"
    assert result.proofs[0].confirmed
    assert result.proofs[0].body == (
        "constructor\n  · omega\n  · cases hp with\n    | inl a => exact Or.inr a\n"
        "    | inr b =>\n      exact Or.inl b"
    )
    outcomes = [record["outcome"] for record in result.tree["sketches"].values()]
    assert outcomes.count("solved") == 2
