"""Writes the types that Dafny infers for our text into it, so that no hint can change them.

Flows in: a problem, what Dafny's type inference says of it with an empty body, a candidate.
Flows out: the candidate's file with a type behind every name of ours that had none, and the way
back from its columns. Dafny infers types over a whole method: ``assert i == (0 as bv8)`` in a hole
turned our ``var i := 0`` into a bit vector, for which other things are true. A hint shares with our
expressions only our variables, and in a calc the type of its lines.
Not handled here: asking Dafny (``known``); the types of what a hint declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.annotated import align, get_program_text
from proverrl.lang.dafny.audit.files import find_endless_lemmas
from proverrl.lang.dafny.audit.methods import gives_contract
from proverrl.lang.dafny.known_bugs.believed import find_bugs, leaves_out_arguments
from proverrl.lang.dafny.known_bugs.unallocated import find_empty_types
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.plain import WrittenText, insert
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.tokens import Token, find_places
from proverrl.lang.records import Finding
from proverrl.text_cache import cache_texts
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem


@dataclass(frozen=True, slots=True)
class TypeInsertion:
    """Text to be put before or behind one of our tokens."""

    token: int
    behind: bool
    text: str


@cache_texts
def read_untyped(problem_id: str, text: str) -> ParsedProgram:
    """The types that Dafny has to infer in a problem's text with an empty body.

    Raises ``ProblemError`` when the text is not a program, or one from which anything follows.
    """
    try:
        program = read_text(text)
    except GrammarError as error:
        raise _refuse_program(problem_id, error.finding) from error
    _refuse_partial_types(problem_id, program)
    if program.two_state:
        raise ProblemError(
            f"problem {problem_id!r}: it declares a two-state function, which Dafny believes "
            "of every heap when a hint puts it into a lambda"
        )
    for finding in (
        *find_endless_lemmas(program),
        *find_empty_types(program),
        *find_bugs(program),
    ):
        raise _refuse_program(problem_id, finding)
    return program


def _refuse_program(problem_id: str, finding: Finding) -> ProblemError:
    return ProblemError(
        f"problem {problem_id!r}: line {finding.line}: no proof can be held to its program: "
        f"{finding.message}"
    )


def _refuse_partial_types(problem_id: str, program: ParsedProgram) -> None:
    """Raises ``ProblemError`` for a variable whose type leaves out arguments (``seq``)."""
    fixed = {name for _, _, name in program.formals}
    for name, span in program.typed.items():
        if name not in fixed and any(leaves_out_arguments(program, i) for i in range(*span)):
            token = program.tokens[name]
            raise ProblemError(
                f"problem {problem_id!r}: line {token.line}: the type of {token.text!r} leaves "
                "arguments to Dafny, which infers them; write them out"
            )


def get_empty_body(problem: Problem) -> str:
    """A body that adds nothing to the problem's text, and with which Dafny can read it."""
    if problem.kind == ANNOTATE:
        return get_program_text(problem)
    return "{ }" if problem.kind == "program" and gives_contract(problem) else ""


def get_blank(problem: Problem) -> str:
    """The problem's text with an empty body."""
    body = get_empty_body(problem)
    return body if problem.kind == ANNOTATE else Candidate(problem, body).source


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
    pieces = [(blank.places[start], "(var calc_line := "), (blank.end(end - 1), "; calc_line)")]
    skipped = hole - problem.statement.index(HOLE)
    statement = insert(problem.statement, [(place - skipped, piece) for place, piece in pieces])
    named = replace(candidate, problem=replace(problem, statement=statement.text))
    return named, insert(candidate.source, pieces)


def read_insertions(
    problem: Problem, blank: ParsedProgram, types: Sequence[str]
) -> list[TypeInsertion]:
    """``types``, which Dafny inferred for the bindings, as text to be inserted.

    Raises ``ProblemError`` when the type of a variable was not found.
    """
    insertions = []
    for binding, inferred in zip(blank.bindings, types, strict=True):
        if binding.kind == "value":
            continue
        if inferred:
            behind = f": {inferred}"
            if binding.kind == "lambda":
                insertions.append(TypeInsertion(binding.place, False, "("))
                behind += ")"
            insertions.append(TypeInsertion(binding.place, True, behind))
        elif blank.tokens[binding.place].text == "_":
            # Nothing can speak of it.
            continue
        elif (
            binding.kind != "pattern" or blank.tokens[binding.place].text not in blank.constructors
        ):
            token = blank.tokens[binding.place]
            raise ProblemError(
                f"problem {problem.id!r}: line {token.line}: the type of {token.text!r} is left to "
                "Dafny, and it does not tell which it takes while the body is empty; write the "
                "type out"
            )
    return insertions


def write_types(
    candidate: Candidate, blank: ParsedProgram, insertions: Sequence[TypeInsertion]
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
