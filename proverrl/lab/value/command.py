"""The command ``proverrl fit-value``.

The fit is imported when the command runs: ``proverrl --help`` imports this module, and has to be
quick and to work without torch.
"""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import ValidationError

from proverrl.cli.options import OVERRIDES
from proverrl.config.load import apply_overrides
from proverrl.errors import UsageError
from proverrl.lab.value.options import ValueOptions


@click.command("fit-value")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@OVERRIDES
def fit_value_command(out: Path, overrides: tuple[str, ...]) -> None:
    """Fit a value model, which the search puct asks, and write it to OUT/value.

    The keys are those of docs/lab/value.md; run=RUN names a run with rollouts.
    """
    from proverrl.lab.value.job import describe_value, fit_value

    try:
        options = ValueOptions.model_validate(apply_overrides({}, overrides))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError("--set: " + "; ".join(faults)) from None
    fit_value(out, options, tell=click.echo)
    click.echo("\n".join(describe_value(out)))
