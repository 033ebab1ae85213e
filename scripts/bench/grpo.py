"""``bench grpo``: a step of this package's GRPO against TRL's GRPOTrainer.

Flows in: sizes. Flows out: one JSON object and a table. Both sides load the same checkpoint, get
the same prompts, group size, token limit, number of updates and a reward that costs nothing, and
run in turn in processes of their own. Rewards are 1 for every second completion of a group, so that
every group is mixed. Several processes share a step's groups; either side may sample with vLLM.
Not handled here: what a verifier costs (``pool``).
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from proverrl.config import EngineName, PrecisionName
from proverrl.errors import UsageError

Side = Literal["proverrl", "trl"]
SIDES: tuple[Side, ...] = ("proverrl", "trl")
Say = Callable[[str], None]

SIDE_MODULE = "scripts.bench.grpo_side"

LAUNCH = ("-m", "torch.distributed.run", "--standalone")
"""Starts several processes of a side on this machine."""


@dataclass(frozen=True, slots=True)
class Work:
    """What both sides do. Lengths are tokens; ``threads`` are torch's, in each process.
    ``vocab_size`` is that of a new model's logits (0: as many as its tokenizer has), and
    ``micro_batch`` counts the rows of all processes. Neither side recomputes activations."""

    prompts: int = 8
    group_size: int = 8
    max_new_tokens: int = 64
    steps: int = 8
    threads: int = 1
    device: str = "cpu"
    micro_batch: int = 64
    learning_rate: float = 1e-5
    seed: int = 0
    vocab_size: int = 0
    processes: int = 1
    engine: EngineName = "transformers"
    precision: PrecisionName = "fp32"
    lora_rank: int = 0


@dataclass(frozen=True, slots=True)
class StepCost:
    """Medians over the steps but the first. ``tokens`` are completion tokens per step, memory is
    the most that a process held (resident on a CPU, allocated on a GPU), in MB (10**6 bytes)."""

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
    Raises UsageError: TRL is not installed, the work cannot be dealt out, or a side failed; the
    message carries what it said."""
    for name in ("prompts", "micro_batch"):
        if getattr(work, name) % work.processes:
            raise UsageError(
                f"--{name.replace('_', '-')} {getattr(work, name)} cannot be shared by "
                f"{work.processes} processes; take a multiple of {work.processes}"
            )
    if "trl" in sides and find_spec("trl") is None:
        raise UsageError("trl is not installed; it comes with: bash scripts/setup.sh dev")
    found: dict[str, list[StepCost]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="proverrl-bench-") as folder:
        if not model:
            model = str(Path(folder) / "model")
            _run(["-m", SIDE_MODULE, "model", _order(work, model, Path(folder))], work, "model")
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
    table = Table(title="bench grpo")
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


def _order(work: Work, model: str, folder: Path) -> str:
    return json.dumps({"work": asdict(work), "model": model, "folder": str(folder)})


def _run(arguments: list[str], work: Work, what: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            "ACCELERATE_USE_CPU": str(work.device == "cpu").lower(),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        # An error that was foreseen has one line; what else there is says where it happened.
        said = re.search(r"^proverrl\.errors\.\w+: (.+)$", done.stderr, re.MULTILINE)
        raise UsageError(f"the {what} failed: {said[1] if said else done.stderr[-2000:]}")


def _run_side(side: Side, work: Work, model: str, folder: Path) -> StepCost:
    outs = [folder / f"out-{rank}.json" for rank in range(work.processes)]
    for out in outs:
        out.unlink(missing_ok=True)
    module = ["-m", SIDE_MODULE, side, _order(work, model, folder)]
    if work.processes > 1:
        module = [*LAUNCH, f"--nproc-per-node={work.processes}", *module]
    _run(module, work, f"side {side}")
    return join_costs([StepCost(**json.loads(out.read_text("utf-8"))) for out in outs])


def join_costs(parts: list[StepCost]) -> StepCost:
    """What a step costs all processes: the time of the slowest, the memory of the largest, the
    tokens and processor time of all."""
    seconds = max(part.seconds for part in parts)
    tokens = sum(part.tokens for part in parts)
    return StepCost(
        side=parts[0].side,
        seconds=seconds,
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        tokens=tokens,
        tokens_per_second=tokens / seconds,
        peak_mb=max(part.peak_mb for part in parts),
    )


def _median(side: str, runs: list[StepCost]) -> StepCost:
    _, *figures = zip(*map(astuple, runs), strict=True)
    return StepCost(side, *map(statistics.median, figures))
