"""Evaluations on several benchmarks in one table, as lm-evaluation-harness prints its tasks: a
line a benchmark, figures with standard errors. Beside it a table of their completions.

Flows in: result files. Flows out: rich tables, warnings. Not handled here: comparing them, since
figures on different benchmarks are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from proverrl.evaluation.attempts import read_summary
from proverrl.monitor.display import format_figure, format_share


def make_benchmark_table(results: Sequence[Path]) -> Table:
    """pass@k in percent, plus or minus the standard error over problems, with the 95 % interval.

    Raises RunError for a file that is no result.
    """
    summaries = [read_summary(path) for path in results]
    ks = sorted({int(k) for summary in summaries for k in _whole(summary).get("pass", {})})
    table = Table(title=Text("Solved, %, ± standard error (95 % interval)"), title_justify="left")
    table.add_column("benchmark", overflow="fold")
    for name in ("problems", "attempts", "unjudged", "fatal", *(f"pass@{k}" for k in ks)):
        table.add_column(name, justify="right")
    for summary in summaries:
        whole = _whole(summary)
        table.add_row(
            Text(str(summary.get("split") or summary.get("benchmark") or summary.get("name"))),
            f"{int(whole.get('num_problems', 0)):,}",
            f"{int(whole.get('attempts', 0)):,}",
            f"{int(whole.get('unjudged', 0)):,}",
            # Earlier versions rejected nothing for ending the verifier.
            f"{int(whole.get('fatal', 0)):,}",
            *(_describe(whole.get("pass", {}).get(str(k))) for k in ks),
        )
    return table


def make_completion_table(results: Sequence[Path]) -> Table:
    """What share of each evaluation's completions came to nothing, and what a server counted, where
    one wrote them; dashes for a result of an earlier version.

    Raises RunError for a file that is no result.
    """
    summaries = [read_summary(path) for path in results]
    has_usage = any(summary.get("usage") for summary in summaries)
    table = Table(title=Text("Completions"), title_justify="left")
    table.add_column("evaluation", overflow="fold")
    counted = ("tokens in", "tokens out", "cost") if has_usage else ()
    for name in ("completions", "cut off", "no candidate", *counted):
        # Figures stand whole on a terminal of any width.
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            Text(str(summary.get("name"))),
            format_figure(summary.get("completions")),
            format_share(summary.get("truncated_share")),
            format_share(summary.get("without_candidate_share")),
            *(_describe_usage(summary.get("usage") or {}) if has_usage else ()),
        )
    return table


def list_result_warnings(results: Sequence[Path]) -> list[str]:
    """The warnings of each result, after its name. Raises RunError for a file that is none."""
    summaries = [read_summary(path) for path in results]
    return [f"{s.get('name')}: {text}" for s in summaries for text in s.get("warnings") or ()]


def _describe_usage(usage: dict[str, Any]) -> tuple[str, str, str]:
    return (
        format_figure(usage.get("prompt_tokens")),
        format_figure(usage.get("completion_tokens")),
        format_figure(usage.get("cost"), 2),
    )


def _whole(summary: dict[str, Any]) -> dict[str, Any]:
    levels = summary.get("levels") or [{}]
    return dict(levels[0])


def _describe(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["num_problems"]:
        return "-"
    value, low, high = (100 * figures[name] for name in ("value", "low", "high"))
    error = f" ± {100 * figures['stderr']:.1f}" if figures.get("stderr") is not None else ""
    return f"{value:.1f}{error} ({low:.1f}-{high:.1f})"
