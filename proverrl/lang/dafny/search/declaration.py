"""The declaration around the hole of a Dafny problem, and statements that ask for more.

Flows in: a problem. Flows out: the lemma or method that holds the hole, and the statement with
further ``requires`` clauses or with another lemma in its place. Not handled here: type parameters
and ``reads``; a declaration that cannot be read gives None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.declarations import Declaration, find_declaration, write_formals
from proverrl.types import HOLE, Problem


def join(parts: Sequence[str]) -> str:
    """A conjunction; "" for none."""
    return parts[0] if len(parts) == 1 else " && ".join(f"({part})" for part in parts)


def read_declaration(problem: Problem) -> Declaration | None:
    """The declaration that holds the hole; None when there is none that can be read."""
    hole = problem.statement.find(HOLE)
    try:
        found = find_declaration(problem.statement, hole)
    except ProblemError:
        return None
    is_head = found is not None and found.word in ("lemma", "method") and hole > found.opening
    return found if is_head else None


def read_goal(found: Declaration) -> str:
    """The postconditions as one expression."""
    return join(found.list_clauses("ensures"))


def imply(known: Sequence[str], claim: str) -> str:
    """``claim`` where all that is ``known`` holds."""
    return f"({join(known)}) ==> ({claim})" if known else claim


def generalise(found: Declaration, path: Sequence[str], goal: str) -> str:
    """``goal`` for all values of the parameters that are allowed and reach ``path``."""
    claim = imply((*found.list_clauses("requires"), *path), goal)
    params = write_formals(found.formals)
    return f"forall {params} :: {claim}" if params else claim


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
    head = f"lemma {{:induction false}} {name}({write_formals(found.formals)})"
    lemma = f"{head}\n{asked}  ensures {goal}\n{{\n  {HOLE}\n}}"
    return problem.statement[: found.start] + lemma + problem.statement[found.end :]


def restate(problem: Problem, suffix: str, statement: str, kind: str = "") -> Problem:
    """Another problem made of this one. It loses the names of what Dafny verifies: they may
    differ."""
    kept = {key: value for key, value in problem.metadata.items() if key != "expected_entries"}
    return replace(
        problem,
        id=problem.id + suffix,
        kind=kind or problem.kind,
        statement=statement,
        metadata=kept,
    )
