"""Subgoals of Lean: goals as Lean printed them (recorded), texts by hand, and whole decompositions
over the fake REPL. Nothing here says that a real Lean takes a lifted theorem."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from proverrl.errors import ProblemError, RecordError
from proverrl.lang.lean.search.extract import (
    Goal,
    Hypothesis,
    drop_hypotheses,
    mentions,
    parse_goal,
    write_theorem,
)
from proverrl.lang.lean.search.subgoals import (
    LeanSketch,
    hide_failing,
    lift,
    read_sketch,
    sketch_from_failure,
    sketch_from_sorries,
    sketch_from_text,
    splice,
)
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.lean.syntax.declarations import read_theorem
from proverrl.lang.lean.workers.protocol import CommandAnswer, Position, Sorry, parse_answer
from proverrl.lang.records import Sketch, Subgoal
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from tests.decompose import SubgoalFunctions, decompose
from tests.lean_builders import build_lean_problem, build_walk_problem
from tests.test_lean_replay import RECORDED, TRANSCRIPTS, load
from tests.walk_search import Confirmer, spawn

P = Problem(
    "p",
    "lean",
    "tactics",
    "import Mathlib\n",
    f"theorem foo (x : Int) (h0 : 0 < x) : x ≠ 0 := by\n  {HOLE}\n",
)


def sorry(line: int, column: int, goal: str) -> Sorry:
    return Sorry(goal, 0, Position(line, column), Position(line, column + 5))


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


def recorded(name: str) -> list[tuple[str, CommandAnswer]]:
    found = []
    for transcript in load(RECORDED / TRANSCRIPTS):
        if transcript["file"].endswith(name):
            for exchange in transcript["exchanges"]:
                answer = parse_answer(json.dumps(exchange["response"]))
                if isinstance(answer, CommandAnswer):
                    found.append((exchange["request"]["cmd"], answer))
    return found


def test_a_recorded_sketch_is_lifted() -> None:
    """A real Lean's goals for ``have h : x = 1 := by sorry``."""
    text, answer = recorded("have_by_sorry.in")[0]
    head, _, body = text.partition("by\n  ")
    problem = Problem("foo", "lean", "tactics", "", f"{head}by\n  {HOLE}\n")
    sketch = sketch_from_sorries(problem, body, answer.sorries)
    assert sketch is not None
    assert sketch.subgoals == (Subgoal("h"),)
    lifted = lift(problem, sketch, sketch.subgoals[0], ())
    assert lifted.statement == f"theorem foo_h\n    (x : Int) :\n    x = 1 := by\n  {HOLE}\n"
    assert (lifted.id, lifted.metadata["parent"]) == ("foo/h", "foo")


def test_every_recorded_goal_of_a_sorry_is_stated() -> None:
    stated = 0
    for transcript in load(RECORDED / TRANSCRIPTS):
        for exchange in transcript["exchanges"]:
            for told in exchange["response"].get("sorries", []):
                text = write_theorem("t", parse_goal(told["goal"]))
                assert "✝" not in text
                # What was written is read back: binders, and the same target.
                parts = read_theorem(Problem("t", "lean", "tactics", "", text))
                shown = told["goal"].partition("⊢ ")[2].split()
                assert parts.target.split() == shown
                stated += 1
    assert stated >= 40


# Sketches


BODY = (
    "have h1 : x + 0 = x := by sorry\n"
    "  have h2 : 0 ≤ x := by\n"
    "    have h3 : 1 ≤ x := by\n"
    "      sorry\n"
    "    · exact (by sorry)\n"
    "  omega"
)
SORRIES = (
    sorry(2, 28, "x : Int\nh0 : 0 < x\n⊢ x + 0 = x"),
    sorry(5, 6, "x : Int\nh0 : 0 < x\nh1 : x + 0 = x\n⊢ 1 ≤ x"),
    sorry(6, 16, "x : Int\nh0 : 0 < x\nh1 : x + 0 = x\nh3 : 1 ≤ x\n⊢ 0 ≤ x"),
)


def read(body: str = BODY, sorries: tuple[Sorry, ...] = SORRIES) -> LeanSketch | None:
    return sketch_from_sorries(P, body, sorries)


def test_holes_have_names_and_needs_from_what_is_known_there() -> None:
    sketch = read()
    assert sketch is not None
    assert sketch.subgoals == (
        Subgoal("h1"),
        Subgoal("h3", ("h1",)),
        Subgoal("goal_3", ("h1", "h3")),
    )
    assert [BODY[hole.start : hole.end] for hole in sketch.holes] == ["sorry"] * 3
    # A hypothesis of the name that says something else is no hole's.
    other = SORRIES[1].goal.replace("x + 0 = x", "True")
    changed = read(sorries=(SORRIES[0], sorry(5, 6, other), SORRIES[2]))
    assert changed is not None
    assert changed.subgoals[1] == Subgoal("h3")


def test_both_forms_of_a_hole() -> None:
    sketch = read()
    assert sketch is not None
    third = sketch.subgoals[2]
    alone, given = lift(P, sketch, third, ()), lift(P, sketch, third, third.needs)
    start = "theorem foo_goal_3\n    (x : Int)\n    (h0 : 0 < x)"
    assert alone.statement == f"{start} :\n    0 ≤ x := by\n  {HOLE}\n"
    assert given.statement == (
        f"{start}\n    (h1 : x + 0 = x)\n    (h3 : 1 ≤ x) :\n    0 ≤ x := by\n  {HOLE}\n"
    )
    assert (alone.id, given.id) == ("p/goal_3", "p/goal_3+h1+h3")
    assert alone.preamble == "import Mathlib\n"
    assert given.metadata == {"parent": "p", "subgoal": "goal_3", "given": ["h1", "h3"]}


def test_proofs_are_spliced_at_the_indentation_of_their_holes() -> None:
    sketch = read()
    assert sketch is not None
    proofs = {"h1": "simp", "h3": "intro a\n  cases a with\n  | b =>\n    c", "goal_3": "d\n  e"}
    assert splice(P, sketch, proofs) == (
        "have h1 : x + 0 = x := by\n"
        "    simp\n"
        "  have h2 : 0 ≤ x := by\n"
        "    have h3 : 1 ≤ x := by\n"
        "      intro a\n"
        "      cases a with\n"
        "      | b =>\n"
        "        c\n"
        "    · exact (by\n"
        "        d\n"
        "        e)\n"
        "  omega"
    )
    with pytest.raises(RecordError, match="no proof for the hole 'goal_3'"):
        splice(P, sketch, {"h1": "simp"})
    with pytest.raises(RecordError, match="not read from Lean text"):
        splice(P, Sketch(BODY, ()), {})
    with pytest.raises(RecordError, match="no hole 'h9', only h1, h3, goal_3"):
        lift(P, sketch, Subgoal("h9"), ())


@pytest.mark.parametrize(
    ("body", "place", "whole"),
    [
        ("sorry", (2, 2), "a\n  b"),
        ("have h : q := sorry\n  c", (2, 16), "have h : q := by\n    a\n    b\n  c"),
        ("have h : q :=\n    sorry", (3, 4), "have h : q :=\n    by\n      a\n      b"),
        ("· sorry", (2, 4), "· a\n    b"),
        (
            "skip\n  · have h : q := by sorry",
            (3, 21),
            "skip\n  · have h : q := by\n      a\n      b",
        ),
        ("cases h with\n  | z => sorry", (3, 9), "cases h with\n  | z =>\n    a\n    b"),
        ("exact fun h => sorry", (2, 17), "exact fun h => by\n    a\n    b"),
        ("exact ⟨sorry, h⟩", (2, 9), "exact ⟨by\n    a\n    b, h⟩"),
    ],
)
def test_each_place_of_a_sorry(body: str, place: tuple[int, int], whole: str) -> None:
    sketch = read(body, (sorry(*place, "⊢ q"),))
    assert sketch is not None
    assert splice(P, sketch, {sketch.subgoals[0].name: "a\n  b"}) == whole


def test_hypotheses_without_a_name_get_one_where_a_proof_uses_it() -> None:
    sketch = read("intro\n  sorry", (sorry(3, 2, "x : Int\na✝ : q\n⊢ r"),))
    assert sketch is not None
    lifted = lift(P, sketch, sketch.subgoals[0], ())
    assert "(a_1 : q)" in lifted.statement
    assert splice(P, sketch, {"goal_1": "exact f a_1"}) == "intro\n  rename_i a_1\n  exact f a_1"
    assert splice(P, sketch, {"goal_1": "simp"}) == "intro\n  simp"


def test_what_is_no_sketch() -> None:
    assert read("omega", ()) is None
    # Lean told of one sorry only, of one for two goals, of one that the body does not have.
    assert read(sorries=SORRIES[:2]) is None
    assert read("all_goals sorry", (sorry(2, 12, "⊢ a"), sorry(2, 12, "⊢ b"))) is None
    assert read("simp", (sorry(2, 2, "⊢ a"),)) is None
    assert read("sorry", (sorry(2, 2, "⊢ ?m.3"),)) is None
    # One in a comment is none.
    sketch = read("skip -- sorry\n  sorry", (sorry(3, 2, "⊢ a"),))
    assert sketch is not None
    assert sketch.subgoals == (Subgoal("goal_1"),)


def test_a_sketch_is_read_from_text_where_only_haves_stand_before() -> None:
    body = (
        "have a : q x := by sorry\n  have b : r := by\n    simp\n"
        "  have c :\n      s := sorry\n  omega"
    )
    sketch = sketch_from_text(P, body)
    assert sketch is not None
    assert sketch.subgoals == (Subgoal("a"), Subgoal("c", ("a",)))
    assert lift(P, sketch, sketch.subgoals[1], ("a",)).statement == (
        f"theorem foo_c (x : Int) (h0 : 0 < x) (a : q x) :\n    s := by\n  {HOLE}\n"
    )
    assert splice(P, sketch, {"a": "t", "c": "u"}) == (
        "have a : q x := by\n    t\n  have b : r := by\n    simp\n"
        "  have c :\n      s := by\n        u\n  omega"
    )
    for other in (
        "intro y\n  have a : q := by sorry",
        "have a : q := by sorry\n  have a : r := by sorry",
        "have a : q := by\n    skip\n    sorry",
        "omega",
    ):
        assert sketch_from_text(P, other) is None


def test_the_text_around_a_theorem_stays() -> None:
    statement = (
        f"namespace N\n/-- doc -/\ntheorem foo {{x : Int}} : x = x := by\n  {HOLE}\n\nend N\n"
    )
    problem = Problem("p", "lean", "tactics", "", statement)
    parts = read_theorem(problem)
    assert (parts.name, parts.binders, parts.target) == ("foo", "{x : Int}", "x = x")
    sketch = sketch_from_text(problem, "have a : x = x + 0 := by sorry\n  simp")
    assert sketch is not None
    assert lift(problem, sketch, sketch.subgoals[0], ()).statement == (
        f"namespace N\ntheorem foo_a {{x : Int}} :\n    x = x + 0 := by\n  {HOLE}\n\nend N\n"
    )
    with pytest.raises(ProblemError, match="no 'theorem name"):
        read_theorem(build_lean_problem(kind="file"))


# Sketches from failed proofs


def failed(*places: tuple[int, int], text: str = "no") -> Verdict:
    errors = tuple(
        Diagnostic("error", text, body_line=line, body_column=column) for line, column in places
    )
    return Verdict(Status.REJECTED, errors)


FAILING = (
    "have a : q := by\n"
    "    have b : r := by\n"
    "      simp\n"
    "    exact b\n"
    "  have c : s := foo\n"
    "    bar\n"
    "  omega\n"
    "  done"
)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        # The innermost have that holds the error.
        (failed((3, 6)), FAILING.replace("by\n      simp", "by sorry")),
        (
            failed((4, 4)),
            FAILING.replace("by\n    have b : r := by\n      simp\n    exact b", "by sorry"),
        ),
        # Two haves; one within the other is part of it.
        (
            failed((3, 6), (4, 4), (6, 4)),
            "have a : q := by sorry\n  have c : s := by sorry\n  omega\n  done",
        ),
        # What is left open is told of the whole have.
        (failed((5, 2), text="unsolved goals\n⊢ s"), FAILING.replace("foo\n    bar", "by sorry")),
        # In no have: that tactic and all after it; with it the have before.
        (failed((7, 2), (6, 4)), FAILING[: FAILING.index("foo")] + "by sorry\n  sorry"),
        # In what a have states: the tactic that is the have.
        (failed((5, 11)), FAILING[: FAILING.index("have c")] + "sorry"),
        (failed(), None),
        (Verdict(Status.REJECTED, (Diagnostic("error", "elsewhere"),)), None),
    ],
)
def test_what_failed_is_hidden(verdict: Verdict, expected: str | None) -> None:
    assert hide_failing(P, FAILING, verdict) == expected


# Over the fake REPL


def run(work: Callable[[LeanStates], Awaitable[None]]) -> None:
    async def main() -> None:
        states = LeanStates(spawn)
        try:
            await work(states)
        finally:
            await states.aclose()

    asyncio.run(main())


def test_a_problem_is_solved_by_its_parts_over_the_fake() -> None:
    """From a failed body to a sketch, its holes as theorems, their proofs and the whole file."""

    async def work(states: LeanStates) -> None:
        confirm = Confirmer()
        problem = build_walk_problem("abba")
        draft = (
            "have h1 : walk ab := by\n    step b\n  have h2 : walk ba := by\n    step b\n"
            "    have g : walk a := by\n      stray\n    recall g\n  join h1 h2"
        )
        tried: list[tuple[str, str]] = []

        async def sketch(wanted: Problem, depth: int) -> Sketch | None:
            return await sketch_from_failure(states, confirm, wanted, draft)

        async def solve(wanted: Problem, calls: int) -> str | None:
            word = wanted.statement.rpartition("walk ")[2].split()[0]
            tried.append((wanted.id, wanted.statement.partition(" :=")[0]))
            body = "\n  ".join(f"step {letter}" for letter in word)
            if wanted is problem or not (await confirm(Candidate(wanted, body))).proved:
                return None
            return body

        found = await decompose(
            problem, SubgoalFunctions(sketch, lift, solve, splice), calls=4, max_depth=1
        )
        assert tried == [
            ("t", "theorem t : walk abba"),
            ("t/h1", "theorem t_h1 :\n    walk ab"),
            ("t/g+h1", "theorem t_g\n    (h1 : walk ab) :\n    walk a"),
        ]
        assert found.body == (
            "have h1 : walk ab := by\n    step a\n    step b\n  have h2 : walk ba := by\n"
            "    step b\n    have g : walk a := by\n      step a\n    recall g\n  join h1 h2"
        )
        # What the parts are worth is seen of the whole.
        assert (await confirm(Candidate(problem, found.body))).proved
        wrong = splice(problem, LeanSketch("step a\n  sorry", (), ()), {})
        assert not (await confirm(Candidate(problem, wrong))).proved
        assert found.blocking == {}
        # Three verdicts, two holes hidden one after the other; one text for the goals.
        assert states.num_texts == 1
        assert await sketch_from_failure(states, confirm, problem, draft, rounds=2) is None
        assert [one.alone and one.alone.id for one in found.lifted] == ["t/h1", "t/g"]

    run(work)


def test_a_body_with_errors_or_cheats_is_no_sketch() -> None:
    async def work(states: LeanStates) -> None:
        problem = build_walk_problem("ab")
        assert await read_sketch(states, problem, "step a\n  step b") is None
        assert await read_sketch(states, problem, "step b\n  sorry") is None
        # Not admitted: no worker is even started for it.
        assert await read_sketch(states, problem, "run_tac evil\n  sorry") is None
        sketch = await read_sketch(states, problem, "step a\n  sorry")
        assert sketch is not None
        assert sketch.holes[0].goal == Goal((), "walk b")

    run(work)
