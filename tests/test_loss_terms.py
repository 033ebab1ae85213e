"""What is added to a loss or taken out of it: KL, entropy, masks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

from proverrl.config import KlName, LossConfig
from proverrl.errors import RecordError
from proverrl.losses.regularisers import (
    KL_ESTIMATORS,
    kl_term,
    select_samples,
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
    loss, metrics = compute_loss(inputs)
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


def test_a_constant_entropy_bonus_is_taken_off_the_loss() -> None:
    entropy = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    built = build_inputs(leaf([0.0, 0.0]), [0.0, 0.0], [0.0, 0.0])
    bonus = LossConfig.model_validate({"entropy": {"coefficient": 0.1}})
    inputs = replace(built, entropy=entropy, settings=bonus)
    loss, _ = compute_loss(inputs)
    assert float(loss.detach()) == pytest.approx(-0.1 * (0.5 + 1.5) / 2)
    assert gradient(loss, entropy) == pytest.approx([-0.05, -0.05])


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


def test_tokens_older_than_the_limit_are_context_only() -> None:
    written = TrainingSample(
        rollout_id="r",
        policy_version=3,
        prompt_length=2,
        token_ids=(1, 2, 3, 4, 5),
        loss_mask=(0, 0, 1, 1, 1),
        logprobs=(0.0, 0.0, -1.0, -2.0, -3.0),
        advantages=(0.0, 0.0, 0.5, 0.5, 0.5),
        versions=(3, 3, 3, 3, 5),
    )

    def keep(limit: int, version: int = 6) -> tuple[list[tuple[int, ...]], dict[str, float]]:
        settings = LossConfig.model_validate({"weights": {"max_staleness": limit}})
        kept, counts = select_samples([written], settings, version=version)
        return [s.loss_mask for s in kept], counts

    assert keep(0) == ([(0, 0, 1, 1, 1)], {})
    assert keep(3) == ([(0, 0, 1, 1, 1)], {"samples_too_old": 0, "tokens_too_old": 0})
    assert keep(2) == ([(0, 0, 0, 0, 1)], {"samples_too_old": 0, "tokens_too_old": 2})
    assert keep(2, version=8) == ([], {"samples_too_old": 1, "tokens_too_old": 3})
