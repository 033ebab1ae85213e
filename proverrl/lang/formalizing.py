"""Draws statements that are to be written from words, of the families of a language.

Flows in: a language whose families have words. Flows out: a ``Generator`` of such problems. What is
meant decides which split a problem belongs to: no valid or held-out problem means what a training
problem means, whatever its names, and half of its wordings are those that training never uses.
Families whose statements have no words yet give nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from proverrl.errors import ProblemError
from proverrl.lang.base import Language
from proverrl.lang.english import English
from proverrl.lang.generating import (
    CurriculumDraft,
    Family,
    Generator,
    LearnMetadata,
    Names,
    NoDraftError,
    ProgramText,
)
from proverrl.lang.parts import Formalizing
from proverrl.types import Problem
from proverrl.verify.base import LanedVerifier


class StatementGenerator(Generator):
    """The families of a language's generator, each asked for its statement."""

    def __init__(self, language: Language) -> None:
        base, formalizing = language.generator, language.formalizing
        if base is None or formalizing is None:
            raise ProblemError(f"there are no {language.title} statements to be written from words")
        self._base, self._formalizing = base, formalizing
        self.language = base.language
        self.pools = base.pools
        self.unseen = formalizing.unseen
        self.families = {
            level: {
                name: _ask(family, base.language, formalizing) for name, family in known.items()
            }
            for level, known in base.families.items()
        }

    def normalise(self, statement: str) -> str:
        """See ``Generator``."""
        return self._base.normalise(statement)

    def build_id(self, draft: CurriculumDraft) -> str:
        """That of the statement, with an ``s``: one statement may be asked for once."""
        return f"{super().build_id(draft)}-s"

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """What says nothing."""
        problem = Problem("draft", self.language, draft.kind, "", draft.statement)
        return self._formalizing.list_empty(problem)

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """See ``Generator``."""
        return self._base.open_verifier(workers)


def _ask(family: Family, language: str, formalizing: Formalizing) -> Family:
    def make(rng: random.Random, names: Names) -> ProgramText:
        made = family(rng, names)
        problem = Problem("draft", language, made.kind, "", "\n".join(made.lines) + "\n")
        asked = formalizing.ask_statement(problem, English(rng, names.split))
        if asked is None:
            raise NoDraftError
        return asked

    return make
