"""Where a place of the assembled file lies within the candidate's own text.

Flows in: a candidate and a place that a checker named. Flows out: the place in the body, or None.
"""

from __future__ import annotations

from proverrl.types import Candidate


def find_body_place(candidate: Candidate, line: int, column: int) -> tuple[int, int] | None:
    """Line (from 1) and column (from 0) within the body of a position in the file.

    None when the position is outside the body.
    """
    head, body = candidate.head, candidate.body
    first_line = head.count("\n") + 1
    first_column = len(head) - (head.rfind("\n") + 1)
    num_breaks = body.count("\n")
    last_line = first_line + num_breaks
    last_column = len(body) - (body.rfind("\n") + 1) + (0 if num_breaks else first_column)
    if (line, column) < (first_line, first_column) or (line, column) > (last_line, last_column):
        return None
    return line - first_line + 1, column - (first_column if line == first_line else 0)
