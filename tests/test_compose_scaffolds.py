"""Scaffolds: exact texts, and real Dafny for every part of a proof that is shown or hidden."""

from __future__ import annotations

import asyncio
import random
from typing import get_args

import pytest

from proverrl.compose.operators import build_scaffold, collect_subgoals
from proverrl.config.compose import ScaffoldName
from proverrl.errors import ProblemError, ToolchainError
from proverrl.lang.dafny.compose.scaffolds import (
    SCAFFOLDS,
    extract_lemma,
    mask_hint,
    show_hints,
    split_clauses,
)
from proverrl.lang.dafny.generate.stream import GENERATOR
from proverrl.lang.dafny.workers.toolchain import find_dafny_toolchain
from proverrl.lang.records import Parent
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem

LOOP = (
    f"method M(n: nat) returns (r: int)\n{{\n  while r < n\n    {HOLE}\n  {{ r := r + 1; }}\n}}\n"
)
SOLVED = Parent(
    Problem("loop", "dafny", "invariants", "", LOOP),
    "invariant 0 <= r\ninvariant r <= n\ndecreases n - r",
)
TRAIN = "dafny/curriculum/train.jsonl"


def test_the_dict_agrees_with_its_names() -> None:
    assert tuple(SCAFFOLDS) == get_args(ScaffoldName)


def test_hints_are_split() -> None:
    assert split_clauses(SOLVED.reference or "") == [
        "invariant 0 <= r",
        "invariant r <= n",
        "decreases n - r",
    ]


def test_every_run_of_hints_is_hidden_once() -> None:
    made = show_hints(random.Random(0), [SOLVED])
    # Runs of 1 of 3: 3; of 2: 2; the whole is the parent itself.
    assert [m.reference for m in made] == [
        "invariant 0 <= r",
        "invariant r <= n",
        "decreases n - r",
        "invariant 0 <= r\ninvariant r <= n",
        "invariant r <= n\ndecreases n - r",
    ]
    shown = f"    invariant 0 <= r\n    {HOLE}\n    decreases n - r\n"
    assert made[1].statement == LOOP.replace(f"    {HOLE}\n", shown)


def test_hints_beside_a_hole_do_not_repeat_the_code_before_it() -> None:
    text = f"method M(n: nat)\n{{\n  while r < n {HOLE}\n  {{ r := r + 1; }}\n}}\n"
    parent = Parent(Problem("beside", "dafny", "invariants", "", text), "invariant a\ninvariant b")
    made = show_hints(random.Random(0), [parent])
    assert [m.statement for m in made] == [
        text.replace(HOLE, f"{HOLE}\ninvariant b"),
        text.replace(HOLE, f"invariant a\n{HOLE}"),
    ]


def test_one_more_hint_is_masked() -> None:
    middle = show_hints(random.Random(0), [SOLVED])[1]
    parent = Parent(Problem("m", "dafny", "invariants", "", middle.statement), middle.reference)
    made = mask_hint(random.Random(0), [parent])
    assert [m.reference for m in made] == [
        "invariant 0 <= r\ninvariant r <= n",
        "invariant r <= n\ndecreases n - r",
    ]
    assert made[0].statement == LOOP.replace(HOLE, f"{HOLE}\n    decreases n - r")
    last = mask_hint(
        random.Random(0),
        [Parent(Problem("l", "dafny", "invariants", "", made[0].statement), made[0].reference)],
    )
    assert [(m.statement, m.reference) for m in last] == [(LOOP, SOLVED.reference)]
    assert mask_hint(random.Random(0), [SOLVED]) == []


def test_assertions_become_lemmas() -> None:
    text = (
        "function F(n: nat): int\nlemma L(n: nat)\n  requires n > 1\n  ensures F(n) > 0\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    proof = "var k := n; if n > 5 { assert F(n) > 1; } else { assert F(k) > 2; assert n > 2; }"
    parent = Parent(Problem("l", "dafny", "statements", "", text), proof)
    made = extract_lemma(random.Random(0), [parent])
    # F(k) speaks of a variable of the proof, which the lemma does not know.
    heads = [m.statement.split("(n: nat)\n")[-1].split("{")[0] for m in made]
    assert heads == [
        "  requires n > 1\n  requires n > 5\n  ensures F(n) > 1\n",
        "  requires n > 1\n  requires !(n > 5)\n  ensures n > 2\n",
    ]
    assert extract_lemma(random.Random(0), [SOLVED]) == []


def test_scaffolds_have_lineage_and_are_for_training_problems() -> None:
    made = build_scaffold("show_hints", [SOLVED], round_number=2, seed=0)
    assert len(made) == 5
    assert {(c.operator, c.parents, c.round) for c in made} == {("show_hints", ("loop",), 2)}
    assert made == build_scaffold("show_hints", [SOLVED], round_number=2, seed=0)
    held = Parent(Problem("h", "dafny", "invariants", "", LOOP, split="heldout"))
    with pytest.raises(ProblemError, match="only training problems may be used"):
        build_scaffold("easier", [held], round_number=0, seed=0)


def test_subgoals_of_a_failed_body_come_in_both_forms() -> None:
    def lift(problem: Problem, body: str) -> list[tuple[Problem, Problem]]:
        assert (problem, body) == (SOLVED.problem, "failed")
        part = f"lemma A() ensures 1 > 0 {{ {HOLE} }}\n"
        given = part.replace("ensures", "requires 2 > 1 ensures")
        return [
            (
                Problem("a", "dafny", "statements", "", part),
                Problem("a", "dafny", "statements", "", part),
            ),
            (
                Problem("b", "dafny", "statements", "", part),
                Problem("b", "dafny", "statements", "", given),
            ),
        ]

    found = collect_subgoals(SOLVED.problem, "failed", lift, round_number=1, seed=0)
    assert [c.operator for c in found] == ["subgoal_alone", "subgoal_given"]
    assert {c.parents for c in found} == {("loop",)}


@pytest.mark.slow
@pytest.mark.dafny
def test_real_dafny_proves_what_is_hidden_and_refuses_nothing_in_its_place() -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    problems = {p.family: p for p in load_problems(TRAIN)}
    references = load_references(TRAIN)
    fill = problems["l3_fill"]
    solved = Parent(fill, references[fill.id])
    laws = [Parent(problems[f], references[problems[f].id]) for f in ("l4_closed", "l4_mod")]
    made = [
        *build_scaffold("show_hints", [solved], round_number=0, seed=0),
        *build_scaffold("chain_solved", laws, round_number=0, seed=0),
    ]
    assert [c.operator for c in made] == ["show_hints", "show_hints", "chain_solved"]

    async def main() -> list[tuple[bool, bool]]:
        verifier, _ = GENERATOR.open_verifier(1)
        try:
            found = []
            for composed in made:
                verdicts = [
                    await verifier.verify(Candidate(composed.problem, body), deadline_seconds=120.0)
                    for body in (composed.reference or "", "")
                ]
                found.append((verdicts[0].proved, verdicts[1].proved))
            return found
        finally:
            await verifier.aclose()

    assert asyncio.run(main()) == [(True, False)] * 3
