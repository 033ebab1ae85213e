"""The rows of results of scripts/gpu_queue.sh.

Usage: python -m scripts.gpu_figures FOLDER [NAME MODEL [RUN]]

Adds the figures of the experiment NAME to FOLDER/results.jsonl: those of a training RUN, or the
lines of FOLDER/NAME.jsonl. With FOLDER alone it prints results.jsonl as a table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean

import torch

from proverrl.evaluation.attempts import read_summary
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.monitor.metrics import Row, read_metrics

COLUMNS = (
    *("experiment", "engine", "in_flight", "tokens_per_second", "tokens_per_second_in_all"),
    *("steps", "steps_per_minute", "verifier_share", "checks_at_once", "gpu_share", "proved"),
)
PARTS = {"writer": "generator", "verifier": "pool", "learner": "learner"}


def describe_run(run: Path, samples: Path) -> Row:
    """The figures of the steps but the first, in which engines warm up, and those whose idle times
    hold the saving of a checkpoint."""
    resolved = json.loads((run / "resolved.json").read_text("utf-8"))
    every = resolved["config"]["checkpoint_every"]
    steps = [row for row in read_metrics(run) if row["kind"] == "step"]
    later = [row for row in steps if (row["step"] - 1) % every] or steps
    seconds = sum(row["step_seconds"] for row in later)
    tokens = sum(row["completion_tokens_mean"] * row["rollouts"] for row in later)
    checked = sum(_checker_seconds(run / "rollouts" / f"step_{row['step']}.jsonl") for row in later)
    idle = {name: [row[f"idle_{part}_seconds"] for row in later] for name, part in PARTS.items()}
    return {
        "engine": resolved["engine"],
        "steps": len(steps),
        "steps_per_minute": round(60 * len(later) / seconds, 2),
        "tokens_per_second": round(mean(row["tokens_per_second"] for row in later), 1),
        "tokens_per_second_in_all": round(tokens / seconds, 1),
        **{f"{name}_share": round(max(0, 1 - sum(n) / seconds), 3) for name, n in idle.items()},
        "checks_at_once": round(checked / seconds, 2),
        **_describe_gpu(samples, len(steps)),
        "proved": {path.stem: _read_rate(path) for path in sorted(run.glob("evals/*.json"))},
        "curve": [
            [round(row["seconds"] / 60, 2), row["verifier_calls_total"], row["solve_rate"]]
            for row in steps
        ],
    }


def _checker_seconds(file: Path) -> float:
    """What the verifiers worked on a step's rollouts; equal texts are judged once."""
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    judged: dict[tuple[str, str], float] = {
        (row["problem"]["id"], row["body"]): row["seconds"] for row in rows
    }
    return sum(judged.values())


def _describe_gpu(samples: Path, last: int) -> Row:
    """What was sampled after one step of these minutes had ended, and before the ``last`` had."""
    lines = samples.read_text("utf-8").splitlines() if samples.exists() else []
    if not lines:
        return {"gpu_share": "no GPU"}
    found = [[float(word) for word in line.split(",")] for line in lines]
    inside = [row for row in found if found[0][0] < row[0] < last]
    if not inside:
        return {"gpu_share": "too short"}
    share, memory = (mean(row[n] for row in inside) for n in (1, 2))
    return {"gpu_share": round(share / 100, 3), "gpu_mib": round(memory)}


def _read_rate(path: Path) -> float | None:
    """pass@1 over all levels."""
    found = StoredEvaluation(path, read_summary(path)).level("all")
    return found["pass"]["1"]["value"] if found else None


def print_table(results: Path) -> None:
    """A line for each row of the file."""
    print("\n" + " | ".join(COLUMNS))
    for line in results.read_text("utf-8").splitlines():
        row = json.loads(line)
        print(" | ".join(str(row.get(name, "")) for name in COLUMNS))


def add_rows(folder: Path, name: str, model: str, run: str = "") -> None:
    """Add the figures of an experiment to the results."""
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"
    head = {"experiment": name, "model": model, "device": device, "torch": torch.__version__}
    if run:
        rows = [describe_run(Path(run), folder / f"{name}.gpu")]
    else:
        lines = (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    with (folder / "results.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("".join(json.dumps(head | row) + "\n" for row in rows))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print_table(Path(sys.argv[1]) / "results.jsonl")
    else:
        add_rows(Path(sys.argv[1]), *sys.argv[2:])
