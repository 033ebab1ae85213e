"""Draws questions, of the families of a language.

Flows in: a language with questions. Flows out: a ``Generator`` of problems of the kind ``answer``.
A question belongs to the split of its own text. Not handled here: how a theorem becomes one
(``Answering.ask``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from proverrl.errors import ProblemError
from proverrl.generate import find_generator
from proverrl.generate.families import (
    CurriculumDraft,
    DerivedGenerator,
    LearnMetadata,
    Names,
    ProgramText,
)
from proverrl.lab.words.answers import EXPECTED, read_given
from proverrl.lab.words.english import English
from proverrl.lab.words.parts import find_answering
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.open import open_router
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import LanedVerifier, Limits


class QuestionGenerator(DerivedGenerator):
    """The families of a language's generator that give questions for a number; with
    ``known_words`` in no wording that training does not use, whatever the split."""

    mark = "a"

    def __init__(self, language: Language, *, known_words: bool = False) -> None:
        base, answering = find_generator(language.name), find_answering(language.name)
        if base is None or answering is None:
            raise ProblemError(f"there are no {language.title} questions to be answered")
        self._answering = answering
        self._known_words = known_words
        super().__init__(base)

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """No answer, and those that anybody would try first."""
        return ("", "answer 0;", "answer 1;")

    def note(self, draft: CurriculumDraft) -> dict[str, Any]:
        """The answer of the reference."""
        problem = Problem("draft", self.language, draft.kind, "", draft.statement)
        return {EXPECTED: read_given(problem, draft.reference)}

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """See ``Generator``. Nothing is learned of a problem."""
        router = open_router(BackendOptions(workers=workers, limits=Limits()))
        return router, lambda problem: {}

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``."""
        words = English(rng, "train" if self._known_words else names.split)
        return self._answering.ask(known, rng, words)
