"""``proverrl push``: what goes to the hub, what the card says, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config, PolicyConfig
from proverrl.errors import RunError
from proverrl.files.seal import add_seal
from proverrl.policy.loading import build_policy, train_tokenizer
from proverrl.report.model_card import make_card
from proverrl.run.publish import list_policy_files, publish
from proverrl.run.run_folder import write_resolved
from tests.hub import TOKEN, Hub, open_hub
from tests.warm import WARM

NOWHERE = "http://127.0.0.1:9"
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


def make_run(folder: Path, *, from_folder: bool | None = None, **policy: Any) -> Path:
    settings = {"path": "", **policy}
    given = {"loop": "expert_iteration", "seed": 4, "policy": settings}
    config = Config.model_validate(given).dump()
    config["problems"]["train"] = "/home/somebody/secret/mine.jsonl"
    config["endpoints"] = {"e": {"url": "http://inner.host:8000/v1", "model": "m"}}
    command = "proverrl train /home/somebody/a.toml --set x=http://inner.host/v1 --run ~/runs/a"
    resolved: dict[str, Any] = {
        "config": config,
        "command": command,
        "commit": "abc123",
        "versions": {"proverrl": "0.1.0", "torch": "2.13.0"},
        "toolchain": "dafny 2.3.0 (dafny-server), z3 4.8.5",
    }
    if from_folder is not None:
        resolved["policy_path_is_folder"] = from_folder
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
        "evals/after.json": add_seal(summary),
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
    hub: Hub,
    tmp_path: Path,
    *words: object,
    token: str = TOKEN,
    python: Sequence[str] = (sys.executable,),
) -> subprocess.CompletedProcess[str]:
    """With a Python of its own, which reads the hub's address when it imports its client."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    if token:
        environment["HF_TOKEN"] = token
    command = [*python, *map(str, words)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def push(
    hub: Hub, tmp_path: Path, *words: object, **given: Any
) -> subprocess.CompletedProcess[str]:
    return run_cli(hub, tmp_path, "-m", "proverrl", "push", *words, **given)


def test_what_the_card_says(tmp_path: Path) -> None:
    card = make_card(make_run(tmp_path), repo_id="me/prover", licence="apache-2.0")
    header, _, rest = card.removeprefix("---\n").partition("\n---\n")
    assert 'license: "apache-2.0"' in header
    assert "base_model" not in header
    assert rest.startswith("\n# prover\n")
    judge = "dafny 2.3.0 (dafny-server), z3 4.8.5, proverrl 0.1.0"
    how = r"heldout heldout.jsonl | whole\_proof, temperature 1.0"
    for line in (
        "- Base model: none, trained from scratch (a Llama of 4 layers of width 192, with a "
        "tokenizer of its own)",
        "- Trained on: `mine.jsonl`",
        "- Method: loop `expert_iteration`, seed 4",
        "- Amount: 2 of 4 rounds, 100 verifier calls",
        "- Verifier: dafny 2.3.0 (dafny-server), z3 4.8.5",
        "- Versions: proverrl 0.1.0, torch 2.13.0; commit abc123",
        f"| after | {how} | 40 | 8 | 1 | 25.0 [15.4, 36.7] | 3 | {judge} |",
        f"| after | {how} | 39 | 8 | 8 | 50.0 (no interval) | 3 | {judge} |",
        '- `loop = "expert_iteration"`',
        "- Held-out problems may share families with those of the training: a figure on them",
        "proverrl eval --benchmark problems.jsonl --set policy.path=me/prover "
        "--set policy.layout=plain",
    ):
        assert line in rest.splitlines(), line
    for secret in ("somebody", "inner", "/home", "/data", "proverrl train"):
        assert secret not in card


def test_a_run_that_is_only_a_warm_start_says_its_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved["config"]["loop"] = "warm_start"
    (run / "resolved.json").write_text(json.dumps(resolved))
    rows = [{"kind": "sft", "step": step, "loss": 1.0} for step in (10, 1250)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = make_card(run, repo_id="me/p")
    assert "- Amount: 1,250 steps of warm start, 0 verifier calls\n" in card


def test_sizes_of_the_small_model_are_told_of_it_alone(tmp_path: Path) -> None:
    for path, told in (("", True), ("someone/base-7b", False)):
        run = make_run(tmp_path / f"run{told}", path=path, hidden_size=24, num_heads=2, max_rows=9)
        lines = make_card(run, repo_id="me/p").splitlines()
        assert ("- `policy.hidden_size = 24`" in lines) is told
        assert ("- `policy.num_heads = 2`" in lines) is told
        assert "- `policy.max_rows = 9`" in lines


def test_figures_of_other_weights_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    summary = json.loads((run / "evals/after.json").read_text())
    for name, weights in (("after", "a"), ("again", "a"), ("before", "b"), ("other", "c")):
        told = add_seal(summary | {"policy_sha256": weights})
        (run / f"evals/{name}.json").write_text(json.dumps(told))
    card = make_card(run, repo_id="me/prover", licence="apache-2.0")
    rows = [line.split(" | ")[0] for line in card.splitlines() if line.startswith("| ")]
    assert sorted(set(rows)) == [
        "| after",
        "| again",
        "| before the loop, after the warm start",
        "| evaluation",
    ]
    assert "Of other weights, and left out: other." in card


def test_the_base_model(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", path="someone/base-7b", from_folder=False)
    card = make_card(run, repo_id="me/p")
    assert 'base_model: "someone/base-7b"' in card
    assert "- Base model: `someone/base-7b`" in card
    assert "license" not in card.partition("\n# ")[0]
    assert "named none" in card
    model = str(tmp_path / "model")
    for path, from_folder, said in (
        (model, True, "the local folder `model`"),
        ("runs/sft", True, "the local folder `runs/sft`"),
        ("runs/sft", None, "not recorded; `policy.path` was `runs/sft`"),
    ):
        run = make_run(tmp_path / "b", path=path, from_folder=from_folder)
        card = make_card(run, repo_id="me/p")
        assert "base_model" not in card
        assert f"- Base model: {said}\n" in card


def test_a_run_records_once_whether_it_starts_from_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Config.model_validate({"policy": {"path": "runs/sft"}})
    recorded = []
    for name in ("hub", "folder"):
        Path(name).mkdir()
        write_resolved(Path(name), config, toolchain="t", engine="e")
        Path("runs/sft").mkdir(parents=True, exist_ok=True)
    Path("runs/sft").rmdir()
    write_resolved(Path("folder"), config, toolchain="t", engine="e")
    for name in ("hub", "folder"):
        stored = json.loads(Path(name, "resolved.json").read_text())
        recorded.append(stored["policy_path_is_folder"])
    assert recorded == [False, True]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("run:/home/me/secret/x", "x"),
        ("a:/home/me/b", "b"),
        ("../../alice/secret/run", "run"),
        ("run:../alice/run", "run"),
        (r"C:\Users\alice\x", "x"),
        (r"\\server\alice\x", "x"),
        ("git@host:alice/secret.git", "secret.git"),
        ("git@host:secret.git", "secret.git"),
        ("/home/al ice/secret/x.json", "x.json"),
        ("with /home/al ice/secret/x", "x"),
        ("/home/me/secret/", "secret"),
        ("~/secret/x", "x"),
        ("~alice", "~"),
        ("http://inner.host:8000", "URL"),
        ("dafny/curriculum/train.jsonl", "dafny/curriculum/train.jsonl"),
        ("see REPO_ID", "see REPO_ID"),
    ],
)
def test_settings_tell_nothing_of_the_machine(tmp_path: Path, value: str, told: str) -> None:
    run = make_run(tmp_path)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved["config"]["evaluation"]["benchmarks"] = [value]
    resolved["config"]["expert_iteration"]["proofs"] = value
    (run / "resolved.json").write_text(json.dumps(resolved))
    lines = make_card(run, repo_id="me/p").splitlines()
    assert f'- `evaluation.benchmarks = ["{told}"]`' in lines
    assert f'- `expert_iteration.proofs = "{told}"`' in lines


def test_what_the_run_says_is_no_markdown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved["config"]["expert_iteration"]["proofs"] = "a`b``c\n# d <i>"
    resolved["config"]["problems"]["train"] = "x`<b>.jsonl"
    resolved["toolchain"] = "dafny\n\n# title <script>`x`"
    (run / "resolved.json").write_text(json.dumps(resolved))
    summary = json.loads((run / "evals/after.json").read_text())
    summary["benchmark"] = "a|b\n[c](d) *e* `f` <img>&.jsonl"
    (run / "evals/after.json").write_text(json.dumps(add_seal(summary)))
    lines = make_card(run, repo_id="me/p").splitlines()
    assert r'- ``` expert_iteration.proofs = "a`b``c\n# d <i>" ```' in lines
    assert "- Trained on: `` x`<b>.jsonl ``" in lines
    assert r"- Verifier: dafny # title &lt;script&gt;\`x\`" in lines
    place = r"heldout a\|b \[c\](d) \*e\* \`f\` &lt;img&gt;&amp;.jsonl"
    assert sum(line.startswith(f"| after | {place} | ") for line in lines) == 2


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
    (run / "policy/more.json").unlink()
    for name in (".env", "id_rsa", "notes.py", "sub/config.json"):
        odd = run / "policy" / name
        odd.parent.mkdir(exist_ok=True)
        odd.write_text("x")
        with pytest.raises(RunError, match="is no file of a policy, and would be published"):
            list_policy_files(run)
        odd.unlink()
    (run / "policy/sub").rmdir()
    os.mkfifo(run / "policy/pipe.json")
    with pytest.raises(RunError, match=r"pipe\.json is no file of a policy"):
        list_policy_files(run)
    (run / "policy/pipe.json").unlink()
    (run / "policy").rename(run / "elsewhere")
    (run / "policy").symlink_to(run / "elsewhere")
    with pytest.raises(RunError, match="policy is a link"):
        list_policy_files(run)
    (run / "policy").unlink()
    (run / "elsewhere").rename(run / "policy")
    (run / "policy/model.safetensors").unlink()
    with pytest.raises(RunError, match=r"no finished policy.*train --resume"):
        list_policy_files(run)


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    gone = tmp_path / "gone.json"
    with pytest.raises(RunError, match=r"gone\.json is not there"):
        publish({"gone.json": gone}, "", "me/p", private=False)
    # Not even root reads the memory at address 0.
    with pytest.raises(RunError, match="/proc/self/mem cannot be read: Input/output error"):
        publish({"a.safetensors": Path("/proc/self/mem")}, "", "me/p", private=False)


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
def test_a_second_push_leaves_no_old_weights(hub: Hub, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    stays = {"notes.md": b"n", "other/model.safetensors": b"o", ".gitattributes": b"g"}
    old = {"model.safetensors": b"w", "adapter/adapter_config.json": b"{}"}
    hub.files["me/prover", "main"] = stays | old
    (run / "policy/model.safetensors").unlink()
    shards = ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]
    for name in shards:
        (run / "policy" / name).write_bytes(b"new")
    branched = push(hub, tmp_path, run, "me/prover", "--branch", "second")
    assert branched.returncode == 0, branched.stderr
    assert hub.files["me/prover", "main"] == stays | old
    names = {*stays, *shards, "README.md", "config.json"}
    assert set(hub.files["me/prover", "second"]) == names
    again = push(hub, tmp_path, run, "me/prover")
    assert again.returncode == 0, again.stderr
    assert set(hub.files["me/prover", "main"]) == names
    assert hub.files["me/prover", "main"]["other/model.safetensors"] == b"o"


@pytest.mark.slow
def test_what_is_refused(hub: Hub, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")

    def refused(*words: object, **given: Any) -> str:
        done = push(hub, tmp_path, *words, **given)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    assert "set HF_TOKEN, or run `hf auth login`" in refused(run, "me/p", token="")
    assert "answered 401" in refused(run, "me/p", token="hf_bad")
    said = refused(run, "others/p")
    assert "answered 403" in said
    assert "check the owner's name" in said
    for bad, why in (("a/b/c", "'namespace/repo_name'"), ("me/a b", "must use alphanumeric")):
        for words in ((), ("--dry-run",)):
            said = refused(run, bad, *words, python=WARM)
            assert said.startswith(f"error: {bad!r}: write OWNER/NAME (Repo id must ")
            assert why in said
    assert not (run / "model_card.md").exists()
    assert "holds no finished policy" in refused(tmp_path / "nowhere", "me/p", python=WARM)
    assert hub.files == {}
    hub.files["me/p", "main"] = {}
    hub.public.add("me/p")
    assert "is there and public" in refused(run, "me/p", "--private")
    assert hub.files == {("me/p", "main"): {}}
    hub.url = NOWHERE
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
    code = f"import os; os.chdir({str(tmp_path)!r})\n{code}"
    own = policy.model.state_dict()
    for reached in (True, False):
        hub.url = hub.url if reached else NOWHERE
        loaded = run_cli(hub, tmp_path, "-c", code, token="")
        assert loaded.returncode == 0, loaded.stderr
        # Without the hub, what was loaded before is stored here.
        assert ("policy.path is what is stored of me/prover" in loaded.stderr) is not reached
        assert "Retrying" not in loaded.stderr
        state = torch.load(tmp_path / "state.pt")
        assert state.keys() == own.keys()
        assert all(torch.equal(state[name], own[name]) for name in own)


@pytest.mark.slow
def test_a_model_that_is_nowhere_is_said_at_once(hub: Hub, tmp_path: Path) -> None:
    def refused(path: str) -> str:
        words = ("plan", "demo", "--set", f"policy.path={path}")
        done = run_cli(hub, tmp_path, "-m", "proverrl", *words, token="")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    said = f"error: policy.path 'me/provre': there is no folder {Path.cwd() / 'me/provre'}, "
    assert refused("me/provre") == (
        f"{said}and {hub.url} answered 404 when it was asked for that model's config.json; check "
        "the spelling. A private or gated model needs HF_TOKEN, or `hf auth login`\n"
    )
    asked = [request for request in hub.asked if "provre" in request]
    assert asked == ["HEAD /me/provre/resolve/main/config.json"]
    hub.url = NOWHERE
    assert refused("me/provre") == (
        f"{said}the hub's client has no such model in {tmp_path / 'hf/hub'}, and {NOWHERE} cannot "
        "be reached ([Errno 111] Connection refused); check the spelling, name the folder of a "
        "model, or go on with a network\n"
    )
    assert "a model on the hub is called OWNER/NAME" in refused("runs/a/policy")
