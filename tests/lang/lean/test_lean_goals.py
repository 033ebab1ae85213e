"""The states of a Lean proof: equal goals are equal texts, and stand where tactics begin."""

from __future__ import annotations

from proverrl.lang.lean.verify.goals import canonical_goals, find_states
from proverrl.lang.lean.verify.workers.messages import Position, TacticStep
from proverrl.lang.records import NO_GOALS
from tests.lean_builders import build_lean_candidate


def test_equal_goals_are_equal_texts() -> None:
    assert canonical_goals(["case left\nx :  Nat\n⊢ ?m.12 = ?m.7", "⊢ ?m.7"]) == (
        "x : Nat\n⊢ ?1 = ?2\n\n⊢ ?2"
    )
    assert canonical_goals(["case right\nx : Nat\n⊢ ?m.3 = ?m.5", "case b\n⊢ ?m.5"]) == (
        "x : Nat\n⊢ ?1 = ?2\n\n⊢ ?2"
    )
    assert canonical_goals([]) == canonical_goals(["no goals"]) == NO_GOALS
    assert canonical_goals(["⊢ a"]) != canonical_goals(["⊢ b"])


def test_states_stand_where_tactics_begin_in_the_body() -> None:
    # The hole of the builder's problem begins at line 2, column 2 of the file.
    candidate = build_lean_candidate("intro h\n  exact h")

    def step(line: int, column: int, goals: str) -> TacticStep:
        return TacticStep(goals, Position(line, column))

    tactics = [
        step(3, 2, "h : p\n⊢ p"),
        step(2, 2, "⊢ p → p"),
        step(2, 2, "inner"),
        step(1, 0, "ours"),
    ]
    assert find_states(tactics, candidate, 0) == ((1, 0, "⊢ p → p"), (2, 2, "h : p\n⊢ p"))
