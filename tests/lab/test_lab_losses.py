"""The lab's losses against values computed by hand, and what holds of every loss."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.lab.objectives.losses import (
    CispoOptions,
    DrGrpoOptions,
    GspoOptions,
    KiminaOptions,
    cispo,
    dr_grpo_constant,
    gspo,
    kimina,
    log_partition,
)
from proverrl.losses import compute_loss
from tests.learner.test_learner import build_learner, count_forwards, flat
from tests.learner.test_losses import add_up_micro_batches, value
from tests.loss_builders import build_inputs, gradient, leaf, logs
from tests.tiny_model import samples_of_lengths, tiny_model
from tests.tolerance import MOVED

PLACE = "proverrl.lab.objectives.losses"
OPTIONS: dict[str, dict[str, Any]] = {
    "cispo": {},
    "dr_grpo_constant": {"length": 7},
    "gspo": {},
    "kimina": {},
}


def test_constant_length_divides_by_samples_times_length() -> None:
    inputs = build_inputs(
        leaf([-1.0] * 4),
        [-1.0] * 4,
        [0.5, 0.5, 0.5, -1.5],
        [0, 0, 0, 1],
    )
    # Sum of advantages 3 * 0.5 - 1.5 = 0: the long sample is not weighed down.
    options = DrGrpoOptions(length=10)
    assert value(dr_grpo_constant(inputs, options=options)[0]) == pytest.approx(0.0)
    ones = replace(inputs, advantages=torch.ones(4))
    assert value(dr_grpo_constant(ones, options=options)[0]) == pytest.approx(-4 / (2 * 10))


def test_gspo_clips_the_geometric_mean() -> None:
    # Ratios 1.21 and 1 of sample 0: sqrt(1.21) = 1.1 > 1 + 4e-4; sample 1 has 0.9, A < 0,
    # below 1 - 3e-4.
    logprobs = leaf(logs([1.21, 1.0, 0.9]))
    inputs = build_inputs(logprobs, [0.0] * 3, [1.0, 1.0, -2.0], [0, 0, 1])
    loss, metrics = gspo(inputs, options=GspoOptions())
    assert value(loss) == pytest.approx(-(1.0004 - 2 * 0.9997) / 2)
    assert float(metrics["ratio_clipped"]) == 3
    # With bounds out of the way the gradient of a token is -s A / (tokens * samples).
    wide = leaf(logs([1.21, 1.0, 0.9]))
    inputs = build_inputs(wide, [0.0] * 3, [1.0, 1.0, -2.0], [0, 0, 1])
    loss, _ = gspo(inputs, options=GspoOptions(low=0.5, high=0.5))
    assert value(loss) == pytest.approx(-(1.1 - 2 * 0.9) / 2)
    assert gradient(loss, wide) == pytest.approx([-1.1 / 4, -1.1 / 4, 2 * 0.9 / 2])


def test_log_partition_has_the_published_anchor() -> None:
    # One of four right, tau 0.4: 0.4 ln((e^2.5 + 3) / 4) = 0.53354.
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    group = torch.zeros(4, dtype=torch.long)
    assert log_partition(rewards, group, 0.4).tolist() == pytest.approx([0.53354] * 4, abs=5e-6)
    # Any constant of the group comes out again, also a large one.
    shifted = log_partition(rewards + 1000.0, group, 0.4)
    assert shifted.tolist() == pytest.approx([1000.53354] * 4, abs=5e-6)


def test_kimina_squares_what_is_left_of_the_reward() -> None:
    # Group of four, rewards 1 0 0 0 given as r - 0.25; sample 0 has two tokens, log p / p_old
    # 0.1 and 0.2; tau 0.4.
    logprobs = leaf([-0.9, -0.8, -1.0, -1.0, -1.0])
    inputs = build_inputs(
        logprobs,
        [-1.0] * 5,
        [0.75, 0.75, -0.25, -0.25, -0.25],
        [0, 0, 1, 2, 3],
    )
    log_z = 0.53354
    first = 1.0 - log_z - 0.4 * 0.3
    loss, _ = kimina(inputs, options=KiminaOptions())
    assert value(loss) == pytest.approx((first**2 + 3 * log_z**2) / 4, abs=1e-5)
    # Gradient of a token of sample 0: 2 * first * -0.4 / 4.
    grads = gradient(loss, logprobs)
    assert grads == pytest.approx([-0.2 * first] * 2 + [0.2 * log_z] * 3, abs=1e-5)


def test_kimina_keeps_groups_apart() -> None:
    # Two groups of two, log p = log p_old. The second, of equal rewards, does not care about the
    # first, whose tau log Z is 0.4 ln((e^2.5 + 1) / 2) = 0.754297.
    logprobs = leaf([0.0] * 4)
    inputs = build_inputs(
        logprobs, [0.0] * 4, [1.0, 0.0, 0.0, 0.0], [0, 1, 2, 3], group=[0, 0, 1, 1]
    )
    loss, _ = kimina(inputs, options=KiminaOptions())
    # 2 * residual * -0.4 / 4.
    expected = [-0.2 * (1.0 - 0.754297), 0.2 * 0.754297, 0.0, 0.0]
    assert gradient(loss, logprobs) == pytest.approx(expected, abs=1e-6)


def test_cispo_caps_the_weight_and_keeps_the_gradient() -> None:
    # Ratios 8 and 0.5, the cap is 5: -(5 * 1 * -1) - (0.5 * -1 * -1), over two tokens.
    logprobs = leaf([-1.0, -1.0])
    old = [-1.0 - math.log(8), -1.0 + math.log(2)]
    loss, metrics = cispo(build_inputs(logprobs, old, [1.0, -1.0]), options=CispoOptions())
    assert value(loss) == pytest.approx((5.0 - 0.5) / 2)
    assert float(metrics["ratio_clipped"]) == 1
    assert gradient(loss, logprobs) == pytest.approx([-5.0 / 2, 0.5 / 2])


@pytest.mark.parametrize("name", OPTIONS)
@settings(deadline=None)
@given(data=st.data())
def test_losses_of_micro_batches_add_up(name: str, data: st.DataObject) -> None:
    add_up_micro_batches(data, name=f"{PLACE}:{name}", options=OPTIONS[name])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_down_the_gradient_prefers_what_was_rewarded(name: str) -> None:
    logprobs = leaf([-1.0, -1.0])
    chosen: dict[str, Any] = {"name": f"{PLACE}:{name}", "options": OPTIONS[name]}
    inputs = build_inputs(logprobs, [-1.0, -1.0], [0.5, -0.5], group=[0, 0], **chosen)
    loss, _ = compute_loss(inputs)
    good, bad = gradient(loss, logprobs)
    assert good < 0 < bad


@pytest.mark.parametrize("name", ["gspo", "kimina"])
def test_cutting_rows_does_not_change_the_update(name: str) -> None:
    updated, passes = [], []
    for limit in (12, 100_000):
        model = tiny_model()
        samples = samples_of_lengths(model)
        learner = build_learner(model, config={"micro_batch_tokens": limit}, name=f"{PLACE}:{name}")
        calls = count_forwards(model)
        learner.step(samples)
        updated.append(flat(model))
        passes.append(calls[0])
    assert float((updated[0] - updated[1]).abs().mean()) < MOVED
    assert passes == [2, 1]
