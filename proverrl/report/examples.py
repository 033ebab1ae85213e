"""Solved and unsolved held-out problems of each level, with the verifier's messages.

Flows in: the attempts of an evaluation. Flows out: ``Example`` records and their HTML.
Not handled here: training rollouts, which the page's browser shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from proverrl.evaluation.stored import StoredEvaluation
from proverrl.evaluation.tally import ProblemTally, fetch_rows
from proverrl.report.headline import choose_evaluation
from proverrl.report.listing import render_listing
from proverrl.report.run import Row, RunRecord
from proverrl.report.sections import name_of
from proverrl.types import Status

EXAMPLES_PER_KIND = 2


@dataclass(frozen=True, slots=True)
class Example:
    """One problem, how its attempts went, and the place of the attempt to show in their file."""

    tally: ProblemTally
    place: int


def choose_examples(evaluation: StoredEvaluation) -> dict[str, tuple[list[Example], list[Example]]]:
    """Per level: problems with a proof (the rarest proofs first), and problems without one.

    Of a solved problem the shortest proof is shown, of an unsolved one the most frequent failure;
    a problem with no judged attempt is in neither list.
    """
    levels: dict[str, tuple[list[Example], list[Example]]] = {}
    for tally in evaluation.attempts.problems.values():
        if not tally.judged:
            continue
        solved, unsolved = levels.setdefault(tally.level, ([], []))
        if tally.proofs:
            solved.append(Example(tally, tally.proofs[0][2]))
        else:
            unsolved.append(Example(tally, tally.common_failures[0][1]))
    for solved, _ in levels.values():
        solved.sort(key=lambda item: item.tally.solved / item.tally.judged)
    return {
        level: (solved[:EXAMPLES_PER_KIND], unsolved[:EXAMPLES_PER_KIND])
        for level, (solved, unsolved) in sorted(levels.items(), key=lambda pair: pair[0].zfill(9))
    }


def render_examples(runs: Sequence[RunRecord]) -> str:
    """The section's HTML, or a sentence that says what is missing."""
    parts = []
    for run in runs:
        evaluation = choose_evaluation(run)
        if evaluation is None or not evaluation.attempts.total:
            what = "No evaluation yet" if evaluation is None else "The attempts were not kept"
            name = f"{run.label}: " if len(runs) > 1 else ""
            parts.append(f'<p class="empty">{escape(name)}{what}.</p>')
            continue
        if len(runs) > 1:
            parts.append(f"<h3>{escape(name_of(run))}</h3>")
        parts.append(
            f'<p class="lead">From the evaluation “{escape(evaluation.name)}”. '
            "The text that the policy wrote is highlighted.</p>"
        )
        for level, (solved, unsolved) in choose_examples(evaluation).items():
            parts.append(_render_level(run, evaluation, level, solved, unsolved))
    return "".join(parts)


def _render_level(
    run: RunRecord,
    evaluation: StoredEvaluation,
    level: str,
    solved: Sequence[Example],
    unsolved: Sequence[Example],
) -> str:
    items = [*solved, *unsolved]
    rows = fetch_rows(evaluation.attempts, [item.place for item in items])
    cards = "".join(
        _render_example(item.tally, row, run.problems.get(item.tally.problem_id))
        for item, row in zip(items, rows, strict=True)
    )
    missing = "" if solved else "none solved"
    missing = missing or ("" if unsolved else "none left unsolved")
    note = f' <span class="dim">{missing}</span>' if missing else ""
    return f'<h4>Level {escape(level)}{note}</h4><div class="cards">{cards}</div>'


def _render_example(tally: ProblemTally, row: Row, problem: Mapping[str, Any] | None) -> str:
    status = str(row.get("status"))
    lost = tally.unjudged
    text = f"{tally.solved} of {tally.judged} attempts proved"
    if lost:
        text += f", {lost} unjudged"
    note = "" if problem else '<p class="dim">The problem’s text was not found; its body alone.</p>'
    listing = render_listing(
        problem or {}, str(row.get("body") or ""), row.get("diagnostics") or ()
    )
    family = escape(str(row.get("family") or ""))
    return (
        f'<details class="card"><summary>{render_badge(status)}'
        f'<span class="id">{escape(str(row.get("problem_id")))}</span>'
        f'<span class="dim">{family}</span><span class="tally">{text}</span></summary>'
        f"{note}{listing}</details>"
    )


def render_badge(status: str) -> str:
    """The status as a coloured word; one that is not a known status stays plain."""
    css = status if status in {item.value for item in Status} else "unknown"
    return f'<span class="badge {css}">{escape(status)}</span>'
