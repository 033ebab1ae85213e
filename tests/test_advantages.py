"""Advantages against values computed by hand."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from proverrl.advantages import ADVANTAGES, dr_grpo, grpo, max_rl, rloo
from proverrl.config import AdvantageName, CurriculumName, LossName, OptimizerName
from proverrl.curriculum.sampler import CURRICULA
from proverrl.losses import LOSSES
from proverrl.optimizers import OPTIMIZERS
from proverrl.types import Group
from tests.builders import build_test_group


def group(*rewards: float) -> Group:
    return build_test_group("p", rewards)


def flat(values: list[list[float]]) -> list[float]:
    return [value for turn in values for value in turn]


def test_grpo_one_of_four() -> None:
    # mean 1/4, population std sqrt(3)/4: the solved one gets sqrt(3), the others -1/sqrt(3).
    expected = [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]
    assert flat(grpo(group(1, 0, 0, 0))) == pytest.approx(expected, rel=1e-5)


def test_dr_grpo_keeps_the_scale() -> None:
    assert flat(dr_grpo(group(1, 0, 0, 0))) == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_rloo_is_the_mean_of_the_others() -> None:
    assert flat(rloo(group(1, 1, 0, 0))) == pytest.approx([2 / 3, 2 / 3, -2 / 3, -2 / 3])


def test_max_rl_divides_by_the_mean_and_is_capped() -> None:
    assert flat(max_rl(group(1, 0, 0, 0))) == pytest.approx([3.0, -1.0, -1.0, -1.0])
    assert flat(max_rl(group(1, *[0] * 15)))[0] == 8.0
    assert flat(max_rl(group(0, 0))) == [0.0, 0.0]


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_equal_rewards_carry_no_signal(name: AdvantageName) -> None:
    assert flat(ADVANTAGES[name](group(1, 1, 1))) == pytest.approx([0, 0, 0], abs=1e-9)


def test_literals_and_dicts_agree() -> None:
    assert set(get_args(AdvantageName)) == set(ADVANTAGES)
    assert set(get_args(LossName)) == set(LOSSES)
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)
    assert set(get_args(CurriculumName)) == set(CURRICULA)
