"""Two processes that hold half of the weights each, against one that holds them all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file

from proverrl.config import LearnerConfig, LossConfig, parse_config
from proverrl.errors import UsageError
from proverrl.learner.learner import TorchLearner
from proverrl.parallel import SINGLE, open_world
from tests import ROOT
from tests.learner.test_parallel import launch, read_steps, train_by_two
from tests.parallel_worker import run_case, run_supervised
from tests.tiny_model import tiny_model, tiny_samples
from tests.tolerance import BFLOAT16, FLOAT32, MOVED

CASES: dict[str, dict[str, Any]] = {
    # Three groups an update and few tokens a micro-batch: one process has more of these.
    "plain": {
        "learner": {"groups_per_update": 3, "replay_samples": 3, "micro_batch_tokens": 24},
        # 33 rows in two parts: 17 and 16. An embedding that is the output layer stays one.
        "model": {"intermediate_size": 33, "tie_word_embeddings": True},
    },
    # One group an update: the other process has nothing at all.
    "terms": {
        "loss": {"kl": 0.1, "sampler_cap": 2.0},
        "learner": {"groups_per_update": 1, "gradient_checkpointing": True, "epochs": 2},
    },
    "bf16": {"loss": {"kl": 0.1}, "learner": {"precision": "bf16"}},
    "skips": {"skips": 1, "learner": {}},
}
SUPERVISED: dict[str, dict[str, Any]] = {
    # The third batch is one pair, of which the other process has nothing.
    "padded": {"supervised": {}, "learner": {"micro_batch_tokens": 40}},
    "checkpointed": {"supervised": {}, "learner": {"gradient_checkpointing": True}},
    # Whole matrices: nothing is cut.
    "muon": {"supervised": {"optimizer": "muon", "learning_rate": 1e-4}},
}
CASES |= SUPERVISED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharded")


@pytest.fixture(scope="module")
def by_two(folder: Path) -> dict[str, dict[str, Any]]:
    cases = [
        case | {"learner": case.get("learner", {}) | {"shard": "fsdp2"}, "file": str(folder / name)}
        for name, case in CASES.items()
    ]
    out = folder / "found.pt"
    done = launch(2, "tests.parallel_worker", str(out), json.dumps(cases))
    assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
    return dict(zip(CASES, torch.load(out), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "terms", "bf16"])
def test_an_update_of_two_halves_is_that_of_a_whole(
    by_two: dict[str, dict[str, Any]], name: str
) -> None:
    one, two = run_case(SINGLE, CASES[name]), by_two[name]
    assert (one["processes"], two["processes"]) == (1, 2)
    # Gradients that were averaged instead of summed would halve grad_norm.
    tolerance = BFLOAT16 if name == "bf16" else FLOAT32
    for mine, theirs in zip(one["steps"], two["steps"], strict=True):
        assert theirs.keys() - mine.keys() == {"push_mean_abs_dlogp", "push_max_abs_dlogp"}
        for key, value in mine.items():
            assert theirs[key] == pytest.approx(value, rel=tolerance, abs=tolerance), key
    moves = [(a - b).abs() for a, b in zip(one["weights"], two["weights"], strict=True)]
    # In bfloat16 rounding turns some of Adam's moves of 3e-4 an update around.
    limit = 1e-4 if name == "bf16" else MOVED
    assert float(torch.cat([move.flatten() for move in moves]).mean()) < limit
    for mine, theirs in zip(one["seen"], two["seen"], strict=True):
        assert mine.keys() == theirs.keys()
    assert two["complaint"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SUPERVISED))
def test_a_warm_start_of_two_halves_is_that_of_a_whole(
    by_two: dict[str, dict[str, Any]], name: str
) -> None:
    one, two = run_supervised(SINGLE, SUPERVISED[name]), by_two[name]
    assert (one["processes"], two["processes"]) == (1, 2)
    for mine, theirs in zip(one["steps"], two["steps"], strict=True):
        assert theirs == pytest.approx(mine, rel=FLOAT32, abs=FLOAT32)
    # What the policy's model has at the end, which no step of cut weights touches.
    moves = [(a - b).abs() for a, b in zip(one["weights"], two["weights"], strict=True)]
    assert float(torch.cat([move.flatten() for move in moves]).mean()) < MOVED
    assert two["is_cut"] == (name != "muon")
    # Neither a copy nor a gradient, which the loop's own would come on top of.
    assert two["kept"] == []


@pytest.mark.slow
def test_each_process_holds_half(by_two: dict[str, dict[str, Any]]) -> None:
    # A float32 weight and AdamW's two moments are 12 bytes a parameter. All sizes are even:
    # embedding and output 24 * 16 each; a layer 4 * 16 * 16 + 3 * 16 * 32 + 2 * 16 = 2,592, two of
    # them; the last norm 16. 2 * 384 + 2 * 2,592 + 16 = 5,968 parameters, 71,616 bytes.
    assert by_two["terms"]["bytes"] == [71_616 // 2, 71_616 // 2]
    # The masters of a bfloat16 model are float32 as well.
    assert by_two["bf16"]["bytes"] == [71_616 // 2, 71_616 // 2]
    # One embedding, and 33 for 32: gate and up have one row more on rank 0 in each layer, which is
    # 2 * 2 * 16 = 64 numbers; down is cut over its 16 rows. 64 * 12 = 768 bytes.
    first, second = by_two["plain"]["bytes"]
    assert first - second == 768
    assert first + second == 12 * (384 + 2 * (1024 + 3 * 16 * 33 + 32) + 16)


@pytest.mark.slow
def test_a_push_that_is_skipped_is_seen(by_two: dict[str, dict[str, Any]]) -> None:
    assert by_two["skips"]["complaint"].startswith("process 1: after the push the sampler's")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["terms", "bf16"])
def test_a_whole_learner_takes_up_what_two_halves_saved(
    by_two: dict[str, dict[str, Any]], folder: Path, name: str
) -> None:
    config = LearnerConfig.model_validate(CASES[name]["learner"])
    loss = LossConfig.model_validate(CASES[name]["loss"])
    model = tiny_model()
    samples = tiny_samples(model, prompts=5, each=2, shift=0.05)
    with torch.no_grad():
        for weight, value in zip(model.parameters(), by_two[name]["weights"], strict=True):
            weight.copy_(value)
    if name == "bf16":
        model = model.bfloat16()
    learner = TorchLearner(model, config, temperature=1.0, loss=loss)
    learner.load(folder / name)
    # Two steps of one update, or of five in each of two passes.
    assert learner.version == (2 if name == "bf16" else 20)
    state = learner.weights.state_dict()["optimizers"][0]["state"]
    assert [tuple(s["exp_avg"].shape) for s in state.values()] == [
        tuple(w.shape) for w in by_two[name]["weights"]
    ]
    assert all(int(s["step"]) == learner.version for s in state.values())
    if name == "bf16":
        masters = learner.weights.masters
        assert all(torch.equal(a, b) for a, b in zip(masters, by_two[name]["weights"], strict=True))
    # The reference is the first model, and not the one that was given now.
    first = tiny_model().bfloat16() if name == "bf16" else tiny_model()
    reference: Any = learner.reference
    for mine, theirs in zip(reference.parameters(), first.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert learner.step(samples)["grad_norm"] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learner": {"optimizer": "muon"}}, 'set optimizer = "adamw"'),
        ({"policy": {"path": "p", "lora": {"rank": 4}}}, "takes no adapters"),
        ({"policy": {"engine": "vllm"}}, "not been joined with vLLM"),
        ({"loop": "expert_iteration"}, 'is for loop = "warm_start" or "grpo"'),
    ],
)
def test_what_cannot_be_cut_is_refused(changes: dict[str, Any], words: str) -> None:
    learner = {"shard": "fsdp2", **changes.pop("learner", {})}
    with pytest.raises(UsageError, match=words):
        parse_config({**changes, "learner": learner}, source="here")


def test_one_process_is_refused() -> None:
    with pytest.raises(UsageError, match="needs several processes"):
        open_world("fsdp2")
    config = LearnerConfig(shard="fsdp2")
    with pytest.raises(UsageError, match="needs several processes"):
        TorchLearner(tiny_model(), config, temperature=1.0)


def test_the_launcher_and_the_key_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UsageError, match=r"ddp\.yaml"):
        open_world()
    monkeypatch.setenv("FSDP_VERSION", "1")
    with pytest.raises(UsageError, match=r"fsdp2\.yaml"):
        open_world("fsdp2")
    monkeypatch.setenv("FSDP_VERSION", "2")
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "true")
    with pytest.raises(UsageError, match=r"fsdp2\.yaml"):
        open_world("fsdp2")


def test_the_shipped_launcher_files_are_what_is_asked_for() -> None:
    read: Any = load_config_from_file
    sharded = read(str(ROOT / "configs/accelerate/fsdp2.yaml"))
    assert sharded.distributed_type == "FSDP"
    assert sharded.fsdp_config["fsdp_version"] == 2
    assert sharded.fsdp_config["fsdp_offload_params"] is False
    assert read(str(ROOT / "configs/accelerate/ddp.yaml")).distributed_type == "MULTI_GPU"


@pytest.mark.slow
def test_one_process_imports_nothing_of_it() -> None:
    code = (
        "import sys, torch, proverrl.jobs.train; from tests.tiny_model import tiny_model;"
        "from proverrl.config import LearnerConfig;"
        "from proverrl.learner.learner import TorchLearner;"
        "TorchLearner(tiny_model(), LearnerConfig(), temperature=1.0);"
        "assert not torch.distributed.is_initialized();"
        "print([n for n in sys.modules if 'sharding' in n and n.startswith('proverrl')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.dafny
def test_a_run_on_real_dafny_by_two_halves_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = {"learner.shard": "fsdp2", "learner.optimizer": "adamw"}
    settings |= {"loss.kl": 0.01}  # type: ignore[dict-item]
    whole = train_by_two(tmp_path, "whole", 3, settings)
    parts = train_by_two(tmp_path, "parts", 1, settings)
    for path in (parts / "policy").iterdir():
        path.unlink()
    (parts / "policy").rmdir()
    train_by_two(tmp_path, "parts", 3, settings)
    assert len(read_steps(whole)) == 3
    assert read_steps(whole) == read_steps(parts)
    assert all(row["grad_norm"] > 0 for row in read_steps(whole))
    assert all(row["push_mean_abs_dlogp"] < 1e-4 for row in read_steps(whole))
    for file in ("policy/model.safetensors", "checkpoints/step_000003/policy/model.safetensors"):
        assert (whole / file).read_bytes() == (parts / file).read_bytes()
    kept = [torch.load(run / "checkpoints/step_000003/learner.pt") for run in (whole, parts)]
    states = [k["optimizers"][0]["state"] for k in kept]
    for mine, theirs in zip(states[0].values(), states[1].values(), strict=True):
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
