"""A contract that somebody wrote, as what is meant, as what is to be proved, and as a claim.

Flows in: problems of the kind ``formalize`` and contracts that passed the audit, or a user's
program with its hole. Flows out: problems and programs that hold those contracts as text of ours.
Not handled here: whether a contract says what was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.lang.dafny.compose.declarations import conjoin, read_problem
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations, write_formals
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.types import HOLE, Candidate, Problem

CONTRACT_WORDS = ("requires", "ensures")
_TWO_STATES = frozenset(("old", "fresh", "unchanged", "modifies"))
_PROGRAM = "program"
"""The key of a problem's metadata under which the program is that its words are about."""


def cut_contract(problem: Problem) -> dict[str, str]:
    """A program with a hole for a proof, without the contract of what holds the hole, as it is kept
    in the metadata. Raises ``ProblemError`` for what cannot be taken apart."""
    program = read_problem(problem)
    target = program.target
    rest = tuple(clause for clause in target.clauses if clause[0] not in CONTRACT_WORDS)
    bare = program.with_target(target.rewrite(clauses=rest))
    return {"kind": problem.kind, "statement": bare.text}


def keep_program(program: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a problem whose words are about a program."""
    return {_PROGRAM: dict(program)}


def ask_proof(problem: Problem, body: str) -> Problem | None:
    """The kept program with the body as its contract."""
    kept = problem.metadata.get(_PROGRAM)
    if not isinstance(kept, Mapping):
        return None
    text = str(kept["statement"])
    held = Problem(f"{problem.id}-proof", problem.language, str(kept["kind"]), "", text)
    opening = next(d.opening for d in read_declarations(text) if d.has_hole)
    head, rest = text[:opening].rstrip(), text[opening:]
    clauses = "".join(f"  {line.strip()}\n" for line in body.splitlines() if line.strip())
    return Problem(
        held.id,
        held.language,
        held.kind,
        "",
        f"{head}\n{clauses}{rest}",
        split=problem.split,
        origin=problem.origin,
        informal=problem.informal,
        metadata={k: problem.metadata[k] for k in ("level", "family") if k in problem.metadata},
    )


def read_written(problem: Problem, body: str) -> tuple[Declaration, ...]:
    """The given declarations, and last the method with the body as its contract; its code is none.
    Raises ``ProblemError``."""
    head = Candidate(problem, body).head
    return read_declarations(f"{head}{body}\n{{ }}\n")


def write_claim(name: str, target: Declaration, given: Sequence[str], claim: str) -> str:
    """A lemma about one call of a method: what it is given about parameters and results."""
    formals = write_formals((*target.formals, *target.returns))
    demands = "".join(f"\n  requires {text}" for text in given)
    return f"lemma {name}({formals}){demands}\n  ensures {claim}\n{{\n}}"


def has_two_states(*declared: Declaration) -> bool:
    """True if a contract speaks of two states of the heap, which a lemma has not."""
    words = {word for d in declared for word, _ in d.clauses}
    words |= {piece for d in declared for _, text in d.clauses for _, piece, _ in scan_places(text)}
    return bool(words & _TWO_STATES)


def make_file(problem: Problem, suffix: str, text: str) -> Candidate:
    """A bare file about a problem."""
    return Candidate(Problem(f"{problem.id}#{suffix}", problem.language, "file", "", HOLE), text)


def ask_contradiction(problem: Problem, body: str) -> Candidate | None:
    """A lemma that is proved where no call meets what is demanded and promised; None where a lemma
    cannot say that. Raises ``ProblemError`` for what cannot be read."""
    *given, written = read_written(problem, body)
    if has_two_states(written):
        return None
    claims = [conjoin(written.list_clauses(word)) or "true" for word in CONTRACT_WORDS]
    lemma = write_claim("Impossible", written, claims, "false")
    return make_file(problem, "impossible", "\n".join([*(d.text for d in given), lemma]) + "\n")
