"""Solved and unsolved held-out problems of each level, with the verifier's messages in place.

Flows in: the attempts of an evaluation, texts of problems. Flows out: examples, and the numbered
lines of each, for the templates, which escape all text. Not handled here: training rollouts, which
the page's browser shows; highlighting of the language's syntax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.evaluation.tally import ProblemTally, StoredEvaluation, fetch_rows
from proverrl.report.run import Row, RunRecord
from proverrl.types import HOLE

EXAMPLES_PER_KIND = 2
MAX_LISTING_LINES = 400

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """One problem, how its attempts went, and the place of the attempt to show in their file."""

    tally: ProblemTally
    place: int


def choose_examples(evaluation: StoredEvaluation) -> dict[str, tuple[list[Example], list[Example]]]:
    """Per level: problems with a proof (the rarest proofs first), and problems without one.

    A solved problem shows its shortest proof, an unsolved one its most frequent failure; a problem
    with no judged attempt is in neither list.
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


def list_examples(
    run: RunRecord, evaluation: StoredEvaluation
) -> list[tuple[str, str, list[tuple[Row, str, Row | None]]]]:
    """The name of each level, what has no example, and the examples: each as the stored attempt,
    how its problem's attempts went, and the problem's text, where it was found."""
    levels = []
    for level, (solved, unsolved) in choose_examples(evaluation).items():
        missing = "" if solved and unsolved else "none left unsolved" if solved else "none solved"
        items = [*solved, *unsolved]
        rows = fetch_rows(evaluation.attempts, [item.place for item in items])
        examples = []
        for item, row in zip(items, rows, strict=True):
            tally = item.tally
            text = f"{tally.solved} of {tally.judged} attempts proved"
            text += f", {tally.unjudged} unjudged" if tally.unjudged else ""
            examples.append((row, text, run.problems.get(tally.problem_id)))
        levels.append((level, missing, examples))
    return levels


@dataclass(frozen=True, slots=True)
class ListingLine:
    """A line of a listing. ``marked`` is what the policy wrote of it; ``is_body`` says whether the
    line is part of that at all, as an empty one may be."""

    number: int
    before: str
    marked: str
    after: str
    is_body: bool
    messages: Messages


@dataclass(frozen=True, slots=True)
class Listing:
    """A problem with a proposed body: messages about all of it, lines, how many are left out."""

    on_top: Messages
    lines: Sequence[ListingLine]
    num_more: int


def make_listing(problem: Mapping[str, Any] | None, body: str, diagnostics: Messages) -> Listing:
    """The assembled file, each message with the line it points at; the body alone if no problem."""
    problem = problem or {}
    above, _, rest = str(problem.get("statement") or HOLE).partition(HOLE)
    head = str(problem.get("preamble") or "") + above
    texts = (head + body + rest).removesuffix("\n").split("\n")
    messages = place_messages(diagnostics, len(texts))
    lines, offset = [], 0
    for number, text in enumerate(texts[:MAX_LISTING_LINES], start=1):
        start, end = len(head) - offset, len(head) + len(body) - offset
        left, right = max(0, min(start, len(text))), max(0, min(end, len(text)))
        lines.append(
            ListingLine(
                number,
                text[:left],
                text[left:right],
                text[right:],
                right > left or start < 0 < end,
                messages.get(number, ()),
            )
        )
        offset += len(text) + 1
    return Listing(messages.get(0, ()), lines, max(0, len(texts) - MAX_LISTING_LINES))


def place_messages(diagnostics: Messages, num_lines: int) -> dict[int, list[Mapping[str, Any]]]:
    """Messages by line; those that point outside the file come under line 0, at the top."""
    placed: dict[int, list[Mapping[str, Any]]] = {}
    for item in diagnostics:
        line = int(item.get("line") or 0)
        placed.setdefault(line if 1 <= line <= num_lines else 0, []).append(item)
    return placed
