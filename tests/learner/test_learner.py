"""The learner: packed rows against padded ones, forward passes, the reference, refused updates."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import LearnerConfig, LossConfig, LossName, training
from proverrl.config.training import RateSchedule
from proverrl.errors import GuardError, ProverRLError
from proverrl.learner.learner import TorchLearner, Update
from proverrl.learner.optimizers import rate_factor
from proverrl.learner.packed_rows import (
    PackedRow,
    gather_tokens,
    pack_rows,
    packed_logprobs,
    samples_of,
    split_rows,
)
from proverrl.losses import LOSSES, LossInputs, compute_loss
from proverrl.rollout.samples import TrainingSample, build_replay_sample
from tests.tiny_model import samples_of_lengths, tiny_model, tiny_samples
from tests.tolerance import FLOAT32, FLOAT64, MOVED


def build_learner(model: Any, *, config: dict[str, Any] | None = None, **loss: Any) -> TorchLearner:
    return TorchLearner(
        model,
        LearnerConfig.model_validate(config or {}),
        temperature=1.0,
        loss=LossConfig.model_validate(loss),
    )


def flat(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def padded_logprobs(model: Any, samples: list[TrainingSample]) -> torch.Tensor:
    """Every sample in a row of its own, padded on the right, through the model's own mask."""
    width = max(len(s.token_ids) for s in samples)
    ids = torch.zeros((len(samples), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, s in enumerate(samples):
        ids[i, : len(s.token_ids)] = torch.tensor(s.token_ids)
        mask[i, : len(s.token_ids)] = 1
    logprobs = torch.log_softmax(model(input_ids=ids, attention_mask=mask).logits, -1)
    taken = logprobs[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1)
    return torch.cat(
        [taken[i, s.prompt_length - 1 : len(s.token_ids) - 1] for i, s in enumerate(samples)]
    )


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_packing_gives_the_loss_and_gradient_of_padding(name: LossName) -> None:
    settings = LossConfig.model_validate({"name": name})
    losses, gradients = [], []
    for packed in (True, False):
        model = tiny_model().double()
        samples = tiny_samples(model, shift=0.05)
        rows = pack_rows(samples)
        assert [len(row.samples) for row in rows] == [2, 2, 2]
        if packed:
            logprobs, entropy = packed_logprobs(model, rows, temperature=1.0)
        else:
            logprobs = padded_logprobs(model, samples)
            entropy = torch.zeros_like(logprobs)
        inputs = LossInputs(
            **gather_tokens(rows, logprobs, entropy, {}, {}, 0),
            batch_tokens=sum(sum(s.loss_mask) for s in samples),
            batch_samples=len(samples),
            settings=settings,
        )
        loss, _ = compute_loss(inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert losses[0] == pytest.approx(losses[1], rel=FLOAT64, abs=FLOAT64)
    # A gradient of zero would agree too.
    largest = float(gradients[0].abs().max())
    assert largest > 1e-3
    assert float((gradients[0] - gradients[1]).abs().max()) < FLOAT64 * max(1.0, largest)


def test_gathered_tokens_are_those_in_the_loss() -> None:
    model = tiny_model()
    samples = tiny_samples(model, prompts=2)
    rows = pack_rows(samples)
    number = torch.arange(sum(len(s.token_ids) - s.prompt_length for s in samples)).float()
    old = {id(s): torch.full((len(s.token_ids) - s.prompt_length,), 7.0) for s in samples}
    tokens = gather_tokens(rows, number, number, old, {}, version=3)
    # Samples 0 and 3 have a masked second token.
    lengths = [len(s.token_ids) - s.prompt_length for s in samples]
    starts = [sum(lengths[:i]) for i in range(4)]
    kept = [(i, t) for i, n in enumerate(lengths) for t in range(n) if not (i in (0, 3) and t == 1)]
    assert tokens["logprobs"].tolist() == [starts[i] + t for i, t in kept]
    assert list(zip(tokens["sample"].tolist(), tokens["position"].tolist(), strict=True)) == kept
    assert set(tokens["old_logprobs"].tolist()) == {7.0}
    assert tokens["ref_logprobs"] is None
    assert tokens["group"].tolist() == [0, 0, 1, 1]
    assert tokens["advantages"].tolist() == [
        samples[i].advantages[-1] for i in tokens["sample"].tolist()
    ]


def count_forwards(model: Any) -> list[int]:
    calls = [0]

    def hook(*_: Any) -> None:
        calls[0] += 1

    model.get_decoder().register_forward_hook(hook)
    return calls


@pytest.mark.parametrize(
    ("cap", "needed", "forwards"),
    [(0.0, False, 2), (2.0, True, 3)],
)
def test_the_old_policy_is_scored_only_when_needed(cap: float, needed: bool, forwards: int) -> None:
    model = tiny_model()
    samples = tiny_samples(model)
    learner = build_learner(model, config={"epochs": 2}, sampler_cap=cap)
    calls = count_forwards(model)
    assert learner.loss.needs_old_logprobs is needed
    learner.step(samples)
    assert calls[0] == forwards


def test_weights_come_from_the_learners_own_probabilities() -> None:
    model = tiny_model()
    # The sampler claims half of what the learner sees, so that every w is 2.
    samples = tiny_samples(model, shift=-math.log(2))
    learner = build_learner(model, sampler_cap=1.5)
    metrics = learner.step(samples)
    assert metrics["weight"] == pytest.approx(1.5, abs=FLOAT32)
    assert metrics["sampler_ratio_max"] == pytest.approx(2.0, abs=2 * FLOAT32)
    # The clip is around the learner's own probabilities: every ratio is 1.
    tokens = [a for s in samples for a, m in zip(s.advantages, s.loss_mask, strict=True) if m]
    assert metrics["loss"] == pytest.approx(-1.5 * sum(tokens) / len(tokens), abs=2 * FLOAT32)
    # Of a difference d it is exp(d) - 1 - d: half the square of FLOAT32, and rounding at 1.
    assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)
    # Without weights the sampler's word is taken: a ratio of 2 everywhere, clipped where A > 0.
    plain = build_learner(tiny_model()).step(samples)
    expected = [-1.28 * a if a > 0 else -2.0 * a for a in tokens]
    assert plain["loss"] == pytest.approx(sum(expected) / len(expected), abs=2 * FLOAT32)
    assert plain["ratio_max"] == pytest.approx(2.0, abs=2 * FLOAT32)


def test_the_reference_is_the_first_policy_and_stays(tmp_path: Path) -> None:
    model = tiny_model()
    samples = tiny_samples(model)
    learner = build_learner(model, config={"learning_rate": 1e-2, "epochs": 3}, kl=0.1)
    first = flat(model)
    metrics = learner.step(samples)
    assert metrics["reference_kl"] > 0
    assert learner.reference is not None
    assert torch.equal(flat(learner.reference), first)
    assert not torch.equal(flat(model), first)
    assert not any(p.requires_grad for p in learner.reference.parameters())
    # A resumed learner is built on the trained weights and reads the reference back.
    learner.save(tmp_path / "learner.pt")
    again = build_learner(model, kl=0.1)
    assert not torch.equal(flat(again.reference), first)
    again.load(tmp_path / "learner.pt")
    assert torch.equal(flat(again.reference), first)
    assert build_learner(tiny_model()).reference is None


def test_kl_holds_the_policy_back() -> None:
    moved = []
    for coefficient in (0.0, 30.0):
        model = tiny_model()
        samples = tiny_samples(model)
        config = {"learning_rate": 3e-3, "epochs": 12}
        build_learner(model, config=config, kl=coefficient).step(samples)
        with torch.no_grad():
            after, _ = packed_logprobs(model, pack_rows(samples), temperature=1.0)
        before = [v for s in samples for v in s.logprobs[s.prompt_length :]]
        keep = torch.tensor([m for s in samples for m in s.loss_mask[s.prompt_length :]]).bool()
        moved.append(float((after - torch.tensor(before))[keep].abs().mean()))
    assert moved[1] < 0.5 * moved[0]


def test_gradient_checkpointing_changes_nothing_but_memory() -> None:
    updated = []
    for on in (False, True):
        model = tiny_model()
        learner = build_learner(model, config={"gradient_checkpointing": on})
        samples = tiny_samples(model)
        recomputed = count_forwards_of_layer(model)
        learner.step(samples)
        assert recomputed[0] == (2 if on else 1)
        assert not model.training
        updated.append(flat(model))
    assert float((updated[0] - updated[1]).abs().mean()) < MOVED
    # Dropout stays off.
    model = tiny_model(attention_dropout=0.5)
    build_learner(model, config={"gradient_checkpointing": True}).step(tiny_samples(model))
    assert torch.equal(flat(model), updated[1])


def test_large_models_recompute_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = LearnerConfig()
    assert [auto.recomputes(n) for n in (499_999_999, 500_000_000)] == [False, True]
    assert LearnerConfig(gradient_checkpointing=True).recomputes(1)
    assert not LearnerConfig(gradient_checkpointing=False).recomputes(10**12)
    parameters = sum(p.numel() for p in tiny_model().parameters())
    for limit, on in ((parameters, True), (parameters + 1, False)):
        monkeypatch.setattr(training, "CHECKPOINTED_PARAMETERS", limit)
        learner = build_learner(tiny_model())
        samples = tiny_samples(learner.model)
        recomputed = count_forwards_of_layer(learner.model)
        learner.step(samples)
        assert recomputed[0] == (2 if on else 1)


def count_forwards_of_layer(model: Any) -> list[int]:
    """Counts passes through the first block's MLP, the recomputed one included."""
    calls = [0]

    def hook(*_: Any) -> None:
        calls[0] += 1

    model.get_decoder().layers[0].mlp.register_forward_pre_hook(hook)
    return calls


def test_nothing_is_updated_when_all_samples_are_left_out() -> None:
    model = tiny_model()
    before = flat(model)
    samples = [replace(s, truncated=True) for s in tiny_samples(model)]
    learner = build_learner(model, mask_truncated=True)
    assert learner.step(samples) == {"samples_truncated": 6}
    assert learner.version == 0
    assert torch.equal(flat(model), before)


def test_divisors_count_what_is_left() -> None:
    model = tiny_model()
    samples = tiny_samples(model)
    cut = [replace(s, truncated=i >= 2) for i, s in enumerate(samples)]
    # On policy: minus the mean advantage over the tokens of the first two samples.
    tokens = [a for s in samples[:2] for a, m in zip(s.advantages, s.loss_mask, strict=True) if m]
    metrics = build_learner(model, mask_truncated=True).step(cut)
    assert metrics["loss"] == pytest.approx(-sum(tokens) / len(tokens), abs=2 * FLOAT32)
    assert metrics["samples_truncated"] == 4


def test_a_check_sees_the_update_before_it_is_made() -> None:
    model = tiny_model()
    samples = tiny_samples(model)
    seen: list[Update] = []

    def refuse(update: Update) -> None:
        seen.append(update)
        raise GuardError("refused", Path("batch.json"))

    learner = TorchLearner(model, LearnerConfig(epochs=2), temperature=1.0, check=refuse)
    before = flat(model)
    with pytest.raises(GuardError, match="refused"):
        learner.step(samples)
    assert (learner.version, len(seen)) == (0, 1)
    assert torch.equal(flat(model), before)
    assert seen[0].metrics["grad_norm"] > 0
    for sample, logprobs in zip(seen[0].samples, seen[0].logprobs, strict=True):
        new = [
            v
            for v, m in zip(
                logprobs.tolist(), sample.loss_mask[sample.prompt_length :], strict=True
            )
            if m
        ]
        old = [v for v, m in zip(sample.logprobs, sample.loss_mask, strict=True) if m]
        assert new == pytest.approx(old, abs=FLOAT32)


def test_the_policy_loss_is_clipped_before_the_replay_is_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proverrl.learner.learner.MAX_GRAD_NORM", 1e9)

    def find_gradient(limit: float, *, scale: float = 1.0, replay: bool = True) -> torch.Tensor:
        model = tiny_model()
        samples = tiny_samples(model)
        proof = build_replay_sample((1, 2, 3), (4, 5, 6, 7))
        found: list[torch.Tensor] = []

        def look(update: Update) -> None:
            assert ("policy_grad_norm" in update.metrics) == (limit > 0)
            found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))

        config = LearnerConfig(replay_weight=0.5, max_policy_norm=limit)
        loss = LossConfig()
        learner = TorchLearner(model, config, temperature=1.0, loss=loss, check=look)
        scaled = [replace(s, advantages=tuple(scale * a for a in s.advantages)) for s in samples]
        learner.step(scaled, lambda: [proof] if replay else [])
        return found[0]

    policy = find_gradient(0.0, replay=False)
    imitation = find_gradient(0.0, scale=0.0)
    norm = float(policy.norm())
    assert norm > 0
    assert float(imitation.norm()) > 0
    ulps = 100 * FLOAT32 * float(imitation.abs().max() + policy.abs().max())
    torch.testing.assert_close(find_gradient(0.0), policy + imitation, rtol=0, atol=ulps)
    clipped = find_gradient(norm / 4)
    torch.testing.assert_close(clipped, policy / 4 + imitation, rtol=1e-5, atol=ulps)
    # However large the policy's gradient is, the replay keeps its part.
    loud = find_gradient(norm / 4, scale=1e4)
    torch.testing.assert_close(loud, policy / 4 + imitation, rtol=1e-4, atol=10 * ulps)


def test_a_gradient_that_is_not_finite_stops_the_learner() -> None:
    model = tiny_model()
    samples = tiny_samples(model)
    before = flat(model)
    parameter = next(iter(model.parameters()))
    parameter.register_hook(lambda grad: grad * math.inf)
    with pytest.raises(ProverRLError, match=r"the gradient's norm is .* at version 0"):
        build_learner(model).step(samples)
    assert torch.equal(flat(model), before)


def test_an_entropy_bonus_raises_entropy() -> None:
    after = []
    for coefficient in (0.0, 5.0):
        model = tiny_model()
        samples = tiny_samples(model)
        config = {"learning_rate": 1e-2, "epochs": 5}
        build_learner(model, config=config, entropy=coefficient).step(samples)
        with torch.no_grad():
            _, entropy = packed_logprobs(model, [PackedRow((samples[0],))], temperature=1.0)
        after.append(float(entropy.mean()))
    assert after[1] > after[0]


def test_all_terms_work_together_over_micro_batches() -> None:
    model = tiny_model()
    samples = tiny_samples(model, shift=0.02)
    before = flat(model)
    learner = build_learner(
        model,
        config={"epochs": 2, "groups_per_update": 2, "micro_batch_tokens": 30},
        kl=0.01,
        entropy=0.01,
        sampler_cap=2.0,
    )
    metrics = learner.step(samples)
    # Three prompts, two an update, two passes.
    assert learner.version == 4
    assert metrics["sampler_ratio_max"] == pytest.approx(math.exp(0.02), abs=1e-3)
    assert all(math.isfinite(value) for value in metrics.values())
    assert not torch.equal(flat(model), before)


def test_a_group_that_is_too_long_is_cut_between_completions() -> None:
    samples = samples_of_lengths(tiny_model())  # prompts of 2 and 3 tokens; 1, 2, 9 and 33 new ones
    rows = split_rows(pack_rows(samples), 15)
    assert [[s.num_new for s in row.samples] for row in rows] == 2 * [[1, 2, 9], [33]]
    assert [row.num_tokens for row in rows] == [14, 35, 15, 36]
    assert samples_of(rows) == samples


# A plug-in's groups stay together.
@pytest.mark.parametrize("name", ["clipped_token", "proverrl.losses:clipped_token"])
def test_cutting_groups_does_not_change_the_update(name: str) -> None:
    updated, passes = [], []
    for limit in (12, 100_000):
        model = tiny_model()
        samples = samples_of_lengths(model)
        learner = build_learner(model, config={"micro_batch_tokens": limit}, name=name)
        calls = count_forwards(model)
        learner.step(samples)
        updated.append(flat(model))
        passes.append(calls[0])
    assert float((updated[0] - updated[1]).abs().mean()) < MOVED
    assert passes == [2 if ":" in name else 5, 1]


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        # Two steps of warm-up, then at 0.5, 0.75 and the end of the loop.
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 0.5, 0.25, 0.0]),
        ("cosine", [0.5, 1.0, 0.5, (1 - math.sqrt(0.5)) / 2, 0.0]),
    ],
)
def test_the_rate_rises_and_falls(schedule: RateSchedule, factors: list[float]) -> None:
    done = [0.0, 0.25, 0.5, 0.75, 1.0]
    found = [
        rate_factor(schedule, step=step, warmup_steps=2, done=share)
        for step, share in enumerate(done)
    ]
    assert found == pytest.approx(factors, abs=1e-12)
    assert rate_factor(schedule, step=0, warmup_steps=0, done=0.0) == 1.0


def test_a_step_at_half_the_rate_moves_half_as_far() -> None:
    """The first step of AdamW moves each weight by its rate, whatever the gradient is."""
    moved = []
    for rate in (1.0, 0.5):
        model = tiny_model()
        first = flat(model)
        learner = build_learner(model, config={"learning_rate": 1e-3})
        learner.step(tiny_samples(model), rate=rate)
        moved.append(flat(model) - first)
    assert torch.allclose(moved[1], moved[0] / 2, atol=1e-6)
    assert moved[0].abs().max().item() == pytest.approx(1e-3, rel=1e-2)
