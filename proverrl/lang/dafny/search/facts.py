"""Facts that failed Dafny bodies hold: what may be a lemma for the next body.

Flows in: refused bodies with their verdicts; a problem. Flows out: facts, as pieces of a body;
which of them a verdict leaves standing; problems in which they stand before the hole; the negation
of one as a problem. A body of ``statements`` may declare nothing, so a fact is an assertion or a
call of a lemma under the conditions under which it was written; in ``invariants`` and
``assertions`` it is a clause. Not handled here: ``calc``, whose steps hold only in their order;
facts about names of a body's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proverrl.lang.dafny.search.branches import names_of, read_facts
from proverrl.lang.dafny.search.declaration import (
    join,
    read_declaration,
    replace_declaration,
    restate,
)
from proverrl.lang.dafny.search.places import split_body
from proverrl.lang.dafny.search.sketch import CLAUSE_KINDS, offset_in_body
from proverrl.lang.dafny.search.states import list_errors
from proverrl.lang.dafny.syntax.text import fill_hole
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict

kinds = frozenset({"statements", *CLAUSE_KINDS})
"""Kinds of problems that have facts."""


ALONE = "Alone"
"""Ends the name of a lemma that stands for a fact."""


def list_facts(problem: Problem, verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    """The facts of bodies that Dafny read and refused, each with the number of bodies that it
    stands in, in the order in which they were written first."""
    found: Counter[str] = Counter()
    for body, verdict in verdicts.items():
        if verdict.status is Status.REJECTED and verdict.obligations:
            found.update(dict.fromkeys(_read_facts(problem, body), 1))
    return dict(found)


def _read_facts(problem: Problem, body: str) -> list[str]:
    if problem.kind in CLAUSE_KINDS:
        clauses = (" ".join(body[start:end].split()) for start, end in split_body(body))
        # A loop has one measure, and it proves nothing about its state.
        return [text for text in clauses if text and not text.startswith("decreases")]
    return list_statement_facts(body)


def list_statement_facts(body: str) -> list[str]:
    """The assertions and calls of a row of statements, each under its conditions; those that name
    what the body declares are left out, and so is text that cannot be read."""
    assertions, calls = read_facts(body)
    said = [(step.path, f"assert {step.text};") for step in assertions if not step.has_proof]
    said += [(step.path, step.text) for step in calls]
    return [_condition(path, text) for path, text in said if path is not None]


def _condition(path: Sequence[str], statement: str) -> str:
    text = " ".join(statement.split())
    return f"if {join(path)} {{ {text} }}" if path else text


def put_together(problem: Problem, facts: Sequence[str], body: str = "") -> str:
    """A body that begins with facts."""
    return "\n".join([*facts, *([body] if body else [])])


def find_standing(candidate: Candidate, verdict: Verdict, facts: Sequence[str]) -> list[str]:
    """The facts in which nothing fails, of a body that ``put_together`` made of them; none when
    the verdict does not tell."""
    if verdict.proved:
        return list(facts)
    if verdict.status is not Status.REJECTED or not verdict.obligations:
        return []
    places = [offset_in_body(candidate, error) for error in list_errors(verdict)]
    standing, start = [], 0
    for fact in facts:
        if not any(start <= place < start + len(fact) for place in places):
            standing.append(fact)
        start += len(fact) + 1
    return standing


def show(problem: Problem, facts: Sequence[str]) -> Problem:
    """The problem with facts before its hole."""
    statement = fill_hole(problem.statement, put_together(problem, facts, HOLE))
    return restate(problem, f"+{len(facts)}", statement)


def negate(problem: Problem, fact: str, *, says_not: bool = True) -> Problem | None:
    """That an assertion never holds (or, without ``says_not``, that it does), as a lemma in the
    place of the problem's, which it cannot call. None for a fact that is no assertion of a lemma.
    """
    found = read_declaration(problem)
    claims, _ = read_facts(fact)
    if problem.kind in CLAUSE_KINDS or found is None or found.word != "lemma" or not claims:
        return None
    claim = claims[0]
    asked = [*found.list_clauses("requires"), *(claim.path or ())]
    name, goal = f"{found.name}{ALONE}", f"!({claim.text})" if says_not else claim.text
    statement = replace_declaration(problem, found, name, asked, goal)
    return restate(problem, ".not" if says_not else ".alone", statement)


def prove_alone(problem: Problem, fact: str, body: str) -> str:
    """An assertion with a proof found for it alone in its place."""
    claim = read_facts(fact)[0][0]
    proof = " ".join(body.split())
    return f"{fact[: claim.start]}assert {claim.text} by {{ {proof} }}{fact[claim.end :]}"


def calls_itself(problem: Problem, body: str) -> bool:
    """Whether a proof of a fact alone calls the lemma that it was, which a body cannot hold."""
    found = read_declaration(problem)
    return found is not None and f"{found.name}{ALONE}" in names_of(body)
