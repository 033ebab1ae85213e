"""The command that compares evaluations at equal cost: ``compare-budget``.

Flows in: arguments. Flows out: a table. ``proverrl.cli`` adds it to the command line and turns
errors into messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from proverrl.errors import UsageError

if TYPE_CHECKING:
    from proverrl.matched_budget import BudgetUnit

_MUST_AGREE = ("benchmark_sha256", "toolchain")


@click.command("compare-budget")
@click.argument("evaluations", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--unit",
    default="calls",
    show_default=True,
    type=click.Choice(["turns", "calls", "tokens"]),
    help="What a budget counts.",
)
@click.option("--budgets", metavar="1,2,4", help="Budgets a problem; left out, powers of two.")
def compare_budget(evaluations: tuple[Path, ...], unit: str, budgets: str | None) -> None:
    """Compare evaluations (RUN/evals/NAME.json) at equal budgets, the others with the first."""
    from proverrl.matched_budget import (
        choose_budgets,
        measure_spending,
        paired_difference,
        read_attempts,
        solve_curve,
    )

    _check_comparable(evaluations)
    kind = cast("BudgetUnit", unit)
    spendings = [measure_spending(read_attempts(path), kind) for path in evaluations]
    chosen = _parse_budgets(budgets) if budgets else choose_budgets(spendings)
    for number, (path, spending) in enumerate(zip(evaluations, spendings, strict=True)):
        click.echo(f"{path}: {len(spending)} problems, budget in {unit} a problem")
        for point in solve_curve(spending, chosen):
            line = (
                f"  {point.budget:>6}  solved {_percent(point.solved)} "
                f"[{_percent(point.low)}, {_percent(point.high)}]  spent {point.spent:.1f}"
            )
            if number:
                value, low, high = paired_difference(spending, spendings[0], point.budget)
                line += (
                    f"  against the first {100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
                )
            if point.ran_out:
                line += f"  out of attempts {_percent(point.ran_out)}"
            click.echo(line)


def _check_comparable(evaluations: tuple[Path, ...]) -> None:
    """Refuse evaluations on different problems or under different toolchains."""
    labels = [_read_summary(path) for path in evaluations]
    for path, label in zip(evaluations[1:], labels[1:], strict=True):
        for key in _MUST_AGREE:
            if label.get(key) != labels[0].get(key):
                raise UsageError(
                    f"{path} and {evaluations[0]} cannot be compared: {key} is "
                    f"{label.get(key)!r} and {labels[0].get(key)!r}"
                )


def _read_summary(path: Path) -> dict[str, Any]:
    summary = path.with_suffix(".json")
    try:
        read: dict[str, Any] = json.loads(summary.read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(
            f"{summary} cannot be read; give RUN/evals/NAME.json of a finished evaluation"
        ) from error
    return read


def _parse_budgets(text: str) -> list[int]:
    try:
        chosen = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--budgets {text!r}: write numbers separated by commas") from error
    if min(chosen) < 1:
        raise UsageError(f"--budgets {text!r}: a budget counts from 1")
    return chosen


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
