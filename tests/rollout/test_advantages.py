"""Advantages of one number a rollout, against values computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages import (
    ADVANTAGES,
    AdvantageFn,
    AdvantageInputs,
    GroupAdvantages,
    carries_signal,
    dr_grpo,
    find_learnable,
    grpo,
    mean_credit,
    token_credit,
)
from proverrl.config import AdvantageConfig, AdvantageName, CurriculumName, OptimizerName
from proverrl.curriculum.sampler import CURRICULA
from proverrl.errors import RecordError
from proverrl.learner.optimizers import OPTIMIZERS
from proverrl.rollout.samples import build_samples
from proverrl.types import Group, Status
from tests.builders import build_problem, build_test_group, build_turn, build_turns_group


def inputs(*groups: Sequence[float]) -> AdvantageInputs:
    return AdvantageInputs([build_test_group(f"p{i}", rewards) for i, rewards in enumerate(groups)])


def flat(values: GroupAdvantages) -> list[float]:
    return [mean_credit(credit) for turns in values for credit in turns]


def of(method: AdvantageFn, *rewards: float) -> list[float]:
    return flat(method(inputs(rewards))[0])


def test_grpo_one_of_four() -> None:
    # mean 1/4, population std sqrt(3)/4: the solved one gets sqrt(3), the others -1/sqrt(3).
    expected = [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]
    assert of(grpo, 1, 0, 0, 0) == pytest.approx(expected, rel=1e-5)


def test_dr_grpo_keeps_the_scale() -> None:
    assert of(dr_grpo, 1, 0, 0, 0) == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_progress_lies_between_0_and_1() -> None:
    with pytest.raises(RecordError, match=r"progress must lie in \[0, 1\], got 1.5"):
        AdvantageInputs([], 1.5)


def test_a_credit_is_laid_over_the_tokens_of_its_turn() -> None:
    assert token_credit(0.5, 3) == (0.5, 0.5, 0.5)
    assert token_credit((1.0, -1.0), 2) == (1.0, -1.0)
    assert mean_credit((1.0, 0.0)) == 0.5
    with pytest.raises(RecordError, match="2 advantages for a turn of 3 tokens"):
        token_credit((1.0, -1.0), 3)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=6),
    st.sampled_from(sorted(ADVANTAGES)),
)
def test_what_is_learned_from_agrees_with_the_advantages(
    rewards: list[float], name: AdvantageName
) -> None:
    given_inputs = inputs(rewards)
    (values,) = ADVANTAGES[name](given_inputs)
    assert find_learnable(given_inputs, AdvantageConfig(name=name)) == [carries_signal(values)]
    assert carries_signal(values) == (len(set(rewards)) > 1)


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_a_group_is_judged_apart_from_the_others(name: AdvantageName) -> None:
    together = inputs([1, 0, 0], [0, 0, 0], [1, 1, 0])
    method = ADVANTAGES[name]
    alone = [method(replace(together, groups=[group]))[0] for group in together.groups]
    assert method(together) == alone
    assert method(together) == method(together)


def test_samples_carry_one_advantage_a_token() -> None:
    problem = build_problem("p")
    turns = (
        build_turn(problem, Status.PROVED, [1, 2]),
        build_turn(problem, Status.REJECTED, [1, 3]),
    )
    group = build_turns_group([[turn] for turn in turns])
    samples = build_samples(group, [[(0.5, -0.25)], [0.75]])
    assert [sample.advantages for sample in samples] == [
        (0.0, 0.0, 0.0, 0.5, -0.25),
        (0.0, 0.0, 0.0, 0.75, 0.75),
    ]
    with pytest.raises(RecordError, match="1 advantages for a turn of 2 tokens"):
        build_samples(group, [[(1.0,)], [0.0]])


def test_a_group_of_two_roles_cannot_be_built() -> None:
    group = build_test_group("p", [1, 0])
    with pytest.raises(RecordError, match="does not belong to group"):
        Group(("composer", "p"), group.rollouts, group.rewards)


def test_literals_and_dicts_agree() -> None:
    assert set(get_args(AdvantageName)) == set(ADVANTAGES)
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)
    assert set(get_args(CurriculumName)) == set(CURRICULA)
