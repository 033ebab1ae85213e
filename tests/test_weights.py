"""Weights for the difference of engines, against values computed by hand."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import WeightsName
from proverrl.losses.ratios import clipped_token
from proverrl.losses.weights import DEFAULT_BOUNDS, WEIGHTS, importance_weights
from tests.loss_builders import build_inputs, leaf, logs


def weigh(
    name: WeightsName, ratios: list[float], sample: list[int], **bounds: float
) -> tuple[list[float], dict[str, float]]:
    """Weights of tokens whose learner-over-sampler ratios are ``ratios``."""
    inputs = build_inputs(
        leaf(logs(ratios)),
        logs(ratios),
        [1.0] * len(ratios),
        sample,
        sampler=[0.0] * len(ratios),
        weights_settings={"name": name, **bounds},
    )
    weights, metrics = importance_weights(inputs)
    return weights.tolist(), {key: float(total) for key, total in metrics.items()}


def test_literal_and_dicts_agree() -> None:
    assert set(get_args(WeightsName)) == set(WEIGHTS) == set(DEFAULT_BOUNDS)


# Sample 0 has ratios 2.5 and 0.8 (product 2, geometric mean sqrt 2), sample 1 has 6 and 6
# (product 36, geometric mean 6), sample 2 has 0.4 (product and mean 0.4).
RATIOS = [2.5, 0.8, 6.0, 6.0, 0.4]
SAMPLE = [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", [1.0, 1.0, 1.0, 1.0, 1.0]),
        ("token_truncate", [2.0, 0.8, 2.0, 2.0, 0.4]),
        ("token_mask", [2.5, 0.8, 0.0, 0.0, 0.0]),
        ("sequence_truncate", [2.0, 2.0, 2.0, 2.0, 0.4]),
        ("sequence_mask", [2.0, 2.0, 0.0, 0.0, 0.4]),
        ("geometric_mask", [2.0, 0.8, 0.0, 0.0, 0.0]),
        ("decoupled", [2.5, 0.8, 0.0, 0.0, 0.4]),
    ],
)
def test_each_weight_with_its_own_bounds(name: WeightsName, expected: list[float]) -> None:
    weights, metrics = weigh(name, RATIOS, SAMPLE)
    assert weights == pytest.approx(expected)
    assert metrics["weight"] == pytest.approx(sum(expected))
    assert metrics["weight_zero"] == expected.count(0.0)
    assert metrics["sampler_ratio_max"] == pytest.approx(6.0)
    k3 = sum(r - 1 - math.log(r) for r in RATIOS)
    assert metrics["sampler_kl"] == pytest.approx(k3)


def test_bounds_of_the_configuration_win() -> None:
    weights, _ = weigh("token_truncate", RATIOS, SAMPLE, low=0.5, high=3.0)
    assert weights == pytest.approx([2.5, 0.8, 3.0, 3.0, 0.5])
    weights, _ = weigh("token_mask", RATIOS, SAMPLE, low=0.3, high=10.0)
    assert weights == pytest.approx(RATIOS)


def test_long_sequences_are_dropped_by_the_product_and_not_by_the_mean() -> None:
    # 0.012 a token over 100 tokens: the product is exp(1.2) = 3.32, the mean exp(0.012) = 1.012.
    ratios, sample = [math.exp(0.012)] * 100, [0] * 100
    product, metrics = weigh("sequence_mask", ratios, sample)
    assert product == [0.0] * 100
    assert metrics["weight_zero"] == 100
    mean, _ = weigh("geometric_mask", ratios, sample)
    assert mean == pytest.approx([math.exp(0.012)] * 100)


def test_failures_left_far_behind_are_dropped() -> None:
    # Mean log(p_sampler / p): sample 0 (0.9 + 0.3) / 2 = 0.6 > 0.5, sample 1 0.4, sample 2 0.6.
    inputs = build_inputs(
        leaf([-1.9, -1.3, -1.4, -1.6]),
        [-9.0] * 4,
        [-1.0, -1.0, -1.0, 1.0],
        [0, 0, 1, 2],
        sampler=[-1.0] * 4,
    )
    weights = WEIGHTS["negative_sequence_mask"](inputs, 0.0, 0.5)
    assert weights.tolist() == [0.0, 0.0, 1.0, 1.0]


@settings(deadline=None)
@given(
    ratios=st.lists(st.floats(0.05, 20.0), min_size=1, max_size=12),
    name=st.sampled_from(sorted(WEIGHTS)),
)
def test_agreeing_engines_weigh_nothing_and_no_weight_is_negative(
    ratios: list[float], name: WeightsName
) -> None:
    sample = [i // 3 for i in range(len(ratios))]
    assert min(weigh(name, ratios, sample)[0]) >= 0.0
    assert weigh(name, [1.0] * len(ratios), sample)[0] == pytest.approx([1.0] * len(ratios))


def test_weights_scale_a_tokens_loss() -> None:
    inputs = build_inputs(leaf([0.0, 0.0]), [0.0, 0.0], [1.0, -1.0], weights=[0.5, 2.0])
    # -(0.5 * 1 + 2 * -1) / 2.
    assert float(clipped_token(inputs)[0].detach()) == pytest.approx(0.75)
