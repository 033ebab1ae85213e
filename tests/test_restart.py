"""Restarts: which share is given next, by hand; the queue."""

from __future__ import annotations

import json

import pytest

from proverrl.config import RestartConfig, parse_config
from proverrl.errors import ConfigError
from proverrl.hint import Hint
from proverrl.rollout.hints import Failure
from proverrl.rollout.restart import Restarts, Trial, escalate
from proverrl.types import Rollout, Status
from tests.builders import build_problem, build_turn

SETTINGS = RestartConfig(name="escalate")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT


def rollouts(*statuses: Status, ratio: float = 0.0, name: str = "p") -> list[Rollout]:
    hint = Hint("reference", ratio, "x", (7,)) if ratio else None
    problem = build_problem(name)
    return [
        Rollout(f"r{i}", problem, "solver", (build_turn(problem, status),), hint)
        for i, status in enumerate(statuses)
    ]


def test_escalation_rises_while_nothing_is_proved() -> None:
    given_shares, trials, ratio = [], [], 0.0
    for _ in range(5):
        trials.append(Trial(ratio, 0))
        ratio = escalate(trials, SETTINGS)
        given_shares.append(ratio)
    assert given_shares == [0.25, 0.5, 0.75, 0.75, 0.75]
    assert escalate([*trials, Trial(0.75, 1)], SETTINGS) == 0.0
    assert escalate([Trial(0.0, 3)], SETTINGS) == 0.0


def test_escalation_goes_on_from_what_was_really_given() -> None:
    # 0.25 was wanted and a step ended at 0.6: the next is 0.75.
    assert escalate([Trial(0.0, 0), Trial(0.6, 0)], SETTINGS) == 0.75


def test_a_failed_problem_waits_is_taken_and_comes_back_with_more() -> None:
    restarts = Restarts(SETTINGS, {"p": "body"})
    restarts.observe(rollouts(R, R))
    assert list(restarts.waiting()) == [("p", 0.25)]
    restarts.take("p")
    assert list(restarts.waiting()) == []
    restarts.observe(rollouts(R, R, ratio=0.3))
    assert list(restarts.waiting()) == [("p", 0.5)]
    restarts.take("p")
    restarts.observe(rollouts(R, P, ratio=0.5))
    assert list(restarts.waiting()) == []
    assert restarts.trials == {}


def test_problems_that_had_a_hint_go_first_and_then_the_oldest() -> None:
    restarts = Restarts(SETTINGS)
    for name in ("a", "b", "c"):
        restarts.observe(rollouts(R, R, name=name))
    restarts.take("b")
    restarts.observe(rollouts(R, R, name="b", ratio=0.3))
    assert list(restarts.waiting()) == [("b", 0.5), ("a", 0.25), ("c", 0.25)]


def test_a_proof_without_a_hint_ends_the_waiting() -> None:
    restarts = Restarts(SETTINGS)
    restarts.observe(rollouts(R, R))
    restarts.observe(rollouts(R, P))
    assert list(restarts.waiting()) == []


def test_patience_ends_a_hopeless_problem_until_it_is_drawn_again() -> None:
    restarts = Restarts(RestartConfig(name="escalate", patience=2))
    restarts.observe(rollouts(R))
    for _ in range(2):
        restarts.take("p")
        restarts.observe(rollouts(R, ratio=0.5))
    assert list(restarts.waiting()) == []
    restarts.observe(rollouts(R))
    assert list(restarts.waiting()) == [("p", 0.25)]


def test_what_was_not_judged_is_no_failure() -> None:
    restarts = Restarts(SETTINGS)
    restarts.observe(rollouts(T, T))
    assert list(restarts.waiting()) == []
    # None of the one that was judged.
    restarts.observe(rollouts(T, R))
    assert restarts.trials["p"] == [Trial(0.0, 0)]
    restarts.take("p")
    # A restart that came to nothing is repeated as it was.
    restarts.observe(rollouts(T, T, ratio=0.3))
    assert list(restarts.waiting()) == [("p", 0.3)]


def test_none_notes_nothing() -> None:
    restarts = Restarts(RestartConfig())
    restarts.observe(rollouts(R, R))
    assert restarts.queue == {}
    assert restarts.room(12) == 0
    assert restarts.metrics() == {}


def test_the_share_bounds_the_restarts_of_a_draw() -> None:
    assert Restarts(RestartConfig(name="escalate", share=0.5)).room(5) == 2
    assert Restarts(RestartConfig(name="escalate", share=0.3)).room(10) == 3


def test_a_failure_gives_way_to_one_that_got_as_far() -> None:
    restarts = Restarts(RestartConfig(name="escalate", source="failed_prefix"))
    first, further, less = (Failure("b", n, "t", (n,), "f") for n in (3, 9, 4))
    for failure in (first, further, less):
        restarts.add_failure("p", failure)
    assert restarts.failures["p"] == further


def test_the_state_survives_json() -> None:
    settings = RestartConfig(name="escalate", source="reference", use_references=True)
    restarts = Restarts(settings, {"p": "b"})
    restarts.observe(rollouts(R, R))
    restarts.take("p")
    restarts.observe(rollouts(R, R, ratio=0.3))
    restarts.add_failure("p", Failure("b", 3, "t", (1, 2), "f"))
    again = Restarts(settings, {"p": "b"})
    again.load_state_dict(json.loads(json.dumps(restarts.state_dict())))
    assert again == restarts
    assert again.metrics() == {"restarts_waiting": 1.0, "restart_references_shown": 1.0}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"restart": {"name": "escalate", "source": "reference"}}, "use_references = true"),
        ({"restart": {"ratios": [0.5, 0.25]}}, "ratios must rise"),
        ({"restart": {"name": "escalate"}, "loop": "expert_iteration"}, 'set it to "none"'),
    ],
)
def test_what_makes_no_sense_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(table, source="test")
