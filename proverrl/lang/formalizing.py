"""Draws what is to be written from words, statements or programs, of the families of a language.

Flows in: a language whose families have words. Flows out: a ``Generator`` of such problems. What is
meant decides which split a problem belongs to: no valid or held-out problem means what a training
problem means, whatever its names, and half of its wordings are those that training never uses.
Families whose statements have no words yet give nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

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
from proverrl.lang.parts import Asking
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import LanedVerifier


class StatementGenerator(Generator):
    """The families of a language's generator, each asked for its statement, or with ``programs``
    for its statement and the code that meets it; with ``known_words`` in no wording that training
    does not use, whatever the split; with ``with_program`` the program that a statement is about
    is kept, so that what is written can be proved of it."""

    def __init__(
        self,
        language: Language,
        *,
        programs: bool = False,
        known_words: bool = False,
        with_program: bool = False,
    ) -> None:
        base = language.generator
        asking = language.programming if programs else language.formalizing
        if base is None or asking is None:
            what = "programs" if programs else "statements"
            raise ProblemError(f"there are no {language.title} {what} to be written from words")
        self._base, self._asking = base, asking
        self._mark = "p" if programs else "s"
        self._known_words = known_words
        self._with_program = with_program
        self.language = base.language
        self.pools = base.pools
        self.unseen = asking.unseen
        self.families = {
            level: {name: self._ask(family, asking) for name, family in known.items()}
            for level, known in base.families.items()
        }

    def normalise(self, statement: str) -> str:
        """See ``Generator``."""
        return self._base.normalise(statement)

    def build_id(self, draft: CurriculumDraft) -> str:
        """That of the statement with a mark: one statement may be asked for once."""
        return f"{super().build_id(draft)}-{self._mark}"

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """What says or does nothing."""
        problem = Problem("draft", self.language, draft.kind, "", draft.statement)
        return self._asking.list_empty(problem)

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """See ``Generator``."""
        return self._base.open_verifier(workers)

    def _ask(self, family: Family, asking: Asking) -> Family:
        def make(rng: random.Random, names: Names) -> ProgramText:
            made = family(rng, names)
            text = "\n".join(made.lines) + "\n"
            known = Candidate(Problem("draft", self.language, made.kind, "", text), made.reference)
            words = English(rng, "train" if self._known_words else names.split)
            asked = asking.ask_statement(known, words)
            if asked is None:
                raise NoDraftError
            return asked if self._with_program else replace(asked, program={})

        return make
