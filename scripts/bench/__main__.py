"""The benchmarks of developers: ``python -m scripts.bench COMMAND``, from the folder of a clone.

Flows in: arguments. Flows out: a table, JSON, and an exit status. Run nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proverrl.cli.main import cli
from proverrl.cli.main import main as run_command_line
from proverrl.cli.options import (
    FILE,
    FOLDER,
    Decorator,
    GivenPath,
    count_option,
    workers_option,
)

if TYPE_CHECKING:
    from proverrl.config.search import TreeSearchName
    from scripts.bench.grpo import Side

_OUT = click.option("--out", type=FILE, help="Write JSON here.")


def _some_of(name: str, names: str, what: str, choices: list[str]) -> Decorator:
    return click.option(
        name,
        names,
        multiple=True,
        type=click.Choice(choices),
        help=f"Only this {what}; may be given more than once.",
    )


@click.group()
def bench() -> None:
    """Measure parts of ProverRL on this machine, from a clone."""


@bench.command("pool")
@_some_of("--part", "parts", "part", ["overhead", "faults", "dafny"])
@count_option("--calls", 20_000, "Calls of the parts that need no prover.", least=100)
@count_option("--num", 100, "Programs of each kind.")
@workers_option("Dafny processes.")
@click.option(
    "--dafnybench",
    type=GivenPath(exists=True, dir_okay=False),
    help="Also measure this file of DafnyBench tasks.",
)
@_OUT
def bench_pool(parts: tuple[str, ...], out: Path | None, **work: Any) -> None:
    """Measure the verifier pool: its own cost, the cost of faults, warm Dafny against cold."""
    from scripts.bench.pool import PARTS, make_table, measure_pool

    results = asyncio.run(measure_pool(parts=parts or PARTS, say=_say, **work))
    _finish(make_table(results), results, out)


@bench.command("lean")
@_some_of("--part", "parts", "part", ["speed", "steps", "faults", "memory"])
@count_option("--num", 288, "Candidates for each speed.", least=20)
@count_option("--checks", 1000, "Candidates for faults and memory.", least=100)
@click.option(
    "--problems",
    type=GivenPath(exists=True, dir_okay=False),
    default="lean/benchmark.jsonl",
    show_default=True,
    help="Lean problems with references.",
)
@_OUT
def bench_lean(parts: tuple[str, ...], out: Path | None, **work: Any) -> None:
    """Measure Lean: its server against a process a candidate, incremental steps, faults."""
    from scripts.bench.lean_speed import PARTS, make_table, measure_lean

    results = asyncio.run(measure_lean(parts=parts or PARTS, say=_say, **work))
    _finish(make_table(results), results, out)


@bench.command("serve")
@count_option("--checks", 1_000, "Checks of each load.", least=100)
@_OUT
def bench_serve(checks: int, out: Path | None) -> None:
    """Measure the HTTP interface over stand-in workers, beside kimina-lean-server's figures."""
    from scripts.bench.serve import make_table, measure_serve, to_json

    rows = asyncio.run(measure_serve(checks=checks, say=_say))
    _finish(make_table(rows), {"loads": to_json(rows)}, out)


@bench.command("scale")
@_OUT
def bench_scale(out: Path | None) -> None:
    """Measure at how many servers the process that asks them is the limit, over stand-ins."""
    from scripts.bench.scale import make_table, measure_scale, to_json

    rows = measure_scale(say=_say)
    _finish(make_table(rows), {"sizes": to_json(rows)}, out)


@bench.command("grpo")
@click.option(
    "--side",
    "sides",
    multiple=True,
    type=click.Choice(["proverrl", "trl"]),
    help="Only this side; TRL comes with the extra [dev].",
)
@click.option(
    "--model", default="", show_default=False, help="A Hugging Face folder.  [a small new model]"
)
@count_option("--rounds", 3, "Runs of each side.")
@count_option("--steps", 8, "Steps per round.", least=2)
@count_option("--prompts", 8, "Per step.")
@count_option("--group-size", 8, least=2)
@count_option("--max-new-tokens", 64)
@count_option("--micro-batch", 64, "In rows, of all processes together.")
@count_option("--vocab-size", 0, "Of a new model; 0: its tokenizer's.", least=0)
@count_option("--processes", 1, "Of each side.")
@click.option("--engine", default="transformers", type=click.Choice(["transformers", "vllm"]))
@click.option("--precision", default="fp32", type=click.Choice(["fp32", "bf16"]))
@count_option("--lora-rank", 0, "Rank of adapters; 0 trains all weights.", least=0)
@count_option("--threads", 1, "For torch, in each process.")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]))
@_OUT
def bench_grpo(
    sides: tuple[Side, ...], model: str, rounds: int, out: Path | None, **work: Any
) -> None:
    """Measure a step of GRPO against TRL's GRPOTrainer: same model, groups and lengths."""
    from scripts.bench.grpo import SIDES, Work, make_table, measure_grpo

    results = measure_grpo(
        Work(**work),
        model=model,
        rounds=rounds,
        sides=sides or SIDES,
        say=_say,
    )
    _finish(make_table(results), results, out)


@bench.command("report")
@count_option("--attempts", 1_000_000)
@count_option("--problems", 10_000)
@count_option("--steps", 1000)
@count_option("--rollouts", 64, "Per step.")
@count_option("--tokens", 200, "Per rollout.", least=2)
@click.option("--folder", type=FOLDER, help="Make the run here and keep it.  [a temporary folder]")
@_OUT
def bench_report(folder: Path | None, out: Path | None, **size: int) -> None:
    """Measure the report of a synthetic run: seconds, memory, size of the page."""
    import tempfile

    from scripts.bench.report import Size, make_table, measure_report

    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        results = measure_report(Size(**size), place, say=_say)
    _finish(make_table(results), results, out)


@bench.command("search")
@_some_of("--method", "methods", "search", ["rmax_ts", "best_first"])
@count_option("--nodes", 10_000, least=4)
@count_option("--expansions", 10_000)
@_OUT
def bench_search(
    methods: tuple[TreeSearchName, ...], nodes: int, expansions: int, out: Path | None
) -> None:
    """Measure search trees: selections and backups per CPU second, memory per node."""
    from scripts.bench.search import METHODS, make_table, measure_search

    results = measure_search(
        methods=methods or METHODS,
        nodes=nodes,
        expansions=expansions,
        say=_say,
    )
    _finish(make_table(results), results, out)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _finish(table: Any, results: dict[str, Any], out: Path | None) -> None:
    from proverrl.monitor.console import open_console

    open_console().print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def main() -> None:
    """Run a benchmark as ``proverrl`` runs a command: the same environment, the same errors."""
    cli.add_command(bench)
    sys.argv.insert(1, "bench")
    run_command_line()


if __name__ == "__main__":
    main()
