"""Lemmas that say that something exists, as questions for it.

Flows in: a problem of the kind ``answer``: a lemma with one ``ensures exists x: T :: CLAIM``, and
an answer. Flows out: the lemma with ``ensures (var x: T := ANSWER; CLAIM)``, a binding and no
replaced text, so that no name can be caught. It holds for all arguments of the lemma, and from it
follows what is asked.
Also here: questions made of theorems, by asking for a number of theirs. Not handled here: whether
there is another answer; questions for anything but whole numbers and truth values.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.generate.families import ProgramText
from proverrl.lab.words.answers import ANSWER, EXPECTED
from proverrl.lab.words.dafny.claim import DECIDING, open_lemma, refuse_unproved
from proverrl.lab.words.dafny.fresh import find_fresh
from proverrl.lab.words.english import ASKS, English, write_digits
from proverrl.lab.words.parts import blank_out
from proverrl.lang.dafny.audit.bodies import check_problem
from proverrl.lang.dafny.compose.declarations import Program, read_problem
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.types import HOLE, Candidate, Problem

_EXISTS = re.compile(r"\s*exists\s+(\w+)\s*:\s*(int|nat|bool)\s*::(.*)", re.DOTALL)
_LOGIC = frozenset("==> <==> && || != < <= > >= !".split())
_LEAST_ASKED = 2


class DafnyAnswering:
    """``Answering`` in Dafny."""

    proof_kind = "statements"

    def put(self, candidate: Candidate, answer: str, end: int) -> Candidate:
        """See ``Answering``."""
        program, name, kind, claim = _read_question(candidate.problem)
        said = f"(var {name}: {kind} := {answer}; {claim.strip()})"
        target = program.target.rewrite(
            clauses=tuple(
                (word, said if word == "ensures" else text) for word, text in program.target.clauses
            )
        )
        text = program.with_target(target).text
        problem = Problem(
            candidate.problem.id, candidate.problem.language, self.proof_kind, "", text
        )
        body = blank_out(candidate.body[:end]) + candidate.body[end:]
        return Candidate(problem, body, candidate.prelude)

    def check(self, problem: Problem) -> None:
        """See ``Answering``."""
        check_problem(self.put(Candidate(problem, ""), "0", 0).problem)
        refuse_unproved(problem, "what is asked for")

    def hide_claim(self, problem: Problem) -> str:
        """See ``Answering``."""
        program = read_problem(problem)
        target = program.target.rewrite(clauses=())
        return program.with_target(target).text

    def ask(self, known: Candidate, rng: random.Random, english: English) -> ProgramText | None:
        """See ``Answering``: of an equation, for a number that stands nowhere else in the lemma."""
        theorem = open_lemma(known)
        if theorem is None:
            return None
        program = read_problem(theorem.problem)
        target = program.target
        claims = target.list_clauses("ensures")
        if len(claims) != 1 or not _is_equation(claims[0]):
            return None
        (claim,) = claims
        places = [(piece, at) for kind, piece, at in scan_places(claim) if kind == "number"]
        places = [(piece, at) for piece, at in places if int(piece, 0) >= _LEAST_ASKED]
        if not places:
            return None
        number, at = rng.choice(places)
        name = find_fresh("c", [program.text])
        asked = f"{claim[:at]}{name}{claim[at + len(number) :]}"
        made = target.rewrite(
            clauses=tuple(
                (word, f"exists {name}: int :: {asked}" if word == "ensures" else text)
                for word, text in target.clauses
            )
        )
        plain = target.rewrite(
            clauses=tuple(
                (word, asked if word == "ensures" else text) for word, text in target.clauses
            )
        )
        problem = replace(theorem.problem, statement=program.with_target(plain).text)
        said = DECIDING.describe(problem, english)
        if not said or find_leak(number, made.text, said):
            return None
        words = english.choose(ASKS).format(f"{said[:1].lower()}{said[1:-1]}", f"`{name}`")
        return ProgramText(
            program.with_target(made).text.splitlines(),
            f"answer {number};\n{theorem.reference or ''}".rstrip(),
            ANSWER,
            words[:1].upper() + words[1:],
            {EXPECTED: number},
        )


def find_leak(answer: str, lemma: str, words: str) -> bool:
    """True if the text of the lemma, or what is said of it, holds the answer."""
    held = {piece for _, piece, _ in scan_places(lemma)}
    return answer in held | set(re.findall(r"[0-9]+", write_digits(words)))


def _read_question(problem: Problem) -> tuple[Program, str, str, str]:
    """The program, and of what is asked the name, the type and the claim. Raises
    ``ProblemError``."""
    program = read_problem(problem)
    target = program.target
    claims = target.list_clauses("ensures")
    found = _EXISTS.fullmatch(claims[0]) if len(claims) == 1 else None
    if target.word != "lemma" or target.returns or found is None:
        raise ProblemError(
            f"problem {problem.id!r}: what is asked for is 'ensures exists x: int :: ...' of a "
            "lemma without results, with int, nat or bool"
        )
    return program, found[1], found[2], found[3]


def _is_equation(claim: str) -> bool:
    """True if a claim is one equation, which mostly has one answer."""
    pieces: Sequence[str] = [piece for _, piece, _ in scan_places(claim)]
    return pieces.count("==") == 1 and not _LOGIC & set(pieces) and HOLE not in claim


ANSWERING = DafnyAnswering()
