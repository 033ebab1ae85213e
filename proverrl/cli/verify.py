"""The commands that judge and measure without a policy: ``verify`` and ``bench``.

Flows in: arguments. Flows out: verdicts or figures, and an exit status. ``proverrl.cli.main`` adds
both to the command line and turns errors into messages.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proverrl.cli.options import WORKERS, FiniteRange, GivenPath
from proverrl.errors import UsageError
from proverrl.lang import LANGUAGES

if TYPE_CHECKING:
    from proverrl.bench.grpo import Side
    from proverrl.config import SearchName

_FILE = GivenPath(dir_okay=False, path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--backend",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", *LANGUAGES]),
    help="Judge every language, or only one.",
)
@click.option(
    "--workers", default=2, show_default=True, type=WORKERS, help="Processes per language."
)
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=FiniteRange(0.1),
    help="Wall-clock seconds for one candidate, once a worker has it.",
)
@click.option(
    "--memory-mb",
    type=FiniteRange(64),
    help="Memory of one worker with its children.  [4096 for Dafny, 8192 for Lean]",
)
@click.option("--out", type=_FILE, help="Write verdicts here, one JSON line each.")
@click.option("--resume", is_flag=True, help="Continue the --out file of an interrupted run.")
@click.option(
    "--canary-rate",
    default=0.01,
    show_default=True,
    type=FiniteRange(0, 1),
    help="Share of calls that also judge a false statement; an accepted one stops the run.",
)
@click.option(
    "--paranoid",
    is_flag=True,
    help="Check accepted Lean proofs again with leanchecker, SafeVerify, comparator.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines on a terminal too.")
def verify(
    paths: tuple[str, ...],
    backend: str,
    workers: int,
    timeout: float,
    memory_mb: float | None,
    out: Path | None,
    resume: bool,
    canary_rate: float,
    paranoid: bool,
    as_json: bool,
) -> None:
    """Judge .dfy and .lean files, folders, and JSON lines (- is standard input), in input order.

    Exit status: 0 all proved, 1 not all proved, 2 an input is wrong, 3 the verifier is broken.
    """
    from proverrl.cli.verdicts import print_verdicts
    from proverrl.monitor.interrupt import run_interruptible

    judging = print_verdicts(
        paths,
        backend=backend,
        workers=workers,
        deadline_seconds=timeout,
        memory_mb=memory_mb,
        out=out,
        resume=resume,
        canary_rate=canary_rate,
        paranoid=paranoid,
        as_json=as_json,
    )
    how = (
        "the same command with --resume continues"
        if out is not None
        else "no verdict is kept without --out FILE, with which --resume would continue"
    )
    sys.exit(asyncio.run(run_interruptible(judging, how_to_go_on=how)))


@click.group()
def bench() -> None:
    """Measure parts of this package on this machine."""


@bench.command("pool")
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(["overhead", "faults", "dafny"]),
    help="Only this part; may be given more than once.",
)
@click.option(
    "--calls",
    default=20_000,
    show_default=True,
    type=click.IntRange(100),
    help="Calls of the parts that need no prover.",
)
@click.option(
    "--num", default=100, show_default=True, type=click.IntRange(1), help="Programs of each kind."
)
@click.option("--workers", default=2, show_default=True, type=WORKERS, help="Dafny processes.")
@click.option(
    "--dafnybench",
    type=GivenPath(exists=True, dir_okay=False, path_type=Path),
    help="Also measure this file of DafnyBench tasks.",
)
@click.option("--out", type=_FILE, help="Write JSON here.")
def bench_pool(
    parts: tuple[str, ...],
    calls: int,
    num: int,
    workers: int,
    dafnybench: Path | None,
    out: Path | None,
) -> None:
    """Measure the verifier pool: its own cost, the cost of faults, warm Dafny against cold."""

    from rich.console import Console

    from proverrl.bench.pool import PARTS, make_table, measure_pool

    measuring = measure_pool(
        parts=parts or PARTS,
        calls=calls,
        num=num,
        workers=workers,
        dafnybench=dafnybench,
        say=lambda text: click.echo(text, err=True),
    )
    results = asyncio.run(measuring)
    Console().print(make_table(results))
    _write_json(results, out)


@bench.command("grpo")
@click.option(
    "--side",
    "sides",
    multiple=True,
    type=click.Choice(["proverrl", "trl"]),
    help="Only this side; TRL needs the extra [bench].",
)
@click.option("--model", default="", help="A Hugging Face folder.  [a small new model]")
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Runs of each side."
)
@click.option(
    "--steps", default=8, show_default=True, type=click.IntRange(2), help="Steps per round."
)
@click.option("--prompts", default=8, show_default=True, type=click.IntRange(1), help="Per step.")
@click.option("--group-size", default=8, show_default=True, type=click.IntRange(2))
@click.option("--max-new-tokens", default=64, show_default=True, type=click.IntRange(1))
@click.option(
    "--micro-batch", default=64, show_default=True, type=click.IntRange(1), help="In rows."
)
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="For torch.")
@click.option("--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]))
@click.option("--out", type=_FILE, help="Write JSON here.")
def bench_grpo(
    sides: tuple[Side, ...], model: str, rounds: int, out: Path | None, **work: Any
) -> None:
    """Measure a step of GRPO against TRL's GRPOTrainer: same model, groups and lengths."""
    from rich.console import Console

    from proverrl.bench.grpo import SIDES, Work, make_table, measure_grpo

    results = measure_grpo(
        Work(**work),
        model=model,
        rounds=rounds,
        sides=sides or SIDES,
        say=lambda text: click.echo(text, err=True),
    )
    Console().print(make_table(results))
    _write_json(results, out)


@bench.command("report")
@click.option("--attempts", default=1_000_000, show_default=True, type=click.IntRange(1))
@click.option("--problems", default=10_000, show_default=True, type=click.IntRange(1))
@click.option("--steps", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--rollouts", default=64, show_default=True, type=click.IntRange(1), help="Per step.")
@click.option(
    "--tokens", default=200, show_default=True, type=click.IntRange(2), help="Per rollout."
)
@click.option(
    "--folder",
    type=GivenPath(file_okay=False, path_type=Path),
    help="Make the run here and keep it.  [a temporary folder]",
)
@click.option("--out", type=_FILE, help="Write JSON here.")
def bench_report(folder: Path | None, out: Path | None, **size: int) -> None:
    """Measure the report of a synthetic run: seconds, memory, size of the page."""
    import tempfile

    from rich.console import Console

    from proverrl.bench.report import Size, make_table, measure_report

    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        results = measure_report(Size(**size), place, say=lambda text: click.echo(text, err=True))
    Console().print(make_table(results))
    _write_json(results, out)


@bench.command("search")
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(["rmax_ts", "puct", "best_first", "deepsearch"]),
    help="Only this search; may be given more than once.",
)
@click.option("--nodes", default=10_000, show_default=True, type=click.IntRange(4))
@click.option("--expansions", default=10_000, show_default=True, type=click.IntRange(1))
@click.option("--out", type=_FILE, help="Write JSON here.")
def bench_search(
    methods: tuple[SearchName, ...], nodes: int, expansions: int, out: Path | None
) -> None:
    """Measure search trees: selections and backups per CPU second, memory per node."""
    from rich.console import Console

    from proverrl.bench.search import METHODS, make_table, measure_search

    results = measure_search(
        methods=methods or METHODS,
        nodes=nodes,
        expansions=expansions,
        say=lambda text: click.echo(text, err=True),
    )
    Console().print(make_table(results))
    _write_json(results, out)


@bench.command("curriculum")
@click.option(
    "--curriculum",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this curriculum; may be given more than once.",
)
@click.option(
    "--world",
    "worlds",
    multiple=True,
    type=click.Choice(["graded", "with_false", "mostly_easy"]),
    help="Only this world; may be given more than once.",
)
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(2))
@click.option("--out", type=_FILE, help="Write JSON here.")
def bench_curriculum(
    names: tuple[str, ...], worlds: tuple[str, ...], seeds: int, out: Path | None
) -> None:
    """Measure curricula against uniform draws on a simulated learner; no policy, no verifier."""
    from rich.console import Console

    from proverrl.bench.curriculum import make_table, measure_curricula
    from proverrl.curriculum.sampler import CURRICULA

    chosen = tuple(name for name in CURRICULA if name in names)
    if unknown := [name for name in names if name not in CURRICULA]:
        raise UsageError(f"no curriculum {unknown[0]!r}; there are {', '.join(CURRICULA)}")
    results = measure_curricula(
        names=chosen, worlds=worlds, seeds=seeds, say=lambda text: click.echo(text, err=True)
    )
    Console().print(make_table(results))
    _write_json(results, out)


def _write_json(results: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
