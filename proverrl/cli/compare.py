"""The command that compares evaluations: ``compare``.

Flows in: arguments. Flows out: tables, or JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from proverrl.cli.options import AS_JSON, GivenPath, parse_counts
from proverrl.errors import UsageError

if TYPE_CHECKING:
    from proverrl.evaluation.budgets import BudgetUnit
    from proverrl.evaluation.compare import GroupComparison
    from proverrl.evaluation.tally import StoredEvaluation

WIDE = 110
"""Columns that a comparison takes with every row on one line."""


@click.command()
@click.argument("evaluations", nargs=-1, required=True, type=GivenPath())
@click.option("-k", "ks", metavar="1,8", help="The k of pass@k.  [those that all share]")
@click.option(
    "--budget",
    "unit",
    type=click.Choice(["turns", "calls", "tokens"]),
    help="Compare the share solved at equal cost, in this unit.",
)
@click.option("--budgets", metavar="1,2,4", help="Budgets per problem.  [powers of two]")
@click.option(
    "--common",
    is_flag=True,
    help="Where attempts or problems are missing, compare those that are there.",
)
@AS_JSON
def compare(
    evaluations: tuple[Path, ...],
    ks: str | None,
    unit: str | None,
    budgets: str | None,
    common: bool,
    as_json: bool,
) -> None:
    """Compare evaluations (RUN/evals/NAME.json) with the first, paired by problem.

    Differences in settings that make a comparison doubtful are said first; evaluations on
    different problems are refused, and those that lack attempts too.
    """
    from proverrl.evaluation.compare import (
        check_comparable,
        choose_ks,
        find_common,
        read_evaluation,
    )

    if len(evaluations) < 2 and not unit:
        raise UsageError("give two evaluations or more; the others are compared with the first")
    if budgets and not unit:
        raise UsageError("--budgets needs --budget: turns, calls or tokens")
    warnings: list[str] = []
    sides = [read_evaluation(path, warnings.append if common else None) for path in evaluations]
    names = find_common(sides, warnings.append) if common else sorted(sides[0].problems)
    for side in sides[1:]:
        warnings += check_comparable(sides[0], side, common=common)
    for line in warnings:
        click.echo(f"warning: {line}", err=True)
    if unit:
        chosen = parse_counts("--budgets", budgets) if budgets else None
        found = _compare_budgets(sides, names, cast("BudgetUnit", unit), chosen, as_json)
    else:
        wanted = parse_counts("-k", ks) if ks else choose_ks(sides)
        found = _compare_pairs(sides, names, wanted, as_json)
    if as_json:
        click.echo(json.dumps({"warnings": warnings, **found}, indent=1))


def _compare_pairs(
    sides: list[StoredEvaluation], names: list[str], ks: list[int], quiet: bool
) -> dict[str, list[dict[str, Any]]]:
    from proverrl.evaluation.compare import compare_evaluations

    entries = []
    for side in sides[1:]:
        rows = compare_evaluations(sides[0], side, names, ks=ks)
        if not quiet:
            _print_pair(sides[0], side, rows)
        entries.append(
            {
                "first": str(sides[0].path),
                "second": str(side.path),
                "groups": [asdict(row) for row in rows],
            }
        )
    return {"comparisons": entries}


def _print_pair(
    first: StoredEvaluation, second: StoredEvaluation, rows: list[GroupComparison]
) -> None:
    from proverrl.monitor.console import open_console, open_table

    title = f"first: {first.path}\nsecond: {second.path}"
    console = open_console()
    # At 80 columns an interval stands below its figure.
    form = "{} ({})" if console.width >= WIDE else "{}\n{}"

    def describe(figures: Any) -> str:
        low, high = (_percent(figures[name]) for name in ("low", "high"))
        return form.format(_percent(figures["value"]), f"{low}-{high}")

    table = open_table()
    table.padding = (0, 1, 0, 0)
    table.add_column("level")
    heads = ("k", "problems", "first", "second", "second minus first", "p", "only\n1st, 2nd")
    for head in (*heads, "McNemar p"):
        table.add_column(head, justify="right")
    for row in rows:
        gap, solved = row.difference, row.solved
        gap_cell = "-"
        if gap is not None:
            interval = f"{100 * gap.low:+.1f},{100 * gap.high:+.1f}"
            gap_cell = form.format(f"{100 * gap.value:+.1f}", interval)
        paired = f"{row.num_paired}"
        if row.num_paired < row.num_problems:
            paired += f" of {row.num_problems}"
        table.add_row(
            row.group,
            str(row.k),
            paired,
            *(describe(side) if row.num_paired else "-" for side in (row.first, row.second)),
            gap_cell,
            f"{gap.p:.2g}" if gap is not None else "-",
            f"{solved.only_first}, {solved.only_second}",
            f"{solved.p:.2g}" if gap is not None else "-",
        )
    notes = [
        "% with 95 % intervals over problems; differences are paired by problem, and their p is "
        "that of a permutation test. McNemar: problems solved within the first k judged attempts."
    ]
    if any(rows[0].unjudged):
        notes.append(
            "Unjudged attempts: {} of the first, {} of the second.".format(*rows[0].unjudged)
        )
    console.print(title, table, *notes, sep="\n")


def _compare_budgets(
    sides: list[StoredEvaluation],
    names: list[str],
    unit: BudgetUnit,
    budgets: list[int] | None,
    quiet: bool,
) -> dict[str, Any]:
    from proverrl.evaluation.budgets import choose_budgets, measure_spending, solve_curve
    from proverrl.monitor.console import open_console, open_table

    spendings = []
    for side in sides:
        spending = measure_spending({name: side.problems[name] for name in names}, unit)
        if spending is None:
            raise UsageError(
                "the endpoint did not say how many tokens it wrote; compare turns or calls"
            )
        spendings.append(spending)
    chosen = budgets or choose_budgets(spendings)
    entries = []
    for number, (side, spending) in enumerate(zip(sides, spendings, strict=True)):
        title = f"{side.path}: {len(spending)} problems, budget in {unit} per problem"
        table = open_table()
        for head in (
            "budget",
            "solved, %",
            "spent",
            "against the first",
            "p",
            "out of attempts, %",
        ):
            table.add_column(head, justify="right")
        points = []
        for point in solve_curve(spending, chosen, spendings[0] if number else None):
            against, p = "", ""
            if gap := point.against_first:
                value, low, high = (100 * figure for figure in (gap.value, gap.low, gap.high))
                against, p = f"{value:+.1f} ({low:+.1f},{high:+.1f})", f"{gap.p:.2g}"
            table.add_row(
                str(point.budget),
                f"{_percent(point.solved)} ({_percent(point.low)}-{_percent(point.high)})",
                f"{point.spent:.1f}",
                against,
                p,
                _percent(point.ran_out),
            )
            points.append(asdict(point))
        if not quiet:
            open_console().print(title, table, sep="\n")
        entries.append({"evaluation": str(side.path), "points": points})
    return {"unit": unit, "curves": entries}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
