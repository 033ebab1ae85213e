"""Restarts: which share is given next, by hand; the queue; the logistic curve."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import RestartConfig, RestartName, parse_config
from proverrl.errors import ConfigError
from proverrl.hint import Hint
from proverrl.rollout.hints import Failure
from proverrl.rollout.restart import (
    CHOOSERS,
    Curve,
    Restarts,
    Trial,
    escalate,
    fit_curve,
    levels,
    logistic,
)
from proverrl.types import Rollout, Status
from tests.builders import build_problem, build_turn

SETTINGS = RestartConfig(name="escalate")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT


def trial(ratio: float, solved: int, attempts: int = 8) -> Trial:
    return Trial(ratio, attempts, solved)


def rollouts(*statuses: Status, ratio: float = 0.0, name: str = "p") -> list[Rollout]:
    hint = Hint("reference", ratio, "x", (7,)) if ratio else None
    problem = build_problem(name)
    return [
        Rollout(f"r{i}", problem, "solver", (build_turn(problem, status),), hint)
        for i, status in enumerate(statuses)
    ]


def test_every_name_has_its_function() -> None:
    assert set(CHOOSERS) == set(get_args(RestartName))


def test_escalation_rises_while_nothing_is_proved() -> None:
    given_shares, trials, ratio = [], [], 0.0
    for _ in range(5):
        trials.append(trial(ratio, 0))
        ratio = escalate(trials, SETTINGS)
        given_shares.append(ratio)
    assert given_shares == [0.25, 0.5, 0.75, 0.75, 0.75]
    assert escalate([*trials, trial(0.75, 1)], SETTINGS) == 0.0
    assert escalate([trial(0.0, 3)], SETTINGS) == 0.0


def test_escalation_goes_on_from_what_was_really_given() -> None:
    # 0.25 was wanted and a step ended at 0.6: the next is 0.75.
    assert escalate([trial(0.0, 0), trial(0.6, 0)], SETTINGS) == 0.75


def test_levels_go_up_at_035_and_down_above() -> None:
    # 2 of 8 is 0.25, at most 0.35: up. 3 of 8 is 0.375: down.
    assert levels([trial(0.0, 2)], SETTINGS) == 0.25
    assert levels([trial(0.0, 3)], SETTINGS) == 0.0
    assert levels([trial(0.25, 2)], SETTINGS) == 0.5
    assert levels([trial(0.5, 3)], SETTINGS) == 0.25
    assert levels([trial(0.25, 3)], SETTINGS) == 0.0
    assert levels([trial(0.75, 0)], SETTINGS) == 0.75
    # 0.6 is the second level, stretched to the end of a step.
    assert levels([trial(0.6, 8)], SETTINGS) == 0.25


def accuracy(curve: Curve, length: float) -> float:
    """The expected share of proofs at a length from 0 to 1."""
    rise = 1.0 / (1.0 + math.exp(-curve.slope * (length - curve.centre)))
    return curve.floor + (1.0 - curve.floor) * rise


@pytest.mark.parametrize(
    "curve", [Curve(8.0, 0.4, 0.1), Curve(3.0, 0.7, 0.05), Curve(20.0, 0.25, 0.3)]
)
def test_a_fit_of_points_without_noise_finds_the_curve(curve: Curve) -> None:
    lengths = [0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9]
    found = fit_curve(lengths, [accuracy(curve, x) for x in lengths], [8.0] * 7)
    assert found.slope == pytest.approx(curve.slope, rel=1e-4)
    assert found.centre == pytest.approx(curve.centre, abs=1e-5)
    assert found.floor == pytest.approx(curve.floor, abs=1e-5)


def test_the_length_for_one_half_by_hand() -> None:
    # 0.1 + 0.9 s = 0.5 gives s = 4/9, s / (1 - s) = 4/5 = 1 - 2 * 0.1.
    curve = Curve(8.0, 0.4, 0.1)
    assert curve.length_for(0.5) == pytest.approx(0.4 + math.log(0.8) / 8.0)
    assert accuracy(curve, curve.length_for(0.5)) == pytest.approx(0.5)
    # s = 1/2 lies at the centre: 0.1 + 0.45.
    assert curve.length_for(0.55) == pytest.approx(0.4)
    assert Curve(8.0, 0.4, 0.5).length_for(0.5) == 0.0
    assert Curve(1.0, 0.1, 0.4).length_for(0.5) == 0.0  # 0.1 + ln 0.2 is below 0


@given(st.floats(1.0, 30.0), st.floats(0.0, 1.0), st.floats(0.0, 0.45), st.floats(0.55, 0.95))
def test_a_length_has_the_accuracy_that_was_asked_for(
    slope: float, centre: float, floor: float, target: float
) -> None:
    curve = Curve(slope, centre, floor)
    length = curve.length_for(target)
    if length > 0.0:
        assert accuracy(curve, length) == pytest.approx(target)
    else:
        assert accuracy(curve, 0.0) >= target - 1e-9


def test_logistic_tries_three_lengths_and_then_follows_the_curve() -> None:
    settings = RestartConfig(name="logistic")
    assert logistic([trial(0.0, 1)], settings) == 0.0
    assert logistic([trial(0.0, 0)], settings) == 0.25
    # All of 8 proved at 0.25, above one half: halfway back to 0.
    assert logistic([trial(0.0, 0), trial(0.25, 8)], settings) == 0.125
    # Nothing proved at any of three lengths says nothing of a curve: higher.
    zeros = [trial(0.0, 0), trial(0.25, 0), trial(0.5, 0)]
    assert logistic(zeros, settings) == 0.75
    curve = Curve(12.0, 0.45, 0.02)
    points = [trial(x, round(1000 * accuracy(curve, x)), 1000) for x in (0.0, 0.25, 0.5, 0.75)]
    # 0.45 + ln(0.96) / 12 = 0.4466, up to the rounding of the counts.
    assert logistic(points, settings) == pytest.approx(0.45 + math.log(0.96) / 12, abs=2e-3)


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
    # 0 of 1 judged.
    restarts.observe(rollouts(T, R))
    assert restarts.trials["p"] == [Trial(0.0, 1, 0)]
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
        ({"restart": {"name": "logistic", "source": "failed_attempt"}}, 'choose "escalate"'),
        ({"restart": {"name": "levels"}, "loop": "expert_iteration"}, 'set it to "none"'),
        (
            {"restart": {"name": "levels"}, "rollout": {"mode": "interleaved"}},
            "choose another mode",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(table, source="test")
