"""Facts of Lean bodies: exact texts by hand, and a search with lemmas on a real Lean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proverrl.lang.lean.search.facts import (
    calls_itself,
    find_standing,
    list_facts,
    negate,
    prove_alone,
    put_together,
    show,
)
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from tests.lean_search import SPLIT, Lean, follow_script, open_lean

P = Problem(
    "p",
    "lean",
    "tactics",
    "import Mathlib\n",
    f"theorem N.foo {{x : Nat}} (h0 : 0 < x) : x ≠ 0 := by\n  {HOLE}\n\nend N\n",
)
BOUND = "have h1 : 0 + x = x := by\n    simp\n    omega"
ALL = "have h2 (y : Nat) : y = y := rfl"
NAMELESS = "have : x ≠ 1 := by omega"
READ = Verdict(
    Status.REJECTED, (Diagnostic("error", "unsolved goals\n⊢ x ≠ 0"),), checks=("audit", "messages")
)


def failed(*places: tuple[int, int]) -> Verdict:
    errors = [Diagnostic("error", "no", body_line=line, body_column=c) for line, c in places]
    return Verdict(Status.REJECTED, tuple(errors), checks=("audit", "messages"))


def test_facts_are_the_haves_of_the_own_block() -> None:
    bodies = {
        f"intro h\n  {BOUND}\n  {NAMELESS}\n  · have h3 : p := by simp\n    omega": READ,
        f"{BOUND}\n  obtain ⟨y, hy⟩ := h\n  {ALL}\n  have ⟨z, hz⟩ := h\n  have h4 := h": READ,
        "have h5 : p := by run_tac evil": Verdict(Status.UNSOUND, checks=("audit:meta",)),
        "have h6 : p := by simp": Verdict(Status.TIMEOUT),
    }
    assert list_facts(P, bodies) == {BOUND: 2, NAMELESS: 1, ALL: 1}


def test_facts_stand_before_a_body_and_before_a_hole() -> None:
    body = put_together(P, [BOUND, ALL], "exact foo\n  done")
    assert body == f"{BOUND}\n  {ALL}\n  exact foo\n  done"
    assert put_together(P, []) == ""
    shown = show(P, [BOUND, ALL])
    assert shown.id == "p+2"
    assert shown.statement == P.statement.replace(HOLE, f"{BOUND}\n  {ALL}\n  {HOLE}")


def test_what_a_verdict_leaves_standing() -> None:
    facts = [BOUND, ALL, NAMELESS]
    candidate = Candidate(P, put_together(P, facts))
    assert find_standing(candidate, READ, facts) == facts
    assert find_standing(candidate, failed((3, 4)), facts) == [ALL, NAMELESS]
    assert find_standing(candidate, failed((4, 29), (5, 2)), facts) == [BOUND]
    assert find_standing(candidate, Verdict(Status.PROVED, checks=("a",)), facts) == facts
    assert find_standing(candidate, Verdict(Status.TIMEOUT), facts) == []
    # An error of no place may be anybody's.
    odd = Verdict(Status.REJECTED, (Diagnostic("error", "kernel"),), checks=("messages",))
    assert find_standing(candidate, odd, facts) == []


def test_a_fact_and_its_negation_are_theorems() -> None:
    alone = negate(P, ALL, says_not=False)
    assert alone is not None
    assert alone.statement == (
        "theorem foo_alone {x : Nat} (h0 : 0 < x) : ∀ (y : Nat), y = y := by\n"
        f"  {HOLE}\n\nend N\n"
    )
    against = negate(P, BOUND)
    assert against is not None
    assert (against.id, against.preamble) == ("p.not", "import Mathlib\n")
    assert against.statement.startswith(
        "theorem foo_alone : ¬ (∀ {x : Nat} (h0 : 0 < x), 0 + x = x) := by\n"
    )
    assert negate(P, "obtain h := g") is None
    assert calls_itself(P, "exact foo_alone h0")
    assert not calls_itself(P, "exact foo_alone' h0")


def test_a_proof_found_alone_takes_the_place_of_the_own() -> None:
    proof = "cases x with\n  | zero => simp\n  | succ n =>\n    omega"
    assert prove_alone(P, BOUND, proof) == (
        "have h1 : 0 + x = x := by\n    cases x with\n    | zero => simp\n"
        "    | succ n =>\n      omega"
    )


# Real Lean


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    yield from open_lean()


HELPS = "have h1 : x ≠ 0 := by omega"
FALSE = "have h2 : x = 1 := by simp wrong"
OPEN = "have h3 : q ∨ p := by\n    exact wrong"


@pytest.mark.lean
def test_facts_that_hold_together_are_shown(lean: Lean) -> None:
    """Two bodies fail, each with a fact that holds; with both shown a short body is a proof, which
    rests on one of them."""
    script = follow_script(
        {
            "have h1": ["exact ⟨h1, hp.symm⟩", "exact ⟨h1, by cases hp <;> simp_all⟩"],
            "": [f"{HELPS}\n  {FALSE}\n  exact wrong", f"{FALSE}\n  {OPEN}\n  exact ⟨h1, h3⟩"],
        }
    )
    result = lean.search(script, SPLIT, name="lemmas", calls=40)
    assert result.stopped == "proved"
    pool = {one["statement"]: one["status"] for one in result.tree["lemmas"]}
    assert pool == {HELPS: "proved", FALSE: "open", OPEN: "open"}
    assert result.tree["used"] == ["L1"]
    assert result.proofs[0].confirmed
    assert result.proofs[0].body.startswith(f"{HELPS}\n  exact ⟨h1")


@pytest.mark.lean
def test_what_does_not_stand_is_proved_or_refuted_apart(lean: Lean) -> None:
    swap = "cases hp with\n  | inl a => exact Or.inr a\n  | inr b => exact Or.inl b"
    refute = "intro h\n  exact absurd (h 2 True True (Or.inl trivial) (by decide)) (by decide)"
    script = follow_script(
        {
            "theorem split_alone (x": [swap],
            "theorem split_alone": [refute],
            "have h3": ["exact ⟨by omega, h3⟩"],
            "": [f"{FALSE}\n  {OPEN}\n  exact wrong"],
        }
    )
    result = lean.search(script, SPLIT, name="lemmas", tier="heavy", calls=80)
    assert result.stopped == "proved"
    pool = {one["statement"]: one["status"] for one in result.tree["lemmas"]}
    assert pool == {FALSE: "disproved", OPEN: "proved"}
    assert "malformed" not in result.tree


@pytest.mark.lean
def test_a_part_that_lean_cannot_read_has_no_proof(lean: Lean) -> None:
    """The fact speaks of a name that only its body introduced: it is a theorem of nothing."""
    script = follow_script(
        {"": ["obtain ⟨y, hy⟩ : ∃ y, y = x := ⟨x, rfl⟩\n  have h : y = x := by simp wrong\n  done"]}
    )
    result = lean.search(script, SPLIT, name="lemmas", tier="heavy", calls=30, max_idle=3)
    assert not result.proved
    assert "its own statement fails in Lean" in next(iter(result.tree["malformed"].values()))
