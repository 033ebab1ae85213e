"""The declaration around the hole of a Dafny problem: its contract, and the same with more asked.

Flows in: a problem. Flows out: the parts of the header of the lemma or method that holds the hole,
and the statement with further ``requires`` clauses or as another lemma in its place. Not handled
here: type parameters and ``reads``; a declaration that cannot be read gives None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.types import HOLE, Problem

_HEADS = frozenset({"lemma", "method"})
_CLAUSES = frozenset({"requires", "ensures", "decreases", "modifies", "returns", "reads"})
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What holds the hole. Places are characters of the statement from 0: ``start`` the keyword,
    ``promise`` the first ``ensures`` (else the body), ``opening`` the brace of the body, ``end``
    after the brace that closes it."""

    word: str
    name: str
    params: str
    requires: tuple[str, ...]
    ensures: tuple[str, ...]
    start: int
    promise: int
    opening: int
    end: int

    @property
    def goal(self) -> str:
        """The postconditions as one expression."""
        return join(self.ensures)

    def generalise(self, path: Sequence[str], goal: str) -> str:
        """``goal`` for all values of the parameters that are allowed and reach ``path``."""
        known = join((*self.requires, *path))
        claim = f"({known}) ==> ({goal})" if known else goal
        return f"forall {self.params} :: {claim}" if self.params.strip() else claim


def join(parts: Sequence[str]) -> str:
    """A conjunction; "" for none."""
    return parts[0] if len(parts) == 1 else " && ".join(f"({part})" for part in parts)


def read_declaration(problem: Problem) -> Declaration | None:
    """The declaration that holds the hole; None when there is none that can be read."""
    statement = problem.statement
    hole = statement.find(HOLE)
    try:
        tokens = scan_places(statement)
    except ProblemError:
        return None
    heads = [i for i, t in enumerate(tokens) if t[0] == "name" and t[1] in _HEADS and t[2] < hole]
    if not heads:
        return None
    first = heads[-1]
    opened: list[int] = []
    for at in range(first, len(tokens)):
        kind, text, place = tokens[at]
        if place > hole:
            break
        if text in _OPEN or kind == "attribute":
            opened.append(at)
        elif text in _CLOSE and opened:
            opened.pop()
    if not opened or tokens[opened[0]][1] != "{":
        return None
    body = opened[0]
    last = _closing(tokens, body)
    named = _skip_attributes(tokens, first + 1)
    if last is None or tokens[named][0] != "name" or tokens[named + 1][1] != "(":
        return None
    closed = _closing(tokens, named + 1)
    if closed is None or closed > body:
        return None
    clauses = _read_clauses(statement, tokens, closed + 1, body)
    return Declaration(
        tokens[first][1],
        tokens[named][1],
        statement[tokens[named + 1][2] + 1 : tokens[closed][2]].strip(),
        tuple(text for word, text, _ in clauses if word == "requires"),
        tuple(text for word, text, _ in clauses if word == "ensures"),
        tokens[first][2],
        min((place for word, _, place in clauses if word == "ensures"), default=tokens[body][2]),
        tokens[body][2],
        tokens[last][2] + 1,
    )


def _closing(tokens: Sequence[tuple[str, str, int]], at: int) -> int | None:
    depth = 0
    for place in range(at, len(tokens)):
        kind, text, _ = tokens[place]
        depth += (text in _OPEN or kind == "attribute") - (text in _CLOSE)
        if not depth:
            return place
    return None


def _skip_attributes(tokens: Sequence[tuple[str, str, int]], at: int) -> int:
    while tokens[at][0] == "attribute":
        at = (_closing(tokens, at) or at) + 1
    return at


def _read_clauses(
    text: str, tokens: Sequence[tuple[str, str, int]], start: int, end: int
) -> list[tuple[str, str, int]]:
    places, depth = [], 0
    for at in range(start, end):
        kind, word, _ = tokens[at]
        depth += (word in _OPEN or kind == "attribute") - (word in _CLOSE)
        if not depth and kind == "name" and word in _CLAUSES:
            places.append(at)
    # A declaration may have no clauses at all.
    ends = [tokens[at][2] for at in [*places[1:], end]] if places else []
    return [
        (word, text[start + len(word) : stop].strip().rstrip(";"), start)
        for (_, word, start), stop in zip([tokens[at] for at in places], ends, strict=True)
    ]


def require(statement: str, found: Declaration, clauses: Sequence[str]) -> str:
    """The statement with more ``requires`` clauses in the header of the declaration."""
    if not clauses:
        return statement
    before, after = statement[: found.promise], statement[found.promise :]
    added = "\n  ".join(f"requires {clause}" for clause in clauses)
    return f"{before.rstrip()}\n  {added}\n{'' if after.startswith('{') else '  '}{after}"


def replace_declaration(
    problem: Problem, found: Declaration, name: str, requires: Sequence[str], goal: str
) -> str:
    """The statement in which another lemma, with nothing but a hole, stands in the place of the
    declaration: it has the same parameters and asks for ``requires``."""
    asked = "".join(f"  requires {clause}\n" for clause in requires)
    lemma = (
        f"lemma {{:induction false}} {name}({found.params})\n{asked}  ensures {goal}\n"
        f"{{\n  {HOLE}\n}}"
    )
    return problem.statement[: found.start] + lemma + problem.statement[found.end :]


def forget_entries(problem: Problem) -> dict[str, Any]:
    """Metadata without the names of what Dafny verifies: in another statement they may differ."""
    return {key: value for key, value in problem.metadata.items() if key != "expected_entries"}
