"""``proverrl bench grpo``: a step of this package's GRPO against TRL's GRPOTrainer.

Flows in: sizes. Flows out: one JSON object and a table. Both sides load the same checkpoint, get
the same prompts, group size, token limit, number of updates and a reward that costs nothing, and
run in turn in processes of their own. Rewards are 1 for every second completion of a group, so that
every group is mixed. Not handled here: what a verifier costs (``pool``); several GPUs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from proverrl.errors import UsageError
from proverrl.files.shipped import install_extra

Side = Literal["proverrl", "trl"]
SIDES: tuple[Side, ...] = ("proverrl", "trl")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """What both sides do. Lengths are tokens; ``threads`` are torch's."""

    prompts: int = 8
    group_size: int = 8
    max_new_tokens: int = 64
    steps: int = 8
    threads: int = 1
    device: str = "cpu"
    micro_batch: int = 64
    learning_rate: float = 1e-5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StepCost:
    """Medians over the steps but the first. ``tokens`` are completion tokens per step, memory is
    the most that the process held (resident on a CPU, allocated on a GPU), in MB (10**6 bytes)."""

    side: str
    seconds: float
    cpu_seconds: float
    tokens: float
    tokens_per_second: float
    peak_mb: float


def measure_grpo(
    work: Work, *, model: str, rounds: int, sides: tuple[Side, ...], say: Say
) -> dict[str, Any]:
    """Both sides ``rounds`` times in turn. ``model`` is a folder, or empty for the demo's size.
    Raises UsageError: TRL is not installed, or a side failed; the message carries what it said."""
    if "trl" in sides and importlib.util.find_spec("trl") is None:
        raise UsageError(f"TRL is not installed; run: {install_extra('bench')}")
    found: dict[str, list[StepCost]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="proverrl-bench-") as folder:
        for number in range(rounds):
            for side in sides:
                say(f"round {number + 1} of {rounds}: {side}")
                found[side].append(_run_side(side, work, model, Path(folder)))
    costs = {side: asdict(_median(side, runs)) for side, runs in found.items()}
    return {
        "work": asdict(work),
        "rounds": rounds,
        "processors": len(os.sched_getaffinity(0)),
        "costs": costs,
        "runs": {side: [asdict(run) for run in runs] for side, runs in found.items()},
    }


def make_table(results: dict[str, Any]) -> Table:
    """One column a side, and how many times as much the second takes."""
    costs = results["costs"]
    table = Table(title="proverrl bench grpo")
    table.add_column("a step")
    for side in costs:
        table.add_column(side, justify="right")
    both = len(costs) == len(SIDES)
    if both:
        table.add_column("TRL over ours", justify="right")
    rows = (
        ("seconds", "seconds"),
        ("CPU seconds", "cpu_seconds"),
        ("completion tokens", "tokens"),
        ("tokens per second", "tokens_per_second"),
        ("peak memory, MB", "peak_mb"),
    )
    for name, key in rows:
        cells = [f"{costs[side][key]:,.2f}" for side in costs]
        if both:
            cells.append(f"{costs['trl'][key] / costs['proverrl'][key]:.2f}")
        table.add_row(name, *cells)
    return table


def _run_side(side: Side, work: Work, model: str, folder: Path) -> StepCost:
    out = folder / "out.json"
    out.unlink(missing_ok=True)
    order = json.dumps({"work": asdict(work), "model": model, "folder": str(folder)})
    done = subprocess.run(
        [sys.executable, "-m", "proverrl.bench.grpo_side", side, order, str(out)],
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not out.exists():
        raise UsageError(f"the side {side} failed: {done.stderr[-2000:]}")
    return StepCost(**json.loads(out.read_text("utf-8")))


def _median(side: str, runs: list[StepCost]) -> StepCost:
    _, *figures = zip(*map(astuple, runs), strict=True)
    return StepCost(side, *map(statistics.median, figures))
