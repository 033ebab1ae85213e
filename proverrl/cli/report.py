"""The commands that show what runs did: ``report``, and ``watch`` during a run.

Flows in: arguments. Flows out: paths of what was written, or lines and a live panel.
``proverrl.cli.main`` adds them to the command line and turns errors into messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from proverrl.cli.options import FiniteRange, GivenPath

if TYPE_CHECKING:
    from proverrl.report.formats import TableFormat


@click.command()
@click.argument("runs", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option(
    "--format",
    "kind",
    default="html",
    show_default=True,
    type=click.Choice(["html", "md", "csv", "json"]),
    help="The page, or its tables.",
)
@click.option(
    "--out",
    type=GivenPath(dir_okay=False, path_type=Path),
    help="The file to write.  [report.FORMAT in the first run's folder]",
)
def report(runs: tuple[Path, ...], kind: str, out: Path | None) -> None:
    """Write one self-contained HTML page about one or more runs, or its figures as tables."""
    from proverrl.report import write_report, write_tables

    if kind == "html":
        click.echo(write_report(runs, out=out))
        return
    for path in write_tables(runs, cast("TableFormat", kind), out=out):
        click.echo(path)


@click.command()
@click.argument("run", type=GivenPath(file_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="Print the current state and stop.")
@click.option(
    "--every",
    default=2.0,
    show_default=True,
    type=FiniteRange(0.1, 86_400),
    help="Seconds between updates.",
)
def watch(run: Path, once: bool, every: float) -> None:
    """Follow a training from another terminal until it ends; nothing is written to its folder."""
    import sys

    from proverrl.monitor.watch import print_once, watch_run

    if once:
        print_once(run, sys.stdout)
        return
    try:
        watch_run(run, sys.stdout, every=every)
    except KeyboardInterrupt:
        click.echo("no longer watching; the run itself is not touched", err=True)
        sys.exit(130)
