"""The composer's rewards: the anchors of GAR, and batches computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import parse_config
from proverrl.errors import ConfigError, RecordError
from proverrl.rewards import (
    StatementOutcome,
    compare_statements,
    gar_reward,
    is_modified,
    penalise_modified,
    reward_statements,
)
from proverrl.rollout.extract import extract
from proverrl.types import HOLE, Completion, Problem, Reward, Rollout, Turn


def tried(solved: float | None, **more: float) -> StatementOutcome:
    return StatementOutcome("tried", solved, **more)


@pytest.mark.parametrize(
    ("solved", "modified", "expected"),
    [(0.25, 0.125, 0.65625), (1 / 16, 0.0, 0.9375), (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)],
)
def test_the_anchors_of_gar(solved: float, modified: float, expected: float) -> None:
    # 0.75 * 0.875 = 0.65625; 15/16 = 0.9375.
    assert gar_reward(solved, modified) == expected


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_gar_is_a_share_and_rewriting_never_pays(solved: float, modified: float) -> None:
    value = gar_reward(solved, modified)
    assert 0.0 <= value <= gar_reward(solved, 0.0) <= 1.0


def test_gar_counts_what_was_refused_as_unsolved_and_leaves_out_what_was_not_judged() -> None:
    batch = [
        StatementOutcome("malformed"),
        StatementOutcome("stopped"),
        tried(None),
        tried(0.25, modified=0.125),
    ]
    assert reward_statements(batch) == [0.0, 0.0, None, 0.65625]


def test_a_batch_is_compared_as_a_whole() -> None:
    batch = [tried(0.5), tried(0.25), tried(0.0), tried(None)]
    rewards = reward_statements(batch)
    assert rewards == [0.5, 0.75, 0.0, None]
    # Mean 5/12; squared distances 1/144, 16/144, 25/144; variance 42/432 = 7/72.
    std = math.sqrt(7 / 72)
    got = compare_statements(rewards)
    want = [(1 / 12) / std, (4 / 12) / std, (-5 / 12) / std, 0.0]
    assert got == pytest.approx(want, rel=1e-4)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9))
def test_advantages_of_a_batch_sum_to_zero(rates: list[float]) -> None:
    batch = [tried(rate) for rate in rates]
    rewards = reward_statements(batch)
    assert sum(compare_statements(rewards)) == pytest.approx(0.0, abs=1e-6)


def test_an_outcome_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(RecordError, match="a malformed statement has no solve rate"):
        StatementOutcome("malformed", 0.5)
    with pytest.raises(RecordError, match="solved is a share"):
        StatementOutcome("tried", 1.5)


def test_a_changed_statement_halves_what_was_earned_and_a_failure_earns_nothing() -> None:
    earned = Reward(1.0, {"proved": 1.0})
    assert penalise_modified(earned, True) == Reward(0.5, {"proved": 0.5})
    assert penalise_modified(earned, False) == earned
    assert penalise_modified(Reward(0.0), True).total == 0.0


def test_a_changed_statement_is_recognised_by_what_the_extraction_says() -> None:
    statement = f"method M(n: nat)\n  ensures n >= 0\n{{\n{HOLE}\n}}\n"
    problem = Problem("p", "dafny", "statements", "", statement)

    def answer(code: str) -> Rollout:
        text = f"```dafny\n{code}\n```"
        completion = Completion(text, (1,), (2,), (0.0,), "stop", 0)
        reason = extract(problem, text, "dafny").reason
        return Rollout("r", problem, "solver", (Turn(completion, None, None, reason=reason),))

    changed = "method M(n: nat)\n  ensures true\n{\n}\n"
    assert is_modified(answer(changed))
    assert not is_modified(answer(statement.replace(HOLE, "assert true;")))


def test_settings_that_cannot_work_are_refused() -> None:
    tables: list[tuple[dict[str, Any], str]] = [
        ({"selfplay": {"solve_rates": [0.5, 0.5]}}, "solve_rates do not rise"),
        ({"grpo": {"in_order": False}}, "grpo.in_order = true"),
        (
            {"selfplay": {"composer": "policy", "weights": "own"}, "policy": {"engine": "vllm"}},
            "selfplay.weights = 'own'",
        ),
        ({"selfplay": {"filters": ["nonsense"]}}, "selfplay.filters.0"),
    ]
    for table, message in tables:
        with pytest.raises(ConfigError, match=message):
            parse_config({"loop": "selfplay", **table}, source="test")
