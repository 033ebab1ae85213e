"""The command line. Each command reads its arguments, calls one function, and prints.

Flows in: arguments. Flows out: text, files and an exit status: 0 done (``verify``: all proved),
1 not all proved, 2 wrong usage, 3 the verifier is broken or another process of the run has ended,
130 interrupted, 143 terminated.
Imports of heavy modules stay inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proverrl.cli.annotate import annotate
from proverrl.cli.compare import compare
from proverrl.cli.init import init
from proverrl.cli.integrity import check_problems, contamination, recheck
from proverrl.cli.mcp import mcp
from proverrl.cli.options import (
    FOLDER,
    LANGUAGE,
    FiniteRange,
    GivenPath,
    benchmark_option,
    check_result_name,
    config_arguments,
    parse_counts,
    read_config,
    run_until_interrupted,
)
from proverrl.cli.plan import plan
from proverrl.cli.problems import problems
from proverrl.cli.runs import inspect, proofs, report, watch
from proverrl.cli.search import search
from proverrl.cli.serve import serve
from proverrl.cli.verify import verify
from proverrl.config.load import choose_run
from proverrl.errors import (
    PeerError,
    ProverRLError,
    StoppedError,
    ToolchainError,
    UsageError,
    VerifierError,
)
from proverrl.files.extras import EXTRAS, tell_missing
from proverrl.plugins import find_installed, find_package, list_installed, load, refuse_exit
from proverrl.version import __version__

if TYPE_CHECKING:
    from proverrl.config import Config


_WORDS = {
    (UsageError, PeerError): "error",
    (ToolchainError,): "no usable verifier",
    (VerifierError,): "verifier broken",
    (ProverRLError,): "internal error",
}
GROUP = "command"
EXIT_NOT_PROVED, EXIT_USAGE, EXIT_BROKEN, EXIT_INTERRUPTED = 1, 2, 3, 130


def run_to_the_end(run: Callable[[], None]) -> None:
    """Call ``run``, whose exit status is 0 or that of its ``SystemExit``.

    One of several processes ends without taking the interpreter down. Gloo's threads let go of a
    message's tensors some time after it is through, and need the interpreter for it; while the
    interpreter goes down, that kills the process by SIGABRT with all its work done ("terminate
    called without an active exception"). torch has no call to wait for these threads; they run as
    long as their group, and DTensor's caches keep that alive.
    """
    status = 1

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # Registered before any heavy import, it runs after the handlers of all others; Python's
        # own threads have been joined and an exception that nobody caught has been printed.
        atexit.register(end)
    try:
        run()
        status = 0
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else int(request.code is not None)
        raise


def main() -> None:
    """Entry point: run a command, and end with its exit status."""
    run_to_the_end(_run_command)


def _run_command() -> None:
    """Run a command and turn errors into a message and an exit status."""
    # Before torch loads: spinning OpenMP threads would starve the verifiers of the two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    _open_closed_streams()
    if not sys.stderr.isatty():
        # On a terminal the hub's client shows how far the download of a model is.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # A warning is told in one line, without the place in our code.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        try:
            cli(standalone_mode=False)
        finally:
            # Here and not at the exit of the interpreter, so that a full disk is said in one line.
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except StoppedError as error:
        click.echo(error, err=True)
        sys.exit(error.exit_status)
    except ProverRLError as error:
        words = next(words for kind, words in _WORDS.items() if isinstance(error, kind))
        click.echo(f"{words}: {error}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_BROKEN)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        click.echo(f"error: {tell_missing(module, 'this command')}", err=True)
        sys.exit(EXIT_USAGE)
    except OSError as error:
        # An error that no command foresaw: a disk that is full, a folder that is gone.
        click.echo(f"error: {_name_place(error)}{error.strerror or error}", err=True)
        sys.exit(EXIT_USAGE)


def _open_closed_streams() -> None:
    """Whoever starts this with a stream closed reads nothing from it, or does not see it; else the
    next file that is opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _name_place(error: OSError) -> str:
    if error.filename:
        return f"{error.filename}: "
    try:
        sys.stdout.flush()
    except OSError:
        # The rest goes nowhere, or the interpreter would try again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return "standard output: "
    # A flush finds nothing where output has no buffer.
    return "standard output, or a file: "


class OwnCommands(click.Group):
    """Our commands, which come first, and those of installed packages: the entry points
    ``proverrl.command``. One is imported when it is called, or when the list of all is asked for. A
    broken one is left out of that list with a warning, so that all other commands go on."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = super().list_commands(ctx)
        for name in sorted(set(list_installed(GROUP)) - {*found}):
            try:
                load_command(name)
            except UsageError as error:
                warnings.warn(f"{error}; it is left out", stacklevel=2)
            else:
                found.append(name)
        return sorted(found)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in list_installed(GROUP):
            return own
        return load_command(cmd_name)


def load_command(name: str) -> click.Command:
    """The command of an installed package. Raises ``UsageError``, which names the package: it
    cannot be imported, or is no click command."""
    place = find_installed(GROUP, name)
    key = f"command {name!r} of the installed package {find_package(GROUP, name)}"
    found = load(key, place)
    if not isinstance(found, click.Command):
        raise UsageError(f"{key}: {place} is no click command, but {type(found).__name__}")
    return found


@click.group(
    cls=OwnCommands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, prog_name="proverrl")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    help="What Python's logging says on standard error, ours and that of libraries.",
)
@LANGUAGE
def cli(log_level: str) -> None:
    """Train language models to write machine-checked proofs, and check them."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


for command in (
    *(verify, annotate, serve, mcp, inspect, problems, proofs, compare),
    *(contamination, recheck, report, watch, search, init, plan),
):
    cli.add_command(command)
problems.add_command(check_problems)


@cli.command()
def doctor() -> None:
    """List the back ends, versions and devices found, and how to install the missing ones."""
    from proverrl.cli.doctor import diagnose, is_healthy, render
    from proverrl.monitor.console import open_console

    findings = diagnose()
    open_console().print(render(findings))
    if not is_healthy(findings):
        sys.exit(EXIT_NOT_PROVED)


@cli.command()
@config_arguments
@click.option("--run", type=GivenPath(), help="Run folder (the key 'run').")
@click.option(
    "--resume",
    type=GivenPath(),
    help="Resume a run under the configuration stored in it; with a higher limit a finished one.",
)
def train(
    config_file: Path | None, overrides: tuple[str, ...], run: Path | None, resume: Path | None
) -> None:
    """Train a policy as CONFIG_FILE (a file, or a name such as demo) says.

    The same command resumes a stopped run. On a finished run it prints the results again; with a
    higher limit (max_verifier_calls=9000) the run goes on.
    """
    import asyncio

    config = _read_config(config_file, overrides, run, resume)
    from proverrl.jobs.train import train as run_training
    from proverrl.monitor.interrupt import stop_at_once
    from proverrl.run.run_folder import check_resumable, is_ended, settle

    if is_ended(config):
        # With other settings it would be another run.
        check_resumable(config.run, settle(config))
        click.echo(f"{config.run} is finished; nothing to do")
    else:
        how = "the same command begins the run, or continues it from what is saved"
        with refuse_exit("this run", "a plug-in"), stop_at_once(how):
            asyncio.run(run_training(config))
    if os.environ.get("RANK", "0") == "0":
        _print_results(config.run)


@cli.command("eval")
@config_arguments
@click.option("--run", type=GivenPath(), help="Evaluate this run's policy.")
@benchmark_option("What to evaluate on; may be given more than once.", "benchmarks", multiple=True)
@click.option("-k", "ks", metavar="1,8", help="The k of pass@k, separated by commas.")
@click.option("--name", default="eval", help="Name of the result files.")
@click.option(
    "--mode",
    metavar="whole_proof|self_correct|search|PLUG-IN",
    help="How to look for a proof (the keys rollout.mode, evaluation.search).",
)
def evaluate_command(
    config_file: Path | None,
    run: Path | None,
    overrides: tuple[str, ...],
    benchmarks: tuple[str, ...],
    ks: str | None,
    name: str,
    mode: str | None,
) -> None:
    """Estimate pass@k of a policy: that of a run, or the one that CONFIG_FILE names.

    Asked again with a larger k under the same --name, it adds the attempts that are missing.
    """
    if run is not None and config_file is not None:
        raise UsageError("give a configuration file or --run, not both")
    if ks is not None:
        overrides = (*overrides, f"evaluation.ks={parse_counts('-k', ks)}")
    if mode is not None:
        turns = "whole_proof" if mode == "search" else mode
        search = str(mode == "search").lower()
        overrides = (*overrides, f"rollout.mode={turns}", f"evaluation.search={search}")
    if mode == "search" and ks is None:
        # One search per problem is what a budget of calls is meant for.
        overrides = ("evaluation.samples=1", "evaluation.ks=[1]", *overrides)
    if benchmarks and not any(text.startswith("evaluation.max_problems") for text in overrides):
        # A run's own limit was for its split; a benchmark that is named is meant whole.
        overrides = (*overrides, "evaluation.max_problems=0")
    config = _read_config(config_file, overrides, None, run)
    from proverrl.evaluation.attempts import read_summary
    from proverrl.evaluation.section import tell_all
    from proverrl.jobs.evaluate import evaluate_benchmarks, name_benchmarks
    from proverrl.monitor.console import open_console
    from proverrl.report.completions import list_result_warnings, make_completion_table
    from proverrl.report.headline import make_benchmark_table

    check_result_name(name)

    named = name_benchmarks(config, name, benchmarks)
    weights = choose_run(run, overrides)
    evaluating = evaluate_benchmarks(config, from_run=weights, benchmarks=named)
    how = "the attempts that were judged are stored, the same command continues"
    results = run_until_interrupted(evaluating, how)
    if len(results) > 1:
        from proverrl.report import write_report

        open_console().print(make_benchmark_table(results), make_completion_table(results))
        for result in results:
            for line in tell_all(result.stem, read_summary(result)):
                click.echo(line)
        for warning in list_result_warnings(results):
            click.echo(f"warning: {warning}")
        click.echo(f"report: {write_report([config.run])}")
    else:
        _print_results(config.run)


@cli.command()
@click.argument("first", type=GivenPath(exists=True, file_okay=False))
@click.argument("second", type=GivenPath(exists=True, file_okay=False))
@click.option("--alpha", required=True, type=FiniteRange(0, 1), help="The second's share.")
@click.option("--out", required=True, type=FOLDER)
def merge(first: Path, second: Path, alpha: float, out: Path) -> None:
    """Average two checkpoints of one model (model folders, or runs) into OUT."""
    from proverrl.files.disk import refuse_inside
    from proverrl.jobs.evaluate import find_weights
    from proverrl.policy.loading import merge_policies

    kinds = ("config.json", "adapter_config.json")
    places = [
        f if any((f / kind).exists() for kind in kinds) else find_weights(f)
        for f in (first, second)
    ]
    refuse_inside(out, first, second)
    merge_policies(places[0], places[1], alpha=alpha, out=out)
    click.echo(out)


def _read_config(
    config_file: Path | None, overrides: tuple[str, ...], run: Path | None, stored_in: Path | None
) -> Config:
    # In quotes: a folder may be called 5 or true.
    extra = (*overrides, *([f"run={json.dumps(str(run), ensure_ascii=False)}"] if run else []))
    ask = "give a configuration file, a name such as demo, or a run folder"
    return read_config(config_file, stored_in, extra, ask=ask)


def _print_results(run: Path) -> None:
    from proverrl.monitor.console import open_console
    from proverrl.report import headline_table, write_report

    open_console().print(headline_table([run]))
    click.echo(f"report: {write_report([run])}")
