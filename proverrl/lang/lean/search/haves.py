"""A sketch made of a proof that failed: what failed in it becomes ``sorry``.

Flows in: a body and its verdict. Flows out: the body with ``:= by sorry`` in place of the proof of
each ``have`` in which an error stands; where an error stands in none, the tactic of the theorem's
own block that failed and all after it become one ``sorry``. Whether Lean takes the result for a
sketch is found out by ``subgoals.read_sketch``. Not handled here: a ``have`` that does not
begin its line, errors that Lean tells of no place in the body.
"""

from __future__ import annotations

from dataclasses import dataclass

from proverrl.lang.lean.search.tactic_mode import split_tactics
from proverrl.lang.lean.syntax.declarations import find_mark
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens
from proverrl.types import Problem, Verdict
from proverrl.verify.body_place import hole_column


@dataclass(frozen=True, slots=True)
class Have:
    """A ``have`` of a body, in characters: where it begins, its ``:=``, and where it ends."""

    start: int
    value: int
    end: int


def find_haves(problem: Problem, body: str) -> list[Have]:
    """The ``have`` tactics that begin a line, in order; each goes on in all deeper lines."""
    code = [token for token in scan_tokens(body) if token.is_code]
    base = hole_column(problem)

    def column(token: Token) -> int:
        return token.column + (base if token.line == 1 else 0)

    found = []
    for place, token in enumerate(code):
        if token.text != "have" or (place and code[place - 1].line == token.line):
            continue
        inside = [token]
        for later in code[place + 1 :]:
            if later.line > token.line and column(later) <= column(token):
                break
            inside.append(later)
        value = find_mark(body[token.offset : inside[-1].end], ":=")
        if value is not None:
            found.append(Have(token.offset, token.offset + value.offset, inside[-1].end))
    return found


def hide_failing(problem: Problem, body: str, verdict: Verdict) -> str | None:
    """The body with what failed hidden; None when no error has a place in it."""
    haves = find_haves(problem, body)
    lines = body.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    hidden: set[Have] = set()
    loose: list[int] = []
    for error in verdict.diagnostics:
        if error.severity != "error" or error.body_line is None:
            continue
        place = starts[min(error.body_line, len(lines)) - 1] + (error.body_column or 0)
        around = [have for have in haves if _fails_in(have, place, error.message)]
        if around:
            hidden.add(around[-1])
        else:
            loose.append(place)
    cut = _find_tactic(problem, body, starts, min(loose)) if loose else len(body)
    outer = [h for h in hidden if not any(o.start < h.start and h.end <= o.end for o in hidden)]
    kept = body if cut == len(body) else body[:cut] + "sorry"
    for have in sorted(outer, key=lambda one: -one.start):
        if have.end <= cut:
            kept = f"{kept[: have.value]}:= by sorry{kept[have.end :]}"
    return None if kept == body else kept


def _fails_in(have: Have, place: int, message: str) -> bool:
    """Whether an error stands in the proof, or says of the whole ``have`` what it leaves open."""
    first = have.start if message.startswith("unsolved goals") else have.value
    return first <= place < have.end


def _find_tactic(problem: Problem, body: str, starts: list[int], place: int) -> int:
    """Where the tactic of the outermost block begins in which the place lies."""
    begins = [starts[t.line - 1] + t.column for t in split_tactics(problem, body)]
    return max((begin for begin in begins if begin <= place), default=0)
