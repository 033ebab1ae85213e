"""The lab's advantages and rewards, against values computed by hand and by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages import (
    AdvantageInputs,
    GroupAdvantages,
    choose_method,
    find_learnable,
    grpo,
    mean_credit,
)
from proverrl.config import AdvantageConfig, RewardConfig
from proverrl.errors import UsageError
from proverrl.lab.objectives.advantages import (
    PkpoOptions,
    TurnOptions,
    annealed_k,
    batch_std,
    best_of_weights,
    turn_credit,
    turn_returns,
)
from proverrl.lab.objectives.rewards import entry_credits
from proverrl.rewards import build_reward
from proverrl.types import Group, Obligations, Status
from tests.builders import build_problem, build_test_group, build_turn, build_turns_group
from tests.rollout.test_rewards import rollout

NAMES = ("batch_std", "max_rl", "ngrpo", "pkpo", "turn_credit", "w_reinforce")
OBLIGATIONS = "proverrl.lab.objectives.rewards:obligations"
PROBLEM = build_problem("p")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT


def choose(name: str, **options: float) -> AdvantageConfig:
    place = f"proverrl.lab.objectives.advantages:{name}"
    return AdvantageConfig(name=place, options=dict(options))


def flat(values: GroupAdvantages) -> list[float]:
    return [mean_credit(credit) for turns in values for credit in turns]


def of(name: str, *rewards: float, progress: float = 0.0, **options: float) -> list[float]:
    inputs = AdvantageInputs([build_test_group("p", rewards)], progress)
    return flat(choose_method(choose(name, **options))(inputs)[0])


def learns(
    name: str, groups: Sequence[Group], progress: float = 0.0, **options: float
) -> list[bool]:
    return find_learnable(AdvantageInputs(groups, progress), choose(name, **options))


def by_status(*rollouts: Sequence[Status]) -> Group:
    return build_turns_group([[build_turn(PROBLEM, s) for s in turns] for turns in rollouts])


def compare_turns(*rollouts: Sequence[Status]) -> list[GroupAdvantages]:
    return turn_credit(AdvantageInputs([by_status(*rollouts)]), options=TurnOptions())


def test_max_rl_divides_by_the_mean_and_is_capped() -> None:
    assert of("max_rl", 1, 0, 0, 0) == pytest.approx([3.0, -1.0, -1.0, -1.0])
    assert of("max_rl", 1, *[0] * 15)[0] == 8.0
    assert of("max_rl", 1, *[0] * 15, cap=4.0)[0] == 4.0
    assert of("max_rl", 0, 0) == [0.0, 0.0]
    # A mean below 0 (penalties) would turn the sign of every advantage.
    assert of("max_rl", 0, -1) == [0.0, 0.0]


def test_ngrpo_speaks_about_groups_that_failed_as_a_whole() -> None:
    # Nine rewards, eight 0 and a virtual 1: mean 1/9, sum of squares 8/81 + 64/81 = 8/9, over 8
    # is 1/9, std 1/3: (0 - 1/9) / (1/3) = -1/3 = -1/sqrt(9).
    assert of("ngrpo", *[0] * 8) == pytest.approx([-1 / 3] * 8, rel=1e-5)
    assert of("ngrpo", *[0] * 3) == pytest.approx([-1 / 2] * 3, rel=1e-5)
    assert of("ngrpo", 1, 1, 1) == [0.0] * 3
    # 1, 0 and the virtual 1: mean 2/3, squares 1/9 + 4/9 + 1/9 = 2/3, over 2 is 1/3.
    assert of("ngrpo", 1, 0) == pytest.approx([1 / math.sqrt(3), -2 / math.sqrt(3)], rel=1e-5)
    assert of("ngrpo", 1, 0, cap=0.5) == [0.5, -0.5]


def test_w_reinforce_and_its_two_halves() -> None:
    assert of("w_reinforce", 1, 0, 0) == [0.1, -1.0, -1.0]
    assert of("w_reinforce", 1, 0, proved=0.0) == [0.0, -1.0]  # NSR
    assert of("w_reinforce", 1, 0, proved=1.0, failed=0.0) == [1.0, 0.0]  # PSR


def test_pkpo_one_proof_of_four_for_the_best_of_two() -> None:
    # n 4, c 1, k 2: rho(3, 0, 1) = 0, so (2/4) (1 - 0) times n 4 gives 2; failures get 0.
    assert of("pkpo", 1, 0, 0, 0, k=2) == [2.0, 0.0, 0.0, 0.0]
    # c 2: rho(3, 1, 1) = 1 - C(2, 1) / C(3, 1) = 1/3, so 4 (2/4) (2/3) = 4/3.
    assert of("pkpo", 1, 1, 0, 0, k=2) == pytest.approx([4 / 3, 4 / 3, 0, 0])
    # k 4 = n: only the single proof of a group adds anything to the best of all.
    assert of("pkpo", 1, 1, 0, 0, k=4) == [0.0] * 4
    assert of("pkpo", 1, 0, 0, 0, k=8) == [4.0, 0.0, 0.0, 0.0]


def test_pkpo_ends_as_rloo() -> None:
    assert of("pkpo", 1, 1, 0, 0, progress=0.5) == pytest.approx([2 / 3, 2 / 3, -2 / 3, -2 / 3])


def test_k_goes_down_over_half_of_the_run() -> None:
    options = PkpoOptions()
    assert [annealed_k(options, p) for p in (0.0, 0.25, 0.4, 0.5, 1.0)] == [8, 4, 2, 1, 1]
    assert annealed_k(PkpoOptions(anneal=0.0), 0.0) == 1


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=7), st.integers(2, 7))
def test_best_of_weights_equal_the_sum_over_all_subsets(rewards: list[float], k: int) -> None:
    k = min(k, len(rewards))
    subsets = list(itertools.combinations(range(len(rewards)), k))
    expected = [0.0] * len(rewards)
    for subset in subsets:
        best = max(rewards[i] for i in subset)
        for i in subset:
            expected[i] += best - max(rewards[j] for j in subset if j != i)
    expected = [value / len(subsets) for value in expected]
    assert best_of_weights(rewards, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 1), (3, 2), (4, 2), (4, 3), (4, 4)])
def test_pkpo_is_the_gradient_of_the_best_of_k(n: int, k: int) -> None:
    # A softmax policy over three bodies with rewards 0, 0.4 and 1. By enumeration of all draws:
    # E[sum_i w_i grad log p(a_i)] must equal the derivative of E[max reward of k draws].
    probabilities, rewards = (0.5, 0.3, 0.2), (0.0, 0.4, 1.0)

    def score(action: int, theta: int) -> float:
        return float(action == theta) - probabilities[theta]

    for theta in range(3):
        estimate = 0.0
        for draw in itertools.product(range(3), repeat=n):
            chance = math.prod(probabilities[a] for a in draw)
            weights = best_of_weights([rewards[a] for a in draw], k)
            estimate += chance * sum(
                w * score(a, theta) for w, a in zip(weights, draw, strict=True)
            )
        exact = 0.0
        for draw in itertools.product(range(3), repeat=k):
            chance = math.prod(probabilities[a] for a in draw)
            exact += chance * max(rewards[a] for a in draw) * sum(score(a, theta) for a in draw)
        assert estimate == pytest.approx(exact, abs=1e-12)


def test_who_learns_from_groups_of_equal_rewards() -> None:
    groups = [build_test_group("p", rewards) for rewards in ([0] * 3, [1] * 3, [1, 0, 0])]
    assert learns("ngrpo", groups) == [True, False, True]
    assert learns("w_reinforce", groups) == [True, True, True]
    assert learns("w_reinforce", groups[:2], proved=0.0) == [True, False]
    assert learns("w_reinforce", groups[:2], proved=1.0, failed=0.0) == [False, True]
    for name in ("batch_std", "max_rl", "pkpo", "turn_credit"):
        assert learns(name, groups[:2]) == [False, False]


def test_weights_that_teach_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing would be learned"):
        learns("w_reinforce", [], proved=0.0, failed=0.0)


def test_pkpo_does_not_learn_from_a_mixed_group_that_has_enough_proofs() -> None:
    # The best of 3 out of 4 is a proof with or without any one of two: no rollout adds anything.
    groups = [build_test_group("p", rewards) for rewards in ([1, 1, 0, 0], [1, 0, 0, 0])]
    assert learns("pkpo", groups, k=4) == [False, True]
    assert learns("pkpo", groups, progress=1.0) == [True, True]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"batch_std"}))
def test_a_group_is_judged_apart_from_the_others(name: str) -> None:
    groups = [build_test_group("p", rewards) for rewards in ([1, 0, 0], [0, 0, 0], [1, 1, 0])]
    method = choose_method(choose(name))
    together = AdvantageInputs(groups)
    assert method(together) == [method(AdvantageInputs([group]))[0] for group in groups]
    assert method(together) == method(together)


def test_batch_std_centres_by_group_and_scales_by_batch() -> None:
    groups = [build_test_group("a", [1, 0]), build_test_group("b", [1, 1])]
    first, second = batch_std(AdvantageInputs(groups))
    # Batch 1, 0, 1, 1: mean 3/4, std sqrt(3)/4. Group means 1/2 and 1.
    assert flat(first) == pytest.approx([2 / math.sqrt(3), -2 / math.sqrt(3)], rel=1e-5)
    assert flat(second) == [0.0, 0.0]


def test_batch_std_of_one_group_is_grpo() -> None:
    given_inputs = AdvantageInputs([build_test_group("a", [1, 0, 0, 0])])
    assert batch_std(given_inputs) == grpo(given_inputs)


def test_batch_std_never_mixes_roles() -> None:
    problem = build_problem("a")
    solved = [build_turn(problem, Status.PROVED)]
    failed = [build_turn(problem, Status.REJECTED)]
    solver = build_turns_group([solved, failed], problem_id="a")
    composer = build_turns_group([solved, failed, failed, failed], problem_id="a", role="composer")
    together = batch_std(AdvantageInputs([solver, composer]))
    assert together == [batch_std(AdvantageInputs([group]))[0] for group in (solver, composer)]
    # One std over all six rewards (2 of 6) would have given 0.5 / (sqrt(2) / 3) = 1.06, not 1.
    assert flat(together[0])[0] == pytest.approx(1.0, rel=1e-5)


def test_turn_credit_is_centred_per_turn_index() -> None:
    # Returns with discount 0.9: P gives [1]; R P gives [0.9, 1]; R R gives [0, 0].
    # Turn 0: 1, 0.9, 0 with mean 19/30. Turn 1: 1, 0 with mean 1/2.
    (values,) = compare_turns([P], [R, P], [R, R])
    assert values[0] == pytest.approx([11 / 30])
    assert values[1] == pytest.approx([0.9 - 19 / 30, 0.5])
    assert values[2] == pytest.approx([-19 / 30, -0.5])


def test_a_turn_that_one_rollout_reached_has_no_comparison() -> None:
    (values,) = compare_turns([P], [R, P])
    assert values == [[pytest.approx(0.05)], [pytest.approx(-0.05), 0.0]]


def test_turn_credit_learns_from_a_group_that_was_proved_sooner_or_later() -> None:
    group = by_status([P], [R, P])
    assert not group.mixed
    assert learns("turn_credit", [group]) == [True]
    assert learns("turn_credit", [by_status([R, P], [R, P])]) == [False]
    # Without discount sooner is not better.
    assert learns("turn_credit", [group], discount=1.0) == [False]


def test_a_turn_that_was_not_judged_is_no_failure_of_its_own() -> None:
    (values,) = compare_turns([T, P], [R, P])
    assert values == [[0.0, 0.0], [0.0, 0.0]]


def test_partial_credit_is_gated_and_stays_below_a_proof() -> None:
    reward = build_reward(RewardConfig(name=OBLIGATIONS), max_new_tokens=8)
    found = [Obligations("A", 3, 3), Obligations("B", 4, 1), Obligations("C", 0, 0)]
    # A 1, B 1 / (1 + 3) = 1/4, C has nothing to prove: mean 5/8, times the share of a half.
    earned = reward(rollout(R, obligations=found))
    assert earned.total == earned.parts["obligations"] == 0.3125
    assert reward(rollout(P, obligations=[Obligations("A", 3, 3)])).total == 1.0
    assert reward(rollout(Status.UNSOUND, obligations=found)).total == 0.0
    assert reward(rollout(Status.INCOMPLETE, obligations=found)).total == 0.0
    assert reward(rollout(Status.UNCONFIRMED, obligations=found)).total == 0.0
    assert reward(rollout(R)).total == 0.0
    exhausted = rollout(Status.EXHAUSTED, obligations=[Obligations("A", 1, 0)])
    assert entry_credits(exhausted.turns[-1].verdict) == {"A": 0.5}


def test_returns_take_the_best_verdict_ahead() -> None:
    # Against the definition: max over j >= k of 0.5^(j - k) v_j.
    for statuses in itertools.product([P, R, T], repeat=4):
        proved = [float(s is P) for s in statuses]
        expected = [max(0.5 ** (j - k) * proved[j] for j in range(k, 4)) for k in range(4)]
        assert turn_returns(rollout(*statuses), 0.5) == expected
