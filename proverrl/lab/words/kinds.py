"""The kinds of problems that ask for more than a proof, and what stands behind their holes.

Flows in: problems of a language. Flows out: ``Kind``s. ``formalize`` asks for what words say, a
contract or a proposition, and ``implement`` for a contract with the code that meets it. Both are
judged as the language's own kinds of hole. A policy sees the words and the text up to the hole:
what is meant stands behind it. ``AskingKind`` is the base of kinds for claims and for questions
(``sides``, ``answers``).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Generic, TypeVar

from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.bodies import CONTRACT, PROGRAM
from proverrl.lang.dafny.audit.methods import gives_contract
from proverrl.lang.kinds import Kind
from proverrl.lang.lean.audit.text import PROPOSITION
from proverrl.types import HOLE, Candidate, Problem, Verdict

FORMALIZE = "formalize"
"""The kind of a statement that is to be written from words."""
IMPLEMENT = "implement"
"""The kind of a contract and its code that are to be written from words."""

PartT = TypeVar("PartT")


class AskingKind(Kind, Generic[PartT]):
    """A kind of one language, of which a part of that language knows the texts."""

    asked: str
    """What there is none of in other languages."""

    def __init__(self, language: str) -> None:
        self.language = language

    @abstractmethod
    def find_part(self) -> PartT | None:
        """The part of the language; None where it has none."""

    @property
    def part(self) -> PartT:
        """The part of the language. Raises ``ProblemError`` where it has none."""
        found = self.find_part()
        if found is None:
            raise ProblemError(f"there are no {self.asked} in {self.language}")
        return found


class WordsKind(Kind):
    """A kind of hole that a language judges, and that is to be filled from words."""

    def __init__(self, judged: str, ask: str = "") -> None:
        self._judged, self.ask = judged, ask

    def check(self, problem: Problem) -> None:
        """See ``Kind``: also refused is a problem without words."""
        if not problem.informal.strip():
            raise ProblemError("it asks for a statement from words and has none; fill 'informal'")
        self.check_text(problem)
        find_language(problem.language).check_problem(replace(problem, kind=self._judged))

    def check_text(self, problem: Problem) -> None:
        """Raise ``ProblemError`` for a text that asks for something else."""

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        """See ``Kind``: the same text."""
        self.check_text(candidate.problem)
        return replace(candidate, problem=replace(candidate.problem, kind=self._judged))

    def show(self, problem: Problem) -> str:
        """The text up to the hole."""
        return (problem.preamble + problem.statement).partition(HOLE)[0] + HOLE


class ImplementKind(WordsKind):
    """A method of Dafny whose contract is to be written with its code."""

    def check_text(self, problem: Problem) -> None:
        """Refused is a method that has its contract, since only code could be written then."""
        if gives_contract(problem):
            raise ProblemError(
                f"problem {problem.id!r}: its head gives a contract, which is to be written from "
                "the words; drop its 'ensures'"
            )


_SAYS = "Write the contract (requires and ensures) that says what is said in words"
DAFNY_FORMALIZE = WordsKind(CONTRACT, _SAYS)
DAFNY_IMPLEMENT = ImplementKind(
    PROGRAM, f"{_SAYS}, and the block of code with loop invariants that meets it,"
)
LEAN_FORMALIZE = WordsKind(PROPOSITION)


def knows_meaning(problem: Problem) -> bool:
    """True if what is meant stands behind the hole of a problem that asks for a statement."""
    return bool(problem.statement.partition(HOLE)[2].strip())
