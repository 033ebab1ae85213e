"""Proof hints of Dafny bodies that are pooled: clauses, assertions and calls of lemmas.

Flows in: a body, whether it was read or refused; a body made of hints with its verdict. Flows out:
the hints that the grammar and the audit admit by themselves; which of them Dafny refuses. In
``invariants`` and ``assertions`` a hint is a clause. In ``statements`` it is an assertion or a call
of a lemma, under the conditions under which it was written. In ``annotate`` it is whatever was
added to the program (``search.annotated``). Not handled here: ``calc`` in ``statements``, whose
steps hold only in their order; what a body declares for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.search import annotated
from proverrl.lang.dafny.search.facts import read_facts
from proverrl.lang.dafny.search.places import rename_new, split_body
from proverrl.lang.dafny.search.states import (
    find_unknown,
    known_words,
    list_errors,
    offset,
    write_line,
)
from proverrl.lang.dafny.syntax.reply import is_endless, is_on_entry
from proverrl.lang.dafny.syntax.text import scan_tokens
from proverrl.lang.records import PooledHint, RefusedHints
from proverrl.types import ANNOTATE, Candidate, Problem, Stage, Status, Verdict

_CLAUSE_KINDS = frozenset({"invariants", "assertions"})
kinds = frozenset({"statements", ANNOTATE, *_CLAUSE_KINDS})
"""Kinds of problems whose bodies have hints that can be pooled."""

guessed_kinds = frozenset({ANNOTATE})
"""Kinds of problems whose own text suggests hints."""

_LOOP = "loop"
"""The one thing that ends or not in a body of ``invariants``."""


def list_hints(problem: Problem, body: str) -> list[PooledHint]:
    """The hints of a body in its order, each once; of one that cannot be read, those of the pieces
    of it that can."""
    if problem.kind == ANNOTATE:
        return annotated.list_hints(problem, body)
    if problem.kind in _CLAUSE_KINDS:
        pieces = [body[start:end] for start, end in split_body(body)]
    else:
        pieces = _list_facts(body) or [
            fact for line in body.split("\n") for fact in _list_facts(line)
        ]
    found: list[PooledHint] = []
    for piece in pieces:
        hint = _read_hint(problem, piece)
        lines = [] if hint or "\n" not in piece.strip() else piece.split("\n")
        found += [one for one in (hint, *(_read_hint(problem, text) for text in lines)) if one]
    return list({hint.key: hint for hint in found}.values())


def _list_facts(body: str) -> list[str]:
    """The assertions and calls of a row of statements, each under its conditions; those that name
    what the body declares are left out, and so is text that cannot be read."""
    assertions, calls = read_facts(body)
    said = [(step.path, f"assert {step.text};") for step in assertions if not step.has_proof]
    said += [(step.path, step.text) for step in calls]
    return [_condition(path, text) for path, text in said if path is not None]


def _condition(path: Sequence[str], statement: str) -> str:
    text = " ".join(statement.split())
    known = path[0] if len(path) == 1 else " && ".join(f"({part})" for part in path)
    return f"if {known} {{ {text} }}" if path else text


list_added = annotated.list_added
guess = annotated.guess
pose = annotated.pose
place = annotated.place
insert = annotated.insert
list_false = annotated.list_false
list_failing = annotated.list_failing
find_holders = annotated.find_holders
find_fault = annotated.find_fault


def assert_apart(problem: Problem, hints: Sequence[str]) -> str:
    """A body that shows more of these hints that fail than a body of them; empty where none
    would. It is never proved."""
    return annotated.assert_apart(problem, hints) if problem.kind == ANNOTATE else ""


def put_together(problem: Problem, hints: Sequence[str]) -> str:
    """A body of hints, given by their texts."""
    if problem.kind == ANNOTATE:
        return annotated.put_together(problem, hints)
    return "\n".join(hints)


def begin(problem: Problem, hints: Sequence[str]) -> str:
    """The beginning of a body, up to the end of its hints; nothing without hints."""
    if problem.kind == ANNOTATE:
        return annotated.begin(problem, hints)
    return "".join(hint + "\n" for hint in hints)


def find_refused(candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
    """The clauses, or in ``statements`` the lines, in which something fails. An invariant that does
    not hold on entry never does, and neither does what Dafny cannot resolve; all else may hold
    beside other hints."""
    is_read = verdict.stage in (Stage.READING, Stage.PROVER)
    if verdict.status is not Status.REJECTED or not is_read:
        return None
    problem, body = candidate.problem, candidate.body
    if problem.kind == ANNOTATE:
        return annotated.find_refused(candidate, verdict)
    pieces = _split(problem, body)
    refuted, failed = set[str](), set[str]()
    endless = frozenset[str]()
    for error in list_errors(verdict):
        if problem.kind in _CLAUSE_KINDS and is_endless(error.message):
            endless = frozenset({_LOOP})
            continue
        place = offset(body, error)
        piece = next((body[s:e] for s, e in pieces if place is not None and s <= place < e), "")
        is_final = not verdict.obligations or is_on_entry(error.message)
        if piece:
            (refuted if is_final else failed).add(_make_key(problem, piece))
    return RefusedHints(frozenset(refuted), frozenset(failed), endless)


def is_covered(problem: Problem, body: str) -> bool:
    """True if a body proves nothing that its hints in a larger body would not prove: clauses stand
    in no order that matters, statements may declare and branch."""
    if problem.kind == ANNOTATE:
        return annotated.is_covered(problem, body)
    return problem.kind in _CLAUSE_KINDS


def is_ordered(problem: Problem) -> bool:
    """True if a hint may hold only behind another: not a loop's clauses, which are assumed at
    once."""
    return problem.kind != "invariants"


def _split(problem: Problem, body: str) -> list[tuple[int, int]]:
    if problem.kind in _CLAUSE_KINDS:
        return split_body(body)
    ends = [0]
    for line in body.split("\n"):
        ends.append(ends[-1] + len(line) + 1)
    return list(itertools.pairwise(ends))


def _read_hint(problem: Problem, text: str) -> PooledHint | None:
    """A piece of a body as a hint; None when it may not stand in a body by itself."""
    try:
        words = [word for _, word in scan_tokens(text)]
    except ProblemError:
        return None
    line = write_line(text)
    if not words or find_unknown(words, problem):
        return None
    if audit_candidate(Candidate(problem, line)) is not None:
        return None
    measure = _LOOP if problem.kind == "invariants" and words[0] == "decreases" else ""
    # An element has a meaning only where a clause before it bounds its index.
    return PooledHint(line, _make_key(problem, text), int("[" in words), measure)


def _make_key(problem: Problem, text: str) -> str:
    words = [word for _, word in scan_tokens(text)]
    return rename_new(words[: len(words) - (words[-1:] == [";"])], known_words(problem))
