"""Theorems as claims that are to be proved or disproved.

Flows in: a problem of the kind ``decide``, whose hole is the proof of a theorem, and a side. Flows
out: the problem that is verified, the theorem itself or its closed negation ``¬ (∀ parameters,
claim)`` in its place. Where the text around it could bind more than the theorem names, the negation
would be another one, and the problem is refused.
Also here: claims like a theorem on natural numbers, true and false. Not handled here: which of them
are true; variants of other theorems.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.lab.words.english import English
from proverrl.lab.words.lean.proposition import describe_theorem
from proverrl.lab.words.parts import Variant
from proverrl.lab.words.sides import SIDES
from proverrl.lang.lean.audit.text import check_lean_problem
from proverrl.lang.lean.compose import read_claim
from proverrl.lang.lean.syntax.declarations import Theorem, read_theorem
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.types import Candidate, Problem, Verdict

_BINDS_MORE = frozenset(("variable", "universe", "autoImplicit", "relaxedAutoImplicit", "include"))
_RELATIONS = ("=", "≠", "<", "≤", ">", "≥")
_OTHER_SIGNS = frozenset("∧ ∨ ¬ → ↔ ∀ ∃ , : fun".split())
_MOST_MOVED = 9
_WITNESSES = (0, 1, 3)


class LeanDeciding:
    """``Deciding`` in Lean."""

    proof_kind = "tactics"

    def state(self, problem: Problem, side: str) -> Problem:
        """See ``Deciding``."""
        theorem = _read(problem)
        text = problem.statement if side == SIDES[0] else _negate(theorem)
        stated = Problem(problem.id, problem.language, self.proof_kind, problem.preamble, text)
        check_lean_problem(stated)
        return stated

    def check(self, problem: Problem) -> None:
        """See ``Deciding``."""
        for side in SIDES:
            self.state(problem, side)

    def show(self, problem: Problem) -> str:
        """The theorem; its negation is written as it is."""
        _read(problem)
        return problem.preamble + problem.statement

    def list_variants(self, known: Candidate, rng: random.Random) -> Iterator[Variant]:
        """See ``Deciding``: of a theorem that relates two natural numbers, for all of some."""
        problem = replace(known.problem, kind=self.proof_kind)
        try:
            theorem, claim = _read(problem), read_claim(problem)
        except ProblemError:
            return
        related = _split(theorem.target)
        if claim is None or related is None or not claim.binders:
            return
        if any(b.kind != "Nat" or b.bracket != "(" or not b.names for b in claim.binders):
            return
        num = sum(len(binder.names) for binder in claim.binders)
        refutations = tuple(
            f"exact fun h => absurd (h{f' {value}' * num}) (by decide)" for value in _WITNESSES
        )
        # Its later lines stand in the hole's column.
        proof = known.body.replace("\n", "\n  ")
        told = f"have told : {theorem.target} := by\n    {proof}\n  omega"
        yield Variant(problem, (known.body,), refutations)
        while True:
            left, right = related
            moved = rng.choice(("", f" + {rng.randint(1, _MOST_MOVED)}"))
            target = f"{left} {rng.choice(_RELATIONS)} {right}{moved}"
            head = f"theorem {theorem.name} {theorem.binders}"
            text = f"{theorem.before}{head} : {target} {theorem.ending}"
            yield Variant(replace(problem, statement=text), (told,), refutations)

    def write(self, side: str, proof: str) -> str:
        """See ``Deciding``. The proof stands in the hole's column."""
        return f"{side}\n  {proof}"

    def ask_sides(self, variants: Sequence[Variant]) -> Candidate | None:
        """Lean says of a whole file whether it is right, and not of each theorem."""
        return None

    def read_sides(self, variants: Sequence[Variant], verdict: Verdict) -> list[tuple[str, str]]:
        """Nothing was asked."""
        return [("", "")] * len(variants)

    def describe(self, problem: Problem, english: English) -> str:
        """See ``Deciding``."""
        return describe_theorem(problem, english)


def _read(problem: Problem) -> Theorem:
    """Raises ``ProblemError`` for a theorem whose negation could be another one."""
    theorem = read_theorem(problem)
    around = {token.text for token in scan_code(problem.preamble + theorem.before)}
    if theorem.keyword not in ("theorem", "lemma") or around & _BINDS_MORE:
        raise ProblemError(
            f"problem {problem.id!r}: what is to be decided is a theorem or lemma that names all "
            f"its parameters itself; write them out, without {', '.join(sorted(_BINDS_MORE))}"
        )
    return theorem


def _negate(theorem: Theorem) -> str:
    claim = f"∀ {theorem.binders}, {theorem.target}" if theorem.binders else theorem.target
    return f"{theorem.before}theorem {theorem.name} : ¬ ({claim}) {theorem.ending}"


def _split(target: str) -> tuple[str, str] | None:
    """The two sides of a claim that is one relation between them."""
    found, depth = [], 0
    for token in scan_code(target):
        depth += (token.text in "([{") - (token.text in ")]}")
        if token.text in _OTHER_SIGNS:
            return None
        if depth == 0 and token.text in _RELATIONS:
            found.append(token)
    if len(found) != 1:
        return None
    return target[: found[0].offset].strip(), target[found[0].end :].strip()


DECIDING = LeanDeciding()
