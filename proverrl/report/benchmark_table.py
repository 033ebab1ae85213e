"""Evaluations on several benchmarks in one table, as lm-evaluation-harness prints its tasks: a
line a benchmark, figures with standard errors.

Flows in: result files. Flows out: a rich table. Not handled here: comparing them, since figures on
different benchmarks are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from proverrl.attempt_rows import read_summary


def make_benchmark_table(results: Sequence[Path]) -> Table:
    """pass@k in percent, plus or minus the standard error over problems, with the 95 % interval.

    Raises RunError for a file that is no result.
    """
    summaries = [read_summary(path) for path in results]
    ks = sorted({int(k) for summary in summaries for k in _whole(summary).get("pass", {})})
    table = Table(title=Text("Solved, %, ± standard error (95 % interval)"), title_justify="left")
    table.add_column("benchmark", overflow="fold")
    for name in ("problems", "attempts", "unjudged", *(f"pass@{k}" for k in ks)):
        table.add_column(name, justify="right")
    for summary in summaries:
        whole = _whole(summary)
        table.add_row(
            Text(str(summary.get("split") or summary.get("benchmark") or summary.get("name"))),
            f"{int(whole.get('num_problems', 0)):,}",
            f"{int(whole.get('attempts', 0)):,}",
            f"{int(whole.get('unjudged', 0)):,}",
            *(_describe(whole.get("pass", {}).get(str(k))) for k in ks),
        )
    return table


def _whole(summary: dict[str, Any]) -> dict[str, Any]:
    levels = summary.get("levels") or [{}]
    return dict(levels[0])


def _describe(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["num_problems"]:
        return "-"
    value, low, high = (100 * figures[name] for name in ("value", "low", "high"))
    error = f" ± {100 * figures['stderr']:.1f}" if figures.get("stderr") is not None else ""
    return f"{value:.1f}{error} ({low:.1f}-{high:.1f})"
