"""The outcomes of completions and their costs.

Flows in: run records, result files. Flows out: a row for the training of each run and for each
evaluation, tables of them, lines for a terminal, warnings. Not handled here: verdicts
(``sections``), spending per problem (``proverrl.evaluation.budgets``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from proverrl.evaluation.attempts import read_summary
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.monitor.console import open_table
from proverrl.monitor.display import format_figure, format_share
from proverrl.report.run import Row, RunRecord
from proverrl.rollout.completion_counts import describe_lost, sum_figures, warn_of_lost

_SHOWN = (
    "completions", "truncated_share", "without_candidate_share", "without_candidate_reason",
    "prompt_tokens", "completion_tokens", "cost",
)  # fmt: skip


def list_completion_rows(runs: Sequence[RunRecord]) -> list[Row]:
    """One row for the training of a run and one for each of its evaluations."""
    rows = []
    for run in runs:
        if run.steps:
            rows.append(_row(f"{run.label}: training", sum_steps(run.steps)))
        rows += [_row(_name(run, item), item.summary) for item in run.evaluations.values()]
    return rows


def sum_steps(steps: Sequence[Mapping[str, Any]]) -> Row:
    """The figures of all steps together."""
    counts = sum_figures(steps, num="turns")
    return {} if counts is None else {"completions": counts.num, **counts.figures()}


def _row(where: str, figures: Mapping[str, Any]) -> Row:
    values = {**figures, **(figures.get("usage") or {})}
    return {"where": where, **{name: values.get(name) for name in _SHOWN}}


def _name(run: RunRecord, evaluation: StoredEvaluation) -> str:
    # A run that only evaluates is labelled so by default.
    kind = "" if run.only_evaluates else "evaluation "
    return f"{run.label}: {kind}{evaluation.name}"


def list_completion_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Sentences about more than half of the completions that came to nothing."""
    found = []
    for run in runs:
        config = run.config
        training = warn_of_lost(
            sum_steps(run.steps),
            max_new_tokens=(config.get("sampling") or {}).get("max_new_tokens"),
            layout=(config.get("policy") or {}).get("layout"),
        )
        found += [f"{run.label}: training: {text}" for text in training.values() if text]
        for evaluation in run.evaluations.values():
            texts = evaluation.summary.get("warnings") or ()
            found += [f"{_name(run, evaluation)}: {text}" for text in texts]
    return found


def describe_completions(title: str, evaluation: StoredEvaluation) -> str:
    """A line on what came to nothing and what a server counted; empty when there is neither."""
    summary = evaluation.summary
    parts = []
    if lost := describe_lost(summary):
        reason = summary.get("without_candidate_reason")
        parts.append(f"of {format_figure(summary.get('completions'))} completions {lost}")
        parts[0] += f" (most often: {reason})" if reason else ""
    if usage := summary.get("usage"):
        parts.append(describe_usage(usage))
    return f"{title}: {'; '.join(parts)}" if parts else ""


def describe_usage(usage: Mapping[str, Any]) -> str:
    """``12,300 tokens in, 45,600 out, cost 0.52``, and of how many requests that is not known."""
    text = f"{usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out"
    if usage.get("cost") is not None:
        text += f", cost {usage['cost']:,.2f}"
    if usage["unreported"]:
        text += f"; the server did not count {usage['unreported']:,} of {usage['requests']:,}"
        text += " requests"
    return text


def list_completion_cells(runs: Sequence[RunRecord]) -> list[list[str]]:
    """The page's table, its heads first; empty when nothing was written. Columns of what a server
    counted are left out where none did."""
    rows = list_completion_rows(runs)
    if not rows:
        return []
    has_usage = any(row["prompt_tokens"] is not None for row in rows)
    heads = ["Where", "Completions", "Cut off", "No candidate", "Most often because"]
    heads += ["Tokens in", "Tokens out", "Cost"] if has_usage else []
    return [
        heads,
        *(
            [
                row["where"],
                *_describe_counts(row),
                row["without_candidate_reason"] or "-",
                *(_describe_usage(row) if has_usage else ()),
            ]
            for row in rows
        ),
    ]


def _describe_counts(figures: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        format_figure(figures.get("completions")),
        format_share(figures.get("truncated_share")),
        format_share(figures.get("without_candidate_share")),
    )


def _describe_usage(usage: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        format_figure(usage.get("prompt_tokens")),
        format_figure(usage.get("completion_tokens")),
        format_figure(usage.get("cost"), 2),
    )


def make_completion_table(results: Sequence[Path]) -> Table:
    """The share of each evaluation's completions that came to nothing, and a server's counts, where
    one wrote them.

    Raises RunError for a file that is no result.
    """
    summaries = [read_summary(path) for path in results]
    has_usage = any(summary.get("usage") for summary in summaries)
    table = open_table("Completions")
    table.add_column("evaluation", overflow="fold")
    counted = ("tokens in", "tokens out", "cost") if has_usage else ()
    for name in ("completions", "cut off", "no candidate", *counted):
        # Figures stand whole on a terminal of any width.
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            Text(str(summary.get("name"))),
            *_describe_counts(summary),
            *(_describe_usage(summary.get("usage") or {}) if has_usage else ()),
        )
    return table


def list_result_warnings(results: Sequence[Path]) -> list[str]:
    """The warnings of each result, after its name. Raises RunError for a file that is none."""
    summaries = [read_summary(path) for path in results]
    return [f"{s.get('name')}: {text}" for s in summaries for text in s.get("warnings") or ()]
