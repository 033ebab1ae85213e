"""The before/after table: one set of columns and cells for the page and for the terminal; and
evaluations on several benchmarks in one table.

Flows in: run records, result files. Flows out: ``Column`` and ``Cell`` records, and rich tables.
Not handled here: computing pass@k; comparing figures on different benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from proverrl.config.loops import known_traits
from proverrl.evaluation.attempts import read_summary
from proverrl.evaluation.section import tell_all
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.monitor.console import open_table
from proverrl.monitor.display import format_seconds
from proverrl.report.completions import describe_completions, list_completion_warnings
from proverrl.report.run import Row, RunRecord, load_runs, unjudged_counts


@dataclass(frozen=True, slots=True)
class Column:
    """One evaluation in the table. ``base`` is what its difference is measured against."""

    title: str
    evaluation: StoredEvaluation
    base: StoredEvaluation | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """pass@k in percent with its 95 % interval, and the difference to before in points."""

    value: float
    low: float | None
    high: float | None
    difference: float | None
    unjudged: int
    attempts: int

    @property
    def interval(self) -> str:
        if self.low is None or self.high is None:
            return "no interval"
        return f"{self.low:.1f}–{self.high:.1f}"

    @property
    def width(self) -> float | None:
        """The width of the interval, at least the smallest that can be seen."""
        if self.low is None or self.high is None:
            return None
        return max(0.6, self.high - self.low)

    @property
    def direction(self) -> Literal["up", "down", "same"]:
        if self.difference is None or abs(self.difference) < 0.05:
            return "same"
        return "up" if self.difference > 0 else "down"


def signed(points: float) -> str:
    """A difference with its sign, so that it reads as a difference; zero has none."""
    text = f"{abs(points):.1f}"
    if float(text) == 0.0:
        return text
    return ("+" if points > 0 else "−") + text


def list_columns(runs: Sequence[RunRecord]) -> list[Column]:
    """Before (once, when all runs start from the same figures), then the rest of each run."""
    columns: list[Column] = []
    befores = [run.before for run in runs if run.before is not None]
    shared = bool(befores) and all(_same(befores[0], item) for item in befores)
    if shared:
        columns.append(Column("Before", befores[0]))
    for run in runs:
        if run.before is not None and not shared:
            columns.append(Column(_title("Before", run, runs), run.before))
        named = [("After", run.after)] if run.after is not None else []
        named += [(evaluation.name, evaluation) for evaluation in run.others]
        for name, evaluation in named:
            base = run.before if _shows_change(run.before, evaluation) else None
            columns.append(Column(_title(name, run, runs), evaluation, base))
    return columns


def group_by_benchmark(columns: Sequence[Column]) -> list[list[Column]]:
    """The columns that may stand in one table, in the order of their first column."""
    groups: dict[tuple[str, str], list[Column]] = {}
    for column in columns:
        groups.setdefault(column.evaluation.benchmark, []).append(column)
    return list(groups.values())


def _title(name: str, run: RunRecord, runs: Sequence[RunRecord]) -> str:
    if len(runs) == 1:
        return name
    return f"{name} {run.label}" if name == "After" else f"{name}, {run.label}"


def _shows_change(before: StoredEvaluation | None, after: StoredEvaluation) -> bool:
    """True when a difference is one of the policies: the same problems, asked in the same way."""
    if before is None or before.benchmark != after.benchmark:
        return False
    keys = ("mode", "num_problems")
    return all(before.summary.get(key) == after.summary.get(key) for key in keys)


def _same(one: StoredEvaluation, two: StoredEvaluation) -> bool:
    keys = ("benchmark_sha256", "samples_per_problem", "temperature", "top_p", "top_k", "levels")
    return all(one.summary.get(key) == two.summary.get(key) for key in keys)


def list_levels(columns: Sequence[Column]) -> list[str]:
    """All levels of all columns, "all" first, then by number."""
    names = {
        str(row.get("level"))
        for column in columns
        for row in column.evaluation.summary.get("levels", ())
    }
    return sorted(names, key=lambda name: (name != "all", not name.isdigit(), name.zfill(9)))


def list_ks(columns: Sequence[Column]) -> list[int]:
    """Every k that some column has a pass@k for, smallest first."""
    return sorted(
        {
            int(k)
            for column in columns
            for row in column.evaluation.summary.get("levels", ())
            for k in row.get("pass") or {}
        }
    )


def find_cell(column: Column, level: str, k: int) -> Cell | None:
    """The figure of one column; None when it was not measured."""
    row = column.evaluation.level(level)
    figure = find_figure(row, k)
    if row is None or figure is None:
        return None
    before = find_figure(column.base.level(level), k) if column.base is not None else None
    value = 100.0 * float(figure["value"])
    return Cell(
        value=value,
        low=_percent(figure.get("low")),
        high=_percent(figure.get("high")),
        difference=None if before is None else value - 100.0 * float(before["value"]),
        unjudged=sum(unjudged_counts(row.get("unjudged")).values()),
        attempts=int(row.get("attempts") or 0),
    )


def find_figure(row: Row | None, k: int) -> Row | None:
    """The figure of a level; None also when no problem had enough judged attempts."""
    figure: Row | None = (row or {}).get("pass", {}).get(str(k))
    if figure is None or figure["value"] is None or figure.get("num_problems") == 0:
        return None
    return figure


def _percent(value: float | None) -> float | None:
    return None if value is None else 100.0 * float(value)


def headline_table(run_dirs: Sequence[Path]) -> Group:
    """Per level: before, after, the difference and 95 % intervals; then what each run cost.

    A table for each benchmark. Raises RunError for a folder that is not a run.
    """
    runs = load_runs(run_dirs)
    columns = list_columns(runs)
    parts: list[Table | Text] = [_build_table(group) for group in group_by_benchmark(columns)]
    if not columns:
        parts.append(Text("No evaluation has finished yet."))
    notes = [describe_cost(run) for run in runs] + [describe_unjudged(item) for item in columns]
    for item in columns:
        notes += tell_all(item.title, item.evaluation.summary)
    notes += [describe_completions(item.title, item.evaluation) for item in columns]
    notes += [f"warning: {text}" for text in list_completion_warnings(runs)]
    parts += [Text(note) for note in notes if note]
    return Group(*parts)


def _name_group(columns: Sequence[Column]) -> str:
    summary = columns[0].evaluation.summary
    name = str(summary.get("split") or summary.get("benchmark") or "problems")
    changes = " and the change in points" if any(column.base for column in columns) else ""
    return f"Solved on {name}, %, with 95 % intervals{changes}"


def _build_table(columns: Sequence[Column]) -> Table:
    table = open_table(_name_group(columns))
    table.add_column("level")
    table.add_column("pass@", justify="right")
    for column in columns:
        table.add_column(Text(column.title), justify="right")
    for level in list_levels(columns):
        for k in list_ks(columns):
            cells = [find_cell(column, level, k) for column in columns]
            table.add_row(level, str(k), *(describe_cell(cell) for cell in cells))
        table.add_section()
    return table


def describe_unjudged(column: Column) -> str:
    """Counts of an evaluation's attempts without a verdict and of those rejected because they
    ended the verifier; empty when there is neither."""
    row = column.evaluation.level("all") or {}
    lost, fatal = sum(unjudged_counts(row.get("unjudged")).values()), row.get("fatal") or 0
    if not lost and not fatal:
        return ""
    text = f"{column.title}: {lost:,} of {int(row.get('attempts') or 0):,} attempts unjudged"
    return f"{text}, {fatal:,} fatal" if fatal else text


def describe_cell(cell: Cell | None) -> str:
    """``46.5 (40.0-53.0) +15.3``: value, interval, difference to before."""
    if cell is None:
        return "-"
    text = f"{cell.value:.1f} ({cell.interval})"
    if cell.difference is not None:
        text += f" {signed(cell.difference)}"
    return text


def describe_cost(run: RunRecord) -> str:
    """One line: steps, verifier calls of the loop and of evaluations, seconds."""
    summaries = [evaluation.summary for evaluation in run.evaluations.values()]
    calls = sum(int(summary.get("verifier_calls") or 0) for summary in summaries)
    if run.only_evaluates:
        seconds = sum(float(summary.get("seconds") or 0.0) for summary in summaries)
        spent = f"{seconds:,.0f} s ({format_seconds(seconds)})"
        return f"{run.label}: {calls:,} verifier calls, {spent}"
    text = (
        f"{run.label}: {describe_length(run)}, {run.verifier_calls:,} verifier calls in the loop, "
        f"{calls:,} in evaluations, {run.seconds:,.0f} s ({format_seconds(run.seconds)})"
    )
    return f"{text}; {ending}" if (ending := describe_limit(run)) else text


def describe_length(run: RunRecord) -> str:
    """``3 of 40 steps`` where the steps end the run, else ``3 steps``; of a run that is only a warm
    start its steps."""
    if run.loop == "warm_start":
        made = (row.get("step") or 0 for row in run.metrics if row.get("kind") == "sft")
        return f"{max(made, default=0):,} steps of warm start"
    kind = run.steps[-1].get("kind") if run.steps else known_traits(run.loop).unit
    unit = f"{kind}s"
    if run.limits and run.limits[0].unit == unit:
        return run.limits[0].describe()
    return f"{run.steps[-1].get('step', 0) if run.steps else 0} {unit}"


def describe_limit(run: RunRecord) -> str:
    """The limit on calls or time that ended the loop or will; empty where its steps do."""
    nearest = run.limits[0] if run.limits else None
    if nearest is None or nearest.unit in ("steps", "rounds"):
        return ""
    if nearest.used < nearest.most:
        return f"the loop has used {nearest.describe()}"
    return f"its limit of {nearest.describe_most()} ended the loop"


def make_benchmark_table(results: Sequence[Path]) -> Table:
    """pass@k in percent, plus or minus the standard error over problems, with the 95 % interval.

    Raises RunError for a file that is no result.
    """
    summaries = [read_summary(path) for path in results]
    ks = sorted({int(k) for summary in summaries for k in _whole(summary).get("pass", {})})
    table = open_table("Solved, %, ± standard error (95 % interval)")
    table.add_column("benchmark", overflow="fold")
    for name in ("problems", "attempts", "unjudged", "fatal", *(f"pass@{k}" for k in ks)):
        table.add_column(name, justify="right")
    for name, whole in _list_rows(summaries):
        table.add_row(
            Text(name),
            f"{int(whole.get('num_problems', 0)):,}",
            f"{int(whole.get('attempts', 0)):,}",
            f"{int(whole.get('unjudged', 0)):,}",
            f"{int(whole.get('fatal', 0)):,}",
            *(_describe_figure(whole.get("pass", {}).get(str(k))) for k in ks),
        )
    return table


def _list_rows(summaries: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each benchmark, and, of one for critics, what it judged, indented."""
    for summary in summaries:
        yield (
            str(summary.get("split") or summary.get("benchmark") or summary.get("name")),
            _whole(summary),
        )
        for row in summary.get("levels", ()):
            if row["level"] != "all" and not str(row["level"]).isdigit():
                yield f"  {row['level']}", row


def _whole(summary: dict[str, Any]) -> dict[str, Any]:
    levels = summary.get("levels") or [{}]
    return dict(levels[0])


def _describe_figure(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["num_problems"]:
        return "-"
    value, low, high = (100 * figures[name] for name in ("value", "low", "high"))
    error = f" ± {100 * figures['stderr']:.1f}" if figures.get("stderr") is not None else ""
    return f"{value:.1f}{error} ({low:.1f}-{high:.1f})"
