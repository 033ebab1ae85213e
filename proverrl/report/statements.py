"""Statements that were written from words, beside the words and what was found out about them.

Flows in: ``evals/NAME.statements.jsonl`` of runs (``proverrl.jobs.formalize``). Flows out:
rows of a table for each text, for the templates. Of long files the first texts are shown, and the
rest is counted. Not handled here: how a statement is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.files.lines import EVALS_FOLDER
from proverrl.files.typed_rows import ROW, iter_typed_lines
from proverrl.report.run import Row, RunRecord

HEADS = ["Statement", "Samples", "Agree", "Judgement", "Means what is meant", "Critic"]
SUFFIX = ".statements.jsonl"
_MAX_TEXTS = 50
_ANEW = "delete it, and the same `proverrl formalize` makes it anew"
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


@dataclass(frozen=True, slots=True)
class WrittenStatements:
    """One file: its title, how many texts it holds and how many have a statement that was kept, and
    for the first texts the id, the words, whether one was kept, and the cells of a table."""

    title: str
    num_texts: int
    num_kept: int
    texts: Sequence[tuple[str, str, bool, list[list[str]]]]


def list_statements(runs: Sequence[RunRecord]) -> list[WrittenStatements]:
    """What the runs hold. Raises RunError: a file of statements is damaged."""
    found = []
    for run in runs:
        for path in sorted((run.path / EVALS_FOLDER).glob(f"*{SUFFIX}")):
            rows = [row for _, _, row in iter_typed_lines(path, _STATEMENT, _ANEW)]
            grouped = groupby(rows, key=itemgetter("problem_id"))
            texts = [(name, list(group)) for name, group in grouped]
            kept = sum(any(not row["dropped"] for row in group) for _, group in texts)
            shown = [_describe_text(*text) for text in islice(texts, _MAX_TEXTS)]
            title = f"{run.label}: {path.name.removesuffix(SUFFIX)}"
            found.append(WrittenStatements(title, len(texts), kept, shown))
    return found


def _describe_text(name: str, rows: Sequence[Row]) -> tuple[str, str, bool, list[list[str]]]:
    # What was kept comes first.
    ordered = sorted(rows, key=lambda row: bool(row["dropped"]))
    is_kept = not ordered[0]["dropped"]
    cells = [_describe_row(row) for row in ordered]
    if meant := ordered[0].get("meant"):
        cells.insert(0, [meant, "–", "–", "what is meant", "–", "–"])
    return name, ordered[0]["informal"], is_kept, cells


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
    """What the last critic that was asked said, and why: reasons alone may read either way."""
    if not row.get("critic"):
        return "–"
    said = {True: "right", False: "wrong", None: "no judgement"}
    return f"{said[row['critic_says']]}: {row['critic']}"
