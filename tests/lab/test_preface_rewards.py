"""The rewards of PREFACE, computed by hand, and what each of them pays a detour for."""

from __future__ import annotations

import pytest

from proverrl.config import RewardConfig
from proverrl.errors import RecordError
from proverrl.lab.preface.words import count_errors, describe
from proverrl.rewards import build_reward
from proverrl.types import (
    Candidate,
    Completion,
    Diagnostic,
    Obligations,
    Problem,
    Reward,
    Rollout,
    Stage,
    Status,
    Turn,
    Verdict,
)
from tests.builders import build_problem
from tests.lean_builders import build_lean_problem

PROBLEM = build_problem("p")
POST = "A postcondition might not hold on this return path."
INVARIANT = "This loop invariant might not be maintained by the loop."
TERMINATION = "cannot prove termination; try supplying a decreases clause for the loop"
FAILED = (Obligations("Impl$$_module.__default.M", 9, 8),)


def verdict(*messages: str, stage: Stage = Stage.PROVER) -> Verdict:
    errors = tuple(Diagnostic("error", message) for message in messages)
    counted = FAILED if stage is Stage.PROVER else ()
    return Verdict(Status.REJECTED, errors, obligations=counted, stage=stage)


def posts(number: int) -> Verdict:
    return verdict(*[POST] * number)


PROOF = Verdict(Status.PROVED, obligations=FAILED, stage=Stage.PROVER, checks=("audit",))
SYNTAX = verdict("grammar: expected 'invariant'", stage=Stage.AUDIT)
EXHAUSTED = Verdict(Status.EXHAUSTED, (Diagnostic("error", "out of resource"),), stage=Stage.PROVER)


def attempt(
    found: Verdict | None,
    body: str = "invariant k",
    *,
    tokens: int = 10,
    problem: Problem = PROBLEM,
) -> Turn:
    completion = Completion("", (1,), tuple(range(tokens)), (-0.5,) * tokens, "stop", 0)
    if found is None:
        return Turn(completion, None, None, reason="nothing was written")
    return Turn(completion, Candidate(problem, body), found)


def earn(name: str, *turns: Turn) -> Reward:
    rollout = Rollout("r", PROBLEM, "solver", turns)
    return build_reward(RewardConfig(name=name), max_new_tokens=8)(rollout)


def test_the_conference_reward_of_each_attempt() -> None:
    name: str = "preface_conference"
    assert earn(name, attempt(PROOF)).total == 5.0
    assert earn(name, attempt(posts(3))).total == pytest.approx(-5.6)
    assert earn(name, attempt(None)).total == -7.0
    assert earn(name, attempt(posts(1), "  ")).total == -7.0
    assert earn(name, attempt(EXHAUSTED)).total == -7.0
    ended = Verdict(Status.REJECTED, cause="died")
    assert earn(name, attempt(ended)).total == -7.0
    # -5.2, -5.7, -6.2 and 5: the later, the less.
    late = earn(name, *[attempt(posts(1))] * 3, attempt(PROOF))
    assert late.total == pytest.approx(-12.1)
    assert late.parts == pytest.approx({"errors": -17.1, "success": 5.0})
    # -5 - 0.2 * 30 is clipped.
    assert earn(name, attempt(posts(30))).total == -10.0


def test_the_journal_reward_of_each_attempt() -> None:
    name: str = "preface_journal"
    assert earn(name, attempt(PROOF)).total == 10.0
    assert earn(name, attempt(None)).total == -10.0
    # The first attempt has nothing to be compared with: its 10 tokens alone.
    assert earn(name, attempt(posts(3))).total == pytest.approx(-0.01)
    first = attempt(verdict(POST, INVARIANT, INVARIANT))
    second = attempt(verdict(INVARIANT, TERMINATION))
    mended = earn(name, first, second)
    # 1.0 + 2 * 0.8 before, 0.8 + 1.0 after, and 20 tokens.
    assert mended.parts == pytest.approx({"tokens": -0.02, "progress": 0.8, "structure": 0.0})
    limited = earn(name, attempt(posts(1)), attempt(EXHAUSTED))
    assert limited.parts["progress"] == pytest.approx(1.0 - 1.2)
    unresolved = verdict("unresolved identifier: zz", stage=Stage.READING)
    assert earn(name, attempt(SYNTAX), attempt(unresolved)).parts["progress"] == pytest.approx(-0.1)
    # An empty output is passed over in the comparison.
    gap = earn(name, attempt(posts(2)), attempt(None), attempt(posts(1)))
    assert gap.total == pytest.approx(-10.0 + 1.0 - 0.02)


def test_the_journal_pays_for_structure_that_is_new() -> None:
    name: str = "preface_journal"
    one, two = "invariant 0 <= k", "invariant 0 <= k\ninvariant k == 1"
    assert earn(name, attempt(posts(1), one), attempt(posts(1), two)).parts["structure"] == 0.3
    assert earn(name, attempt(posts(1), two), attempt(posts(1), one)).parts["structure"] == 0.0
    own = "M(k - 1);"
    again = earn(name, attempt(posts(1), one), attempt(posts(1), own))
    assert again.parts["structure"] == -1.5


def test_the_potential_of_an_attempt_is_its_weighted_errors() -> None:
    name: str = "preface_potential"
    assert earn(name, attempt(PROOF)).total == 10.0
    assert earn(name, attempt(verdict(POST, INVARIANT))).total == pytest.approx(-1.8)
    assert earn(name, attempt(posts(30))).total == -10.0
    assert earn(name, attempt(None)).total == -10.0
    assert earn(name, attempt(SYNTAX)).total == -10.0
    cheat = Verdict(Status.UNSOUND, obligations=FAILED, stage=Stage.PROVER)
    assert earn(name, attempt(cheat)).total == -10.0
    assert earn(name, attempt(posts(3)), attempt(posts(1))).total == pytest.approx(-1.0)
    shaped = earn(name, attempt(posts(2)), attempt(PROOF))
    assert shaped.parts == pytest.approx({"success": 10.0, "shaping": 0.0})


def test_the_journal_pays_for_errors_that_are_added_to_be_removed_and_the_potential_does_not() -> (
    None
):
    straight = attempt(posts(1)), attempt(PROOF)
    detour = attempt(posts(5)), attempt(posts(1)), attempt(PROOF)
    gain = earn("preface_journal", *detour).total - earn("preface_journal", *straight).total
    assert gain == pytest.approx(4.0 - 0.01)
    assert earn("preface_potential", *detour).total == earn("preface_potential", *straight).total
    # Nor for a syntax error behind which the others are not found.
    hidden = attempt(posts(5)), attempt(SYNTAX)
    assert earn("preface_journal", *hidden).parts["progress"] == pytest.approx(4.8)
    assert earn("preface_potential", *hidden).total == -10.0
    # In a circle it earns nothing.
    circle = attempt(posts(1)), attempt(posts(4)), attempt(posts(1))
    assert earn("preface_potential", *circle).total == pytest.approx(-1.0)


@pytest.mark.parametrize("name", ["preface_conference", "preface_journal", "preface_potential"])
def test_what_was_not_judged_is_not_scored(name: str) -> None:
    rollout = Rollout("r", PROBLEM, "solver", (attempt(posts(1)), attempt(Verdict(Status.TIMEOUT))))
    with pytest.raises(RecordError, match="not judged"):
        build_reward(RewardConfig(name=name), max_new_tokens=8)(rollout)


@pytest.mark.parametrize("name", ["preface_conference", "preface_journal", "preface_potential"])
def test_the_parts_add_up(name: str) -> None:
    turns = attempt(posts(2)), attempt(None), attempt(SYNTAX), attempt(EXHAUSTED), attempt(PROOF)
    found = earn(name, *turns)
    assert sum(found.parts.values()) == pytest.approx(found.total)


def test_a_language_without_kinds_of_errors_counts_them_alike() -> None:
    problem = build_lean_problem()
    turn = attempt(posts(3), "simp", problem=problem)
    rollout = Rollout("r", problem, "solver", (turn,))
    config = RewardConfig(name="preface_conference")
    assert build_reward(config, max_new_tokens=8)(rollout).total == pytest.approx(-5.6)
    config = RewardConfig(name="preface_potential")
    assert build_reward(config, max_new_tokens=8)(rollout).total == pytest.approx(-3.0)


def test_a_note_is_no_error_and_a_limit_is_one_at_least() -> None:
    assert count_errors(verdict(POST, "Related location")) == {"postcondition": 1}
    assert count_errors(Verdict(Status.EXHAUSTED)) == {"timeout": 1}
    told = (Diagnostic("error", "no"),)
    for stage in Stage:
        kind = {Stage.NOBODY: "syntax", Stage.AUDIT: "syntax", Stage.PROVER: "other"}
        found = count_errors(Verdict(Status.REJECTED, told, stage=stage))
        assert found == {kind.get(stage, "type"): 1}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("invariant 0 <= i <= n\ninvariant i * x + 3 == z", "bound\nproduct sum equals"),
        (
            "if ys == [] {\n  assert ys + [x] == [x];\n} else {\n  P(ys[1..], x);\n}",
            "split equals element\nassert sum element equals\ncall element",
        ),
        ("invariant z == G(g)\ndecreases n - g", "equals call\nmeasure difference"),
        ("if (x) { }", "split"),
        ("/* never closed", ""),
    ],
)
def test_a_body_is_described_in_a_fixed_vocabulary(body: str, words: str) -> None:
    assert describe(body) == words
