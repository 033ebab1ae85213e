"""Statements that were written from words, beside the words and what was found out about them.

Flows in: ``evals/NAME.statements.jsonl`` of runs (``proverrl.lab.words.formalize``). Flows out:
rows of a table for each text, for the templates. Of long files the first texts are shown, and the
rest is counted. Not handled here: how a statement is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.evaluation.section import Card, ReportSection, Row, SectionPart
from proverrl.files.lines import EVALS_FOLDER, ROW, iter_typed_lines
from proverrl.lab.words.decided import (
    describe_answer,
    describe_decision,
    summarise_answers,
    summarise_decisions,
    tell_answers,
    tell_decisions,
)
from proverrl.lab.words.emptiness import find_grade
from proverrl.types import Candidate, Problem, Verdict

HEADS = ["Statement", "Samples", "Agree", "Judgement", "Means what is meant", "Critic"]
SUFFIX = ".statements.jsonl"
_MAX_TEXTS = 50
_ANEW = "delete it, and the same `proverrl words formalize` makes it anew"
_Count = Annotated[int, Field(ge=0)]


@with_config(ROW)
class _StatementRow(TypedDict):
    problem_id: str
    informal: str
    num_samples: _Count
    body: str
    count: _Count
    dropped: str
    meant: NotRequired[str]
    agreeing: NotRequired[_Count]
    means: NotRequired[bool | None]
    critic: NotRequired[str]
    critic_says: NotRequired[bool | None]


_STATEMENT = TypeAdapter(_StatementRow)


class WordsSection(ReportSection):
    """Statements with the words that they were written from, decisions, answers and programs."""

    title = "Statements"
    lead = (
        "Statements and programs, beside the words that they were written from. Agreement of "
        "samples, and that a statement means what is meant, are proved. Texts that do not say what "
        "is meant never count as proved in the figures of this page."
    )

    def note(
        self, problem: Problem, candidate: Candidate | None, verdict: Verdict | None
    ) -> Mapping[str, Any]:
        """See ``ReportSection``."""
        grade = find_grade(problem, candidate, verdict)
        return {
            **describe_decision(problem, candidate),
            **describe_answer(problem, candidate),
            **({"grade": grade} if grade else {}),
        }

    def summarise(
        self,
        problems: Sequence[Problem],
        rows: Sequence[Row],
        group: Callable[[Sequence[Problem]], Row],
    ) -> Mapping[str, Any]:
        """See ``ReportSection``."""
        grades = Counter(row["grade"] for row in rows if "grade" in row)
        return {
            **summarise_decisions(rows),
            **summarise_answers(rows),
            **({"grades": dict(sorted(grades.items()))} if grades else {}),
        }

    def tell(self, title: str, summary: Row) -> str:
        """See ``ReportSection``."""
        lines = (tell_decisions, tell_answers, tell_grades)
        return next(filter(None, (tell(title, summary) for tell in lines)), "")

    def show(self, label: str, run: Path) -> list[SectionPart]:
        """See ``ReportSection``: a part for each file of statements."""
        found = []
        for path in sorted((run / EVALS_FOLDER).glob(f"*{SUFFIX}")):
            rows = [row for _, _, row in iter_typed_lines(path, _STATEMENT, _ANEW)]
            grouped = groupby(rows, key=itemgetter("problem_id"))
            texts = [(name, list(group)) for name, group in grouped]
            kept = sum(any(not row["dropped"] for row in group) for _, group in texts)
            cards = [_describe_text(*text) for text in islice(texts, _MAX_TEXTS)]
            remark = f"{kept:,} of {len(texts):,} texts have a statement that is kept"
            if len(texts) > len(cards):
                remark += f"; the first {len(cards):,} are shown"
            title = f"{label}: {path.name.removesuffix(SUFFIX)}"
            found.append(SectionPart(title, f"{remark}.", HEADS, cards))
        return found


def tell_grades(title: str, summary: Row) -> str:
    """For programs: the share of attempts that meets its own contract, beside the share that says
    what is meant. Empty for other problems."""
    if not (grades := summary.get("grades")):
        return ""
    num = sum(grades.values())
    meant = int(grades.get("meant", 0))
    met = meant + int(grades.get("verified", 0))
    shares = (f"{100 * number / num:.1f}%" for number in (met, meant))
    return "{}: {} of the programs meet their own contract, {} the one that is meant".format(
        title, *shares
    )


def _describe_text(name: str, rows: Sequence[Row]) -> Card:
    # What was kept comes first.
    ordered = sorted(rows, key=lambda row: bool(row["dropped"]))
    is_kept = not ordered[0]["dropped"]
    cells = [_describe_row(row) for row in ordered]
    if meant := ordered[0].get("meant"):
        cells.insert(0, [meant, "–", "–", "what is meant", "–", "–"])
    words = ordered[0]["informal"]
    return Card(name, words, "kept" if is_kept else "none kept", words, cells)


def _describe_row(row: Row) -> list[str]:
    means: Any = row.get("means")
    said = {True: "yes, by proof", False: "no, by proof", None: "not shown"}
    return [
        row["body"] or "(nothing)",
        f"{row['count']} of {row['num_samples']}",
        f"{row.get('agreeing', 0)} of {row['num_samples']}",
        row["dropped"] or "kept",
        said[means],
        _describe_critic(row),
    ]


def _describe_critic(row: Row) -> str:
    """The last asked critic's judgement, and why: reasons alone may read either way."""
    if not row.get("critic"):
        return "–"
    said = {True: "right", False: "wrong", None: "no judgement"}
    return f"{said[row['critic_says']]}: {row['critic']}"
