"""The problems of an evaluation that the page carries: figures of each, and examples in pieces.

Flows in: tallies of attempts. Flows out: for each run a packed index with one entry a problem, and
packed pieces with the texts, the shortest proofs and the most frequent failures of a few hundred
problems each, so that the page unpacks only what is looked at. What was left out is counted.
Not handled here: how it is drawn (``problems.js``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.report.attempts import ProblemTally, read_attempts
from proverrl.report.embedded import Piece, pack_json
from proverrl.report.rollout_data import MAX_BODY_CHARS, describe_messages
from proverrl.report.run import Evaluation, Row, RunRecord

MAX_LISTED = 50_000
MAX_PACKED_CHARS = 6_000_000
PROBLEMS_A_PIECE = 200


@dataclass(frozen=True, slots=True)
class PackedProblems:
    """``evaluations`` describes, for each run that has one, the index piece and the counts."""

    evaluations: list[Row]
    pieces: list[Piece]


def choose_evaluation(run: RunRecord) -> Evaluation | None:
    """The evaluation whose problems are shown: after training, else the last one."""
    return run.after or (run.others[-1] if run.others else run.before)


def build_problems(runs: Sequence[RunRecord]) -> PackedProblems:
    """The problems of every run's latest evaluation, as far as they fit.

    Raises:
        RunError: a file of attempts is damaged.
    """
    entries: list[Row] = []
    pieces: list[Piece] = []
    for number, run in enumerate(runs):
        evaluation = choose_evaluation(run)
        if evaluation is None or not evaluation.attempts.total:
            continue
        tallies = list(evaluation.attempts.problems.values())[:MAX_LISTED]
        left = MAX_PACKED_CHARS // len(runs)
        index = Piece(f"problems-{number}", pack_json(_describe_index(tallies)))
        left -= len(index.packed)
        details: list[Piece] = []
        for place, value in enumerate(_describe_details(run, evaluation, tallies)):
            piece = Piece(f"problems-{number}-{place}", pack_json(value))
            left -= len(piece.packed)
            if left < 0:
                break
            details.append(piece)
        pieces += [index, *details]
        entries.append(
            {
                "run": number,
                "name": evaluation.name,
                "piece": index.name,
                "per_piece": PROBLEMS_A_PIECE,
                "problems": len(evaluation.attempts.problems),
                "listed": len(tallies),
                "detailed": min(len(tallies), len(details) * PROBLEMS_A_PIECE),
                "attempts": evaluation.attempts.total,
                "file": str(evaluation.path),
            }
        )
    return PackedProblems(entries, pieces)


def _describe_index(tallies: Sequence[ProblemTally]) -> Row:
    """Columns, since they pack better than rows."""
    return {
        "ids": [tally.problem_id for tally in tallies],
        "levels": [tally.level for tally in tallies],
        "families": [tally.family for tally in tallies],
        "attempts": [tally.attempts for tally in tallies],
        "judged": [tally.judged for tally in tallies],
        "solved": [tally.solved for tally in tallies],
    }


def _describe_details(
    run: RunRecord, evaluation: Evaluation, tallies: Sequence[ProblemTally]
) -> Iterator[list[Row]]:
    """The problems of one piece after another; the attempts of a piece are fetched together."""
    for start in range(0, len(tallies), PROBLEMS_A_PIECE):
        part = tallies[start : start + PROBLEMS_A_PIECE]
        places = [_places(tally) for tally in part]
        wanted = [place for found in places for place in found]
        rows = iter(read_attempts(evaluation.attempts, wanted))
        yield [
            _describe_problem(run, tally, [next(rows) for _ in found])
            for tally, found in zip(part, places, strict=True)
        ]


def _places(tally: ProblemTally) -> list[int]:
    proofs = [place for _, _, place in tally.proofs]
    return proofs + [place for _, place in tally.common_failures]


def _describe_problem(run: RunRecord, tally: ProblemTally, rows: Sequence[Row]) -> Row:
    counts = [1] * len(tally.proofs) + [count for count, _ in tally.common_failures]
    text = run.problems.get(tally.problem_id) or {}
    return {
        "preamble": text.get("preamble"),
        "statement": text.get("statement"),
        "statuses": dict(tally.statuses),
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
