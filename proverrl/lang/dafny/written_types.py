"""Writes the types that Dafny infers for our text into it, so that no hint can change them.

Flows in: a problem, what Dafny's type inference says of it with an empty body, a candidate.
Flows out: the candidate's file with a type behind every name of ours that had none, and the way
back from its columns. Dafny infers types over a whole method: ``assert i == (0 as bv8)`` in a hole
turned our ``var i := 0`` into a bit vector, for which other things are true. A hint shares nothing
with our expressions but our variables, and in a calc the type of its lines, so that it can change
no type once those are written out.
Not handled here: asking Dafny (``known``); the types of what a hint declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from proverrl.errors import ProblemError
from proverrl.lang.dafny.annotate import align, get_program_text
from proverrl.lang.dafny.file_audit import find_believed
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.declared_types import leaves_out_arguments
from proverrl.lang.dafny.syntax.plain import WrittenText, insert
from proverrl.lang.dafny.syntax.program import ParsedProgram, read_program
from proverrl.lang.dafny.syntax.tokens import Token, find_places, read_file
from proverrl.lang.dafny.syntax.types import Binding
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem

_FIRST = re.compile(r"    IsNullableRefType: \?(\d+)$")
_ASSIGNED = re.compile(r"DEBUG: .*(?:setting|assigning) proxy \?(\d+)\.T := (.*)$")
_UNKNOWN = re.compile(r"(?<![A-Za-z0-9_'?])\?(\d+)")
_MAX_TYPE_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class UntypedProgram:
    """The text of a problem with an empty body, and what in it has no type of its own."""

    text: str
    tokens: list[Token]
    places: list[int]
    bindings: tuple[Binding, ...]
    calc_lines: tuple[tuple[int, int, int], ...]
    constructors: frozenset[str]

    @property
    def has_untyped(self) -> bool:
        """False when Dafny has nothing to infer that a hint could share."""
        return any(binding.kind != "value" for binding in self.bindings)


@dataclass(frozen=True, slots=True)
class TypeInsertion:
    """Text to be put before or behind one of our tokens."""

    token: int
    behind: bool
    text: str


@lru_cache(maxsize=4096)
def read_untyped(problem_id: str, text: str) -> UntypedProgram:
    """What Dafny has to infer in a problem's text with an empty body.

    Raises ``ProblemError`` when the text is not a program, or one from which anything follows.
    """
    tokens, findings = read_file(text)
    program = None
    if not findings:
        try:
            program = read_program(tokens)
        except GrammarError as error:
            findings = [error.finding]
    if program is not None:
        _refuse_partial_types(problem_id, tokens, program)
        if program.reading.two_state:
            raise ProblemError(
                f"problem {problem_id!r}: it declares a two-state function, which Dafny believes "
                "of every heap when a hint puts it into a lambda"
            )
        findings = find_believed(tokens, program)
    if program is None or findings:
        raise ProblemError(
            f"problem {problem_id!r}: line {findings[0].line}: no proof can be held to its "
            f"program: {findings[0].message}"
        )
    places = find_places(text, tokens)
    constructors = frozenset(program.reading.keepers)
    return UntypedProgram(text, tokens, places, program.bindings, program.calc_lines, constructors)


def _refuse_partial_types(problem_id: str, tokens: list[Token], program: ParsedProgram) -> None:
    """Raises ``ProblemError`` for a variable whose type leaves out arguments (``seq``)."""
    fixed = {name for _, _, name in program.reading.formals}
    for name, (start, end) in program.reading.typed.items():
        if name in fixed or not any(
            leaves_out_arguments(tokens, place, program.parameters) for place in range(start, end)
        ):
            continue
        token = tokens[name]
        raise ProblemError(
            f"problem {problem_id!r}: line {token.line}: the type of {token.text!r} leaves "
            "arguments to Dafny, which infers them; write them out"
        )


def get_blank(problem: Problem) -> str:
    """The problem's text with an empty body."""
    if problem.kind == ANNOTATE:
        return get_program_text(problem)
    return Candidate(problem, "").source


def name_calc_line(candidate: Candidate) -> tuple[Candidate, WrittenText]:
    """For a hole in a calc, the line of ours before it as a variable, which is given its type.

    All lines of a calc are of one type. Raises ``ProblemError`` as ``read_untyped``.
    """
    problem = candidate.problem
    if problem.kind != "calc":
        return candidate, WrittenText(candidate.source, {})
    blank = read_untyped(problem.id, get_blank(problem))
    hole = len(candidate.head)
    lines = [
        line for line in blank.calc_lines if blank.places[line[1]] < hole <= blank.places[line[2]]
    ]
    if not lines:
        raise ProblemError(f"problem {problem.id!r}: its hole has no line of a calc before it")
    start, end, _ = max(lines)
    before = blank.places[start]
    behind = blank.places[end - 1] + len(blank.tokens[end - 1].text)
    pieces = [(before, "(var calc_line := "), (behind, "; calc_line)")]
    skipped = hole - problem.statement.index(HOLE)
    statement = insert(problem.statement, [(place - skipped, piece) for place, piece in pieces])
    named = replace(candidate, problem=replace(problem, statement=statement.text))
    return named, insert(candidate.source, pieces)


def read_insertions(
    problem: Problem, blank: UntypedProgram, trace: Sequence[str]
) -> list[TypeInsertion]:
    """The types that Dafny inferred, as text to be inserted.

    ``trace`` is what it printed of its inference. Dafny's parser makes an unknown type for every
    binding, in their order, and the resolver goes on numbering from there; each assignment to an
    unknown is printed. Raises ``ProblemError`` when the type of a variable was not found.
    """
    first = next((int(found[1]) for line in trace if (found := _FIRST.match(line))), None)
    assigned: dict[int, str] = {}
    for line in trace:
        if found := _ASSIGNED.match(line):
            assigned.setdefault(int(found[1]), found[2])
    insertions = []
    for number, binding in enumerate(blank.bindings, (first or 0) - len(blank.bindings)):
        if binding.kind == "value":
            continue
        inferred = _resolve(f"?{number}", assigned) if first is not None else "?"
        if not _UNKNOWN.search(inferred) and inferred != "?":
            insertions += _write_type(binding, inferred)
        elif (
            binding.kind != "pattern" or blank.tokens[binding.place].text not in blank.constructors
        ):
            raise _refuse(problem, blank, binding)
    return insertions


def _resolve(inferred: str, assigned: Mapping[int, str]) -> str:
    """Unknown types in a type replaced by what was assigned to them."""
    while found := next((f for f in _UNKNOWN.finditer(inferred) if int(f[1]) in assigned), None):
        inferred = inferred[: found.start()] + assigned[int(found[1])] + inferred[found.end() :]
        if len(inferred) > _MAX_TYPE_CHARACTERS:
            return "?"
    return inferred


def _write_type(binding: Binding, inferred: str) -> list[TypeInsertion]:
    if binding.kind == "lambda":
        return [
            TypeInsertion(binding.place, False, "("),
            TypeInsertion(binding.place, True, f": {inferred})"),
        ]
    return [TypeInsertion(binding.place, True, f": {inferred}")]


def _refuse(problem: Problem, blank: UntypedProgram, binding: Binding) -> ProblemError:
    token = blank.tokens[binding.place]
    return ProblemError(
        f"problem {problem.id!r}: line {token.line}: the type of {token.text!r} is left to Dafny, "
        "and it does not tell which it takes while the body is empty; write the type out"
    )


def write_types(
    candidate: Candidate, blank: UntypedProgram, insertions: Sequence[TypeInsertion]
) -> WrittenText:
    """The candidate's file with the insertions.

    The body of an annotate problem must be its program with hints (``ProblemError`` otherwise).
    """
    if not insertions:
        return WrittenText(candidate.source, {})
    if candidate.problem.kind == ANNOTATE:
        return insert(candidate.body, list(_place_in_annotated(candidate, insertions)))
    hole = len(candidate.head)
    found = []
    for insertion in insertions:
        place = _find_edge(insertion, blank.places[insertion.token], blank.tokens[insertion.token])
        found.append((place if place <= hole else place + len(candidate.body), insertion.text))
    return insert(candidate.source, found)


def _find_edge(insertion: TypeInsertion, place: int, token: Token) -> int:
    return place + (len(token.text) if insertion.behind else 0)


def _place_in_annotated(
    candidate: Candidate, insertions: Sequence[TypeInsertion]
) -> Iterable[tuple[int, str]]:
    alignment = align(candidate.problem, candidate.body)
    if isinstance(alignment, list):
        raise ProblemError(
            f"problem {candidate.problem.id!r}: a body that is not its program was not refused"
        )
    places = find_places(candidate.body, alignment.theirs)
    for insertion in insertions:
        theirs = alignment.matched[insertion.token]
        yield _find_edge(insertion, places[theirs], alignment.theirs[theirs]), insertion.text
