"""Credit over goal states: proofs of other words that reach the same goals are one path."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest

from proverrl.advantages.base import AdvantageInputs
from proverrl.advantages.credit import salt, tempo
from proverrl.advantages.goals import align_lines, find_cuts, goal_steps
from proverrl.advantages.methods import STEPS
from proverrl.config import AdvantageConfig, StatesName
from proverrl.errors import RecordError, UsageError
from proverrl.lang.lean.goals import canonical_goals, find_states
from proverrl.lang.lean.workers.messages import Position, TacticStep
from proverrl.lang.records import NO_GOALS
from proverrl.types import (
    BodyState,
    Candidate,
    Completion,
    Group,
    Reward,
    Rollout,
    Status,
    Turn,
    Verdict,
)
from tests.builders import build_problem, build_turn
from tests.lean_builders import build_lean_candidate, build_lean_problem

PROBLEM = build_lean_problem()


def decode(ids: list[int]) -> str:
    """One token a character, so that places can be counted."""
    return "".join(map(chr, ids))


def turn(
    body: str, states: tuple[BodyState, ...], status: Status = Status.REJECTED, *, text: str = ""
) -> Turn:
    tokens = tuple(map(ord, text or body))
    completion = Completion(text or body, (1,), tokens, (-0.5,) * len(tokens), "stop", 0)
    checks = ("fake",) if status is Status.PROVED else ()
    verdict = Verdict(status, checks=checks, states=states)
    return Turn(completion, Candidate(PROBLEM, body), verdict)


def group_of(*turns: Turn) -> Group:
    rollouts = tuple(Rollout(f"r{i}", PROBLEM, "solver", (t,)) for i, t in enumerate(turns))
    rewards = tuple(Reward(float(r.status is Status.PROVED)) for r in rollouts)
    return Group(("solver", PROBLEM.id), rollouts, rewards)


def inputs(group: Group, states: StatesName = "goals") -> AdvantageInputs:
    return AdvantageInputs([group], AdvantageConfig(states=states), steps=STEPS[states](decode))


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


@pytest.mark.parametrize(
    ("body", "text", "offset"),
    [
        ("a\nb", "a\nb", 0),
        ("a\n  b", "```lean4\ntheorem t := by\n  a\n  b\n```", 2),
        ("simp\nb", "theorem t := by simp\n  b", 0),
        # A hint gave the first line, and the beginning of the second.
        ("a\nrw [x]\nc", "[x]\nc", -1),
        # Of two answers the last one counts.
        ("a\nb", "a\nb\nwait\na\nb", 3),
        ("a", "b", None),
    ],
)
def test_lines_of_the_body_are_found_in_the_answer(
    body: str, text: str, offset: int | None
) -> None:
    assert align_lines(body, text) == offset


def test_steps_are_lines_on_which_a_tactic_begins() -> None:
    states = ((1, 0, "A"), (2, 2, "B"), (2, 6, "inner"), (4, 2, "C"))
    proof = turn("one\n  two\n   more\n  end", states, Status.PROVED)
    # "one\n" has 4 tokens, the two lines of the second step 6 and 8, the last 5.
    assert find_cuts(proof, decode) == [(4, "B"), (18, "C")]
    steps = goal_steps(decode)(proof)
    assert [(step.key, step.end) for step in steps] == [
        (("start", "B"), 4),
        (("B", "C"), 18),
        (("C", NO_GOALS), 23),
    ]


def test_an_answer_without_states_is_one_step() -> None:
    (step,) = goal_steps(decode)(turn("exact", ()))
    assert (step.key, step.end) == (("start", ("failed", "exact")), 5)
    nothing = replace(turn("prose", ()), candidate=None, verdict=None, reason="no code")
    (step,) = goal_steps(decode)(nothing)
    assert step.key == ("start", ("failed", "prose"))


def test_recorded_proofs_that_reach_the_same_goals_merge() -> None:
    """Goals of a recorded session of a REPL (Lean 4.33.0-rc2)."""
    have, exact, other = "have h : x > 0 := by sorry", "exact h0", "assumption"
    first = (1, 0, canonical_goals(["x : Int\nh0 : x > 0\n⊢ False"]))
    second = (2, 0, canonical_goals(["x : Int\nh0 h : x > 0\n⊢ False"]))
    third = (3, 0, canonical_goals([]))
    group = group_of(
        turn(f"{have}\n{exact}", (first, second), Status.PROVED),
        # The same goals by another tactic, and then a line too many.
        turn(f"{have}\n{other}\nrfl", (first, second, third)),
        turn(f"{have}\nrw [x]", (first, second)),
    )
    # Rewards 1, 0, 0: mean 1/3, deviation sqrt(2)/3, so that A is sqrt(2), -1/sqrt(2) twice.
    win, loss = math.sqrt(2), -1 / math.sqrt(2)
    long = len(have) + 1
    (values,) = salt(inputs(group))
    # The second step of the first two is one: the mean of their advantages.
    both = (win + loss) / 2
    expected = [
        [0.0] * long + [both] * len(exact),
        [0.0] * long + [both] * (len(other) + 1) + [loss] * 3,
        [0.0] * long + [loss] * 6,
    ]
    for (credit,), wanted in zip(values, expected, strict=True):
        assert credit == pytest.approx(wanted, abs=1e-5)
    # By text they share nothing after the first line.
    (by_text,) = salt(inputs(group, "lines"))
    assert by_text[0][0] == pytest.approx([0.0] * long + [win] * len(exact), abs=1e-5)


def test_tempo_over_goals_by_hand() -> None:
    start, half = (1, 0, "S"), (2, 0, "T")
    group = group_of(
        turn("a\nb", (start, half), Status.PROVED),
        turn("c\nd\ne", (start, half, (3, 0, NO_GOALS))),
        turn("a\nf", (start, half)),
    )
    # V(start) = V(T) = 1/3; V(no goals) = 1/2, of the first two; V(failed) = 0.
    # In units of the deviation sqrt(2)/3: 1/6 is sqrt(2)/4, 1/2 is 3/(2 sqrt(2)), 1/3 is 1/sqrt(2).
    win, loss = math.sqrt(2), -1 / math.sqrt(2)
    expected = [
        [win, win, win + math.sqrt(2) / 4],
        [loss, loss] + [loss + math.sqrt(2) / 4] * 2 + [loss - 1.5 / math.sqrt(2)],
        [loss, loss, loss - 1 / math.sqrt(2)],
    ]
    (values,) = tempo(inputs(group))
    for (credit,), wanted in zip(values, expected, strict=True):
        assert credit == pytest.approx(wanted, abs=1e-5)


def test_what_has_no_goals_is_refused_with_the_remedy() -> None:
    dafny = build_turn(build_problem("p"), Status.REJECTED)
    with pytest.raises(UsageError, match=r'problem of dafny.*set advantage\.states = "lines"'):
        goal_steps(decode)(dafny)
    with pytest.raises(UsageError, match="trace_states = True"):
        goal_steps(decode)(turn("simp", (), Status.PROVED))
    group = group_of(turn("a", ((1, 0, "S"),), Status.PROVED), turn("b", ()))
    bare = AdvantageInputs([group], AdvantageConfig(states="goals"))
    with pytest.raises(RecordError, match="tempo over goals"):
        tempo(bare)


def test_the_states_are_those_of_the_configuration() -> None:
    assert set(STEPS) == set(get_args(StatesName))
