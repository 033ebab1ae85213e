"""Advantages of one number a rollout, against values computed by hand and by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages.base import (
    AdvantageFn,
    AdvantageInputs,
    GroupAdvantages,
    RewardHistory,
    carries_signal,
    mean_credit,
    token_credit,
)
from proverrl.advantages.group import (
    annealed_k,
    best_of_weights,
    dr_grpo,
    grpo,
    max_rl,
    ngrpo,
    pkpo,
    rloo,
    w_reinforce,
)
from proverrl.advantages.methods import ADMITS, ADVANTAGES
from proverrl.config import AdvantageConfig, AdvantageName, CurriculumName, OptimizerName
from proverrl.curriculum.sampler import CURRICULA
from proverrl.errors import RecordError
from proverrl.learner.optimizers import OPTIMIZERS
from proverrl.types import Group
from tests.builders import build_test_group


def inputs(
    *groups: Sequence[float], settings: AdvantageConfig | None = None, progress: float = 0.0
) -> AdvantageInputs:
    built = [build_test_group(f"p{i}", rewards) for i, rewards in enumerate(groups)]
    return AdvantageInputs(built, settings or AdvantageConfig(), progress)


def flat(values: GroupAdvantages) -> list[float]:
    return [mean_credit(credit) for turns in values for credit in turns]


def of(
    method: AdvantageFn, *rewards: float, progress: float = 0.0, **settings: float
) -> list[float]:
    given_inputs = inputs(
        rewards, settings=AdvantageConfig.model_validate(settings), progress=progress
    )
    return flat(method(given_inputs)[0])


def test_grpo_one_of_four() -> None:
    # mean 1/4, population std sqrt(3)/4: the solved one gets sqrt(3), the others -1/sqrt(3).
    expected = [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]
    assert of(grpo, 1, 0, 0, 0) == pytest.approx(expected, rel=1e-5)


def test_dr_grpo_keeps_the_scale() -> None:
    assert of(dr_grpo, 1, 0, 0, 0) == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_rloo_is_the_mean_of_the_others() -> None:
    assert of(rloo, 1, 1, 0, 0) == pytest.approx([2 / 3, 2 / 3, -2 / 3, -2 / 3])
    assert of(rloo, 1) == [0.0]


def test_max_rl_divides_by_the_mean_and_is_capped() -> None:
    assert of(max_rl, 1, 0, 0, 0) == pytest.approx([3.0, -1.0, -1.0, -1.0])
    assert of(max_rl, 1, *[0] * 15)[0] == 8.0
    assert of(max_rl, 1, *[0] * 15, max_rl_cap=4.0)[0] == 4.0
    assert of(max_rl, 0, 0) == [0.0, 0.0]
    # A mean below 0 (penalties) would turn the sign of every advantage.
    assert of(max_rl, 0, -1) == [0.0, 0.0]


def test_ngrpo_speaks_about_groups_that_failed_as_a_whole() -> None:
    # Nine rewards, eight 0 and a virtual 1: mean 1/9, sum of squares 8/81 + 64/81 = 8/9, over 8
    # is 1/9, std 1/3: (0 - 1/9) / (1/3) = -1/3 = -1/sqrt(9).
    assert of(ngrpo, *[0] * 8) == pytest.approx([-1 / 3] * 8, rel=1e-5)
    assert of(ngrpo, *[0] * 3) == pytest.approx([-1 / 2] * 3, rel=1e-5)
    assert of(ngrpo, 1, 1, 1) == [0.0] * 3
    # 1, 0 and the virtual 1: mean 2/3, squares 1/9 + 4/9 + 1/9 = 2/3, over 2 is 1/3.
    assert of(ngrpo, 1, 0) == pytest.approx([1 / math.sqrt(3), -2 / math.sqrt(3)], rel=1e-5)
    assert of(ngrpo, 1, 0, ngrpo_cap=0.5) == [0.5, -0.5]


def test_w_reinforce_and_its_two_halves() -> None:
    assert of(w_reinforce, 1, 0, 0) == [0.1, -1.0, -1.0]
    assert of(w_reinforce, 1, 0, proved_weight=0.0) == [0.0, -1.0]  # NSR
    assert of(w_reinforce, 1, 0, proved_weight=1.0, failed_weight=0.0) == [1.0, 0.0]  # PSR


def test_pkpo_one_proof_of_four_for_the_best_of_two() -> None:
    # n 4, c 1, k 2: rho(3, 0, 1) = 0, so (2/4) (1 - 0) times n 4 gives 2; failures get 0.
    assert of(pkpo, 1, 0, 0, 0, pkpo_k=2) == [2.0, 0.0, 0.0, 0.0]
    # c 2: rho(3, 1, 1) = 1 - C(2, 1) / C(3, 1) = 1/3, so 4 (2/4) (2/3) = 4/3.
    assert of(pkpo, 1, 1, 0, 0, pkpo_k=2) == pytest.approx([4 / 3, 4 / 3, 0, 0])
    # k 4 = n: only the single proof of a group adds anything to the best of all.
    assert of(pkpo, 1, 1, 0, 0, pkpo_k=4) == [0.0] * 4
    assert of(pkpo, 1, 0, 0, 0, pkpo_k=8) == [4.0, 0.0, 0.0, 0.0]


def test_pkpo_ends_as_rloo() -> None:
    assert of(pkpo, 1, 1, 0, 0, progress=0.5) == pytest.approx(of(rloo, 1, 1, 0, 0))


def test_k_goes_down_over_half_of_the_run() -> None:
    settings = AdvantageConfig()
    assert [annealed_k(settings, p) for p in (0.0, 0.25, 0.4, 0.5, 1.0)] == [8, 4, 2, 1, 1]
    assert annealed_k(AdvantageConfig(pkpo_anneal=0.0), 0.0) == 1


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


def test_progress_lies_between_0_and_1() -> None:
    with pytest.raises(RecordError, match=r"progress must lie in \[0, 1\], got 1.5"):
        AdvantageInputs([], AdvantageConfig(), 1.5)


def test_a_credit_is_laid_over_the_tokens_of_its_turn() -> None:
    assert token_credit(0.5, 3) == (0.5, 0.5, 0.5)
    assert token_credit((1.0, -1.0), 2) == (1.0, -1.0)
    assert mean_credit((1.0, 0.0)) == 0.5
    with pytest.raises(RecordError, match="2 advantages for a turn of 3 tokens"):
        token_credit((1.0, -1.0), 3)


SILENT = sorted(set(ADVANTAGES) - {"w_reinforce"})


@pytest.mark.parametrize("name", SILENT)
def test_a_group_proved_as_a_whole_carries_no_signal(name: AdvantageName) -> None:
    given_inputs = inputs([1, 1, 1])
    assert flat(ADVANTAGES[name](given_inputs)[0]) == pytest.approx([0, 0, 0], abs=1e-9)
    assert ADMITS[name](given_inputs) == [False]


@pytest.mark.parametrize("name", sorted(set(SILENT) - {"ngrpo"}))
def test_a_group_that_failed_as_a_whole_is_not_admitted(name: AdvantageName) -> None:
    assert ADMITS[name](inputs([0, 0, 0])) == [False]


def test_who_learns_from_groups_of_equal_rewards() -> None:
    failed, proved, both = [0.0] * 3, [1.0] * 3, [1.0, 0.0, 0.0]
    assert ADMITS["ngrpo"](inputs(failed, proved, both)) == [True, False, True]
    assert ADMITS["w_reinforce"](inputs(failed, proved, both)) == [True, True, True]
    nsr = AdvantageConfig(proved_weight=0.0)
    assert ADMITS["w_reinforce"](inputs(failed, proved, settings=nsr)) == [True, False]
    psr = AdvantageConfig(proved_weight=1.0, failed_weight=0.0)
    assert ADMITS["w_reinforce"](inputs(failed, proved, settings=psr)) == [False, True]


def test_pkpo_does_not_learn_from_a_mixed_group_that_has_enough_proofs() -> None:
    # The best of 3 out of 4 is a proof with or without any one of two: no rollout adds anything.
    groups = ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    assert ADMITS["pkpo"](inputs(*groups, settings=AdvantageConfig(pkpo_k=4))) == [False, True]
    assert ADMITS["pkpo"](inputs(*groups, progress=1.0)) == [True, True]


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=6), st.data())
def test_admission_agrees_with_the_advantages(rewards: list[float], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ADVANTAGES)))
    given_inputs = inputs(rewards, progress=data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    (values,) = ADVANTAGES[name](given_inputs)
    assert ADMITS[name](given_inputs) == [carries_signal(values)]


@pytest.mark.parametrize("name", sorted(set(ADVANTAGES) - {"batch_std"}))
def test_a_group_is_judged_apart_from_the_others(name: AdvantageName) -> None:
    together = inputs([1, 0, 0], [0, 0, 0], [1, 1, 0])
    method = ADVANTAGES[name]
    alone = [method(replace(together, groups=[group]))[0] for group in together.groups]
    assert method(together) == alone


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_a_method_changes_nothing_and_repeats(name: AdvantageName) -> None:
    given_inputs = inputs([1, 0, 0, 1])
    before = given_inputs.history.state_dict()
    assert ADVANTAGES[name](given_inputs) == ADVANTAGES[name](given_inputs)
    assert given_inputs.history.state_dict() == before


def test_a_group_of_two_roles_cannot_be_built() -> None:
    group = build_test_group("p", [1, 0])
    with pytest.raises(RecordError, match="does not belong to group"):
        Group(("composer", "p"), group.rollouts, group.rewards)


def test_history_is_empty_at_first() -> None:
    assert RewardHistory().state_dict() == {"moments": []}


def test_literals_and_dicts_agree() -> None:
    assert set(get_args(AdvantageName)) == set(ADVANTAGES) == set(ADMITS)
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)
    assert set(get_args(CurriculumName)) == set(CURRICULA)
