"""Solved and unsolved held-out problems of each level, with the verifier's messages.

Flows in: the attempts of an evaluation. Flows out: ``Example`` records and their HTML.
Not handled here: training rollouts, which the page's browser shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from proverrl.report.listing import render_listing
from proverrl.report.run import Evaluation, Row, RunRecord
from proverrl.types import Status

EXAMPLES_PER_KIND = 2
JUDGED = {status.value for status in Status if status.judged}


@dataclass(frozen=True, slots=True)
class Example:
    """One problem, the attempt to show of it, and how its attempts went."""

    attempt: Row
    solved: int
    judged: int
    attempts: int


def choose_examples(evaluation: Evaluation) -> dict[str, tuple[list[Example], list[Example]]]:
    """Per level: problems with a proof (the rarest proofs first), and problems without one.

    Of an unsolved problem the first judged attempt is shown; a problem with no judged attempt
    is in neither list.
    """
    by_problem: dict[str, list[Row]] = {}
    for row in evaluation.attempts:
        by_problem.setdefault(str(row.get("problem_id")), []).append(row)
    levels: dict[str, tuple[list[Example], list[Example]]] = {}
    for rows in by_problem.values():
        judged = [row for row in rows if row.get("status") in JUDGED]
        proofs = [row for row in judged if row.get("status") == Status.PROVED.value]
        if not judged:
            continue
        solved, unsolved = levels.setdefault(str(rows[0].get("level", 0)), ([], []))
        example = Example((proofs or judged)[0], len(proofs), len(judged), len(rows))
        (solved if proofs else unsolved).append(example)
    for solved, _ in levels.values():
        solved.sort(key=lambda item: item.solved / item.judged)
    return {
        level: (solved[:EXAMPLES_PER_KIND], unsolved[:EXAMPLES_PER_KIND])
        for level, (solved, unsolved) in sorted(levels.items(), key=lambda pair: pair[0].zfill(9))
    }


def render_examples(runs: Sequence[RunRecord]) -> str:
    """The section's HTML, or a sentence that says what is missing."""
    parts = []
    for run in runs:
        evaluation = run.after or (run.others[-1] if run.others else run.before)
        if evaluation is None or not evaluation.attempts:
            what = "No evaluation yet" if evaluation is None else "The attempts were not kept"
            name = f"{run.label}: " if len(runs) > 1 else ""
            parts.append(f'<p class="empty">{escape(name)}{what}.</p>')
            continue
        if len(runs) > 1:
            parts.append(f"<h3>{escape(run.label[:1].upper() + run.label[1:])}</h3>")
        parts.append(
            f'<p class="lead">From the evaluation “{escape(evaluation.name)}”. '
            "The text that the policy wrote is highlighted.</p>"
        )
        for level, (solved, unsolved) in choose_examples(evaluation).items():
            parts.append(_render_level(run, level, solved, unsolved))
    return "".join(parts)


def _render_level(
    run: RunRecord, level: str, solved: Sequence[Example], unsolved: Sequence[Example]
) -> str:
    items = [*solved, *unsolved]
    cards = "".join(
        _render_example(item, run.problems.get(str(item.attempt.get("problem_id"))))
        for item in items
    )
    missing = "" if solved else "none solved"
    missing = missing or ("" if unsolved else "none left unsolved")
    note = f' <span class="dim">{missing}</span>' if missing else ""
    return f'<h4>Level {escape(level)}{note}</h4><div class="cards">{cards}</div>'


def _render_example(example: Example, problem: Mapping[str, Any] | None) -> str:
    row = example.attempt
    status = str(row.get("status"))
    lost = example.attempts - example.judged
    tally = f"{example.solved} of {example.judged} attempts proved"
    if lost:
        tally += f", {lost} unjudged"
    note = "" if problem else '<p class="dim">The problem’s text was not found; its body alone.</p>'
    listing = render_listing(
        problem or {}, str(row.get("body") or ""), row.get("diagnostics") or ()
    )
    family = escape(str(row.get("family") or ""))
    return (
        f'<details class="card"><summary>{render_badge(status)}'
        f'<span class="id">{escape(str(row.get("problem_id")))}</span>'
        f'<span class="dim">{family}</span><span class="tally">{tally}</span></summary>'
        f"{note}{listing}</details>"
    )


def render_badge(status: str) -> str:
    """The status as a coloured word; one that is not a known status stays plain."""
    css = status if status in {item.value for item in Status} else "unknown"
    return f'<span class="badge {css}">{escape(status)}</span>'
