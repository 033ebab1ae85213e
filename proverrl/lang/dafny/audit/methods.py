"""The audit of a method that a policy writes from its head on: contract, code, invariants.

Flows in: a problem of the kind ``program`` and a body. Flows out: findings; none means that Dafny
may judge the file. All that is refused in a bare file (``files``) is refused here too, where it is
assembled. Beside that the file must consist of our declarations and no other, ours unchanged. The
method must be clauses of a contract and one block. It may not speak of what stands behind the hole,
since a method that calls the one that states what is meant would be proved by itself. ``:|`` is
refused: it asks for a value without computing it, so that ``r :| r == F(n)`` would be a program.
Where the head has an ``ensures`` the contract is given: then a body is ``decreases`` and one block,
and may speak of all that our program declares. Refused although
honest: ``:|`` of ghost variables; ``modifies``, since the frame is ours; lemmas of the policy's
own. Not covered: a weak contract (the verdict says so where one is written), what the code costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.hint_grammar import find_wide
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.text import scan_tokens
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.records import Finding
from proverrl.text_cache import cache_texts
from proverrl.types import Candidate, Problem
from proverrl.verifier.body_place import find_body_place

_CLAUSES = frozenset(("requires", "ensures", "decreases"))
_GIVEN_CLAUSES = frozenset(("decreases",))
_IDLE = "{ }"


@dataclass(frozen=True, slots=True)
class OurDeclarations:
    """The declarations of a problem, the method at ``place`` without what a body holds.

    ``start`` is where the method begins, ``hidden`` holds the names of those behind it, none where
    its contract is given.
    """

    others: tuple[str, ...]
    place: int
    start: int
    hidden: frozenset[str]
    is_given: bool


def gives_contract(problem: Problem) -> bool:
    """True if the head of the method whose hole it is has an ``ensures``. Raises ``ProblemError``
    for a comment that is never closed."""
    words = [piece for _, piece in scan_tokens(Candidate(problem, "").head)]
    return "ensures" in words[max((i for i, w in enumerate(words) if w == "method"), default=0) :]


def read_declared(problem: Problem) -> OurDeclarations:
    """Read a problem's text; raises ``ProblemError`` when no method of a policy can be held to it:
    its hole is not the end of a method's head, or what is given assumes or leaves out something."""
    head = len(Candidate(problem, "").head)
    found = _read(Candidate(problem, _IDLE).source, head, gives_contract(problem))
    if isinstance(found, str):
        raise ProblemError(f"problem {problem.id!r}: {found}")
    return found


@cache_texts
def _read(text: str, hole: int, is_given: bool) -> OurDeclarations | str:
    if findings := audit_file(text):
        return f"no proof can be held to its program: line {findings[0].line}: " + (
            findings[0].message
        )
    program = read_text(text)
    elements = _list_declarations(program)
    at_hole = [i for i, e in enumerate(elements) if program.end(e.end - 1) == hole + len(_IDLE)]
    if not at_hole or elements[at_hole[0]].word != "method":
        return "its hole must be all that follows the head of a method outside classes"
    place = at_hole[0]
    others = tuple(program.cut(e.start, e.end) for e in elements if e is not elements[place])
    hidden = frozenset[str]() if is_given else frozenset(e.name for e in elements[place + 1 :])
    if not is_given and not hidden:
        return (
            "no method behind its hole says what is meant, and its head does not give a contract "
            "(an 'ensures')"
        )
    return OurDeclarations(others, place, program.places[elements[place].start], hidden, is_given)


def audit_method(problem: Problem, body: str, tokens: list[Token]) -> list[Finding]:
    """Findings about a body, of which these are the tokens, at their places in it.

    Raises ``ProblemError`` as ``read_declared``.
    """
    ours, candidate = read_declared(problem), Candidate(problem, body)
    findings = [found for token in tokens if (found := _check_token(token, ours))]
    findings += [move_to_body(candidate, finding) for finding in audit_file(candidate.source)]
    if findings:
        return findings
    try:
        program = read_text(candidate.source)
    except GrammarError as error:
        return [move_to_body(candidate, error.finding)]
    return _check_shape(candidate, program, ours, tokens)


def _check_token(token: Token, ours: OurDeclarations) -> Finding | None:
    if token.sign == ":|":
        message = "':|' asks for a value that is not computed"
        return token.refuse("cheat", "uncomputed", message)
    if token.kind == "word" and token.text in ours.hidden:
        message = f"{token.text!r} is declared behind the hole and may not be named"
        return token.refuse("cheat", "names", message)
    return find_wide(token) if token.kind == "word" else None


def _check_shape(
    candidate: Candidate, program: ParsedProgram, ours: OurDeclarations, tokens: list[Token]
) -> list[Finding]:
    elements = _list_declarations(program)
    own = elements[ours.place] if ours.place < len(elements) else elements[-1]
    others = tuple(program.cut(e.start, e.end) for e in elements if e is not own)
    end = len(candidate.head) + len(candidate.body.rstrip())
    stands = program.places[own.start] == ours.start and program.end(own.end - 1) == end
    if others != ours.others or not stands or own.word != "method" or len(own.slots) != 2:
        message = "write the clauses of the contract, then one block with the code, and no more"
        if ours.is_given:
            message = "write one block with the code (before it 'decreases' where needed), no more"
        return [tokens[0].refuse("cheat", "changed-program", message)]
    allowed, why = _CLAUSES, "is no clause of it"
    if ours.is_given:
        allowed, why = _GIVEN_CLAUSES, "may not be added to the contract, which is given"
    return [
        move_to_body(candidate, token.refuse("cheat", "contract", f"{token.text!r} {why}"))
        for clause in own.slots[0].elements
        if program.places[clause.start] >= len(candidate.head)
        and (token := program.tokens[clause.start]).text not in allowed
    ]


def _list_declarations(program: ParsedProgram) -> list[Element]:
    return program.root.slots[0].elements


def move_to_body(candidate: Candidate, finding: Finding) -> Finding:
    """With its place in the body; the body's beginning for what was found outside it."""
    line, column = find_body_place(candidate, finding.line, finding.column) or (1, 0)
    return replace(finding, line=line, column=column)
