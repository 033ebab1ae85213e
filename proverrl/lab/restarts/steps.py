"""The steps of a body, between which a hint may end."""

from __future__ import annotations

import itertools

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import scan_places

_CLAUSES = frozenset({"invariant", "decreases", "modifies"})
_ENDS = frozenset({";", "{", "}"})


def find_steps(language: str, body: str) -> list[int]:
    """The places where the steps of a body begin, in characters, but for the first: in Dafny after
    ``;`` and braces and before clauses, in Lean at the beginnings of lines, elsewhere nowhere."""
    if language == "dafny":
        try:
            tokens = scan_places(body)
        except ProblemError:
            # A comment that is never closed.
            return []
        return [
            place
            for (_, before, _), (_, text, place) in itertools.pairwise(tokens)
            if before in _ENDS or text in _CLAUSES
        ]
    if language == "lean":
        lines = body.split("\n")
        starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(1, len(lines))]
        return [s for s, line in zip(starts, lines[1:], strict=True) if line.strip()]
    return []
