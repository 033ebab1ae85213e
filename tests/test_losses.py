"""Losses against values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LossConfig, LossName, parse_config
from proverrl.errors import ConfigError
from proverrl.losses.ratios import (
    aipo,
    cispo,
    clipped_sequence,
    clipped_token,
    dcpo,
    dr_grpo_constant,
    gmpo,
    gspo,
    luspo,
    prime_rl,
    sapo,
)
from proverrl.losses.squared import kimina, log_partition
from proverrl.losses.total import LOSSES, compute_loss
from tests.loss_builders import build_inputs, gradient, leaf, logs


def value(loss: torch.Tensor) -> float:
    return float(loss.detach())


def test_literal_and_dict_agree() -> None:
    assert set(get_args(LossName)) == set(LOSSES)


def test_on_policy_loss_is_minus_the_mean_advantage() -> None:
    logprobs = leaf([-1.0, -2.0, -0.5])
    inputs = build_inputs(logprobs, [-1.0, -2.0, -0.5], [0.75, 0.75, -0.25], [0, 0, 1])
    token, metrics = clipped_token(inputs)
    assert value(token) == pytest.approx(-(0.75 + 0.75 - 0.25) / 3)
    sequence, _ = clipped_sequence(inputs)
    assert value(sequence) == pytest.approx(-(0.75 - 0.25) / 2)
    assert float(metrics["ratio_clipped"]) == 0
    assert float(metrics["approx_kl"]) == pytest.approx(0.0, abs=1e-7)


def test_clip_is_higher_above_than_below() -> None:
    # Ratios 1.5, 1.25, 0.5, 0.9 with A = 1, 1, -1, -1: only the first and third are clipped.
    logprobs = leaf(logs([1.5, 1.25, 0.5, 0.9]))
    loss, metrics = clipped_token(build_inputs(logprobs, [0.0] * 4, [1.0, 1.0, -1.0, -1.0]))
    assert value(loss) == pytest.approx(-(1.28 + 1.25 - 0.8 - 0.9) / 4)
    assert float(metrics["ratio_clipped"]) == 2
    # Gradient of -ratio * A / 4 in the log-probability; zero where the clip binds.
    assert gradient(loss, logprobs) == pytest.approx([0.0, -1.25 / 4, 0.0, 0.9 / 4])


def test_pessimism_keeps_the_worse_bound_until_the_dual_clip() -> None:
    # A < 0 and ratios 2 and 8: the unclipped terms are worse, so that they stay.
    logprobs = leaf(logs([2.0, 8.0]))
    loss, metrics = clipped_token(build_inputs(logprobs, [0.0, 0.0], [-1.0, -1.0]))
    assert value(loss) == pytest.approx((2.0 + 8.0) / 2)
    assert float(metrics["ratio_clipped"]) == 0
    # k3 at ratios 2 and 8: 2 - 1 - ln 2 and 8 - 1 - ln 8.
    assert float(metrics["approx_kl"]) == pytest.approx(1 - math.log(2) + 7 - math.log(8))
    # A dual clip of 3 bounds the second at 3 and cuts its gradient off.
    loss, metrics = clipped_token(build_inputs(logprobs, [0.0, 0.0], [-1.0, -1.0], dual_clip=3.0))
    assert value(loss) == pytest.approx((2.0 + 3.0) / 2)
    assert float(metrics["ratio_clipped"]) == 1
    assert gradient(loss, logprobs) == pytest.approx([2.0 / 2, 0.0])


def test_constant_length_divides_by_samples_times_length() -> None:
    inputs = build_inputs(
        leaf([-1.0] * 4),
        [-1.0] * 4,
        [0.5, 0.5, 0.5, -1.5],
        [0, 0, 0, 1],
        name="dr_grpo_constant",
        constant_length=10,
    )
    # Sum of advantages 3 * 0.5 - 1.5 = 0: the long sample is not weighed down.
    assert value(dr_grpo_constant(inputs)[0]) == pytest.approx(0.0)
    assert value(dr_grpo_constant(replace(inputs, advantages=torch.ones(4)))[0]) == pytest.approx(
        -4 / (2 * 10)
    )


def test_gspo_clips_the_geometric_mean() -> None:
    # Ratios 1.21 and 1 of sample 0: sqrt(1.21) = 1.1 > 1 + 4e-4; sample 1 has 0.9, A < 0,
    # below 1 - 3e-4.
    logprobs = leaf(logs([1.21, 1.0, 0.9]))
    inputs = build_inputs(logprobs, [0.0] * 3, [1.0, 1.0, -2.0], [0, 0, 1])
    loss, metrics = gspo(inputs)
    assert value(loss) == pytest.approx(-(1.0004 - 2 * 0.9997) / 2)
    assert float(metrics["ratio_clipped"]) == 3
    # With bounds out of the way the gradient of a token is -s A / (tokens * samples).
    wide = leaf(logs([1.21, 1.0, 0.9]))
    loss, _ = gspo(
        build_inputs(wide, [0.0] * 3, [1.0, 1.0, -2.0], [0, 0, 1], gspo_low=0.5, gspo_high=0.5)
    )
    assert value(loss) == pytest.approx(-(1.1 - 2 * 0.9) / 2)
    assert gradient(loss, wide) == pytest.approx([-1.1 / 4, -1.1 / 4, 2 * 0.9 / 2])


def test_luspo_is_gspo_times_length() -> None:
    inputs = build_inputs(leaf([-1.0] * 3), [-1.0] * 3, [1.0, 1.0, -1.0], [0, 0, 1])
    # Ratios are 1: -(2 * 1 - 1 * 1) / 2 samples.
    assert value(luspo(inputs)[0]) == pytest.approx(-0.5)
    assert value(gspo(inputs)[0]) == pytest.approx(0.0)


def test_gmpo_clips_logarithms_then_takes_the_geometric_mean() -> None:
    # A > 0: log-ratios 1.0 and -1.0; only the rise is cut, to 0.4: exp((0.4 - 1) / 2).
    # A < 0: only the fall is cut, to -0.4: exp((1 - 0.4) / 2).
    logprobs = leaf([1.0, -1.0, 1.0, -1.0])
    inputs = build_inputs(logprobs, [0.0] * 4, [1.0, 1.0, -1.0, -1.0], [0, 0, 1, 1])
    loss, metrics = gmpo(inputs)
    assert value(loss) == pytest.approx(-(math.exp(-0.3) - math.exp(0.3)) / 2)
    assert float(metrics["ratio_clipped"]) == 2


def test_sapo_has_slope_one_on_policy_and_falls_off() -> None:
    # At ratio 1: sigmoid(0) * 4 / t = 2 / t.
    logprobs = leaf([0.0, 0.0])
    loss, _ = sapo(build_inputs(logprobs, [0.0, 0.0], [1.0, -1.0]))
    assert value(loss) == pytest.approx(-(2.0 - 2.0 / 1.05) / 2)
    assert gradient(loss, logprobs) == pytest.approx([-0.5, 0.5])
    # At ratio 3, t = 1: the derivative of the gate is 4 s (1 - s) with s = sigmoid(2), times u.
    far = leaf(logs([3.0]))
    loss, _ = sapo(build_inputs(far, [0.0], [1.0]))
    s = 1 / (1 + math.exp(-2))
    assert value(loss) == pytest.approx(-4 * s)
    assert gradient(loss, far) == pytest.approx([-3 * 4 * s * (1 - s)])


def test_dcpo_gives_rare_tokens_room() -> None:
    # q = 0.64: low = 0.5 (1 - 4 * 0.16 / 0.64 = 0), high = 0.5 + 0.5 sqrt(2.25) = 1.25.
    # q = 0.01: high = 0.5 + 0.5 sqrt(81) = 5; q = 0.0001: sqrt(8001) gives 45.2, capped at 10.
    q = [0.64, 0.64, 0.01, 0.0001]
    ratios = [1.4, 0.4, 7.0, 50.0]
    logprobs = leaf([a + b for a, b in zip(logs(q), logs(ratios), strict=True)])
    loss, metrics = dcpo(build_inputs(logprobs, logs(q), [1.0, -1.0, 1.0, 1.0]))
    assert value(loss) == pytest.approx(-(1.25 - 0.5 + 5.0 + 10.0) / 4)
    assert float(metrics["ratio_clipped"]) == 4
    # With A < 0 a ratio of 50 costs 10, the dual clip.
    loss, _ = dcpo(build_inputs(leaf(logs([50.0])), [0.0], [-1.0]))
    assert value(loss) == pytest.approx(10.0)


def test_one_sided_losses_cap_the_weight_and_keep_the_gradient() -> None:
    # Ratios 8 and 0.5. CISPO caps at 5, AIPO at 2, and both go on learning.
    logprobs = leaf([-1.0, -1.0])
    old = [-1.0 - math.log(8), -1.0 + math.log(2)]
    loss, metrics = cispo(build_inputs(logprobs, old, [1.0, -1.0]))
    # -(5 * 1 * -1) - (0.5 * -1 * -1), over two tokens.
    assert value(loss) == pytest.approx((5.0 - 0.5) / 2)
    assert float(metrics["ratio_clipped"]) == 1
    assert gradient(loss, logprobs) == pytest.approx([-5.0 / 2, 0.5 / 2])
    again = leaf([-1.0, -1.0])
    # AIPO reads the sampler's log-probabilities, whatever the old ones are.
    loss, _ = aipo(build_inputs(again, [-9.0, -9.0], [1.0, -1.0], sampler=old))
    assert gradient(loss, again) == pytest.approx([-2.0 / 2, 0.5 / 2])


def test_prime_rl_drops_tokens_that_have_moved_far_enough() -> None:
    # p: 0.3 -> 0.6 with A > 0 moved by 0.3 > 0.2: dropped. 0.3 -> 0.6 with A < 0: kept.
    # 0.6 -> 0.3 with A < 0: dropped. 0.5 -> 0.6 with A > 0: kept.
    new, old = [0.6, 0.6, 0.3, 0.6], [0.3, 0.3, 0.6, 0.5]
    logprobs = leaf(logs(new))
    inputs = build_inputs(logprobs, [-9.0] * 4, [1.0, -1.0, -1.0, 1.0], sampler=logs(old))
    loss, metrics = prime_rl(inputs)
    squares = 3 * math.log(2) ** 2 + math.log(1.2) ** 2
    assert value(loss) == pytest.approx((2.0 - 1.2 + 1e-3 * squares) / 4)
    assert float(metrics["ratio_clipped"]) == 2
    two = math.log(2)
    expected = [2e-3 * two, 2.0 + 2e-3 * two, -2e-3 * two, -1.2 + 2e-3 * math.log(1.2)]
    assert gradient(loss, logprobs) == pytest.approx([g / 4 for g in expected])


def test_a_dropped_token_with_an_infinite_ratio_costs_no_nan() -> None:
    logprobs = torch.tensor([-0.01], requires_grad=True)
    inputs = build_inputs(logprobs, [-200.0], [1.0], drop_penalty=0.0)
    loss, _ = prime_rl(inputs)
    assert value(loss) == 0.0
    assert gradient(loss, logprobs) == [0.0]


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
    loss, _ = kimina(inputs)
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
    loss, _ = kimina(inputs)
    # 2 * residual * -0.4 / 4.
    expected = [-0.2 * (1.0 - 0.754297), 0.2 * 0.754297, 0.0, 0.0]
    assert gradient(loss, logprobs) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", sorted(LOSSES))
@settings(deadline=None)
@given(data=st.data())
def test_losses_of_micro_batches_add_up(name: LossName, data: st.DataObject) -> None:
    """Groups are whole within a micro-batch; the sums then do not depend on the cut."""
    numbers = st.floats(-2.0, -0.05)
    tokens = [data.draw(st.lists(numbers, min_size=8, max_size=8)) for _ in range(2)]
    advantages = [0.5, 0.5, -0.5, -0.5] * 2
    sample = [0, 0, 1, 1, 2, 2, 3, 3]

    def loss(part: slice, group: list[int]) -> float:
        index = [s - sample[part][0] for s in sample[part]]
        inputs = build_inputs(
            leaf(tokens[0][part]),
            tokens[1][part],
            advantages[part],
            index,
            group=group,
            batch_tokens=8,
            batch_samples=4,
            name=name,
            constant_length=7,
        )
        return value(compute_loss(inputs)[0])

    whole = loss(slice(0, 8), [0, 0, 1, 1])
    parts = loss(slice(0, 4), [0, 0]) + loss(slice(4, 8), [0, 0])
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_step_down_the_gradient_prefers_what_was_rewarded(name: LossName) -> None:
    """On policy, every loss raises the rewarded sample against the failed one."""
    logprobs = leaf([-1.0, -1.0])
    inputs = build_inputs(
        logprobs, [-1.0, -1.0], [0.5, -0.5], group=[0, 0], name=name, constant_length=7
    )
    loss, _ = compute_loss(inputs)
    good, bad = gradient(loss, logprobs)
    assert good < 0 < bad


@pytest.mark.parametrize("name", ["clipped_token", "clipped_sequence"])
def test_the_default_loss_is_the_plain_formula_bit_for_bit(name: LossName) -> None:
    """Weights of 1 and settings that are off leave no trace, in the value and in the gradient."""
    torch.manual_seed(0)
    old, advantages = torch.randn(50), torch.randn(50)
    sample = torch.arange(50) // 7
    values, gradients = [], []
    for plain in (True, False):
        logprobs = (old + 0.3 * torch.randn(50, generator=torch.Generator().manual_seed(1))).clone()
        logprobs.requires_grad_()
        if plain:
            log_ratio = logprobs - old
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1.0 - 0.2, 1.0 + 0.28)
            per_token = -torch.minimum(ratio * advantages, clipped * advantages)
            if name == "clipped_token":
                loss = per_token.sum() / 61
            else:
                zeros = torch.zeros(8)
                totals = zeros.index_add(0, sample, per_token)
                counts = zeros.index_add(0, sample, torch.ones_like(per_token))
                loss = (totals / counts.clamp(min=1)).sum() / 9
        else:
            inputs = replace(
                build_inputs(logprobs, [0.0] * 50, [0.0] * 50, sample.tolist(), name=name),
                old_logprobs=old,
                sampler_logprobs=old,
                advantages=advantages,
                batch_tokens=61,
                batch_samples=9,
            )
            loss, _ = compute_loss(inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        assert logprobs.grad is not None
        values.append(loss.detach())
        gradients.append(logprobs.grad)
    assert torch.equal(values[0], values[1])
    assert torch.equal(gradients[0], gradients[1])


def test_a_micro_batch_without_tokens_costs_nothing() -> None:
    inputs = replace(build_inputs(leaf([-1.0]), [-1.0], [1.0]), logprobs=leaf([]))
    loss, metrics = compute_loss(inputs)
    assert (value(loss), metrics) == (0.0, {})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "dr_grpo_constant"}, r"set loss\.constant_length"),
        ({"name": "aipo", "weights": {"name": "token_truncate"}}, "corrected twice"),
        ({"dual_clip": 1.1}, "above 1"),
        ({"weights": {"low": 2.0, "high": 1.0}}, "must be below high"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    table: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({"loss": table}, source="test")


def test_an_old_forward_pass_is_asked_for_by_weights_only() -> None:
    assert not LossConfig().needs_old_logprobs
    assert not LossConfig.model_validate(
        {"weights": {"name": "negative_sequence_mask"}}
    ).needs_old_logprobs
    assert LossConfig.model_validate({"weights": {"name": "geometric_mask"}}).needs_old_logprobs
