"""Finds problems whose preconditions contradict each other, and bodies that say nothing.

Flows in: a problem with a hole. Flows out: a candidate that is proved only if the preconditions
prove ``ensures false``.
Not covered: a weak contract; a contradiction that the prover does not find; what lies outside the
declaration that holds the hole; annotate problems.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from proverrl.errors import ProblemError
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.declarations import parse_text
from proverrl.lang.dafny.syntax.tokens import find_close
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Verdict

TRIVIAL_BODIES: Mapping[str, tuple[str, ...]] = {
    "invariants": ("invariant true",),
    "statements": ("assert true;",),
    "calc": (),
    "assertions": ("assert true;",),
    "contract": (),
    "program": (),
    "file": (),
    ANNOTATE: (),
}
"""For each kind of hole, bodies that say nothing."""

_PROBE = "VacuityProbe"


def proves_probe(verdict: Verdict) -> bool:
    """True if a verdict on ``build_requires_probe``'s candidate proves the probe's own entry."""
    return any(
        found.entry.startswith("Impl$$") and found.entry.endswith(f".{_PROBE}")
        for found in verdict.obligations
        if found.all_proved
    )


def build_requires_probe(problem: Problem) -> Candidate | None:
    """The program with an empty hole, and with a lemma that the preconditions should not prove.

    It stands beside the declaration that holds the hole, with its parameters, its ``requires``
    clauses and ``ensures false``. None when there is no precondition.
    """
    if problem.kind not in TRIVIAL_BODIES or problem.kind in ("file", ANNOTATE):
        return None
    before, _, after = (problem.preamble + problem.statement).partition(HOLE)
    text = before + after
    try:
        program = parse_text(text)
    except ProblemError as error:
        said = f"problem {problem.id!r}: its program cannot be read: {error}"
        raise ProblemError(said) from error
    place = bisect_left(program.places, len(before))
    around = [e for e in list_elements(program.root) if e.start <= place < e.end]
    members = [e for e in around if e.slots and e.slots[0].kind == "member-clauses"]
    if not members:
        return None
    member = members[-1]
    clauses = member.slots[0].elements
    requires = [program.cut(c.start, c.end) for c in clauses if c.word == "requires"]
    if not requires:
        return None
    head = [token.text for token in program.tokens[member.start : member.slots[0].start]]
    start = head.index("(")
    first = head.index(member.name) if member.name in head else start
    closed = find_close(program.tokens, member.start + start)
    given = program.cut(member.start + first + 1, closed + 1)
    lemma = f"lemma {{:induction false}} {_PROBE}{given}\n{' '.join(requires)}\nensures false {{}}"
    behind = program.end(member.end - 1)
    probe = Problem(f"{problem.id}#requires", "dafny", "file", "", HOLE)
    return Candidate(probe, f"{text[:behind]}\n{lemma}\n{text[behind:]}")
