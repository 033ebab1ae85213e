"""Theorems that say that something exists, as questions for it.

Flows in: a problem of the kind ``answer``: a theorem ``... : ∃ x : T, CLAIM``, and an answer. Flows
out: the theorem as it stands, whose proof begins with the answer: ``refine ⟨ANSWER, ?_⟩``.
Also here: questions made of theorems that relate two natural numbers, by asking for a number of
theirs. Not handled here: whether there is another answer.
"""

from __future__ import annotations

import random
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.generate.families import ProgramText
from proverrl.lab.words.answers import ANSWER, EXPECTED
from proverrl.lab.words.english import ASKS, English, write_digits
from proverrl.lab.words.lean.proposition import describe_theorem
from proverrl.lang.lean.audit.text import check_lean_problem
from proverrl.lang.lean.syntax.declarations import read_theorem
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.types import Candidate, Problem

_NAME = "c"
_OTHER_SIGNS = frozenset("∧ ∨ ¬ → ↔ ∀ ∃ , : fun ≠ < ≤ > ≥".split())


class LeanAnswering:
    """``Answering`` in Lean."""

    proof_kind = "tactics"

    def put(self, candidate: Candidate, answer: str, end: int) -> Candidate:
        """See ``Answering``. What follows stands in its own place where it begins a line."""
        problem = candidate.problem
        if not read_theorem(problem).target.lstrip().startswith("∃"):
            raise ProblemError(
                f"problem {problem.id!r}: what is asked for is a theorem '... : ∃ x : Nat, ...'"
            )
        lead = candidate.body[: len(candidate.body) - len(candidate.body.lstrip())]
        body = f"{lead}refine ⟨{answer}, ?_⟩{candidate.body[end:]}"
        return Candidate(replace(problem, kind=self.proof_kind), body, candidate.prelude)

    def check(self, problem: Problem) -> None:
        """See ``Answering``."""
        check_lean_problem(self.put(Candidate(problem, ""), "0", 0).problem)

    def hide_claim(self, problem: Problem) -> str:
        """See ``Answering``."""
        theorem = read_theorem(problem)
        return f"{theorem.before}theorem {theorem.name} : _ {theorem.ending}"

    def ask(self, known: Candidate, rng: random.Random, english: English) -> ProgramText | None:
        """See ``Answering``: of an equation, for a number that stands nowhere else in it."""
        try:
            theorem = read_theorem(known.problem)
        except ProblemError:
            return None
        tokens = list(scan_code(theorem.target))
        signs = {token.text for token in tokens}
        places = [token for token in tokens if token.text.isdigit() and int(token.text) >= 2]
        if signs & _OTHER_SIGNS or [t.text for t in tokens].count("=") != 1 or not places:
            return None
        place = rng.choice(places)
        head = f"{theorem.before}theorem {theorem.name} {theorem.binders}"
        asked = f"{theorem.target[: place.offset]}{_NAME}{theorem.target[place.end :]}"
        names = {token.text for token in scan_code(known.problem.statement)}
        said = describe_theorem(
            replace(known.problem, statement=f"{head} : {asked} {theorem.ending}"), english
        )
        text = f"{head} : ∃ {_NAME} : Nat, {asked} {theorem.ending}"
        held = {token.text for token in scan_code(f"{theorem.binders} {asked}")}
        if not said or _NAME in names or place.text in held | set(write_digits(said).split()):
            return None
        words = english.choose(ASKS).format("the following holds", f"`{_NAME}`")
        # The proof stands in the hole's column.
        reference = f"answer {place.text}\n  {known.body}"
        return ProgramText(
            text.splitlines(),
            reference,
            ANSWER,
            f"{words[:1].upper()}{words[1:]} {said}",
            {EXPECTED: place.text},
        )


ANSWERING = LeanAnswering()
