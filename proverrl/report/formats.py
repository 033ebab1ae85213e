"""The report's figures as Markdown, CSV and JSON, from the same records as the page.

Flows in: run folders. Flows out: rows with stable column names (docs/cli.md), and files of them.
Shares and differences are fractions; a figure that is not known is empty, in JSON null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from proverrl.files.lines import write_whole
from proverrl.report.budgets import BudgetTable, build_tables
from proverrl.report.comparison import Shelf, list_differences, list_shelves, list_warnings
from proverrl.report.completions import (
    COMPLETION_COLUMNS,
    list_completion_rows,
    list_completion_warnings,
)
from proverrl.report.headline import Column, find_figure, list_columns, list_ks, list_levels
from proverrl.report.run import Row, RunRecord, choose_place, load_runs, unjudged_counts

TableFormat = Literal["md", "csv", "json"]
FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)

HEADLINE_COLUMNS = (
    "column", "run", "evaluation", "benchmark", "benchmark_sha256", "toolchain", "level", "k",
    "pass", "low", "high", "change", "problems", "attempts", "unjudged", "fatal",
)  # fmt: skip
DIFFERENCE_COLUMNS = (
    "column", "against", "k", "difference", "low", "high", "problems", "left_out", "p",
)  # fmt: skip
BUDGET_COLUMNS = (
    "column", "against", "unit", "budget", "solved", "low", "high", "spent", "ran_out",
    "difference", "difference_low", "difference_high", "problems", "unjudged",
)  # fmt: skip
PROBLEM_COLUMNS = (
    "problem", "level", "family", "column", "evaluation", "attempts", "judged", "unjudged",
    "proved", "solve_rate",
)  # fmt: skip
_COLUMNS = (
    *(HEADLINE_COLUMNS, DIFFERENCE_COLUMNS, BUDGET_COLUMNS, PROBLEM_COLUMNS),
    *(COMPLETION_COLUMNS, ("warning",)),
)


def list_headline_rows(runs: Sequence[RunRecord]) -> list[Row]:
    """One row a column, level and k that was measured."""
    return [
        row
        for column in list_columns(runs)
        for level in list_levels([column])
        for k in list_ks([column])
        if (row := _headline_row(runs, column, level, k))
    ]


def _headline_row(runs: Sequence[RunRecord], column: Column, level: str, k: int) -> Row | None:
    found = column.evaluation.level(level) or {}
    figure = find_figure(found, k)
    if figure is None:
        return None
    summary = column.evaluation.summary
    before = None if column.base is None else find_figure(column.base.level(level), k)
    owners = (str(run.path) for run in runs if column.evaluation in run.evaluations.values())
    return {
        "column": column.title,
        "run": next(owners, None),
        "evaluation": column.evaluation.name,
        **{name: summary.get(name) for name in ("benchmark", "benchmark_sha256", "toolchain")},
        "level": level,
        "k": k,
        "pass": figure["value"],
        "low": figure.get("low"),
        "high": figure.get("high"),
        "change": None if before is None else figure["value"] - before["value"],
        "problems": found.get("num_problems"),
        "attempts": found.get("attempts"),
        "unjudged": sum(unjudged_counts(found.get("unjudged")).values()),
        "fatal": found.get("fatal") or 0,
    }


def list_difference_rows(shelves: Sequence[Shelf]) -> list[Row]:
    """One row per pair and k: the difference of pass@k, paired by problem."""
    return [
        {
            "column": item.title,
            "against": item.base,
            "k": item.k,
            "difference": item.gap.value,
            "low": item.gap.low,
            "high": item.gap.high,
            "problems": item.problems,
            "left_out": item.excluded,
            "p": item.gap.p,
        }
        for shelf in shelves
        for item in list_differences(shelf)
    ]


def list_budget_rows(tables: Sequence[BudgetTable]) -> list[Row]:
    """One row per unit, budget and column: the share of problems that is solved within so many
    completions ("turns"), calls or tokens a problem."""
    return [
        {
            "column": title,
            "against": table.titles[0] if gap else None,
            "unit": table.unit,
            "budget": cell.budget,
            "solved": cell.solved,
            "low": cell.low,
            "high": cell.high,
            "spent": cell.spent,
            "ran_out": cell.ran_out,
            "difference": gap.value if gap else None,
            "difference_low": gap.low if gap else None,
            "difference_high": gap.high if gap else None,
            "problems": table.problems,
            "unjudged": table.unjudged,
        }
        for table in tables
        for row in table.rows
        for title, cell in zip(table.titles, row, strict=True)
        for gap in [cell.against_first]
    ]


def list_problem_rows(shelves: Sequence[Shelf]) -> list[Row]:
    """One row per problem and column whose attempts were kept."""
    return [
        {
            "problem": name,
            "level": tally.level,
            "family": tally.family,
            "column": column.title,
            "evaluation": column.evaluation.name,
            "attempts": tally.attempts,
            "judged": tally.judged,
            "unjudged": tally.unjudged,
            "proved": tally.solved,
            "solve_rate": tally.solved / tally.judged if tally.judged else None,
        }
        for shelf in shelves
        for name in shelf.names
        for column in shelf.columns
        if (tally := column.evaluation.problems.get(name))
    ]


def write_tables(
    run_dirs: Sequence[Path], kind: TableFormat, *, out: Path | None = None
) -> list[Path]:
    """Write the tables and return their paths; without ``out`` into the first run's folder.

    CSV takes a file a table: OUT, OUT_differences, OUT_budgets, OUT_problems and OUT_completions,
    with the same ending, and OUT_warnings. Raises RunError: a folder is not a run, or a file cannot
    be written; UsageError: ``out`` could be a file of a run's.
    """
    path = choose_place(run_dirs, out, kind)
    runs = load_runs(run_dirs)
    shelves = list_shelves(runs)
    budgets = [build_tables(shelf) for shelf in shelves]
    tables = {
        "headline": list_headline_rows(runs),
        "differences": list_difference_rows(shelves),
        "budgets": list_budget_rows([table for found, _ in budgets for table in found]),
        "problems": list_problem_rows(shelves),
        "completions": list_completion_rows(runs),
    }
    missing = [note for _, notes in budgets for note in notes]
    warnings = [*list_warnings(runs), *list_completion_warnings(runs), *missing]
    if kind == "json":
        text = json.dumps({"warnings": warnings, **tables}, indent=1, ensure_ascii=False)
        return [write_whole(path, text + "\n")]
    if kind == "md":
        return [write_whole(path, _markdown(tables, warnings))]
    tables["warnings"] = [{"warning": text} for text in warnings]
    written = []
    for (name, rows), names in zip(tables.items(), _COLUMNS, strict=True):
        suffix = "" if name == "headline" else f"_{name}"
        file = path.with_name(f"{path.stem}{suffix}{path.suffix}")
        written.append(write_whole(file, _csv(rows, names)))
    return written


def _csv(rows: Sequence[Row], names: Sequence[str]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _markdown(tables: dict[str, list[Row]], warnings: Sequence[str]) -> str:
    titles = {
        "headline": "Results",
        "differences": "Differences, paired by problem",
        "budgets": "At equal cost",
        "problems": "Problems",
        "completions": "Completions",
    }
    parts = ["# Report\n"]
    parts += [f"> {_cell(text)}\n" for text in warnings]
    for name, rows in tables.items():
        if not rows:
            continue
        names = list(rows[0])
        lines = [f"## {titles[name]}\n", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
        lines += [f"| {' | '.join(_cell(row[key]) for key in names)} |" for row in rows]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    """Text that stays in its cell; shares with four digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    for mark in "\\|`*_<>[]":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
