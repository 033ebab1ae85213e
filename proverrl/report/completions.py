"""What became of completions and what they cost: as rows, as words, and as the report's section.

Flows in: run records. Flows out: a row for the training of each run and for each evaluation, lines
for a terminal, escaped HTML, warnings. Figures that a run of an earlier version did not store are
None. Not handled here: verdicts (``sections``), spending per problem (``budgets``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from proverrl.evaluation.stored import StoredEvaluation
from proverrl.monitor.display import format_figure, format_share
from proverrl.report.run import Row, RunRecord
from proverrl.rollout.completion_counts import describe_lost, sum_figures, warn_of_lost

COMPLETION_COLUMNS = (
    "run", "where", "completions", "truncated_share", "without_candidate_share",
    "without_candidate_reason", "prompt_tokens", "completion_tokens", "cost",
)  # fmt: skip


def list_completion_rows(runs: Sequence[RunRecord]) -> list[Row]:
    """One row for the training of a run and one for each of its evaluations."""
    rows = []
    for run in runs:
        if run.steps:
            rows.append(_row(run, f"{run.label}: training", sum_steps(run.steps)))
        rows += [_row(run, _name(run, item), item.summary) for item in run.evaluations.values()]
    return rows


def sum_steps(steps: Sequence[Mapping[str, Any]]) -> Row:
    """The figures of all steps together."""
    counts = sum_figures(steps, num="turns")
    return {} if counts is None else {"completions": counts.num, **counts.figures()}


def _row(run: RunRecord, where: str, figures: Mapping[str, Any]) -> Row:
    values = {**figures, **(figures.get("usage") or {})}
    return {
        **{name: values.get(name) for name in COMPLETION_COLUMNS},
        "run": str(run.path),
        "where": where,
    }


def _name(run: RunRecord, evaluation: StoredEvaluation) -> str:
    # What only evaluates is labelled so by default.
    kind = "" if run.only_evaluates else "evaluation "
    return f"{run.label}: {kind}{evaluation.name}"


def list_completion_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """What more than half of the completions came to, where that was nothing."""
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


def render_completions(runs: Sequence[RunRecord]) -> str:
    """The table of the page."""
    rows = list_completion_rows(runs)
    if not rows:
        return '<p class="empty">Nothing has been written by a policy yet.</p>'
    has_usage = any(row["prompt_tokens"] is not None for row in rows)
    heads = ["Where", "Completions", "Cut off", "No candidate", "Most often because"]
    heads += ["Tokens in", "Tokens out", "Cost"] if has_usage else []
    body = "".join(_render_row(row, has_usage=has_usage) for row in rows)
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f'<div class="scroll"><table class="completions"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _render_row(row: Row, *, has_usage: bool) -> str:
    cells = [
        format_figure(row["completions"]),
        format_share(row["truncated_share"]),
        format_share(row["without_candidate_share"]),
        row["without_candidate_reason"] or "-",
    ]
    if has_usage:
        cells += [format_figure(row[name]) for name in ("prompt_tokens", "completion_tokens")]
        cells.append(format_figure(row["cost"], 2))
    found = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(str(row["where"]))}</th>{found}</tr>'
