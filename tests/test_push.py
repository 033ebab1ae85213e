"""``proverrl push``: what goes to the hub, what the card says, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config, PolicyConfig
from proverrl.errors import RunError
from proverrl.loops.publish import list_policy_files
from proverrl.policy.loading import build_policy
from proverrl.policy.tokenizer import train_tokenizer
from proverrl.report.model_card import make_card
from tests.hub import TOKEN, Hub, open_hub

SMALL = PolicyConfig(num_layers=1, hidden_size=8, num_heads=2, intermediate_size=16)
LEVEL = {
    "level": "all",
    "num_problems": 40,
    "attempts": 320,
    "unjudged": 3,
    "fatal": 0,
    "pass": {
        "1": {"value": 0.25, "stderr": 0.05, "low": 0.154, "high": 0.3666, "num_problems": 40},
        "8": {"value": 0.5, "stderr": 0.08, "low": None, "high": None, "num_problems": 39},
    },
}


def make_run(folder: Path, **policy: Any) -> Path:
    settings = {"path": "", **policy}
    given = {"loop": "expert_iteration", "seed": 4, "policy": settings}
    config = Config.model_validate(given).dump()
    config["problems"]["train"] = "/home/somebody/secret/mine.jsonl"
    config["endpoint"]["url"] = "http://inner.host:8000/v1"
    command = "proverrl train /home/somebody/a.toml --set x=http://inner.host/v1 --run ~/runs/a"
    resolved = {
        "config": config,
        "command": command,
        "commit": "abc123",
        "versions": {"proverrl": "0.1.0", "torch": "2.13.0"},
        "toolchain": "dafny 2.3.0 (dafny-server), z3 4.8.5",
    }
    summary = {
        "split": "heldout",
        "benchmark": "/data/x/heldout.jsonl",
        "samples_per_problem": 8,
        "mode": "whole_proof",
        "temperature": 1.0,
        "toolchain": "dafny 2.3.0 (dafny-server), z3 4.8.5",
        "proverrl_version": "0.1.0",
        "levels": [LEVEL],
    }
    for name, value in {
        "resolved.json": resolved,
        "evals/after.json": summary,
        "rollouts/step_1.jsonl": {},
        "policy/config.json": {},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    steps = [{"kind": "round", "step": n, "verifier_calls_total": 50 * n} for n in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))
    (folder / "policy/model.safetensors").write_bytes(b"\0weights")
    return folder


@pytest.fixture
def hub() -> Iterator[Hub]:
    with open_hub() as hub:
        yield hub


def run_cli(
    hub: Hub, tmp_path: Path, *words: object, token: str = TOKEN
) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    if token:
        environment["HF_TOKEN"] = token
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def push(
    hub: Hub, tmp_path: Path, *words: object, token: str = TOKEN
) -> subprocess.CompletedProcess[str]:
    return run_cli(hub, tmp_path, "-m", "proverrl", "push", *words, token=token)


def test_what_the_card_says(tmp_path: Path) -> None:
    card = make_card(make_run(tmp_path), repo_id="me/prover", licence="apache-2.0")
    header, _, rest = card.removeprefix("---\n").partition("\n---\n")
    assert 'license: "apache-2.0"' in header
    assert "base_model" not in header
    assert rest.startswith("\n# prover\n")
    judge = "dafny 2.3.0 (dafny-server), z3 4.8.5, proverrl 0.1.0"
    how = "heldout heldout.jsonl | whole_proof, temperature 1.0"
    for line in (
        "- Base model: none, trained from scratch (a Llama of 4 layers of width 192, with a "
        "tokenizer of its own)",
        "- Trained on: `mine.jsonl`",
        "- Method: loop `expert_iteration`, seed 4",
        "- Amount: 2 steps or rounds, 100 verifier calls",
        "- Verifier: dafny 2.3.0 (dafny-server), z3 4.8.5",
        "- Versions: proverrl 0.1.0, torch 2.13.0; commit abc123",
        "- Command: `proverrl train a.toml --set x=URL --run a`",
        f"| after | {how} | 40 | 8 | 1 | 25.0 [15.4, 36.7] | 3 | {judge} |",
        f"| after | {how} | 39 | 8 | 8 | 50.0 (no interval) | 3 | {judge} |",
        '- `loop = "expert_iteration"`',
        "- Held-out problems may share families with those of the training: a figure on them",
        "proverrl eval --benchmark problems.jsonl --set policy.path=me/prover "
        "--set policy.layout=plain",
    ):
        assert line in rest.splitlines(), line
    for secret in ("somebody", "inner", "/home", "/data"):
        assert secret not in card


def test_the_base_model(tmp_path: Path) -> None:
    card = make_card(make_run(tmp_path / "a", path="someone/base-7b"), repo_id="me/p")
    assert 'base_model: "someone/base-7b"' in card
    assert "- Base model: `someone/base-7b`" in card
    assert "license" not in card.partition("\n# ")[0]
    assert "named none" in card
    local = make_card(make_run(tmp_path / "b", path=str(tmp_path / "model")), repo_id="me/p")
    assert "base_model" not in local
    assert "- Base model: `model`" in local


def test_only_the_policy_is_published(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "policy/adapter").mkdir()
    (run / "policy/adapter/a.json").write_text("{}")
    (run / "policy/README.md").write_text("another card")
    names = ["adapter/a.json", "config.json", "model.safetensors"]
    assert sorted(list_policy_files(run)) == names
    (run / "policy/more.json").symlink_to(run / "resolved.json")
    with pytest.raises(RunError, match=r"more\.json is a link"):
        list_policy_files(run)
    (run / "policy/model.safetensors").unlink()
    with pytest.raises(RunError, match=r"no finished policy.*train --resume"):
        list_policy_files(run)


@pytest.mark.slow
def test_a_push_and_what_it_leaves(hub: Hub, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    dry = push(hub, tmp_path, run, "me/prover", "--dry-run", token="")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "8 bytes  model.safetensors" in dry.stdout
    assert "nothing was uploaded" in dry.stdout
    assert hub.asked == []
    card = (run / "model_card.md").read_bytes()
    done = push(hub, tmp_path, run, "me/prover", "--private")
    assert (done.returncode, done.stdout) == (0, f"{hub.url}/me/prover\n")
    assert hub.files == {
        ("me/prover", "main"): {
            "README.md": card,
            "config.json": b"{}",
            "model.safetensors": b"\0weights",
        }
    }
    again = push(hub, tmp_path, run, "me/prover", "--branch", "second", "--licence", "mit")
    assert again.returncode == 0
    assert b'license: "mit"' in hub.files["me/prover", "second"]["README.md"]
    assert hub.files["me/prover", "main"]["README.md"] == card


@pytest.mark.slow
def test_what_is_refused(hub: Hub, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")

    def refused(*words: object, token: str = TOKEN) -> str:
        done = push(hub, tmp_path, *words, token=token)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    assert "set HF_TOKEN, or run `hf auth login`" in refused(run, "me/p", token="")
    assert "answered 401" in refused(run, "me/p", token="hf_bad")
    said = refused(run, "others/p")
    assert "answered 403" in said
    assert "check the owner's name" in said
    assert "write OWNER/NAME" in refused(run, "a/b/c")
    assert "holds no finished policy" in refused(tmp_path / "nowhere", "me/p")
    assert hub.files == {}
    hub.files["me/p", "main"] = {}
    hub.public.add("me/p")
    assert "is there and public" in refused(run, "me/p", "--private")
    assert hub.files == {("me/p", "main"): {}}
    hub.url = "http://127.0.0.1:9"
    assert "the hub cannot be reached" in refused(run, "me/p")


@pytest.mark.slow
def test_what_was_pushed_is_loaded_by_its_name(hub: Hub, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["lemma L() ensures true {}"], vocab_size=300)
    policy = build_policy(SMALL, tokenizer, seed=0, device="cpu")
    run = make_run(tmp_path / "run")
    policy.save(run / "policy")
    assert push(hub, tmp_path, run, "me/prover").returncode == 0
    code = (
        "from proverrl.config import PolicyConfig\n"
        "from proverrl.policy.loading import load_policy\n"
        "policy = load_policy('me/prover', PolicyConfig(path='me/prover'), device='cpu')\n"
        "import torch; torch.save(policy.model.state_dict(), 'state.pt')\n"
    )
    loaded = run_cli(
        hub, tmp_path, "-c", f"import os; os.chdir({str(tmp_path)!r})\n{code}", token=""
    )
    assert loaded.returncode == 0, loaded.stderr
    state = torch.load(tmp_path / "state.pt")
    own = policy.model.state_dict()
    assert state.keys() == own.keys()
    assert all(torch.equal(state[name], own[name]) for name in own)
