"""Finds problems whose preconditions contradict each other, and bodies that say nothing.

Flows in: a problem with a hole. Flows out: a candidate that is proved only if the preconditions
prove ``ensures false``.
Not covered: a weak contract; a contradiction that the prover does not find; what lies outside the
declaration that holds the hole; annotate problems.
"""

from __future__ import annotations

from collections.abc import Mapping

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.program import Element, parse_program
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_places, read_file
from proverrl.lang.records import Finding
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
    text = problem.preamble + problem.statement
    # The place of the hole among the tokens; the text with an empty hole is a whole program.
    num_before = len(_read(problem, text.partition(HOLE)[0])) - 1
    text = text.replace(HOLE, "", 1)
    tokens = _read(problem, text)
    try:
        root = parse_program(tokens)
    except GrammarError as error:
        raise _refuse(problem, error.finding) from error
    member = _find_member(root, num_before)
    if member is None or not member.slots:
        return None
    places = find_places(text, tokens)

    def cut(start: int, end: int) -> str:
        return text[places[start] : places[end - 1] + len(tokens[end - 1].text)]

    clauses = member.slots[0].elements
    requires = [cut(c.start, c.end) for c in clauses if c.word == "requires"]
    if not requires:
        return None
    head = [token.text for token in tokens[member.start : member.slots[0].start]]
    start = head.index("(")
    first = head.index(member.name) if member.name in head else start
    given = cut(member.start + first + 1, find_close(tokens, member.start + start) + 1)
    lemma = f"lemma {{:induction false}} {_PROBE}{given}\n{' '.join(requires)}\nensures false {{}}"
    behind = places[member.end - 1] + len(tokens[member.end - 1].text)
    probe = Problem(f"{problem.id}#requires", "dafny", "file", "", HOLE)
    return Candidate(probe, f"{text[:behind]}\n{lemma}\n{text[behind:]}")


def _find_member(element: Element, place: int) -> Element | None:
    """The innermost declaration with a contract around the token at ``place``."""
    for slot in element.slots:
        for inner in slot.elements:
            if slot.kind == "declarations" and inner.start <= place < inner.end:
                if inner.slots and inner.slots[0].kind == "member-clauses":
                    return inner
                return _find_member(inner, place)
    return None


def _read(problem: Problem, text: str) -> list[Token]:
    tokens, findings = read_file(text)
    if findings:
        raise _refuse(problem, findings[0])
    return tokens


def _refuse(problem: Problem, finding: Finding) -> ProblemError:
    return ProblemError(
        f"problem {problem.id!r}: its program cannot be read: "
        f"line {finding.line}: {finding.message}"
    )
