"""Lemmas of Lean proofs: exact texts by hand, and a proof with lemmas over the fake REPL."""

from __future__ import annotations

import asyncio

import pytest

from proverrl.errors import ProblemError
from proverrl.lang.lean.audit import audit_lean_candidate
from proverrl.lang.lean.search.lemmas import (
    find_used,
    lemma_problem,
    negate,
    prove_with,
    read_lemmas,
    write_prelude,
)
from proverrl.lang.records import Lemma
from proverrl.search.lemma_search import LemmaPool
from proverrl.types import HOLE, Candidate
from tests.lean_builders import build_walk_problem
from tests.walk_search import Confirmer

PRELUDE = """\
/-- The first. -/
theorem lem_a (x y : Nat) (h : x < y) : x ≤ y := by
  intro z
  exact Nat.le_of_lt h

lemma lem_b : 0 = 0 := rfl

def f (x : Nat) := x

theorem lem_c : (fun x : Nat => x) = id ∧ 0 = 0 := by constructor
                                                      · exact (lem_b).symm
theorem lem_d : p := lem_a.trans lem_c.2
"""


def test_lemmas_before_a_theorem_are_read() -> None:
    assert read_lemmas(PRELUDE) == [
        Lemma(
            "lem_a",
            "theorem lem_a (x y : Nat) (h : x < y) : x ≤ y",
            body="intro z\n  exact Nat.le_of_lt h",
        ),
        Lemma("lem_b", "lemma lem_b : 0 = 0", body="exact rfl"),
        Lemma(
            "lem_c",
            "theorem lem_c : (fun x : Nat => x) = id ∧ 0 = 0",
            body="constructor\n  · exact (lem_b).symm",
            needs=("lem_b",),
        ),
        Lemma(
            "lem_d",
            "theorem lem_d : p",
            body="exact lem_a.trans lem_c.2",
            needs=("lem_a", "lem_c"),
        ),
    ]
    assert read_lemmas("theorem broken : p\n") == []


def test_a_lemma_is_a_problem_of_its_own() -> None:
    problem = build_walk_problem("ab")
    made = lemma_problem(problem, "theorem lem (h : walk a) : walk b")
    assert made.statement == f"theorem lem (h : walk a) : walk b := by\n  {HOLE}\n"
    assert (made.id, made.metadata) == ("t/lem", {"parent": "t", "lemma": "lem"})
    with pytest.raises(ProblemError, match="no 'theorem name"):
        lemma_problem(problem, "theorem lem")
    with pytest.raises(ProblemError, match="must begin with"):
        lemma_problem(problem, "def lem : Nat")


def test_the_negation_is_closed() -> None:
    assert negate("theorem lem (x y : Nat) {h : x < y} : x ≤ y") == (
        "theorem lem_negation : ¬ (∀ (x y : Nat) {h : x < y}, x ≤ y)"
    )
    assert negate("lemma b : ∀ x, x = x") == "theorem b_negation : ¬ (∀ x, x = x)"
    # A negation is a statement like any other, and its own negation too.
    twice = negate(negate("theorem b (x : Nat) : x = 0"))
    assert twice == "theorem b_negation_negation : ¬ (¬ (∀ (x : Nat), x = 0))"


def test_what_a_proof_uses_is_read_from_its_names() -> None:
    names = ["lem", "lem_a", "f.g", "h"]
    assert find_used("exact lem.symm ▸ f.g.trans h' -- lem_a", names) == ("lem", "f.g")
    assert find_used("simp [lem_a, h]", names) == ("lem_a", "h")


def test_only_the_lemmas_that_a_proof_depends_on_stand_before_it() -> None:
    lemmas = [one for one in read_lemmas(PRELUDE) if one.name != "lem_d"]
    problem = build_walk_problem("ab")
    candidate = prove_with(problem, "exact lem_c.1", lemmas)
    assert candidate.prelude == (
        "lemma lem_b : 0 = 0 := by\n  exact rfl\n\n"
        "theorem lem_c : (fun x : Nat => x) = id ∧ 0 = 0 := by\n"
        "  constructor\n  · exact (lem_b).symm\n\n"
    )
    assert prove_with(problem, "simp", lemmas).prelude == ""
    assert audit_lean_candidate(candidate) is None
    # What was written is read back as it was.
    assert read_lemmas(write_prelude(lemmas)) == lemmas


def test_a_proved_lemma_carries_a_proof_over_the_fake() -> None:
    async def main() -> None:
        confirm, problem, pool = Confirmer(), build_walk_problem("ab"), LemmaPool()
        for name, word in (("lem_a", "a"), ("lem_b", "b"), ("lem_c", "c")):
            statement = f"theorem {name} : walk {word}"
            body = f"step {word}"
            made = lemma_problem(problem, statement)
            assert (await confirm(Candidate(made, body))).proved
            pool.add(Lemma(name, statement, status="proved", body=body))
        body = "have g : walk a := by\n    recall lem_a\n  have h : walk b := by\n    recall lem_b"
        body += "\n  join g h"
        lemmas = [pool.lemmas[name] for name in pool.closure(pool.lemmas)]
        candidate = prove_with(problem, body, lemmas)
        assert "lem_c" not in candidate.prelude
        assert (await confirm(candidate)).proved
        assert not (await confirm(Candidate(problem, body))).proved
        assert pool.credit(find_used(body, pool.lemmas)) == ["lem_a", "lem_b"]
        assert pool.lemmas["lem_c"].uses == 0

    asyncio.run(main())
