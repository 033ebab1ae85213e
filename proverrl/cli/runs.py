"""The commands about runs: ``report``, ``watch``, ``inspect`` and ``proofs``.

Flows in: arguments. Flows out: pages, tables, lines or files.
"""

from __future__ import annotations

from pathlib import Path

import click

from proverrl.cli.options import FILE, FOLDER, OUT_FILE, GivenPath


@click.command()
@click.argument("runs", nargs=-1, required=True, type=GivenPath())
@click.option(
    "--out", type=FILE, help="The file to write.  [report.html in the first run's folder]"
)
def report(runs: tuple[Path, ...], out: Path | None) -> None:
    """Write one self-contained HTML page about one or more runs."""
    from proverrl.report import write_report

    click.echo(write_report(runs, out=out))


@click.command()
@click.argument("run", type=FOLDER)
@click.option("--once", is_flag=True, help="Print the current state and stop.")
def watch(run: Path, once: bool) -> None:
    """Follow a training from another terminal until it ends; nothing is written to its folder."""
    import sys

    from proverrl.monitor.interrupt import ctrl_c_while_asleep
    from proverrl.monitor.watch import print_once, watch_run

    if once:
        print_once(run, sys.stdout)
        return
    try:
        with ctrl_c_while_asleep() as sleep:
            watch_run(run, sys.stdout, sleep=sleep)
    except KeyboardInterrupt:
        click.echo("no longer watching; the run itself is not touched", err=True)
        sys.exit(130)


@click.command()
@click.argument("run", type=GivenPath())
@click.argument("step", type=click.IntRange(0))
@click.option("--rollout", "rollout_id", help="Show this rollout; its id is in the list.")
@click.option("--list", "only_list", is_flag=True, help="List the step's rollouts and stop.")
def inspect(run: Path, step: int, rollout_id: str | None, only_list: bool) -> None:
    """Show rollouts of STEP of RUN token by token: masks, advantages, log-probabilities, verdicts.

    Without --rollout the step's rollouts are listed, and the first that was learned from is shown.
    """
    from proverrl.monitor.console import open_console
    from proverrl.report.transcript import (
        choose_rollout,
        open_decoder,
        read_step,
        render_list,
        render_rollout,
    )

    rows = read_step(run, step)
    console = open_console()
    if rollout_id is None:
        console.print(render_list(rows, step))
    if only_list:
        return
    row = choose_rollout(rows, rollout_id)
    console.print(render_rollout(row, open_decoder(run)))


@click.command()
@click.argument("run", type=GivenPath())
@OUT_FILE
def proofs(run: Path, out: Path) -> None:
    """Write the proofs that RUN keeps, as lines that verify and other runs can read."""
    from proverrl.config import load_stored_config
    from proverrl.jobs.export_proofs import export_proofs

    num_proofs, num_problems = export_proofs(run, load_stored_config(run), out)
    click.echo(f"{out}: {num_proofs} proofs of {num_problems} problems")
