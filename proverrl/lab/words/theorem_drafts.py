"""Draws theorems whose variants are to be proved or disproved, of the families of a language.

Flows in: a language that negates its theorems. Flows out: a ``Generator`` of those theorems that
have variants. A theorem belongs to the split of its program, and so does each of its variants.
Not handled here: which variants hold (``proverrl.lab.words.variants`` asks the verifier).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.generate import find_generator
from proverrl.generate.families import (
    CurriculumDraft,
    DerivedGenerator,
    LearnMetadata,
    Names,
    ProgramText,
)
from proverrl.lab.words.parts import find_deciding
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.open import open_router
from proverrl.types import Candidate
from proverrl.verifier.base import LanedVerifier, Limits

_RLIMIT = 400_000


class TheoremGenerator(DerivedGenerator):
    """The families of a language's generator that give theorems with variants."""

    mark = "d"

    def __init__(self, language: Language) -> None:
        base, deciding = find_generator(language.name), find_deciding(language.name)
        if base is None or deciding is None:
            raise ProblemError(f"there are no {language.title} theorems to be decided")
        self.deciding = deciding
        super().__init__(base)

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """See ``Generator``."""
        return self.base.list_trivial(draft)

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """Limits are low, since most bodies that are tried must fail; nothing is learned of a
        problem."""
        limits = Limits(rlimit=_RLIMIT)
        return open_router(BackendOptions(workers=workers, limits=limits)), lambda problem: {}

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``: the theorem itself, where it has variants."""
        theorem = next(self.deciding.list_variants(known, rng), None)
        if theorem is None:
            return None
        lines = theorem.problem.statement.splitlines()
        return replace(made, lines=lines, reference=theorem.proofs[0], kind=theorem.problem.kind)
