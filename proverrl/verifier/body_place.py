"""Places of an assembled file in the candidate's own text, and columns."""

from __future__ import annotations

from proverrl.types import HOLE, Candidate, Problem


def end_column(text: str) -> int:
    """The column (from 0) in which a text ends."""
    return len(text) - (text.rfind("\n") + 1)


def hole_column(problem: Problem) -> int:
    """The column (from 0) of the hole in the statement."""
    return end_column(problem.statement.partition(HOLE)[0])


def find_offset(text: str, line: int, column: int) -> int:
    """The place in a text, in characters, of a line (from 1) and column (from 0)."""
    return sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column


def find_body_place(candidate: Candidate, line: int, column: int) -> tuple[int, int] | None:
    """Line (from 1) and column (from 0) in the body of a place in the file; None outside it."""
    head, body = candidate.head, candidate.body
    first_line = head.count("\n") + 1
    first_column = end_column(head)
    num_breaks = body.count("\n")
    last_line = first_line + num_breaks
    last_column = end_column(body) + (0 if num_breaks else first_column)
    if (line, column) < (first_line, first_column) or (line, column) > (last_line, last_column):
        return None
    return line - first_line + 1, column - (first_column if line == first_line else 0)
