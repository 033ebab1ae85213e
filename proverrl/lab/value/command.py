"""The command ``proverrl fit-value``.

The fit is imported when the command runs: ``proverrl --help`` imports this module, and has to be
quick and to work without torch.
"""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import ValidationError

from proverrl.cli.options import FOLDER, OVERRIDES
from proverrl.config.load import apply_overrides
from proverrl.errors import UsageError
from proverrl.lab.value.options import ValueOptions


@click.command("fit-value")
@click.option("--run", type=FOLDER, help="Use this run's newest weights and rollouts.")
@OVERRIDES
@click.option("--out", type=FOLDER, required=True, help="Write the model to this folder.")
def fit_value_command(run: Path | None, overrides: tuple[str, ...], out: Path) -> None:
    """Fit a value model, which the search puct asks, and write it to OUT/value.

    The keys are those of docs/lab/value.md.
    """
    from proverrl.lab.value.job import describe_value, fit_value

    try:
        given = {} if run is None else {"run": str(run)}
        options = ValueOptions.model_validate(apply_overrides(given, overrides))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError("--set: " + "; ".join(faults)) from None
    fit_value(out, options, tell=click.echo)
    click.echo("\n".join(describe_value(out)))
