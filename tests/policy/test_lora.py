"""LoRA: only adapters learn, the sampler sees them, export merges them, a run resumes."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import LearnerConfig, LoraConfig, LossConfig, PolicyConfig, parse_config
from proverrl.errors import ProverRLError, RunError, UsageError
from proverrl.jobs import train as train_module
from proverrl.jobs.evaluate import find_weights
from proverrl.jobs.train import train
from proverrl.learner.learner import TorchLearner, enable_checkpointing, recompute_layers
from proverrl.learner.packed_rows import pack_rows
from proverrl.learner.weights import calls
from proverrl.policy.loading import DTYPES, build_policy, load_policy, train_tokenizer
from proverrl.policy.lora import (
    adapter_disabled,
    adapter_weights,
    attach_adapter,
    has_moved,
    load_adapter,
    merge_adapter,
    merged_state,
    reset_adapter,
    save_adapter,
    stack_adapters,
)
from proverrl.policy.probe import (
    TOLERANCES,
    explain_disagreement,
    explain_no_effect,
    mean_abs_difference,
    score_by_sampling,
)
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.load import write_problems
from proverrl.run import adapter_probe
from proverrl.types import HOLE, Candidate, Status
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.tiny_model import tiny_model, tiny_samples
from tests.tolerance import BFLOAT16, FLOAT32

TINY = PolicyConfig(num_layers=2, hidden_size=32, num_heads=2, intermediate_size=64)
LORA = LoraConfig(rank=4, alpha=8.0)
STATEMENT = "method M() {{ while {name} < {number}\n  {hole}\n  {{ }} }}\n"


def need_peft() -> Any:
    return pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')


def tiny_policy(precision: Any = "fp32") -> TransformersPolicy:
    texts = [STATEMENT.format(name=n, number=i, hole="invariant k") for i in range(9) for n in "ij"]
    tokenizer = train_tokenizer(texts, vocab_size=320)
    return build_policy(TINY, tokenizer, seed=0, device="cpu", precision=precision)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=torch.tensor([[1, 2, 3, 4, 5]])).logits
    return found


def test_distances_of_log_probabilities() -> None:
    # (0.5 + 0 + 1) / 3
    assert mean_abs_difference([[-1.0, -2.0], [-3.0]], [[-1.5, -2.0], [-4.0]]) == 0.5
    with pytest.raises(ValueError, match="no token"):
        mean_abs_difference([], [])
    same, other = [[-1.0]], [[-1.2]]
    assert explain_disagreement(same, same, 1e-4) == ""
    assert "disagree by 0.2 nats" in explain_disagreement(same, other, 1e-4)
    assert "disagree by nan" in explain_disagreement(same, [[float("nan")]], 1e-4)
    assert explain_no_effect(same, other, moved=True) == ""
    assert explain_no_effect(same, same, moved=False) == ""
    assert "samples without the adapter" in explain_no_effect(same, same, moved=True)


def test_without_peft_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"needs peft, .* -e '\.\[lora\]'$"):
        attach_adapter(tiny_model(), LORA, seed=0)


def test_a_fresh_adapter_changes_nothing_and_the_rest_is_frozen() -> None:
    need_peft()
    model = tiny_model()
    before = logits(model)
    attach_adapter(model, LORA, seed=0)
    assert torch.equal(logits(model), before)
    assert not has_moved(model)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == set(adapter_weights(model))
    # 7 linear layers in each of 2 layers, two matrices each; the output layer has none.
    assert len(trained) == 28
    assert not any("lm_head" in name for name in trained)


def test_a_merged_weight_by_hand() -> None:
    need_peft()
    model = tiny_model()
    attach_adapter(model, LoraConfig(rank=2, alpha=6.0), seed=0)
    layer = model.get_submodule("model.layers.1.self_attn.q_proj")
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    base = layer.get_base_layer().weight.detach().clone()
    with torch.no_grad():
        a.zero_()
        b.zero_()
        a[0, 3], a[1, 3] = 2.0, 5.0
        b[7, 0], b[7, 1] = 0.5, -1.0
    # (B A)[7, 3] = 0.5 * 2 - 1 * 5 = -4, times alpha / rank = 3.
    merged = merged_state(model)["model.layers.1.self_attn.q_proj.weight"]
    expected = base.clone()
    expected[7, 3] -= 12.0
    assert torch.allclose(merged, expected)
    adapted = logits(model)
    merge_adapter(model)
    assert torch.allclose(logits(model), adapted, atol=FLOAT32)
    assert all(p.requires_grad for p in model.parameters())
    assert set(model.state_dict()) == set(tiny_model().state_dict())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_only_adapters_learn_and_the_sampler_sees_them(precision: Any, tmp_path: Path) -> None:
    peft = need_peft()
    policy = tiny_policy(precision)
    base = {k: v.clone() for k, v in policy.model.state_dict().items()}
    attach_adapter(policy.model, LORA, seed=0)
    assert "trained (LoRA)" in policy.engine
    problems = [build_problem(f"p{i}", n=10**i) for i in range(8)]
    fresh = adapter_probe.probe_adapter(policy, problems)
    assert fresh["probe_from_base"] == 0.0
    config = LearnerConfig(learning_rate=2e-2, precision=precision, epochs=5)
    learner = TorchLearner(policy.model, config, temperature=1.0)
    learner.step(tiny_samples(policy.model))
    assert has_moved(policy.model)
    found = adapter_probe.probe_adapter(policy, problems)
    assert found["probe_from_base"] > 1e-3
    assert found["probe_sampler_learner"] < TOLERANCES[DTYPES[precision]]
    with adapter_disabled(policy.model):
        frozen = policy.model.state_dict()
    for name, value in base.items():
        kept = [k for k in frozen if k.replace(".base_layer.", ".") == name]
        assert torch.equal(frozen[kept[0]], value), name
    # Exported, it is an ordinary folder that computes the same; beside it lies the adapter.
    policy.save(tmp_path)
    plain = load_policy(tmp_path, TINY, device="cpu", precision=precision)
    tolerance = {"fp32": FLOAT32, "bf16": BFLOAT16}[precision]
    assert float((logits(plain.model) - logits(policy.model)).abs().max()) < tolerance
    reader = tiny_policy(precision)
    adapted = peft.PeftModel.from_pretrained(reader.model, tmp_path / "adapter")
    assert float((logits(adapted) - logits(policy.model)).abs().max()) < tolerance


def test_a_sampler_without_the_adapter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    need_peft()
    policy = tiny_policy()
    attach_adapter(policy.model, LORA, seed=0)
    problems = [build_problem(f"p{i}", n=10**i) for i in range(8)]

    def deaf(policy: TransformersPolicy, *args: Any, **kwargs: Any) -> list[list[float]]:
        with adapter_disabled(policy.model):
            return score_by_sampling(policy, *args, **kwargs)

    monkeypatch.setattr(adapter_probe, "score_by_sampling", deaf)
    adapter_probe.probe_adapter(policy, problems)
    for name, weight in adapter_weights(policy.model).items():
        if "lora_B" in name:
            weight.fill_(1e-9)
    # Too little to disagree by, and no effect at all on the sampler.
    with pytest.raises(ProverRLError, match="samples without the adapter"):
        adapter_probe.probe_adapter(policy, problems)
    for name, weight in adapter_weights(policy.model).items():
        if "lora_B" in name:
            weight.fill_(0.1)
    with pytest.raises(ProverRLError, match="does not have the learner's weights"):
        adapter_probe.probe_adapter(policy, problems)


def test_only_as_many_problems_are_probed_as_are_needed() -> None:
    need_peft()
    policy = tiny_policy()
    attach_adapter(policy.model, LORA, seed=0)
    problems = (build_problem(f"p{i}", n=10**i) for i in range(9))
    adapter_probe.probe_adapter(policy, problems)
    assert [problem.id for problem in problems] == ["p8"]


def test_the_reference_is_the_model_without_its_adapter() -> None:
    need_peft()
    kl = LossConfig.model_validate({"kl": 0.1})
    config = LearnerConfig(learning_rate=1e-2)
    model = tiny_model()
    samples = tiny_samples(model)
    attach_adapter(model, LORA, seed=0)
    learner = TorchLearner(model, config, temperature=1.0, loss=kl)
    assert learner.reference is None
    assert learner.step(samples)["reference_kl"] == 0.0
    second = learner.step(samples)["reference_kl"]
    assert second > 1e-4
    # The same as with a copy of the base.
    copied = TorchLearner(tiny_model(), config, temperature=1.0, loss=kl)
    base = copied._score(calls(copied.reference), [pack_rows(samples)])
    mine = learner._score_reference([pack_rows(samples)])
    for sample in samples:
        assert torch.allclose(mine[id(sample)], base[id(sample)], atol=FLOAT32)


@pytest.mark.parametrize("both", [True, False])
def test_an_adapter_on_a_merged_one_becomes_one(tmp_path: Path, both: bool) -> None:
    need_peft()
    tiny_policy().save(tmp_path / "base")
    policy = load_policy(tmp_path / "base", TINY, device="cpu")
    base = logits(policy.model)
    for number, (name, moved) in enumerate((("lower", both), ("upper", True))):
        attach_adapter(policy.model, LORA, seed=number, base="elsewhere")
        for weight in adapter_weights(policy.model).values():
            weight.add_(0.05 * moved)
        save_adapter(policy.model, tmp_path / name)
        merge_adapter(policy.model)
    stack_adapters(tmp_path / "lower", tmp_path / "upper", str(tmp_path / "base"))
    one = load_policy(tmp_path / "upper", TINY, device="cpu")
    wanted = logits(policy.model)
    assert float((wanted - base).abs().max()) > 0.01
    assert float((logits(one.model) - wanted).abs().max()) < FLOAT32
    rank = json.loads((tmp_path / "upper" / "adapter_config.json").read_text())["r"]
    assert rank == (8 if both else 4)


def test_an_adapter_is_saved_and_refused_in_another_shape(tmp_path: Path) -> None:
    need_peft()
    model = tiny_model()
    attach_adapter(model, LORA, seed=3)
    for weight in adapter_weights(model).values():
        weight.add_(0.01)
    save_adapter(model, tmp_path)
    again = tiny_model()
    attach_adapter(again, LORA, seed=4)
    load_adapter(again, tmp_path)
    for name, weight in adapter_weights(model).items():
        assert torch.equal(adapter_weights(again)[name], weight)
    reset_adapter(again, seed=3)
    assert not has_moved(again)
    other = tiny_model()
    attach_adapter(other, LoraConfig(rank=2), seed=0)
    with pytest.raises(RunError, match="another shape"):
        load_adapter(other, tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"{")
    with pytest.raises(RunError, match=r"cannot read .*adapter_model\.safetensors: .*; if a check"):
        load_adapter(again, tmp_path)


def test_layers_that_recompute_have_no_dropout() -> None:
    need_peft()
    model = tiny_model(attention_dropout=0.5)
    attach_adapter(model, LoraConfig(rank=2), seed=0)
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        expected = model.eval()(input_ids=ids).logits
    enable_checkpointing(model)
    recompute_layers(model)
    passes: list[str] = []
    layer = model.get_decoder().layers[0]
    layer.self_attn.register_forward_hook(lambda *_: passes.append("forward"))
    found = model(input_ids=ids).logits
    found.sum().backward()
    assert torch.equal(found, expected)
    assert len(passes) == 2, "the backward pass computes the layer again"


class StubVerifier(FakeVerifier):
    """A fake that has no pool inside."""

    def stats(self) -> None:
        return None


def judge(candidate: Candidate) -> Status:
    # About half of all texts, so that groups are mixed whatever the policy writes.
    return Status.PROVED if len(candidate.body) % 2 else Status.REJECTED


def make_run(tmp_path: Path, name: str, *, loop: str = "grpo", steps: int = 4) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "id": f"p{number}",
            "language": "dafny",
            "kind": "invariants",
            "preamble": "",
            "statement": STATEMENT.format(name="ij"[number % 2], number=number, hole=HOLE),
            "metadata": {"level": 1, "family": f"f{number % 3}"},
            "reference": "invariant k",
        }
        for number in range(24)
    ]
    data = tmp_path / "train.jsonl"
    if not data.exists():
        write_problems(data, rows)
        tiny_policy().save(tmp_path / "base")
    config = parse_config(
        {
            "loop": loop,
            "run": str(tmp_path / name),
            "checkpoint_every": 2,
            "problems": {"train": str(data), "heldout": str(data)},
            "policy": {"path": str(tmp_path / "base"), "lora": {"rank": 4, "alpha": 8.0}},
            "warm_start": {"references_per_level": {"1": 4}, "steps": 4, "optimizer": "adamw"},
            "sampling": {"max_new_tokens": 6},
            "learner": {"learning_rate": 1e-2},
            "grpo": {"steps": steps, "groups_per_step": 2, "groups_per_draw": 3, "group_size": 4},
            "expert_iteration": {"rounds": steps, "problems_per_round": 6},
            "evaluation": {"before": False, "after": False},
        },
        source="test",
    )
    return asyncio.run(train(config, live=False))


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["grpo", "expert_iteration"])
def test_a_run_with_an_adapter_resumes_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    need_peft()
    monkeypatch.setattr(train_module, "open_configured", lambda *_, **__: StubVerifier(judge))
    whole = make_run(tmp_path, "whole", loop=loop, steps=4)
    parts = make_run(tmp_path, "parts", loop=loop, steps=2)
    two = load_policy(parts / "policy", TINY, device="cpu")
    shutil.rmtree(parts / "policy")
    # A checkpoint holds no copy of what the adapter stands on, and is evaluated all the same.
    assert not list(parts.glob("checkpoints/**/model*.safetensors"))
    moved = parts.rename(tmp_path / "moved")
    assert find_weights(moved) == moved / "checkpoints" / "step_000002" / "policy"
    same = load_policy(find_weights(moved), TINY, device="cpu")
    assert torch.equal(logits(two.model), logits(same.model))
    moved.rename(parts)
    warm = (parts / "warm_start" / "adapter").rename(tmp_path / "warm")
    with pytest.raises(RunError, match=r"warm_start/adapter is gone, .*; put it back or begin"):
        make_run(tmp_path, "parts", loop=loop, steps=4)
    warm.rename(parts / "warm_start" / "adapter")
    make_run(tmp_path, "parts", loop=loop, steps=4)
    for name in ("adapter/adapter_model.safetensors", "model.safetensors"):
        assert (whole / "policy" / name).read_bytes() == (parts / "policy" / name).read_bytes()
    # The adapter holds warm start and loop together, and stands on the model that they began with.
    config = json.loads((whole / "policy" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "base")
    assert (config["r"], config["lora_alpha"]) == (8, 16.0)
    merged, adapted = (
        load_policy(whole / name, TINY, device="cpu") for name in ("policy", "policy/adapter")
    )
    assert float((logits(merged.model) - logits(adapted.model)).abs().max()) < FLOAT32
    text = (whole / "metrics.jsonl").read_text()
    assert '"probe_sampler_learner"' in text
    # The loop has moved the adapter away from the warm-started policy.
    names = ("warm_start/policy", "policy")
    first, last = (load_policy(whole / name, TINY, device="cpu") for name in names)
    assert float((logits(first.model) - logits(last.model)).abs().max()) > 1e-4


@pytest.mark.slow
def test_a_model_from_scratch_has_nothing_to_adapt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "open_configured", lambda *_, **__: StubVerifier(judge))
    config = parse_config(
        {"run": str(tmp_path / "run"), "policy": {"lora": {"rank": 4}}}, source="test"
    )
    with pytest.raises(UsageError, match=r"policy.path is empty"):
        asyncio.run(train(config, live=False))
