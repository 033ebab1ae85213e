"""The problems that the page carries: figures of each, and examples in pieces.

Flows in: shelves of columns. Flows out: for each benchmark a packed index with one entry per
problem, and packed pieces of a few hundred problems each. The page unpacks only those that are
looked at. A piece has texts, attempts, the shortest proofs and the most frequent failures. Whatever
is left out is counted. Not handled here: how it is drawn (``problems.js``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.evaluation.tally import ProblemTally, fetch_rows
from proverrl.report.comparison import Shelf
from proverrl.report.embedded import Piece, pack_json
from proverrl.report.rollout_data import MAX_BODY_CHARS, describe_messages
from proverrl.report.run import Row, RunRecord
from proverrl.types import Status

MAX_LISTED = 50_000
MAX_PACKED_CHARS = 6_000_000
PROBLEMS_A_PIECE = 200
MARKS_KEPT = 400
_TEXTS = ("preamble", "statement", "language")
_COUNTS = ("attempts", "judged", "solved")


@dataclass(frozen=True, slots=True)
class PackedProblems:
    """``shelves`` describes, for each benchmark, the index piece, the columns and the counts."""

    shelves: list[Row]
    pieces: list[Piece]


def build_problems(runs: Sequence[RunRecord], shelves: Sequence[Shelf]) -> PackedProblems:
    """The problems of every benchmark, as far as they fit. Raises RunError: a file of attempts is
    damaged."""
    texts: dict[str, Row] = {}
    for run in runs:
        texts = {**run.problems, **texts}
    entries: list[Row] = []
    pieces: list[Piece] = []
    for number, shelf in enumerate(shelves):
        names = shelf.names[:MAX_LISTED]
        left = MAX_PACKED_CHARS // len(shelves)
        index = Piece(f"problems-{number}", pack_json(_describe_index(shelf, names)))
        left -= len(index.packed)
        details: list[Piece] = []
        for place, value in enumerate(_describe_details(shelf, names, texts)):
            piece = Piece(f"problems-{number}-{place}", pack_json(value))
            left -= len(piece.packed)
            if left < 0:
                break
            details.append(piece)
        pieces += [index, *details]
        entries.append(
            {
                "benchmark": shelf.columns[0].evaluation.benchmark[1],
                "columns": [
                    {
                        "title": column.title,
                        "name": column.evaluation.name,
                        "attempts": column.evaluation.attempts.total,
                        "file": str(column.evaluation.attempts.path),
                    }
                    for column in shelf.columns
                ],
                "piece": index.name,
                "per_piece": PROBLEMS_A_PIECE,
                "problems": len(shelf.names),
                "listed": len(names),
                "detailed": min(len(names), len(details) * PROBLEMS_A_PIECE),
            }
        )
    return PackedProblems(entries, pieces)


def _describe_index(shelf: Shelf, names: Sequence[str]) -> Row:
    """Columns, since they pack better than rows; counts are one list for each evaluation."""
    known = [shelf.known(name) for name in names]
    per_column = [
        [shelf.tally(place, name) for name in names] for place in range(len(shelf.columns))
    ]
    return {
        "ids": list(names),
        "levels": [tally.level for tally in known],
        "families": [tally.family for tally in known],
        **{
            key: [
                [getattr(tally, key) if tally else 0 for tally in column] for column in per_column
            ]
            for key in _COUNTS
        },
    }


def _describe_details(
    shelf: Shelf, names: Sequence[str], texts: Mapping[str, Row]
) -> Iterator[list[Row]]:
    """The problems of one piece after another; the attempts of a piece are fetched together."""
    for start in range(0, len(names), PROBLEMS_A_PIECE):
        part = names[start : start + PROBLEMS_A_PIECE]
        columns = [_describe_column(shelf, place, part) for place in range(len(shelf.columns))]
        yield [
            {
                **{key: (texts.get(name) or {}).get(key) for key in _TEXTS},
                "columns": [column[number] for column in columns],
            }
            for number, name in enumerate(part)
        ]


def _describe_column(shelf: Shelf, place: int, names: Sequence[str]) -> list[Row | None]:
    """One evaluation's entry for each of these problems; None where it did not attempt it."""
    tallies = [shelf.tally(place, name) for name in names]
    places = [_places(tally) if tally else [] for tally in tallies]
    wanted = [offset for found in places for offset in found]
    rows = iter(fetch_rows(shelf.columns[place].evaluation.attempts, wanted))
    return [
        _describe_problem(tally, [next(rows) for _ in found]) if tally else None
        for tally, found in zip(tallies, places, strict=True)
    ]


def _mark(status: str) -> str:
    """A letter for a status: its first, unless another status begins with that."""
    return "n" if status == Status.UNCONFIRMED else status[0]


def _places(tally: ProblemTally) -> list[int]:
    proofs = [place for _, _, place in tally.proofs]
    return proofs + [place for _, place in tally.common_failures]


def _describe_problem(tally: ProblemTally, rows: Sequence[Row]) -> Row:
    counts = [1] * len(tally.proofs) + [count for count, _ in tally.common_failures]
    return {
        "statuses": dict(tally.statuses),
        "marks": "".join(_mark(attempt.status) for attempt in tally.made[:MARKS_KEPT]),
        "examples": [
            _describe_attempt(row, count) for row, count in zip(rows, counts, strict=True)
        ],
    }


def _describe_attempt(row: Mapping[str, Any], count: int) -> Row:
    """``count`` attempts failed with the same first message; a proof stands for itself."""
    body = str(row.get("body") or "")
    return {
        "attempt": row.get("attempt"),
        "status": str(row.get("status")),
        "count": count,
        "body": body[:MAX_BODY_CHARS],
        "cut": max(0, len(body) - MAX_BODY_CHARS),
        "messages": describe_messages(row),
    }
