"""Losses against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from proverrl.losses import LossInputs, clipped_sequence, clipped_token


def inputs(
    logprobs: torch.Tensor, old: list[float], advantages: list[float], sample: list[int]
) -> LossInputs:
    return LossInputs(
        logprobs=logprobs,
        old_logprobs=torch.tensor(old),
        advantages=torch.tensor(advantages),
        sample=torch.tensor(sample),
        batch_tokens=len(old),
        batch_samples=max(sample) + 1,
        clip_low=0.2,
        clip_high=0.28,
    )


def test_on_policy_loss_is_minus_the_mean_advantage() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    given = inputs(logprobs, [-1.0, -2.0, -0.5], [0.75, 0.75, -0.25], [0, 0, 1])
    token, metrics = clipped_token(given)
    assert float(token.detach()) == pytest.approx(-(0.75 + 0.75 - 0.25) / 3)
    sequence, _ = clipped_sequence(given)
    assert float(sequence.detach()) == pytest.approx(-(0.75 - 0.25) / 2)
    assert float(metrics["ratio_clipped"]) == 0
    assert float(metrics["approx_kl"]) == pytest.approx(0.0, abs=1e-7)


def test_clip_is_higher_above_than_below() -> None:
    # Ratios 1.5, 1.25, 0.5, 0.9 with A = 1, 1, -1, -1: only the first and third are clipped.
    ratios = [1.5, 1.25, 0.5, 0.9]
    logprobs = torch.tensor([math.log(r) for r in ratios], requires_grad=True)
    given = inputs(logprobs, [0.0] * 4, [1.0, 1.0, -1.0, -1.0], [0, 1, 2, 3])
    loss, metrics = clipped_token(given)
    assert float(loss.detach()) == pytest.approx(-(1.28 + 1.25 - 0.8 - 0.9) / 4)
    assert float(metrics["ratio_clipped"]) == 2
    loss.backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    # Gradient of -ratio * A / 4 in the log-probability; zero where the clip binds.
    assert logprobs.grad.tolist() == pytest.approx([0.0, -1.25 / 4, 0.0, 0.9 / 4])


def test_pessimism_keeps_the_worse_bound() -> None:
    # A < 0 and ratio 2: the unclipped term is worse, so that it stays.
    logprobs = torch.tensor([math.log(2.0)])
    loss, metrics = clipped_token(inputs(logprobs, [0.0], [-1.0], [0]))
    assert float(loss) == pytest.approx(2.0)
    assert float(metrics["ratio_clipped"]) == 0
    # k3 at ratio 2: 2 - 1 - ln 2.
    assert float(metrics["approx_kl"]) == pytest.approx(1 - math.log(2))


def test_micro_batches_add_up() -> None:
    logprobs = torch.tensor([-0.1, -0.2, -0.3, -0.4])
    whole = inputs(logprobs, [-0.2] * 4, [1.0, -1.0, 0.5, 2.0], [0, 0, 1, 1])
    total, _ = clipped_token(whole)
    parts = []
    for part in (slice(0, 2), slice(2, 4)):
        half = LossInputs(
            logprobs=whole.logprobs[part],
            old_logprobs=whole.old_logprobs[part],
            advantages=whole.advantages[part],
            sample=torch.tensor([0, 0]),
            batch_tokens=4,
            batch_samples=2,
            clip_low=0.2,
            clip_high=0.28,
        )
        parts.append(float(clipped_token(half)[0]))
    assert sum(parts) == pytest.approx(float(total))
