"""Losses against values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LossName
from proverrl.losses import LOSSES, clipped_sequence, clipped_token, compute_loss
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


def test_pessimism_keeps_the_worse_bound() -> None:
    # A < 0 and ratios 2 and 8: the unclipped terms are worse, so that they stay.
    logprobs = leaf(logs([2.0, 8.0]))
    loss, metrics = clipped_token(build_inputs(logprobs, [0.0, 0.0], [-1.0, -1.0]))
    assert value(loss) == pytest.approx((2.0 + 8.0) / 2)
    assert float(metrics["ratio_clipped"]) == 0
    # k3 at ratios 2 and 8: 2 - 1 - ln 2 and 8 - 1 - ln 8.
    assert float(metrics["approx_kl"]) == pytest.approx(1 - math.log(2) + 7 - math.log(8))


@pytest.mark.parametrize("name", sorted(LOSSES))
@settings(deadline=None)
@given(data=st.data())
def test_losses_of_micro_batches_add_up(name: LossName, data: st.DataObject) -> None:
    add_up_micro_batches(data, name=name)


def add_up_micro_batches(data: st.DataObject, **chosen: Any) -> None:
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
            **chosen,
        )
        return value(compute_loss(inputs)[0])

    whole = loss(slice(0, 8), [0, 0, 1, 1])
    parts = loss(slice(0, 4), [0, 0]) + loss(slice(4, 8), [0, 0])
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_step_down_the_gradient_prefers_what_was_rewarded(name: LossName) -> None:
    """On policy, every loss raises the rewarded sample against the failed one."""
    logprobs = leaf([-1.0, -1.0])
    inputs = build_inputs(logprobs, [-1.0, -1.0], [0.5, -0.5], group=[0, 0], name=name)
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
