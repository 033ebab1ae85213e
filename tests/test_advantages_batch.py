"""Advantages over the batch and over earlier visits, and the history that they read."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages.base import (
    AdvantageInputs,
    GroupAdvantages,
    Moments,
    RewardHistory,
    mean_credit,
)
from proverrl.advantages.group import batch_std, dcpo_smooth, grpo
from proverrl.advantages.methods import ADMITS
from proverrl.config import AdvantageConfig
from proverrl.types import Status
from tests.builders import build_problem, build_test_group, build_turn, build_turns_group

SETTINGS = AdvantageConfig()


def flat(values: GroupAdvantages) -> list[float]:
    return [mean_credit(credit) for turns in values for credit in turns]


def test_batch_std_centres_by_group_and_scales_by_batch() -> None:
    groups = [build_test_group("a", [1, 0]), build_test_group("b", [1, 1])]
    first, second = batch_std(AdvantageInputs(groups, SETTINGS))
    # Batch 1, 0, 1, 1: mean 3/4, std sqrt(3)/4. Group means 1/2 and 1.
    assert flat(first) == pytest.approx([2 / math.sqrt(3), -2 / math.sqrt(3)], rel=1e-5)
    assert flat(second) == [0.0, 0.0]


def test_batch_std_of_one_group_is_grpo() -> None:
    given_inputs = AdvantageInputs([build_test_group("a", [1, 0, 0, 0])], SETTINGS)
    assert batch_std(given_inputs) == grpo(given_inputs)


def test_batch_std_never_mixes_roles() -> None:
    problem = build_problem("a")
    solved = [build_turn(problem, Status.PROVED)]
    failed = [build_turn(problem, Status.REJECTED)]
    solver = build_turns_group([solved, failed], problem_id="a")
    composer = build_turns_group([solved, failed, failed, failed], problem_id="a", role="composer")
    together = batch_std(AdvantageInputs([solver, composer], SETTINGS))
    assert together == [
        batch_std(AdvantageInputs([group], SETTINGS))[0] for group in (solver, composer)
    ]
    # One std over all six rewards (2 of 6) would have given 0.5 / (sqrt(2) / 3) = 1.06, not 1.
    assert flat(together[0])[0] == pytest.approx(1.0, rel=1e-5)


def test_dcpo_on_a_first_visit_is_grpo() -> None:
    given_inputs = AdvantageInputs([build_test_group("p", [1, 0, 0])], SETTINGS)
    expected = flat(grpo(given_inputs)[0])
    assert flat(dcpo_smooth(given_inputs)[0]) == pytest.approx(expected, rel=1e-9)


def test_dcpo_second_visit_by_hand() -> None:
    history = RewardHistory()
    history.observe(build_test_group("p", [1, 0]))
    failed = AdvantageInputs([build_test_group("p", [0, 0])], SETTINGS, history=history)
    # All four: mean 1/4, std sqrt(3)/4, so every 0 stands at -1/sqrt(3); today's group says 0.
    # i = 2: both mixtures are (-1/sqrt(3)) / 2.
    assert flat(dcpo_smooth(failed)[0]) == pytest.approx([-0.5 / math.sqrt(3)] * 2, rel=1e-5)
    assert ADMITS["dcpo_smooth"](failed) == [True]
    # The same group without a past, or of another role's past, says nothing.
    assert ADMITS["dcpo_smooth"](AdvantageInputs(failed.groups, SETTINGS)) == [False]
    other = RewardHistory()
    other.observe(
        build_turns_group([[build_turn(build_problem("p"), Status.PROVED)]] * 2, role="composer")
    )
    assert ADMITS["dcpo_smooth"](AdvantageInputs(failed.groups, SETTINGS, history=other)) == [False]


def test_dcpo_takes_the_mixture_nearer_to_zero() -> None:
    history = RewardHistory()
    for _ in range(2):
        history.observe(build_test_group("p", [1, 0]))
    equal = AdvantageInputs([build_test_group("p", [0, 0])], SETTINGS, history=history)
    # Six rewards, two of them 1: mean 1/3, std sqrt(2)/3, a 0 stands at -1/sqrt(2). i = 3: the
    # mixtures are (0 + all) / 3 and (0 + 2 all) / 3; the first is nearer.
    assert flat(dcpo_smooth(equal)[0]) == pytest.approx([-1 / (3 * math.sqrt(2))] * 2, rel=1e-5)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-2, 2, allow_nan=False), min_size=1, max_size=5), min_size=1, max_size=5
    )
)
def test_moments_equal_those_of_all_rewards_at_once(visits: list[list[float]]) -> None:
    moments = Moments()
    for rewards in visits:
        moments = moments.including(rewards)
    every = [reward for rewards in visits for reward in rewards]
    mean = sum(every) / len(every)
    assert (moments.visits, moments.count) == (len(visits), len(every))
    assert moments.mean == pytest.approx(mean, abs=1e-9)
    assert moments.m2 == pytest.approx(sum((r - mean) ** 2 for r in every), abs=1e-9)


def test_history_survives_json_bit_for_bit() -> None:
    history = RewardHistory()
    problem = build_problem("p")
    composed = [[build_turn(problem, Status.PROVED)], [build_turn(problem, Status.REJECTED)]]
    history.observe(build_test_group("p", [0.1, 0.7, 0.1]))
    history.observe(build_test_group("p", [0.3]))
    history.observe(build_turns_group(composed, role="composer"))
    again = RewardHistory()
    again.load_state_dict(json.loads(json.dumps(history.state_dict())))
    assert again.moments(("solver", "p")) == history.moments(("solver", "p"))
    assert again.moments(("solver", "p")).visits == 2
    assert again.moments(("composer", "p")) == Moments(1, 2, 0.5, 0.5)
    assert again.moments(("solver", "q")) == Moments()
    assert again.state_dict() == history.state_dict()
