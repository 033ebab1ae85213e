"""The report's figures as Markdown, CSV and JSON, from the same records as the page.

Flows in: run folders. Flows out: rows with stable column names (docs/cli.md), and files of them.
Shares are fractions between 0 and 1, differences too; a figure that is not known is empty, in JSON
null. Not handled here: curves, rollouts, proof texts, which the page has.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from proverrl.files.lines import write_whole
from proverrl.report.comparison import (
    Shelf,
    list_differences,
    list_shelves,
    list_warnings,
)
from proverrl.report.completions import (
    COMPLETION_COLUMNS,
    list_completion_rows,
    list_completion_warnings,
)
from proverrl.report.headline import Column, find_figure, list_columns, list_ks, list_levels
from proverrl.report.run import Row, RunRecord, load_runs, unjudged_counts

TableFormat = Literal["md", "csv", "json"]
FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)

HEADLINE_COLUMNS = (
    "column", "run", "evaluation", "benchmark", "benchmark_sha256", "toolchain", "level", "k",
    "pass", "low", "high", "change", "problems", "attempts", "unjudged", "fatal",
)  # fmt: skip
DIFFERENCE_COLUMNS = (
    "column", "against", "k", "difference", "low", "high", "problems", "left_out", "p",
)  # fmt: skip
PROBLEM_COLUMNS = (
    "problem", "level", "family", "column", "evaluation", "attempts", "judged", "unjudged",
    "proved", "solve_rate",
)  # fmt: skip


def list_headline_rows(runs: Sequence[RunRecord]) -> list[Row]:
    """One row a column, level and k that was measured."""
    rows = []
    for column in list_columns(runs):
        for level in list_levels([column]):
            for k in list_ks([column]):
                row = _headline_row(runs, column, level, k)
                if row is not None:
                    rows.append(row)
    return rows


def _headline_row(runs: Sequence[RunRecord], column: Column, level: str, k: int) -> Row | None:
    found = column.evaluation.level(level) or {}
    figure = find_figure(found, k)
    if figure is None:
        return None
    summary = column.evaluation.summary
    before = None if column.base is None else find_figure(column.base.level(level), k)
    owner = [run for run in runs if column.evaluation in run.evaluations.values()]
    values = (
        column.title,
        str(owner[0].path) if owner else None,
        column.evaluation.name,
        summary.get("benchmark"),
        summary.get("benchmark_sha256"),
        summary.get("toolchain"),
        level,
        k,
        figure["value"],
        figure.get("low"),
        figure.get("high"),
        None if before is None else figure["value"] - before["value"],
        found.get("num_problems"),
        found.get("attempts"),
        sum(unjudged_counts(found.get("unjudged")).values()),
        found.get("fatal") or 0,
    )
    return dict(zip(HEADLINE_COLUMNS, values, strict=True))


def list_difference_rows(shelves: Sequence[Shelf]) -> list[Row]:
    """One row per pair and k: the difference of pass@k, paired by problem."""
    return [
        dict(
            zip(
                DIFFERENCE_COLUMNS,
                (
                    *(d.title, d.base, d.k, d.gap.value, d.gap.low, d.gap.high),
                    *(d.problems, d.excluded, d.gap.p),
                ),
                strict=True,
            )
        )
        for shelf in shelves
        for d in list_differences(shelf)
    ]


def list_problem_rows(shelves: Sequence[Shelf]) -> list[Row]:
    """One row per problem and column whose attempts were kept."""
    rows = []
    for shelf in shelves:
        for name in shelf.names:
            for place, column in enumerate(shelf.columns):
                tally = shelf.tally(place, name)
                if tally is None:
                    continue
                rate = tally.solved / tally.judged if tally.judged else None
                values = (
                    name, tally.level, tally.family, column.title, column.evaluation.name,
                    tally.attempts, tally.judged, tally.unjudged, tally.solved, rate,
                )  # fmt: skip
                rows.append(dict(zip(PROBLEM_COLUMNS, values, strict=True)))
    return rows


def write_tables(
    run_dirs: Sequence[Path], kind: TableFormat, *, out: Path | None = None
) -> list[Path]:
    """Write the tables and return their paths; without ``out`` into the first run's folder.

    CSV takes a file a table: OUT, OUT_differences, OUT_problems and OUT_completions, with the same
    ending, and OUT_warnings.

    Raises:
        RunError: a folder is not a run, or a file cannot be written.
    """
    runs = load_runs(run_dirs)
    shelves = list_shelves(runs)
    path = out or Path(run_dirs[0]) / f"report.{kind}"
    tables = {
        "headline": list_headline_rows(runs),
        "differences": list_difference_rows(shelves),
        "problems": list_problem_rows(shelves),
        "completions": list_completion_rows(runs),
    }
    warnings = [*list_warnings(runs), *list_completion_warnings(runs)]
    if kind == "json":
        text = json.dumps({"warnings": warnings, **tables}, indent=1, ensure_ascii=False)
        return [write_whole(path, text + "\n")]
    if kind == "md":
        return [write_whole(path, _markdown(tables, warnings))]
    written = []
    columns = (HEADLINE_COLUMNS, DIFFERENCE_COLUMNS, PROBLEM_COLUMNS, COMPLETION_COLUMNS)
    for (name, rows), names in zip(tables.items(), columns, strict=True):
        suffix = "" if name == "headline" else f"_{name}"
        file = path.with_name(f"{path.stem}{suffix}{path.suffix}")
        written.append(write_whole(file, _csv(rows, names)))
    file = path.with_name(f"{path.stem}_warnings{path.suffix}")
    return [
        *written,
        write_whole(file, _csv([{"warning": text} for text in warnings], ["warning"])),
    ]


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
