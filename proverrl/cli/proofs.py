"""The command that writes the proofs of a run: ``proofs``.

Flows in: arguments. Flows out: a file. ``proverrl.cli.main`` adds it to the command line and turns
errors into messages.
"""

from __future__ import annotations

from pathlib import Path

import click

from proverrl.cli.options import GivenPath


@click.command()
@click.argument("run", type=GivenPath(path_type=Path))
@click.option("--out", required=True, type=GivenPath(dir_okay=False, path_type=Path))
def proofs(run: Path, out: Path) -> None:
    """Write the proofs that RUN keeps, as lines that verify and other runs can read."""
    from proverrl.config import load_stored_config
    from proverrl.loops.export_proofs import export_proofs

    num_proofs, num_problems = export_proofs(run, load_stored_config(run), out)
    click.echo(f"{out}: {num_proofs} proofs of {num_problems} problems")
