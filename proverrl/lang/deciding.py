"""Draws theorems whose variants are to be proved or disproved, of the families of a language.

Flows in: a language that negates its theorems. Flows out: a ``Generator`` of those theorems that
have variants. A theorem belongs to the split of its program, and so does each of its variants.
Not handled here: which variants hold (``proverrl.problems.decisions`` asks the verifier).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.generating import (
    CurriculumDraft,
    Family,
    Generator,
    LearnMetadata,
    Names,
    NoDraftError,
    ProgramText,
)
from proverrl.lang.open import open_router
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import LanedVerifier, Limits

_RLIMIT = 400_000


class TheoremGenerator(Generator):
    """The families of a language's generator that give theorems with variants."""

    def __init__(self, language: Language) -> None:
        base, deciding = language.generator, language.deciding
        if base is None or deciding is None:
            raise ProblemError(f"there are no {language.title} theorems to be decided")
        self._base, self.deciding = base, deciding
        self.language = base.language
        self.pools = base.pools
        self.unseen = base.unseen
        self.families = {
            level: {name: self._pick(family) for name, family in known.items()}
            for level, known in base.families.items()
        }

    def normalise(self, statement: str) -> str:
        """See ``Generator``."""
        return self._base.normalise(statement)

    def build_id(self, draft: CurriculumDraft) -> str:
        """That of the statement with a mark."""
        return f"{super().build_id(draft)}-d"

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """See ``Generator``."""
        return self._base.list_trivial(draft)

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """Limits are low, since most bodies that are tried must fail; nothing is learned of a
        problem."""
        limits = Limits(rlimit=_RLIMIT)
        return open_router(BackendOptions(workers=workers, limits=limits)), lambda problem: {}

    def _pick(self, family: Family) -> Family:
        def make(rng: random.Random, names: Names) -> ProgramText:
            made = family(rng, names)
            text = "\n".join(made.lines) + "\n"
            known = Candidate(Problem("draft", self.language, made.kind, "", text), made.reference)
            theorem = next(self.deciding.list_variants(known, rng), None)
            if theorem is None:
                raise NoDraftError
            lines = theorem.problem.statement.splitlines()
            return replace(
                made, lines=lines, reference=theorem.proofs[0], kind=theorem.problem.kind
            )

        return make
