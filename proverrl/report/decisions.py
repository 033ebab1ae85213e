"""What an evaluation says of claims that were decided, beside what chance gives, and of questions
that were answered.

Flows in: summaries of evaluations. Flows out: lines for a terminal, the page and its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proverrl.evaluation.answers import tell_answers
from proverrl.evaluation.decisions import FIGURES
from proverrl.report.run import RunRecord


def describe_decisions(title: str, summary: Mapping[str, Any]) -> str:
    """``After: 60 theorems, 178 variants: right side 71.0 % (64.0-77.0; chance 50.0), ...``, or
    what ``tell_answers`` says; empty for an evaluation that decides and answers nothing."""
    found = summary.get("decisions")
    if not found:
        return tell_answers(title, summary)
    parts = [f"{name} {_describe(found[key])}" for key, name in FIGURES.items()]
    left = f", {found['left_out']:,} left out" if found["left_out"] else ""
    counts = f"{found['theorems']:,} theorems, {found['variants']:,} variants{left}"
    return f"{title}: {counts}: {', '.join(parts)}"


def list_decisions(runs: Sequence[RunRecord]) -> list[str]:
    """A line for each evaluation that decides claims or answers questions."""
    return _tell(runs, describe_decisions)


def _tell(runs: Sequence[RunRecord], tell: Callable[[str, Mapping[str, Any]], str]) -> list[str]:
    lines = (
        tell(f"{run.label}, {name}", evaluation.summary)
        for run in runs
        for name, evaluation in run.evaluations.items()
    )
    return [line for line in lines if line]


def _describe(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None:
        return "-"
    names = ("value", "low", "high", "chance")
    value, low, high, chance = (100 * float(figure[name] or 0.0) for name in names)
    return f"{value:.1f} % ({low:.1f}-{high:.1f}; chance {chance:.1f})"
