"""What a run will hold: by hand, and against what a step really holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, Qwen2Config

from proverrl.cli.main import cli
from proverrl.config import Config, VllmConfig, training
from proverrl.errors import UsageError
from proverrl.learner.learner import enable_checkpointing
from proverrl.learner.memory import GIB, choose_cache_gb, plan_memory, settle_cache
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from proverrl.policy.vllm_engine import claimed_share
from proverrl.rollout.samples import build_replay_sample
from tests.policy.test_policy import tiny_policy
from tests.policy.test_vocabulary import peak_bytes

SMALL = Qwen2Config(
    vocab_size=100,
    hidden_size=64,
    intermediate_size=176,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
)
# Embedding and output layer; a layer's projections with three biases, feed-forward, two norms; the
# last norm.
LAYER = (64 * 64 + 64) + 2 * (64 * 32 + 32) + 64 * 64 + 3 * 64 * 176 + 2 * 64
PARAMETERS = 2 * 100 * 64 + 6 * LAYER + 64


@pytest.fixture
def folder(tmp_path: Path) -> str:
    SMALL.save_pretrained(tmp_path)
    return str(tmp_path)


def make_config(folder: str, **sections: object) -> Config:
    return Config.model_validate({"policy": {"path": folder}, **sections})


def test_bytes_by_hand(folder: str) -> None:
    found = plan_memory(make_config(folder))
    assert found.parameters == found.trained == PARAMETERS
    assert found.always == {"weights": 4 * PARAMETERS, "optimizer": 8 * PARAMETERS}
    assert found.update["gradients"] == 4 * PARAMETERS
    # Keys and values of 2 heads of 16 numbers in 6 layers, 4 bytes each.
    assert found.kv_token == 2 * 2 * 16 * 6 * 4
    # 256 rows of 512 tokens of a prompt and 2,048 of a completion.
    assert found.sampling["key-value cache"] == 256 * 2560 * found.kv_token
    # 12 groups of 8.
    assert found.kv_draw == 12 * 8 * 2560 * found.kv_token


def test_forty_thousand_tokens(folder: str) -> None:
    long = plan_memory(make_config(folder, sampling={"max_new_tokens": 40_960}), processes=4)
    # 24 rows each.
    assert long.kv_draw == 24 * (512 + 40_960) * long.kv_token
    # One sample goes alone, and is longer than the 16,384 tokens of a micro-batch.
    short = plan_memory(make_config(folder))
    assert long.update["activations"] * 16_384 == short.update["activations"] * (512 + 40_960)


def test_half_precision_keeps_masters_and_processes_share_them(folder: str) -> None:
    half = make_config(folder, learner={"precision": "bf16"}, loss={"kl": 0.1})
    found = plan_memory(half)
    assert found.always == {
        "weights": 2 * PARAMETERS,
        "float32 copies of trained weights": 4 * PARAMETERS,
        "optimizer": 8 * PARAMETERS,
        "reference model": 2 * PARAMETERS,
    }
    cut = plan_memory(
        make_config(folder, learner={"precision": "bf16", "shard": "fsdp2"}), processes=4
    )
    assert cut.always == {
        "weights": 2 * PARAMETERS,
        "float32 copies of trained weights": PARAMETERS,
        "optimizer": 2 * PARAMETERS,
    }
    assert cut.update["gradients"] == PARAMETERS


def test_vllm_and_muon(folder: str) -> None:
    vllm = {"dtype": "bfloat16", "kv_cache_gb": 0.5}
    config = make_config(folder, vllm=vllm, learner={"optimizer": "muon"})
    config = config.model_copy(
        update={"policy": config.policy.model_copy(update={"engine": "vllm"})}
    )
    found = plan_memory(config)
    matrices = 6 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 176)
    assert found.always == {
        "weights": 4 * PARAMETERS,
        "optimizer": 4 * matrices + 8 * (PARAMETERS - matrices),
        "vLLM's weights": 2 * PARAMETERS,
        "vLLM's key-value cache": 2**29,
        "what vLLM computes with": 2**31,
    }
    assert found.sampling == {}
    assert found.kv_token == 2 * 2 * 16 * 6 * 2


def vllm_config(folder: str, **vllm: object) -> Config:
    config = make_config(folder, vllm=vllm, grpo={"max_staleness": 0})
    policy = config.policy.model_copy(update={"engine": "vllm"})
    return config.model_copy(update={"policy": policy})


def test_a_warm_start_by_muon_holds_whole_weights_before_they_are_cut(folder: str) -> None:
    learner = {"shard": "fsdp2", "optimizer": "adamw", "precision": "bf16"}
    warm = {"steps": 250, "optimizer": "muon"}
    plans = [
        plan_memory(make_config(folder, learner=learner, warm_start=warm | more), processes=8)
        for more in ({}, {"steps": 0}, {"optimizer": "adamw"})
    ]
    # AdamW's is cut as the loop's weights are.
    assert plans[1].warm_start == plans[2].warm_start == {}
    held = plans[0].warm_start
    others = held["activations"] + held["logits of one chunk"] + held["optimizer"]
    # Weights in bfloat16, their float32 copies, and gradients.
    assert sum(held.values()) - others == (2 + 4 + 4) * PARAMETERS
    # One moment of a matrix, two of everything else.
    assert 4 * PARAMETERS < held["optimizer"] < 8 * PARAMETERS


def test_a_sampler_that_writes_meanwhile_has_a_model_of_its_own(folder: str) -> None:
    plan = plan_memory(make_config(folder, grpo={"in_order": False}))
    assert plan.always["sampler's own model"] == 4 * PARAMETERS
    assert plan.always["weights that wait for it"] == 8 * PARAMETERS
    parts = (plan.always, plan.update, plan.sampling)
    assert plan.peak == sum(sum(part.values()) for part in parts)


def test_a_group_that_must_be_whole_is_learned_whole(folder: str) -> None:
    cut, whole = (
        plan_memory(make_config(folder, loss={"name": name}))
        for name in ("clipped_token", "own_parts:policy_gradient")
    )
    # 8 completions of 2,048 tokens after a prompt of 512, against a micro-batch of 16,384.
    ratio = whole.update["activations"] / cut.update["activations"]
    assert ratio == (512 + 8 * 2048) / 16_384


def test_of_three_groups_one_of_two_processes_writes_two(folder: str) -> None:
    grpo = {"groups_per_draw": 3}
    one, two = (plan_memory(make_config(folder, grpo=grpo), processes=n).kv_draw for n in (1, 2))
    assert two / one == 2 / 3


def test_an_engine_that_sleeps_gives_its_memory_to_the_update(folder: str) -> None:
    awake, asleep = (
        plan_memory(vllm_config(folder, kv_cache_gb=0.5, sleep=sleep)) for sleep in (False, True)
    )
    assert asleep.always == {"weights": 4 * PARAMETERS, "optimizer": 8 * PARAMETERS}
    assert asleep.sampling == {
        "vLLM's weights": 4 * PARAMETERS,
        "vLLM's key-value cache": 2**29,
        "what vLLM computes with": 2**31,
    }
    assert awake.peak - asleep.peak == sum(awake.update.values())


def test_the_cache_is_what_the_plan_leaves(folder: str) -> None:
    config = vllm_config(folder)
    plan = plan_memory(config)
    # Nine tenths of the card, without what the run holds besides.
    one = 2048 * plan.kv_token
    card = int((plan.peak + one + 2**20) / 0.9) + 1
    found = choose_cache_gb(config, plan, device_bytes=card) * GIB
    assert found == pytest.approx(one + 2**20, abs=2)
    assert choose_cache_gb(config, plan, device_bytes=2**40) == plan.kv_draw / GIB
    # The update's memory is there too for an engine that sleeps.
    asleep = vllm_config(folder, sleep=True)
    more = choose_cache_gb(asleep, plan_memory(asleep), device_bytes=card) * GIB
    assert more == pytest.approx(min(one + 2**20 + sum(plan.update.values()), plan.kv_draw), abs=2)
    with pytest.raises(UsageError, match=r"leaves 0\.0; .*vllm\.sleep = true"):
        choose_cache_gb(config, plan, device_bytes=plan.peak)
    assert settle_cache(config, tiny_policy()) is config


def test_a_plan_for_a_gpu_counts_bfloat16(folder: str) -> None:
    plans = [
        plan_memory(
            make_config(folder, policy={"path": folder, "device": device, "engine": "vllm"})
        )
        for device in ("cpu", "cuda")
    ]
    single, half = (plan.always for plan in plans)
    assert [plan.precision for plan in plans] == ["fp32", "bf16"]
    for name in ("weights", "vLLM's weights"):
        assert half[name] * 2 == single[name]
    assert half["float32 copies of trained weights"] == single["weights"]


SERVER = {"endpoints": {"e": {"url": "http://127.0.0.1:1/v1", "model": "m"}}}


def test_a_run_that_could_not_start_has_no_plan(folder: str) -> None:
    for sections, reason in (
        ({"policy": {"path": "endpoint:e"}, **SERVER}, "its policy has no weights here"),
        ({"learner": {"shard": "fsdp2"}}, "needs several processes"),
        ({"experiments": {"own:Part": {}}}, "the memory of own:Part is not counted"),
    ):
        with pytest.raises(UsageError, match=reason):
            plan_memory(make_config(folder, **sections))


def test_large_models_recompute(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def activations(**learner: object) -> int:
        return plan_memory(make_config(folder, learner=learner)).update["activations"]

    kept, recomputed = (activations(gradient_checkpointing=on) for on in (False, True))
    assert recomputed < kept / 2
    for limit, planned in ((PARAMETERS, recomputed), (PARAMETERS + 1, kept)):
        monkeypatch.setattr(training, "CHECKPOINTED_PARAMETERS", limit)
        assert activations() == planned


def test_what_vllm_claims_of_a_card() -> None:
    config = VllmConfig(dtype="bfloat16", kv_cache_gb=10.0)
    # 3 GiB of weights, 10 of cache, 2 to compute with, of 80.
    assert claimed_share(3 * 2**30, config, 80 * 2**30) == pytest.approx(15 / 80)
    assert claimed_share(3 * 2**30, config, 2**33) == 0.95


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_activations_are_those_of_a_step(folder: str, precision: str, checkpointing: bool) -> None:
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    model = AutoModelForCausalLM.from_config(SMALL).to(dtype)  # type: ignore[no-untyped-call]
    if checkpointing:
        enable_checkpointing(model)
        model.train()
    ids = torch.randint(100, (8, 256), generator=torch.Generator().manual_seed(0)).tolist()
    rows = pack_rows([build_replay_sample(tuple(r[:8]), tuple(r[8:])) for r in ids])
    learner = {
        "precision": precision,
        "gradient_checkpointing": checkpointing,
        "micro_batch_tokens": 8 * 256,
    }
    # A prompt and a completion together are no more than the micro-batch.
    config = make_config(folder, learner=learner, sampling={"max_new_tokens": 1536})
    plan = plan_memory(config)

    def step() -> None:
        logprobs, _ = packed_logprobs(model, rows, temperature=1.0)
        logprobs.sum().backward()  # type: ignore[no-untyped-call]

    step()
    model.zero_grad()
    found = peak_bytes(step) - plan.update["logits of one chunk"]
    # Some gradients are there before all activations are gone, at most the last layers'.
    assert 0.75 * plan.update["activations"] < found < 1.25 * plan.update["activations"]


def test_the_command(folder: str) -> None:
    words = ["plan", f"policy.path={folder}", "learner.precision=bf16"]
    done = CliRunner().invoke(cli, [*words, "demo", "--json", "--memory-gib", "80"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.output)
    assert (row["parameters"], row["fits"]) == (PARAMETERS, True)
    small = CliRunner().invoke(cli, [*words, "demo", "--memory-gib", "0.1"])
    assert small.exit_code == 1
    # In units of 2**30 and 2**10 bytes, and called so.
    said = " ".join(small.output.split())
    assert f"at once, on each device {row['peak'] / 2**30:.3f} GiB" in said
    assert f"a token takes {row['kv_token'] / 2**10:,.1f} KiB" in said
    assert "A device is too small: lower learner.micro_batch_tokens" in small.output
    missing = CliRunner().invoke(cli, ["plan", "policy.path=no/such/folder", "demo"])
    assert "policy.path 'no/such/folder': there is no folder" in str(missing.exception)
