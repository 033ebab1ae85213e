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
from proverrl.generate import find_generator
from proverrl.generate.families import (
    CurriculumDraft,
    DerivedGenerator,
    LearnMetadata,
    Names,
    ProgramText,
)
from proverrl.lab.words.english import English
from proverrl.lab.words.parts import Asking, find_formalizing, find_programming
from proverrl.lang.base import Language
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import LanedVerifier


class StatementGenerator(DerivedGenerator):
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
        base = find_generator(language.name)
        asking: Asking | None = (
            find_programming(language.name) if programs else find_formalizing(language.name)
        )
        if base is None or asking is None:
            what = "programs" if programs else "statements"
            raise ProblemError(f"there are no {language.title} {what} to be written")
        self._asking = asking
        self._known_words = known_words
        self._with_program = with_program
        self.mark = "p" if programs else "s"
        super().__init__(base)
        self.unseen = asking.unseen

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """Bodies that say or do nothing."""
        problem = Problem("draft", self.language, draft.kind, "", draft.statement)
        return self._asking.list_empty(problem)

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """See ``Generator``."""
        return self.base.open_verifier(workers)

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``: what it states, to be written from words."""
        split = "train" if self._known_words else names.split
        asked = self._asking.ask_statement(known, English(rng, split))
        return asked if asked is None or self._with_program else replace(asked, program={})
