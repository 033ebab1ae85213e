"""Restarts: which share is given next, by hand; the queue."""

from __future__ import annotations

import json

import pytest

from proverrl.config import parse_config
from proverrl.errors import UsageError
from proverrl.lab.restarts.hints import Failure, RestartOptions
from proverrl.lab.restarts.queue import Queue, Trial, escalate
from proverrl.run.experiments import open_experiments
from proverrl.types import Hint, Rollout, Status
from tests.builders import build_problem, build_turn

SETTINGS = RestartOptions()
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
    restarts = Queue(SETTINGS)
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
    restarts = Queue(SETTINGS)
    for name in ("a", "b", "c"):
        restarts.observe(rollouts(R, R, name=name))
    restarts.take("b")
    restarts.observe(rollouts(R, R, name="b", ratio=0.3))
    assert list(restarts.waiting()) == [("b", 0.5), ("a", 0.25), ("c", 0.25)]


def test_a_proof_without_a_hint_ends_the_waiting() -> None:
    restarts = Queue(SETTINGS)
    restarts.observe(rollouts(R, R))
    restarts.observe(rollouts(R, P))
    assert list(restarts.waiting()) == []


def test_patience_ends_a_hopeless_problem_until_it_is_drawn_again() -> None:
    restarts = Queue(RestartOptions(patience=2))
    restarts.observe(rollouts(R))
    for _ in range(2):
        restarts.take("p")
        restarts.observe(rollouts(R, ratio=0.5))
    assert list(restarts.waiting()) == []
    restarts.observe(rollouts(R))
    assert list(restarts.waiting()) == [("p", 0.25)]


def test_what_was_not_judged_is_no_failure() -> None:
    restarts = Queue(SETTINGS)
    restarts.observe(rollouts(T, T))
    assert list(restarts.waiting()) == []
    # None of the one that was judged.
    restarts.observe(rollouts(T, R))
    assert restarts.trials["p"] == [Trial(0.0, 0)]
    restarts.take("p")
    # A restart that came to nothing is repeated as it was.
    restarts.observe(rollouts(T, T, ratio=0.3))
    assert list(restarts.waiting()) == [("p", 0.3)]


def test_the_share_bounds_the_restarts_of_a_draw() -> None:
    assert Queue(RestartOptions(share=0.5)).room(5) == 2
    assert Queue(RestartOptions(share=0.3)).room(10) == 3


def test_a_failure_gives_way_to_one_that_got_as_far() -> None:
    restarts = Queue(RestartOptions(source="failed_prefix"))
    first, further, less = (Failure("b", n, "t", (n,), "f") for n in (3, 9, 4))
    for failure in (first, further, less):
        restarts.add_failure("p", failure)
    assert restarts.failures["p"] == further


def test_the_state_survives_json() -> None:
    settings = RestartOptions(source="reference", use_references=True)
    restarts = Queue(settings)
    restarts.observe(rollouts(R, R))
    restarts.take("p")
    restarts.observe(rollouts(R, R, ratio=0.3))
    restarts.add_failure("p", Failure("b", 3, "t", (1, 2), "f"))
    again = Queue(settings)
    again.load_state_dict(json.loads(json.dumps(restarts.state_dict())))
    assert again == restarts
    assert again.metrics() == {"restarts_waiting": 1.0, "restart_references_shown": 1.0}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"experiments": {"restarts": {"source": "reference"}}}, "use_references = true"),
        ({"experiments": {"restarts": {"ratios": [0.5, 0.25]}}}, "ratios must rise"),
        ({"experiments": {"restarts": {"ratio": 0.5}}}, "unknown 'ratio'"),
        ({"experiments": {"restarts": {}}, "loop": "selfplay"}, "set experiments = {}"),
        ({"experiments": {"restarts": {}}, "loop": "expert_iteration"}, "set experiments = {}"),
    ],
)
def test_what_makes_no_sense_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_experiments(parse_config(table, source="test"))
