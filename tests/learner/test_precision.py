"""bfloat16 weights with float32 masters: small updates, sums of gradients, the sampler."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import (
    Config,
    LearnerConfig,
    LossConfig,
    PolicyConfig,
    parse_config,
)
from proverrl.errors import ConfigError, UsageError
from proverrl.learner.learner import TorchLearner
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from proverrl.learner.weights import TrainedWeights
from proverrl.policy.loading import build_policy, cast_parameters, load_policy, train_tokenizer
from proverrl.policy.probe import TOLERANCES
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.run.run_folder import settle
from proverrl.types import Sampling
from tests.builders import build_problem
from tests.tiny_model import tiny_model, tiny_samples
from tests.tolerance import BFLOAT16

TEXTS = ["while i < n\n  invariant 0 <= i <= n\n", "method M(k: nat) { r := k + 12; }"] * 20
TINY = PolicyConfig(num_layers=2, hidden_size=32, num_heads=2, intermediate_size=64)


class One(torch.nn.Module):
    """One weight of 1.0 in bfloat16, whose gradient is what ``forward`` is scaled by."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))

    def forward(self, scale: float) -> torch.Tensor:
        return self.weight.sum() * scale


def bf16_model() -> Any:
    model = tiny_model()
    cast_parameters(model, torch.bfloat16)
    return model


def test_a_learner_that_is_dropped_takes_its_model_along() -> None:
    # Torch holds a gradient's hook where the garbage collector does not look.
    model = bf16_model()
    learner = TorchLearner(model, LearnerConfig(precision="bf16"), temperature=1.0)
    learner.step(tiny_samples(model))
    gone = weakref.ref(model), weakref.ref(learner)
    del model, learner
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_a_model_outlives_its_learner() -> None:
    # The gradient of the one weight is 2, and nobody takes it away any more.
    model = One()
    weights = TrainedWeights(model, "adamw", learning_rate=1e-3, weight_decay=0.0)
    del weights
    gc.collect()
    model(2.0).backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [2.0]


def test_updates_below_a_ulp_add_up_in_the_master() -> None:
    # With a constant gradient of 1 Adam moves by its rate at every step. Below 1 the spacing of
    # bfloat16 is 2^-8 = 0.0039, so that 1 - 0.001 rounds back to 1; ten such steps are 0.99, and
    # 0.99 * 256 = 253.44, so that the nearest bfloat16 is 253 / 256.
    model = One()
    weights = TrainedWeights(model, "adamw", learning_rate=1e-3, weight_decay=0.0)
    bare = One()
    optimizer = torch.optim.AdamW(bare.parameters(), lr=1e-3, weight_decay=0.0)
    for _ in range(10):
        weights.zero_grad()
        model(1.0).backward()
        weights.step()
        optimizer.zero_grad()
        bare(1.0).backward()
        optimizer.step()
    assert float(bare.weight.detach()) == 1.0
    assert float(weights.masters[0].detach()) == pytest.approx(0.99, abs=10 * 2**-23)
    assert float(model.weight.detach()) == 253 / 256
    assert model.weight.grad is None


def test_gradients_of_micro_batches_are_summed_in_float32() -> None:
    # 1 + 256 * 2^-9 = 1.5. In bfloat16 each addend is a quarter of the spacing at 1, and is lost.
    model, bare = One(), One()
    weights = TrainedWeights(model, "adamw", learning_rate=1e-3, weight_decay=0.0)
    for scale in [1.0] + [2.0**-9] * 256:
        model(scale).backward()
        bare(scale).backward()
    assert bare.weight.grad is not None
    assert float(bare.weight.grad) == 1.0
    assert weights.masters[0].grad is not None
    assert float(weights.masters[0].grad) == 1.5
    # Scaled to norm 0.75, the norm before is given.
    assert weights.clip(0.75) == 1.5
    assert float(weights.masters[0].grad) == pytest.approx(0.75, abs=1e-5)
    weights.zero_grad()
    assert weights.masters[0].grad is None


def test_float32_weights_are_their_own_masters() -> None:
    model = tiny_model()
    weights = TrainedWeights(model, "adamw", learning_rate=1e-3, weight_decay=0.0)
    assert all(a is b for a, b in zip(weights.masters, model.parameters(), strict=True))
    assert weights.state_dict()["masters"] == []


def one_update(precision: str) -> tuple[dict[str, float], list[torch.Tensor], TorchLearner]:
    """Metrics and gradients of one update from the same weights, on the same samples."""
    model = bf16_model()
    samples = tiny_samples(model, shift=0.05)
    if precision == "fp32":
        model = model.float()
    config = LearnerConfig.model_validate({"precision": precision})
    learner = TorchLearner(model, config, temperature=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proverrl.learner.learner.MAX_GRAD_NORM", 1e9)
        metrics = learner.step(samples)
    grads = [master.grad for master in learner.weights.masters]
    assert all(grad is not None and grad.dtype == torch.float32 for grad in grads)
    return metrics, [grad for grad in grads if grad is not None], learner


def test_loss_and_gradients_are_near_those_of_float32() -> None:
    exact, exact_grads, _ = one_update("fp32")
    rough, rough_grads, learner = one_update("bf16")
    # Of a ratio that is off by so much it is the product with an advantage of 0.5.
    assert rough["loss"] == pytest.approx(exact["loss"], abs=BFLOAT16 / 2)
    a = torch.cat([grad.flatten() for grad in exact_grads])
    b = torch.cat([grad.flatten() for grad in rough_grads])
    assert float(a.norm()) > 0.1
    distance = float((a - b).norm() / a.norm())
    # Eight bits of mantissa are 0.4 % a rounding. Equal numbers would mean that nothing is rounded.
    assert 1e-4 < distance < BFLOAT16
    assert {p.dtype for p in learner.model.parameters()} == {torch.bfloat16}
    state = learner.weights.optimizers[0].state_dict()["state"][0]
    assert state["exp_avg"].dtype == torch.float32


def test_many_small_updates_move_the_model_as_in_float32() -> None:
    # 40 updates at a rate of 2e-5: 8e-4 a weight at most, below half the spacing of bfloat16 for
    # any weight above 0.2, so that only a master can move such weights at all.
    moved = {}
    for precision in ("fp32", "bf16"):
        model = bf16_model()
        samples = tiny_samples(model)
        if precision == "fp32":
            model = model.float()
        first = [p.detach().float().clone() for p in model.parameters()]
        config = LearnerConfig.model_validate(
            {"precision": precision, "learning_rate": 2e-5, "epochs": 40}
        )
        learner = TorchLearner(model, config, temperature=1.0)
        learner.step(samples)
        masters = learner.weights.masters
        moved[precision] = torch.cat(
            [(m.detach() - f).flatten() for m, f in zip(masters, first, strict=True)]
        )
    a, b = moved["fp32"], moved["bf16"]
    assert float((a * b).sum() / (a.norm() * b.norm())) > 0.95
    assert float(b.norm()) == pytest.approx(float(a.norm()), rel=0.05)


def test_a_resumed_learner_goes_on_from_its_masters(tmp_path: Path) -> None:
    config = LearnerConfig(precision="bf16", learning_rate=1e-4)
    model = bf16_model()
    samples = tiny_samples(model)
    learner = TorchLearner(model, config, temperature=1.0)
    for _ in range(3):
        learner.step(samples)
    learner.save(tmp_path / "learner.pt")
    again = TorchLearner(bf16_model(), config, temperature=1.0)
    again.load(tmp_path / "learner.pt")
    for one in (learner, again):
        one.step(samples)
    for mine, theirs in zip(learner.weights.masters, again.weights.masters, strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_model_of_another_precision_is_refused() -> None:
    with pytest.raises(UsageError, match=r"precision is 'bf16' and the model's weights are"):
        TorchLearner(tiny_model(), LearnerConfig(precision="bf16"), temperature=1.0)
    with pytest.raises(UsageError, match=r"precision is 'fp32'"):
        TorchLearner(bf16_model(), LearnerConfig(precision="fp32"), temperature=1.0)
    # Where nothing is asked, the learner takes what was loaded.
    assert TorchLearner(bf16_model(), LearnerConfig(), temperature=1.0).weights.masters


def test_auto_is_bfloat16_on_a_gpu_and_what_a_run_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"policy": {"path": "checkpoint", "engine": "vllm"}}
    config = parse_config(given, source="here")
    on_cpu = settle(config)
    assert (on_cpu.learner.precision, on_cpu.vllm.dtype) == ("fp32", "float32")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    on_gpu = settle(config)
    assert (on_gpu.learner.precision, on_gpu.vllm.dtype) == ("bf16", "bfloat16")
    # What is stored stays, wherever the run goes on; a small model from scratch stays in float32.
    assert settle(on_cpu) == on_cpu
    assert settle(Config()).learner.precision == "fp32"
    asked = parse_config({**given, "vllm": {"dtype": "float32"}}, source="here")
    with pytest.raises(ConfigError, match=r'set vllm\.dtype = "bfloat16"'):
        settle(asked)


def bf16_policy() -> TransformersPolicy:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320)
    return build_policy(TINY, tokenizer, seed=0, device="cpu", precision="bf16")


def test_sampler_and_learner_see_the_same_bfloat16_model(tmp_path: Path) -> None:
    policy = bf16_policy()
    assert "in bfloat16" in policy.engine
    prompts = [policy.prompt(build_problem(f"p{i}", n=10**i)) for i in range(4)]
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=0)
    written = asyncio.run(policy.generate(prompts, n=2, sampling=sampling))
    samples = [
        TrainingSample(
            rollout_id=f"r{i}",
            policy_version=0,
            prompt_length=len(c.prompt_ids),
            token_ids=c.prompt_ids + c.token_ids,
            loss_mask=(0,) * len(c.prompt_ids) + (1,) * len(c.token_ids),
            logprobs=(0.0,) * len(c.prompt_ids) + c.logprobs,
            advantages=(0.0,) * (len(c.prompt_ids) + len(c.token_ids)),
        )
        for i, c in enumerate(c for row in written for c in row)
    ]
    sampled = torch.tensor([v for s in samples for v in s.logprobs[s.prompt_length :]])
    with torch.no_grad():
        learned, entropy = packed_logprobs(policy.model, pack_rows(samples), temperature=1.0)
    assert learned.dtype == entropy.dtype == torch.float32
    assert float((learned - sampled).abs().mean()) < TOLERANCES[torch.bfloat16]
    # Saved and loaded, it is the same model, and its rotary frequencies have all their bits.
    policy.save(tmp_path)
    again = load_policy(tmp_path, TINY, device="cpu", precision="bf16")
    for mine, theirs in zip(policy.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for model in (policy.model, again.model):
        assert {buffer.dtype for buffer in model.buffers()} == {torch.float32}
    full = load_policy(tmp_path, TINY, device="cpu")
    assert {p.dtype for p in full.model.parameters()} == {torch.float32}


def test_the_reference_of_a_bfloat16_policy_starts_at_divergence_zero() -> None:
    model = bf16_model()
    learner = TorchLearner(
        model,
        LearnerConfig(precision="bf16"),
        temperature=1.0,
        loss=LossConfig.model_validate({"kl": 0.1}),
    )
    assert learner.step(tiny_samples(model))["reference_kl"] == 0.0
