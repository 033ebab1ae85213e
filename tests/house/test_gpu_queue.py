"""scripts/gpu_queue.sh without a GPU or a model: its names, packed folders, figures of a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from proverrl.files.seal import write_sealed
from scripts.gpu_figures import describe_run
from tests import ROOT


def run_queue(*given: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script with a size of parts that fits a test."""
    return subprocess.run(
        ["bash", ROOT / "scripts" / "gpu_queue.sh", *given],
        env={"PATH": "/usr/bin:/bin", "PART_MIB": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("gpu_queue.sh", {"tokens-transformers", "tokens-vllm", "training", "curve-1", "curve-2"}),
        ("first_gpu_run.sh", {"doctor", "vllm-sleep", "resume", "memory"}),
    ],
)
def test_names_are_listed_and_others_refused(tmp_path: Path, script: str, names: set[str]) -> None:
    line = ["bash", str(ROOT / "scripts" / script)]
    listed = subprocess.run([*line, "--list"], capture_output=True, text=True)
    assert listed.returncode == 0
    assert names <= set(listed.stdout.split())
    refused = subprocess.run([*line, str(tmp_path / "out"), "none"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert " is called none; they are: " in refused.stderr
    assert not (tmp_path / "out").exists()
    assert subprocess.run([*line, "--none"], capture_output=True).returncode == 2


def test_a_packed_folder_comes_back_bit_for_bit(tmp_path: Path) -> None:
    model, parts, back = tmp_path / "a model", tmp_path / "the parts", tmp_path / "back"
    files = {"config.json": b"{}", "a/weights.bin": bytes(range(256)) * 10_000, "empty": b""}
    for name, data in files.items():
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(data)
    assert run_queue("--pack", model, parts).returncode == 0
    packed = sorted(parts.glob("part-*"))
    assert [path.name for path in packed] == ["part-0000", "part-0001", "part-0002"]
    assert max(path.stat().st_size for path in packed) == 2**20
    # Two transfers are wanting: one did not come, one came damaged.
    kept = packed[1].read_bytes()
    packed[1].write_bytes(kept[:-1] + b"?")
    packed[2].rename(tmp_path / "later")
    refused = run_queue("--unpack", parts, back)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[:2] == ["damaged: part-0001", "missing: part-0002"]
    assert not back.exists()
    packed[1].write_bytes(kept)
    (tmp_path / "later").rename(packed[2])
    # The last line counts also where the file lost its line break.
    sums = (parts / "SHA256SUMS").read_text()
    last = packed[2].read_bytes()
    (parts / "SHA256SUMS").write_text(sums.rstrip())
    packed[2].write_bytes(last[:-1] + b"?")
    assert run_queue("--unpack", parts, back).stderr.startswith("damaged: part-0002")
    packed[2].write_bytes(last)
    (parts / "SHA256SUMS").write_text("".join(sums.splitlines(keepends=True)[:2]))
    assert "SHA256SUMS is cut" in run_queue("--unpack", parts, back).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a model", "the parts"]
    (parts / "SHA256SUMS").write_text(sums)
    done = run_queue("--unpack", parts, f"{back}/")
    assert (done.returncode, done.stderr) == (0, "")
    found = {str(p.relative_to(back)): p.read_bytes() for p in back.rglob("*") if p.is_file()}
    assert found == files
    assert run_queue("--unpack", parts, back).returncode == 2
    (parts / "SHA256SUMS").unlink()
    assert "missing: SHA256SUMS" in run_queue("--unpack", parts, tmp_path / "other").stderr
    assert run_queue("--pack", tmp_path / "none", parts).returncode == 2


def test_figures_leave_out_the_first_step_and_those_after_a_checkpoint(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "rollouts").mkdir(parents=True)
    (run / "evals").mkdir()
    level = {"level": "all", "pass": {"1": {"value": 0.25}}}
    (run / "evals" / "before.json").write_text(write_sealed({"levels": [level]}))
    resolved = {"engine": "an engine", "config": {"checkpoint_every": 3}}
    (run / "resolved.json").write_text(json.dumps(resolved))
    with (run / "metrics.jsonl").open("w") as stream:
        for step, seconds in ((1, 90.0), (2, 10.0), (3, 20.0), (4, 90.0)):
            row = {"kind": "step", "step": step, "seconds": 60.0 * step, "step_seconds": seconds}
            row |= {"tokens_per_second": 100.0 * step, "completion_tokens_mean": 30.0}
            row |= {"rollouts": 10, "verifier_calls_total": 10 * step, "solve_rate": step / 10}
            row |= {"idle_generator_seconds": 3.0, "idle_pool_seconds": 6.0}
            stream.write(json.dumps(row | {"idle_learner_seconds": 12.0}) + "\n")
            judged = [("a", "x", 4.0), ("a", "x", 4.0), ("a", "y", 5.0)]
            lines = [{"problem": {"id": i}, "body": b, "seconds": s} for i, b, s in judged]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (run / "rollouts" / f"step_{step}.jsonl").write_text(text)
    samples = tmp_path / "training.gpu"
    samples.write_text("0, 1, 5\n1, 50, 1000\n2, 70, 2000\n4, 1, 5\n")
    assert describe_run(run, samples) == {
        "engine": "an engine",
        "steps": 4,
        "steps_per_minute": 4.0,
        "tokens_per_second": 250.0,
        "tokens_per_second_in_all": 20.0,
        "writer_share": 0.8,
        "verifier_share": 0.6,
        "learner_share": 0.2,
        "checks_at_once": 0.6,
        "gpu_share": 0.6,
        "gpu_mib": 1500,
        "proved": {"before": 0.25},
        "curve": [[1.0, 10, 0.1], [2.0, 20, 0.2], [3.0, 30, 0.3], [4.0, 40, 0.4]],
    }
    assert describe_run(run, tmp_path / "none")["gpu_share"] == "no GPU"
