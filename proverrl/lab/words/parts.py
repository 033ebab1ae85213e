"""The lab's interface to a language: statements, programs, decisions and answers from words.

Flows out: ``Formalizing``, ``Programming``, ``Deciding`` and ``Answering`` of Dafny and Lean, each
loaded when it is first asked for. Other languages have none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proverrl.errors import ProblemError
from proverrl.generate.families import ProgramText
from proverrl.lab.words.english import English
from proverrl.plugins import load
from proverrl.types import Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import refuse_text
from proverrl.verifier.body_place import end_column

_INK = re.compile(r"[^\n]")

ProgramGrade = Literal["refused", "unread", "unproved", "verified", "meant"]
"""Grades of a contract with its code: ``refused`` by the audit, or the contract says nothing;
``unread``: it is no program; ``unproved``: the code was not shown to meet the contract;
``verified``: it was, and the contract is another one than was meant; ``meant``: all is proved."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A claim as a problem of its own, and bodies that may prove it or its negation."""

    problem: Problem
    proofs: tuple[str, ...]
    refutations: tuple[str, ...]


class Asking(Protocol):
    """A text to be written from words, and judged by what a given statement means."""

    kind: str
    """Of problems whose hole takes it (``proverrl.lab.words.kinds``)."""
    unseen: frozenset[str]
    """Families that no training file holds."""

    def ask_statement(self, known: Candidate, english: English) -> ProgramText | None:
        """The problem of writing what another one states (``known``, with its proof), a reference
        body, and what is meant in words; None where this has no words for it."""

    def list_empty(self, problem: Problem) -> Sequence[str]:
        """Bodies that say or do nothing, or say what nothing meets; none of them may be proved."""

    def ask_empty(self, problem: Problem, body: str) -> Sequence[tuple[str, Candidate]]:
        """Candidates to verify, in order, of a body that can be read: a proof of one of these shows
        that it says nothing, or nothing that can be met; with each the reason in words."""

    def ask_admitted(self, problem: Problem, body: str) -> Candidate | None:
        """The candidate that shows that a body's demands can be met; None where it demands nothing,
        or no such question is known."""

    def shows_admitted(self, verdict: Verdict) -> bool:
        """True if the verdict on that says so."""


class Formalizing(Asking, Protocol):
    """Statements that are to be written from words."""

    def is_well_formed(self, candidate: Candidate, verdict: Verdict) -> bool:
        """True if the statement can be read and has a meaning, also where it is another one."""

    def ask_difference(self, problem: Problem, body: str) -> Sequence[Candidate]:
        """Candidates that show, in order, that a body means something else than what is meant."""

    def shows_difference(self, verdict: Verdict) -> bool:
        """True if the verdict on that says so."""

    def spoil(self, problem: Problem, body: str, rng: random.Random) -> tuple[str, str] | None:
        """A body with an error, and the kind of it in words; None where there is none to make."""

    def reword(self, problem: Problem, body: str, rng: random.Random) -> str | None:
        """A body that should say the same in other words; None where there is none to make."""

    def ask_words(self, text: str, kind: str, words: str) -> Problem:
        """A problem for words of somebody's own about a program or definitions of theirs; nobody
        says what is meant. ``kind`` is what the program's own hole admits. Raises ``ProblemError``
        for a text that has no place for a statement."""

    def state(self, problem: Problem, meant: str | None) -> Problem:
        """The problem with another statement, one that was found well formed, as what is meant;
        None: nothing is, and no body is proved."""

    def ask_proof(self, problem: Problem, body: str) -> Problem | None:
        """The problem of proving what a well-formed body states; None where no program to prove it
        of came with the words."""


class Programming(Asking, Protocol):
    """Contracts with code that meets them, both to be written from words, or the code alone."""

    given_kind: str
    """Of problems that give the contract."""

    def grade(self, candidate: Candidate, verdict: Verdict) -> ProgramGrade:
        """The grade of a judged program."""


class Deciding(Protocol):
    """Claims that are to be proved or disproved (``proverrl.lab.words.sides``)."""

    proof_kind: str
    """Of the problems that a side makes of a claim."""

    def state(self, problem: Problem, side: str) -> Problem:
        """The claim, or its closed negation, as a problem of its own, all of it our text. Raises
        ``ProblemError`` for one whose negation cannot be stated."""

    def check(self, problem: Problem) -> None:
        """Raise ``ProblemError`` as ``state`` does, for both sides."""

    def show(self, problem: Problem) -> str:
        """The claim with its hole, and what a disproof needs to know of the negation."""

    def list_variants(self, known: Candidate, rng: random.Random) -> Iterator[Variant]:
        """Without end, a theorem with its proof, then claims like it, true or false; nothing of a
        problem that has none."""

    def write(self, side: str, proof: str) -> str:
        """The body that chooses a side and proves it."""

    def ask_sides(self, variants: Sequence[Variant]) -> Candidate | None:
        """The candidate that shows which bodies of one theorem's variants do; None where each has
        to be verified by itself."""

    def read_sides(self, variants: Sequence[Variant], verdict: Verdict) -> list[tuple[str, str]]:
        """From that verdict, for each variant the side that a body proves, and the body; two empty
        texts where none does."""

    def describe(self, problem: Problem, english: English) -> str:
        """The claim in words; empty where there are none."""


class Answering(Protocol):
    """Claims that something exists, whose body names it (``proverrl.lab.words.answers``)."""

    proof_kind: str
    """Of the problem that an answer makes of it."""

    def put(self, candidate: Candidate, answer: str, end: int) -> Candidate:
        """The candidate to verify for one whose answer ends there in its body: what
        is claimed of it, with the rest of the body as the proof. Raises ``ProblemError`` for a
        problem that asks for nothing."""

    def check(self, problem: Problem) -> None:
        """Raise ``ProblemError`` as ``put`` does."""

    def hide_claim(self, problem: Problem) -> str:
        """The problem's text without what it claims, where the words say it."""

    def ask(self, known: Candidate, rng: random.Random, english: English) -> ProgramText | None:
        """A question made of a problem with its proof, with the answer and a proof as its
        reference; None where there is none to make."""


_FORMALIZING: Mapping[str, str] = {
    "dafny": "proverrl.lab.words.dafny.contract:FORMALIZING",
    "lean": "proverrl.lab.words.lean.proposition:FORMALIZING",
}
_PROGRAMMING: Mapping[str, str] = {"dafny": "proverrl.lab.words.dafny.program:PROGRAMMING"}
_DECIDING: Mapping[str, str] = {
    "dafny": "proverrl.lab.words.dafny.claim:DECIDING",
    "lean": "proverrl.lab.words.lean.claim:DECIDING",
}
_ANSWERING: Mapping[str, str] = {
    "dafny": "proverrl.lab.words.dafny.answer:ANSWERING",
    "lean": "proverrl.lab.words.lean.answer:ANSWERING",
}


def find_formalizing(language: str) -> Formalizing | None:
    """Statements written from words; None where there are none."""
    found: Formalizing | None = _find(_FORMALIZING, language)
    return found


def find_programming(language: str) -> Programming | None:
    """Programs written from words; None where there are none."""
    found: Programming | None = _find(_PROGRAMMING, language)
    return found


def find_deciding(language: str) -> Deciding | None:
    """Claims to be proved or disproved; None where there are none."""
    found: Deciding | None = _find(_DECIDING, language)
    return found


def find_answering(language: str) -> Answering | None:
    """Questions; None where there are none."""
    found: Answering | None = _find(_ANSWERING, language)
    return found


def _find(places: Mapping[str, str], language: str) -> Any:
    # Loaded late, because these modules need this one.
    return load("words", places[language]) if language in places else None


def is_program(problem: Problem) -> bool:
    """True if code is to be written, with its contract or for a given one."""
    programming = find_programming(problem.language)
    return programming is not None and problem.kind in (programming.kind, programming.given_kind)


def get_formalizing(problem: Problem) -> Formalizing:
    """The part of the problem's language. Raises ``ProblemError`` where no statement is asked."""
    formalizing = find_formalizing(problem.language)
    if formalizing is None or problem.kind != formalizing.kind:
        raise ProblemError(f"problem {problem.id!r} asks for a proof, not for a statement")
    return formalizing


def blank_out(text: str) -> str:
    """As many blanks and line ends, so that what follows keeps its place."""
    return _INK.sub(" ", text)


def refuse_opening(candidate: Candidate, rule: str, message: str) -> Verdict:
    """The audit's verdict on a body that does not begin as it has to."""
    line, column = candidate.head.count("\n") + 1, end_column(candidate.head)
    missing = Diagnostic("error", message, line, column, body_line=1, body_column=0)
    return refuse_text(Status.REJECTED, rule, (missing,))
