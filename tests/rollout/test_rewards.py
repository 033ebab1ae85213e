"""Rewards by hand, and the estimate of how often a right proof is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import get_args

import pytest

from proverrl.config import RewardConfig, RewardName
from proverrl.errors import RecordError
from proverrl.rewards import (
    REWARDS,
    FalseNegativeRate,
    build_reward,
    is_appealed,
    overlong_penalty,
    proved_reward,
)
from proverrl.types import Obligations, Rollout, Status
from tests.builders import build_problem, build_rollout, build_turn

PROBLEM = build_problem("p")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT


def rollout(*statuses: Status, obligations: Sequence[Obligations] = ()) -> Rollout:
    turns = tuple(build_turn(PROBLEM, status, obligations=obligations) for status in statuses)
    return Rollout("p-0", PROBLEM, "solver", turns)


@pytest.mark.parametrize("status", [s for s in Status if s.judged])
def test_only_a_proof_is_worth_1(status: Status) -> None:
    reward = proved_reward(build_rollout(PROBLEM, 0, status))
    assert reward.total == reward.parts["proved"] == float(status is P)


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_what_was_not_judged_earns_no_number(name: RewardName) -> None:
    with pytest.raises(RecordError, match="was not judged"):
        REWARDS[name](rollout(R, T), RewardConfig())


def test_overlong_is_soft() -> None:
    # Limit 100, buffer 20: nothing up to 80, half at 90, all at 100.
    assert [overlong_penalty(n, 100, 20.0) for n in (0, 80, 90, 100, 130)] == [
        0.0,
        0.0,
        -0.5,
        -1.0,
        -1.0,
    ]
    reward = build_reward(RewardConfig(overlong_weight=0.5), max_new_tokens=10)
    turns = (build_turn(PROBLEM, R, [1]), build_turn(PROBLEM, P, list(range(9))))
    # The longest turn has 9 of 10 tokens, buffer 2: half of the way, times 0.5.
    earned = reward(Rollout("p-0", PROBLEM, "solver", turns))
    assert earned.total == 0.75
    assert earned.parts == {"proved": 1.0, "overlong": -0.25}
    assert "overlong" not in build_reward(RewardConfig(), max_new_tokens=4)(rollout(P)).parts


def test_literals_and_dicts_agree() -> None:
    assert set(get_args(RewardName)) == set(REWARDS)


def test_false_negative_rate_by_hand() -> None:
    rate = FalseNegativeRate()
    assert rate.rate == 0.0
    # Of ten proofs that are right, eight are accepted and two refused; ten wrong ones are refused.
    # p = 8/20; of 12 failures 2 are overturned, q = 1/6: q (1 - p) = 0.1, f1 = 0.1 / 0.5 = 0.2.
    # Repeated until the averages have forgotten all but the pattern.
    for _ in range(40):
        for i in range(20):
            rate.proved.add(i % 5 in (0, 2))
        for i in range(12):
            rate.overturned.add(i % 6 == 0)
    assert rate.rate == pytest.approx(0.2, abs=0.04)


def test_false_negative_rate_is_free_of_its_start() -> None:
    # One value of each: the averages are that value, not a twentieth of it.
    rate = FalseNegativeRate()
    rate.proved.add(True)
    rate.proved.add(False)
    rate.overturned.add(True)
    # p = 0.95 * 0.05 / (0.95 * 0.05 + 0.05) = 0.95 / 1.95; q = 1: f1 = 1 - p = 1 / 1.95.
    assert rate.rate == pytest.approx(1 / 1.95)
    rate.overturned.add(False)
    # q = 0.95 / 1.95: q (1 - p) = 0.95 / 1.95^2, over itself plus 0.95 / 1.95.
    assert rate.rate == pytest.approx((0.95 / 1.95**2) / (0.95 / 1.95**2 + 0.95 / 1.95))


def test_false_negative_rate_survives_json() -> None:
    rate = FalseNegativeRate()
    rate.proved.add(True)
    rate.proved.add(False)
    rate.overturned.add(True)
    again = FalseNegativeRate()
    again.load_state_dict(json.loads(json.dumps(asdict(rate))))
    assert again == rate
    again.proved.add(False)
    rate.proved.add(False)
    assert again.rate == rate.rate > 0.0


def test_appeals_are_drawn_by_the_candidate_alone() -> None:
    keys = [f"candidate {i}" for i in range(4000)]
    chosen = {key for key in keys if is_appealed(key, share=0.25)}
    # Mean 1000, standard deviation sqrt(4000 * 0.25 * 0.75) = 27.
    assert 860 < len(chosen) < 1140
    assert chosen == {key for key in keys if is_appealed(key, share=0.25)}
    assert chosen != {key for key in keys if is_appealed(key, share=0.25, seed=1)}
    assert not any(is_appealed(key, share=0.0) for key in keys)
    assert all(is_appealed(key, share=1.0) for key in keys)
