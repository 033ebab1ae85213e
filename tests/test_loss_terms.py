"""What is added to a loss or taken out of it: KL, entropy, covariance, masks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

from proverrl.config import EntropyConfig, KlName, LossConfig
from proverrl.errors import RecordError
from proverrl.losses.entropy import EntropyControl
from proverrl.losses.ratios import clip_mask
from proverrl.losses.regularisers import (
    KL_ESTIMATORS,
    clip_cov_mask,
    covariances,
    kl_cov_term,
    kl_term,
    positive_mask,
    select_samples,
    top_entropy_mask,
)
from proverrl.losses.total import compute_loss
from proverrl.rollout.samples import TrainingSample
from tests.loss_builders import build_inputs, gradient, leaf, logs


def test_literal_and_dict_agree() -> None:
    assert set(get_args(KlName)) == set(KL_ESTIMATORS)


@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        # p = 0.5, p_ref = 0.25, d = ln(1/2): k1 = ln 2, k2 = ln(2)^2 / 2, k3 = 1/2 + ln 2 - 1.
        ("k1", math.log(2), 1.0),
        ("k2", math.log(2) ** 2 / 2, math.log(2)),
        ("k3", math.log(2) - 0.5, 1 - 0.5),
    ],
)
def test_kl_estimators(name: KlName, value: float, slope: float) -> None:
    logprobs = leaf(logs([0.5, 0.3]))
    inputs = build_inputs(
        logprobs,
        [0.0, 0.0],
        [0.0, 0.0],
        reference=logs([0.25, 0.3]),
        batch_tokens=4,
        kl={"coefficient": 0.1, "estimator": name},
    )
    loss, metrics = compute_loss(inputs, EntropyControl(EntropyConfig()), torch.Generator())
    # The advantages are 0, so that only the KL term is left: 0.1 * k / 4 tokens of the batch.
    assert float(loss.detach()) == pytest.approx(0.1 * value / 4)
    assert float(metrics["reference_kl"]) == pytest.approx(value)
    rest = 1.0 if name == "k1" else 0.0
    assert gradient(loss, logprobs) == pytest.approx([0.1 * slope / 4, 0.1 * rest / 4], abs=1e-12)


def test_k3_is_the_exact_divergence_on_average() -> None:
    # p = (0.7, 0.3), p_ref = (0.4, 0.6): sum p k(x) is KL(p || p_ref) for k1 and k3.
    p = torch.tensor([0.7, 0.3], dtype=torch.float64)
    q = torch.tensor([0.4, 0.6], dtype=torch.float64)
    exact = 0.7 * math.log(0.7 / 0.4) + 0.3 * math.log(0.3 / 0.6)
    for name in ("k1", "k3"):
        estimate = (p * KL_ESTIMATORS[name](p.log(), q.log())).sum()
        assert float(estimate) == pytest.approx(exact)


def test_a_kl_term_without_a_reference_is_a_bug() -> None:
    with pytest.raises(RecordError, match="reference"):
        kl_term(build_inputs(leaf([0.0]), [0.0], [0.0], kl={"coefficient": 0.1}))


def test_adaptive_entropy_moves_only_below_the_target() -> None:
    control = EntropyControl(EntropyConfig(adaptive=True, coefficient=0.01))
    assert control.bonus == 0.0
    # The first update sets the target 2.0 * 0.5 = 1; entropy above it takes 0.005 off.
    control.observe(2.0)
    assert (control.target, control.bonus) == (1.0, 0.0)
    assert control.coefficient == pytest.approx(0.005)
    control.observe(0.9)
    assert control.bonus == control.coefficient == pytest.approx(0.01)
    control.observe(1.0)
    assert control.bonus == pytest.approx(0.015)
    again = EntropyControl(EntropyConfig(adaptive=True, coefficient=0.01))
    again.load_state_dict(control.state_dict())
    assert again.bonus == control.bonus
    for _ in range(5):
        again.observe(1.5)
    assert (again.coefficient, again.bonus) == (0.0, 0.0)


def test_a_constant_entropy_bonus_is_taken_off_the_loss() -> None:
    entropy = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    inputs = replace(build_inputs(leaf([0.0, 0.0]), [0.0, 0.0], [0.0, 0.0]), entropy=entropy)
    control = EntropyControl(EntropyConfig(coefficient=0.1))
    loss, _ = compute_loss(inputs, control, torch.Generator())
    assert float(loss.detach()) == pytest.approx(-0.1 * (0.5 + 1.5) / 2)
    assert gradient(loss, entropy) == pytest.approx([-0.05, -0.05])


def test_covariance_is_of_advantage_and_log_probability() -> None:
    # Means: A 0, log p -2. (A - 0)(log p + 2): 1 * 1, -1 * -1, 1 * -1, -1 * 1.
    inputs = build_inputs(leaf([-1.0, -3.0, -3.0, -1.0]), [0.0] * 4, [1.0, -1.0, 1.0, -1.0])
    assert covariances(inputs).tolist() == [1.0, 1.0, -1.0, -1.0]


def test_kl_cov_draws_back_the_top_tokens_only() -> None:
    # The means are 0 for A and -2.5 for log p: the covariances are 2 * 1.5 = 3, 0, 0 and
    # -2 * -0.5 = 1.
    logprobs = leaf([-1.0, -3.0, -3.0, -3.0])
    inputs = build_inputs(logprobs, [-1.5, -3.0, -3.0, -2.0], [2.0, 0.0, 0.0, -2.0])
    # The top 0.2 % of four tokens is at least one: |-1 + 1.5| * weight 1, over four tokens.
    term = kl_cov_term(inputs)
    assert float(term.detach()) == pytest.approx(0.5 / 4)
    assert gradient(term, logprobs) == pytest.approx([0.25, 0.0, 0.0, 0.0])
    half = build_inputs(
        logprobs,
        [-1.5, -3.0, -3.0, -2.0],
        [2.0, 0.0, 0.0, -2.0],
        kl_cov_share=0.5,
        kl_cov_weight=3.0,
    )
    assert float(kl_cov_term(half).detach()) == pytest.approx(3.0 * (0.5 + 1.0) / 4)


def test_clip_cov_takes_out_tokens_of_middling_covariance() -> None:
    # Covariances as above: 3, 0, 0, 1 with the bounds 1 < cov < 5: only token 0 can leave.
    advantages = [2.0, 0.0, 0.0, -2.0]
    on_policy = build_inputs(leaf([-1.0, -3.0, -3.0, -3.0]), [-1.0, -3.0, -3.0, -3.0], advantages)
    keep = clip_cov_mask(on_policy, torch.Generator().manual_seed(0))
    assert keep.tolist() == [False, True, True, True]
    # A token that the clip cuts off already is not counted again.
    moved = build_inputs(leaf([-1.0, -3.0, -3.0, -3.0]), [-1.5, -3.0, -3.0, -3.0], advantages)
    assert clip_mask(moved).tolist() == [True, False, False, False]
    assert clip_cov_mask(moved, torch.Generator()).tolist() == [True] * 4
    # All four tokens of covariance 4 compete for half of eight places.
    many = build_inputs(
        leaf([-1.0] * 4 + [-5.0] * 4),
        [-1.0] * 4 + [-5.0] * 4,
        [2.0] * 4 + [-2.0] * 4,
        clip_cov_share=0.5,
    )
    assert covariances(many).tolist() == [4.0] * 8
    keep = clip_cov_mask(many, torch.Generator().manual_seed(3))
    assert int(keep.sum()) == 4
    assert torch.equal(keep, clip_cov_mask(many, torch.Generator().manual_seed(3)))


def test_top_entropy_keeps_the_forks() -> None:
    entropy = torch.tensor([0.1, 2.0, 0.3, 0.2, 1.0])
    assert top_entropy_mask(entropy, 0.2).tolist() == [False, True, False, False, False]
    # 0.3 of five tokens is 1.5, rounded up to 2.
    assert top_entropy_mask(entropy, 0.3).tolist() == [False, True, False, False, True]
    inputs = build_inputs(
        leaf([0.0] * 5), [0.0] * 5, [1.0] * 5, entropy=entropy.tolist(), top_entropy_share=0.2
    )
    loss, _ = compute_loss(inputs, EntropyControl(EntropyConfig()), torch.Generator())
    assert float(loss.detach()) == pytest.approx(-1 / 5)


def test_certain_positive_tokens_rest_while_entropy_is_low() -> None:
    logprobs = leaf(logs([0.995, 0.5, 0.995]))
    inputs = build_inputs(
        logprobs, logs([0.995, 0.5, 0.995]), [1.0, 1.0, -1.0], positive_mask_entropy=0.2
    )
    assert positive_mask(inputs).tolist() == [False, True, True]
    control = EntropyControl(EntropyConfig())
    for entropy, expected in ((None, -1.0), (0.3, -1.0), (0.1, 0.0)):
        if entropy is not None:
            control.observe(entropy)
        loss, _ = compute_loss(inputs, control, torch.Generator())
        # -(1 + 1 - 1) / 3, and without the first token -(1 - 1) / 3.
        assert float(loss.detach()) == pytest.approx(expected / 3)


def sample(name: str, *, version: int, truncated: bool) -> TrainingSample:
    return TrainingSample(
        rollout_id=name,
        policy_version=version,
        prompt_length=1,
        token_ids=(1, 2),
        loss_mask=(0, 1),
        logprobs=(0.0, -1.0),
        advantages=(0.0, 1.0),
        truncated=truncated,
    )


def test_old_and_truncated_samples_are_left_out_and_counted() -> None:
    samples = [
        sample("new", version=9, truncated=False),
        sample("cut", version=9, truncated=True),
        sample("edge", version=6, truncated=False),
        sample("old", version=5, truncated=False),
        sample("old and cut", version=5, truncated=True),
    ]
    kept, counts = select_samples(samples, LossConfig(), version=10)
    assert kept == samples
    assert counts == {}
    settings = LossConfig.model_validate({"mask_truncated": True, "weights": {"max_staleness": 4}})
    kept, counts = select_samples(samples, settings, version=10)
    assert [s.rollout_id for s in kept] == ["new", "edge"]
    assert counts == {"samples_too_old": 2, "tokens_too_old": 2, "samples_truncated": 1}
