"""The command that shows what a run learned from: ``inspect``.

Flows in: arguments. Flows out: text. ``proverrl.cli.main`` adds it to the command line and turns
errors into messages.
"""

from __future__ import annotations

from pathlib import Path

import click

from proverrl.cli.options import GivenPath


@click.command()
@click.argument("run", type=GivenPath(path_type=Path))
@click.argument("step", type=click.IntRange(0))
@click.option("--rollout", "rollout_id", help="Show this rollout; its id is in the list.")
@click.option("--list", "only_list", is_flag=True, help="List the step's rollouts and stop.")
def inspect(run: Path, step: int, rollout_id: str | None, only_list: bool) -> None:
    """Show rollouts of STEP of RUN token by token: masks, advantages, log-probabilities, verdicts.

    Without --rollout the step's rollouts are listed, and the first that was learned from is shown.
    """
    from rich.console import Console

    from proverrl.report.transcript import (
        choose_rollout,
        open_decoder,
        read_step,
        render_list,
        render_rollout,
    )

    rows = read_step(run, step)
    console = Console()
    if rollout_id is None:
        console.print(render_list(rows, step))
    if only_list:
        return
    row = choose_rollout(rows, rollout_id)
    console.print(render_rollout(row, open_decoder(run)))
