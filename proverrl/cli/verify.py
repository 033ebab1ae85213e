"""The commands that judge and measure without a policy: ``verify`` and ``bench``.

Flows in: arguments. Flows out: verdicts or figures, and an exit status.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proverrl.cli.options import (
    CANARY_RATE,
    CONFIRM_OPTION,
    FILE,
    FOLDER,
    LEAN_BACKEND,
    MEMORY_MB,
    RESUME,
    RLIMIT,
    SERVERS,
    Decorator,
    GivenPath,
    LanguageName,
    count_option,
    explain_resume,
    run_until_interrupted,
    timeout_option,
    workers_option,
)
from proverrl.errors import UsageError

if TYPE_CHECKING:
    from proverrl.bench.grpo import Side
    from proverrl.config.search import BaseName


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--backend",
    default="auto",
    type=LanguageName("auto"),
    metavar="NAME",
    help="Judge every language (auto), or only this one.",
)
@workers_option("Processes per language.", "--jobs", "-j")
@timeout_option("Wall-clock seconds for one candidate, once a worker has it.")
@RLIMIT
@MEMORY_MB
@click.option("--out", type=FILE, help="Write verdicts here, one JSON line each.")
@RESUME
@CANARY_RATE
@click.option(
    "--paranoid",
    is_flag=True,
    help="Check accepted Lean proofs again with leanchecker, SafeVerify, comparator.",
)
@LEAN_BACKEND
@CONFIRM_OPTION
@SERVERS
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="WORDS",
    help="Have bare Dafny files rest on these, counted: assume, axiom, extern, decreases-star, "
    "abstract.",
)
@click.option(
    "--dafny-arg",
    "arguments",
    multiple=True,
    metavar="OPTION",
    help="Give Dafny this option, such as /arith:2; may be given more than once.",
)
@click.option(
    "--cache/--no-cache",
    default=True,
    help="Keep verdicts, and answer from those of earlier commands and runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines on a terminal too.")
@click.option("--plain", is_flag=True, help="Print a line to read for each verdict, anywhere.")
@click.option(
    "--changed",
    metavar="COMMIT",
    help="Only programs that differ from this commit by git, or include a file that does; HEAD: "
    "uncommitted changes.",
)
@click.option("--strict", is_flag=True, help="Files with nothing to prove count as not proved.")
@click.option("--junit", type=FILE, help="Write a JUnit report here, for continuous integration.")
@click.option("--sarif", type=FILE, help="Write the errors as SARIF here, for code scanning.")
@click.option(
    "--github",
    is_flag=True,
    envvar="GITHUB_ACTIONS",
    help="Say errors as annotations of GitHub Actions.  [where it runs]",
)
def verify(
    paths: tuple[str, ...],
    timeout: float,
    out: Path | None,
    resume: bool,
    changed: str | None,
    **options: Any,
) -> None:
    """Judge .dfy and .lean files, folders, quoted patterns, and JSON lines (- is standard input),
    in input order.

    Exit status: 0 all proved, 1 not all proved, 2 an input is wrong, 3 the verifier is broken.
    """
    from proverrl.cli.verdicts import print_verdicts
    from proverrl.problems.input_paths import expand_paths, list_changed

    if changed is None and not paths:
        raise UsageError("name what is to be verified: files, folders, a pattern, or - for lines")
    paths = tuple(expand_paths(paths) if changed is None else list_changed(paths, changed))
    if not paths:
        click.echo(f"no program differs from {changed}", err=True)
    judging = print_verdicts(paths, deadline_seconds=timeout, out=out, resume=resume, **options)
    status = run_until_interrupted(judging, explain_resume(out, "verdict"))
    sys.exit(status if paths else 0)


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
    """Measure parts of this package on this machine."""


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
    from proverrl.bench.pool import PARTS, make_table, measure_pool

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
    from proverrl.bench.lean_speed import PARTS, make_table, measure_lean

    results = asyncio.run(measure_lean(parts=parts or PARTS, say=_say, **work))
    _finish(make_table(results), results, out)


@bench.command("serve")
@count_option("--checks", 1_000, "Checks of each load.", least=100)
@_OUT
def bench_serve(checks: int, out: Path | None) -> None:
    """Measure the HTTP interface over stand-in workers, beside kimina-lean-server's figures."""
    from proverrl.bench.serve import make_table, measure_serve, to_json

    rows = asyncio.run(measure_serve(checks=checks, say=_say))
    _finish(make_table(rows), {"loads": to_json(rows)}, out)


@bench.command("scale")
@_OUT
def bench_scale(out: Path | None) -> None:
    """Measure at how many servers the process that asks them is the limit, over stand-ins."""
    from proverrl.bench.scale import make_table, measure_scale, to_json

    rows = measure_scale(say=_say)
    _finish(make_table(rows), {"sizes": to_json(rows)}, out)


@bench.command("grpo")
@click.option(
    "--side",
    "sides",
    multiple=True,
    type=click.Choice(["proverrl", "trl"]),
    help="Only this side; TRL needs the extra [bench].",
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
@count_option("--threads", 1, "For torch, in each process.")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]))
@_OUT
def bench_grpo(
    sides: tuple[Side, ...], model: str, rounds: int, out: Path | None, **work: Any
) -> None:
    """Measure a step of GRPO against TRL's GRPOTrainer: same model, groups and lengths."""
    from proverrl.bench.grpo import SIDES, Work, make_table, measure_grpo

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

    from proverrl.bench.report import Size, make_table, measure_report

    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        results = measure_report(Size(**size), place, say=_say)
    _finish(make_table(results), results, out)


@bench.command("search")
@_some_of("--method", "methods", "search", ["rmax_ts", "puct", "best_first"])
@count_option("--nodes", 10_000, least=4)
@count_option("--expansions", 10_000)
@_OUT
def bench_search(
    methods: tuple[BaseName, ...], nodes: int, expansions: int, out: Path | None
) -> None:
    """Measure search trees: selections and backups per CPU second, memory per node."""
    from proverrl.bench.search import METHODS, make_table, measure_search

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
