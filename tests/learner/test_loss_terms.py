"""What stands beside a loss: factors for the sampler, KL, entropy, masks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from proverrl.config import LossConfig
from proverrl.errors import RecordError
from proverrl.losses import clipped_token, compute_loss, kl_term, sampler_weights, select_samples
from proverrl.rollout.samples import TrainingSample
from tests.loss_builders import build_inputs, gradient, leaf, logs


def test_the_kl_term_is_the_estimate_of_the_batch() -> None:
    # p = 0.5, p_ref = 0.25, d = ln(1/2): 1/2 + ln 2 - 1; the other token has moved nowhere.
    logprobs = leaf(logs([0.5, 0.3]))
    inputs = build_inputs(
        logprobs, [0.0, 0.0], [0.0, 0.0], reference=logs([0.25, 0.3]), batch_tokens=4, kl=0.1
    )
    loss, metrics = compute_loss(inputs)
    # The advantages are 0, so that only the KL term is left: 0.1 * k / 4 tokens of the batch.
    assert float(loss.detach()) == pytest.approx(0.1 * (math.log(2) - 0.5) / 4)
    assert float(metrics["reference_kl"]) == pytest.approx(math.log(2) - 0.5)
    assert gradient(loss, logprobs) == pytest.approx([0.1 * 0.5 / 4, 0.0], abs=1e-12)


def test_the_estimate_is_the_exact_divergence_on_average() -> None:
    # p = (0.7, 0.3), p_ref = (0.4, 0.6): sum p k(x) is KL(p || p_ref).
    exact = 0.7 * math.log(0.7 / 0.4) + 0.3 * math.log(0.3 / 0.6)
    inputs = build_inputs(
        leaf(logs([0.7, 0.3])), [0.0] * 2, [0.0] * 2, reference=logs([0.4, 0.6]), kl=1.0
    )
    each = [
        kl_term(replace(inputs, logprobs=inputs.logprobs[i : i + 1], ref_logprobs=reference))[1]
        for i in range(2)
        if (reference := inputs.ref_logprobs[i : i + 1]) is not None  # type: ignore[index]
    ]
    assert 0.7 * float(each[0]) + 0.3 * float(each[1]) == pytest.approx(exact)


def test_a_kl_term_without_a_reference_is_a_bug() -> None:
    with pytest.raises(RecordError, match="reference"):
        kl_term(build_inputs(leaf([0.0]), [0.0], [0.0], kl=0.1))


def test_a_constant_entropy_bonus_is_taken_off_the_loss() -> None:
    entropy = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    built = build_inputs(leaf([0.0, 0.0]), [0.0, 0.0], [0.0, 0.0])
    bonus = LossConfig.model_validate({"entropy": 0.1})
    inputs = replace(built, entropy=entropy, settings=bonus)
    loss, _ = compute_loss(inputs)
    assert float(loss.detach()) == pytest.approx(-0.1 * (0.5 + 1.5) / 2)
    assert gradient(loss, entropy) == pytest.approx([-0.05, -0.05])


def sample(name: str, *, truncated: bool) -> TrainingSample:
    return TrainingSample(
        rollout_id=name,
        policy_version=9,
        prompt_length=1,
        token_ids=(1, 2),
        loss_mask=(0, 1),
        logprobs=(0.0, -1.0),
        advantages=(0.0, 1.0),
        truncated=truncated,
    )


def test_truncated_samples_are_left_out_and_counted() -> None:
    samples = [sample("whole", truncated=False), sample("cut", truncated=True)]
    assert select_samples(samples, LossConfig()) == (samples, {})
    kept, counts = select_samples(samples, LossConfig(mask_truncated=True))
    assert [s.rollout_id for s in kept] == ["whole"]
    assert counts == {"samples_truncated": 1}


# Two samples: ratios of learner over sampler 2.5 and 0.8, and 6.
RATIOS = [2.5, 0.8, 6.0]


def test_the_samplers_difference_is_weighed_up_to_the_cap() -> None:
    inputs = build_inputs(
        leaf(logs(RATIOS)),
        logs(RATIOS),
        [1.0] * 3,
        [0, 0, 1],
        sampler=[0.0] * 3,
        sampler_cap=2.0,
    )
    weights, metrics = sampler_weights(inputs)
    assert weights.tolist() == pytest.approx([2.0, 0.8, 2.0])
    assert float(metrics["weight"]) == pytest.approx(4.8)
    assert float(metrics["sampler_ratio_max"]) == pytest.approx(6.0)
    k3 = sum(r - 1 - math.log(r) for r in RATIOS)
    assert float(metrics["sampler_kl"]) == pytest.approx(k3)
    # The ratio to the learner's own probabilities is 1: minus the mean of the weights is left.
    assert float(compute_loss(inputs)[0].detach()) == pytest.approx(-4.8 / 3)


def test_weights_scale_a_tokens_loss() -> None:
    inputs = build_inputs(leaf([0.0, 0.0]), [0.0, 0.0], [1.0, -1.0], weights=[0.5, 2.0])
    # -(0.5 * 1 + 2 * -1) / 2.
    assert float(clipped_token(inputs)[0].detach()) == pytest.approx(0.75)
