"""Rewards by hand, and noise corrections by enumeration of everything the verifier may say."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import CorrectionName, RewardConfig, RewardName, parse_config
from proverrl.errors import ConfigError, RecordError
from proverrl.rewards.noise import CORRECTIONS, FalseNegativeRate, backward, forward, is_appealed
from proverrl.rewards.verdicts import (
    REWARDS,
    build_reward,
    entry_credits,
    overlong_penalty,
    proved_reward,
    turn_returns,
)
from proverrl.types import Obligations, Rollout, Status
from tests.builders import build_problem, build_rollout, build_turn

PROBLEM = build_problem("p")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT
RATES = st.tuples(st.floats(0.0, 0.45), st.floats(0.0, 0.45))


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


def test_partial_credit_is_gated_and_stays_below_a_proof() -> None:
    reward = build_reward(RewardConfig(name="obligations"), max_new_tokens=8)
    found = [Obligations("A", 3, 3), Obligations("B", 4, 1), Obligations("C", 0, 0)]
    # A 1, B 1 / (1 + 3) = 1/4, C has nothing to prove: mean 5/8, times the share of a half.
    earned = reward(rollout(R, obligations=found))
    assert earned.total == earned.parts["obligations"] == 0.3125
    assert reward(rollout(P, obligations=[Obligations("A", 3, 3)])).total == 1.0
    assert reward(rollout(Status.UNSOUND, obligations=found)).total == 0.0
    assert reward(rollout(Status.INCOMPLETE, obligations=found)).total == 0.0
    assert reward(rollout(R)).total == 0.0
    exhausted = rollout(Status.EXHAUSTED, obligations=[Obligations("A", 1, 0)])
    assert entry_credits(exhausted.turns[-1].verdict) == {"A": 0.5}


def test_an_early_proof_is_worth_more() -> None:
    reward = build_reward(RewardConfig(name="turn_discounted"), max_new_tokens=8)
    assert reward(rollout(P)).total == 1.0
    assert reward(rollout(R, R, P)).total == pytest.approx(0.81)
    assert reward(rollout(R, R)).total == 0.0


def test_returns_take_the_best_verdict_ahead() -> None:
    # Against the definition: max over j >= k of 0.5^(j - k) v_j.
    for statuses in itertools.product([P, R, T], repeat=4):
        proved = [float(s is P) for s in statuses]
        expected = [max(0.5 ** (j - k) * proved[j] for j in range(k, 4)) for k in range(4)]
        assert turn_returns(rollout(*statuses), 0.5) == expected


def test_overlong_is_soft() -> None:
    # Limit 100, buffer 20: nothing up to 80, half at 90, all at 100.
    assert [overlong_penalty(n, 100, 20.0) for n in (0, 80, 90, 100, 130)] == [
        0.0,
        0.0,
        -0.5,
        -1.0,
        -1.0,
    ]
    config = RewardConfig(overlong_weight=0.5, overlong_buffer=0.5)
    reward = build_reward(config, max_new_tokens=4)
    turns = (build_turn(PROBLEM, R, [1]), build_turn(PROBLEM, P, [1, 2, 3]))
    # The longest turn has 3 of 4 tokens, buffer 2: half of the way, times 0.5.
    earned = reward(Rollout("p-0", PROBLEM, "solver", turns))
    assert earned.total == 0.75
    assert earned.parts == {"proved": 1.0, "overlong": -0.25}
    assert "overlong" not in build_reward(RewardConfig(), max_new_tokens=4)(rollout(P)).parts


def test_literals_and_dicts_agree() -> None:
    assert set(get_args(RewardName)) == set(REWARDS)
    assert set(get_args(CorrectionName)) == set(CORRECTIONS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"false_positive_rate": 0.5, "false_negative_rate": 0.5}, "no more than chance"),
        ({"name": "obligations", "correction": "forward"}, "needs reward.name"),
        ({"obligation_share": 1.0}, "obligation_share"),
    ],
)
def test_settings_that_make_no_sense_are_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({"reward": table}, source="test")


def test_corrections_by_hand() -> None:
    # f0 0.1, f1 0.3: (1 - 0.1) / 0.6 = 1.5 and -0.1 / 0.6.
    assert backward(True, 0.1, 0.3) == pytest.approx(1.5)
    assert backward(False, 0.1, 0.3) == pytest.approx(-1 / 6)
    assert forward(True, 0.1, 0.3) == 0.3
    assert forward(False, 0.1, 0.3) == pytest.approx(-0.7)
    config = RewardConfig(correction="backward", false_positive_rate=0.1, false_negative_rate=0.3)
    assert build_reward(config, max_new_tokens=8)(rollout(P)).total == pytest.approx(1.5)
    for correct in (backward, forward):
        with pytest.raises(RecordError, match="sum below 1"):
            correct(True, 0.5, 0.5)


@settings(deadline=None)
@given(RATES)
def test_expected_corrections(rates: tuple[float, float]) -> None:
    f0, f1 = rates

    def mean(name: CorrectionName, right: bool) -> float:
        yes = 1.0 - f1 if right else f0
        correct = CORRECTIONS[name]
        return yes * correct(True, f0, f1) + (1.0 - yes) * correct(False, f0, f1)

    assert mean("backward", True) == pytest.approx(1.0)
    assert mean("backward", False) == pytest.approx(0.0, abs=1e-12)
    assert mean("forward", True) == pytest.approx(0.0, abs=1e-12)
    assert mean("forward", False) == pytest.approx(-(1.0 - f0 - f1))


@pytest.mark.parametrize(("name", "scale"), [("backward", 1.0), ("forward", 0.6)])
def test_the_corrected_policy_gradient_is_the_clean_one(name: CorrectionName, scale: float) -> None:
    # A softmax policy over three bodies, of which the second is right. f0 0.1, f1 0.3, so that
    # forward is expected to shrink the gradient to 1 - 0.4 = 0.6. Groups of two, centred by
    # leaving one out; every draw and every answer of the verifier is enumerated.
    probabilities, right, f0, f1 = (0.5, 0.2, 0.3), (False, True, False), 0.1, 0.3

    def score(action: int, theta: int) -> float:
        return float(action == theta) - probabilities[theta]

    for theta in range(3):
        clean = sum(
            p * float(r) * score(a, theta)
            for a, (p, r) in enumerate(zip(probabilities, right, strict=True))
        )
        estimate = 0.0
        for draw in itertools.product(range(3), repeat=2):
            for said in itertools.product([True, False], repeat=2):
                chance = 1.0
                for a, yes in zip(draw, said, strict=True):
                    accept = 1.0 - f1 if right[a] else f0
                    chance *= probabilities[a] * (accept if yes else 1.0 - accept)
                x, y = (CORRECTIONS[name](yes, f0, f1) for yes in said)
                estimate += chance * 0.5 * (x - y) * (score(draw[0], theta) - score(draw[1], theta))
        assert estimate == pytest.approx(scale * clean, abs=1e-12)


def test_false_negative_rate_by_hand() -> None:
    rate = FalseNegativeRate()
    assert rate.rate("dafny") == 0.0
    # Of ten proofs that are right, eight are accepted and two refused; ten wrong ones are refused.
    # p = 8/20; of 12 failures 2 are overturned, q = 1/6: q (1 - p) = 0.1, f1 = 0.1 / 0.5 = 0.2.
    # Repeated until the averages have forgotten all but the pattern.
    for _ in range(40):
        for i in range(20):
            rate.observe("dafny", proved=i % 5 in (0, 2))
        for i in range(12):
            rate.observe_appeal("dafny", overturned=i % 6 == 0)
    assert rate.rate("dafny") == pytest.approx(0.2, abs=0.04)
    assert rate.rate("lean") == 0.0


def test_false_negative_rate_is_free_of_its_start() -> None:
    # One value of each: the averages are that value, not a twentieth of it.
    rate = FalseNegativeRate()
    rate.observe("a", proved=True)
    rate.observe("a", proved=False)
    rate.observe_appeal("a", overturned=True)
    # p = 0.95 * 0.05 / (0.95 * 0.05 + 0.05) = 0.95 / 1.95; q = 1: f1 = 1 - p = 1 / 1.95.
    assert rate.rate("a") == pytest.approx(1 / 1.95)
    rate.observe_appeal("a", overturned=False)
    # q = 0.95 / 1.95: q (1 - p) = 0.95 / 1.95^2, over itself plus 0.95 / 1.95.
    assert rate.rate("a") == pytest.approx((0.95 / 1.95**2) / (0.95 / 1.95**2 + 0.95 / 1.95))


def test_false_negative_rate_survives_json() -> None:
    rate = FalseNegativeRate()
    rate.observe("a", proved=True)
    rate.observe("b", proved=False)
    rate.observe_appeal("a", overturned=True)
    again = FalseNegativeRate()
    again.load_state_dict(json.loads(json.dumps(rate.state_dict())))
    assert again.state_dict() == rate.state_dict()
    again.observe("a", proved=False)
    rate.observe("a", proved=False)
    assert again.rate("a") == rate.rate("a") > 0.0


def test_appeals_are_drawn_by_the_candidate_alone() -> None:
    keys = [f"candidate {i}" for i in range(4000)]
    chosen = {key for key in keys if is_appealed(key, share=0.25)}
    # Mean 1000, standard deviation sqrt(4000 * 0.25 * 0.75) = 27.
    assert 860 < len(chosen) < 1140
    assert chosen == {key for key in keys if is_appealed(key, share=0.25)}
    assert chosen != {key for key in keys if is_appealed(key, share=0.25, seed=1)}
    assert not any(is_appealed(key, share=0.0) for key in keys)
    assert all(is_appealed(key, share=1.0) for key in keys)
