"""Draws problems of the lab's kinds, of the families of a language.

Flows in: a language whose families have words, or that negates its theorems. Flows out: a
``Generator`` of statements and programs to be written from words, of questions, or of theorems with
variants. The meaning of a statement decides its split: no valid or held-out problem means what a
training problem means, whatever its names. Half of its wordings are those that training never uses.
A question belongs to the split of its own text, a theorem and its variants to that of its program.
Families whose statements have no words yet give nothing. Not handled here: how a theorem becomes a
question (``Answering.ask``), and which variants hold (``proverrl.lab.words.variants``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from proverrl.config.base import DafnyVersion
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
from proverrl.lab.words.parts import (
    Asking,
    find_answering,
    find_deciding,
    find_formalizing,
    find_programming,
)
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.open import open_router
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import LanedVerifier, Limits

_RLIMIT = 400_000


class AskingGenerator(DerivedGenerator):
    """Problems of the lab's kinds, which a router settles. Nothing is learned of a problem."""

    limits = Limits()

    def open_verifier(
        self, workers: int, dafny_version: DafnyVersion = "auto"
    ) -> tuple[LanedVerifier, LearnMetadata]:
        """See ``Generator``."""
        options = BackendOptions(workers=workers, limits=self.limits, dafny_version=dafny_version)
        return open_router(options), lambda problem: {}


class TheoremGenerator(AskingGenerator):
    """The families of a language's generator that give theorems with variants."""

    mark = "d"
    # Low, since most bodies that are tried must fail.
    limits = Limits(rlimit=_RLIMIT)

    def __init__(self, language: Language) -> None:
        base, deciding = find_generator(language.name), find_deciding(language.name)
        if base is None or deciding is None:
            raise ProblemError(f"there are no {language.title} theorems to be decided")
        self.deciding = deciding
        super().__init__(base)

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """See ``Generator``."""
        return self.base.list_trivial(draft)

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``: the theorem itself, where it has variants."""
        theorem = next(self.deciding.list_variants(known, rng), None)
        if theorem is None:
            return None
        lines = theorem.problem.statement.splitlines()
        return replace(made, lines=lines, reference=theorem.proofs[0], kind=theorem.problem.kind)


class QuestionGenerator(AskingGenerator):
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

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``."""
        words = English(rng, "train" if self._known_words else names.split)
        return self._answering.ask(known, rng, words)


class StatementGenerator(AskingGenerator):
    """The families of a language's generator, each asked for its statement, or with ``programs``
    for its statement and the code that meets it. With ``known_words`` only wordings that training
    uses occur, whatever the split. With ``with_program`` the program behind a statement is kept, so
    that the written one can be proved of it."""

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

    def derive(
        self, made: ProgramText, known: Candidate, rng: random.Random, names: Names
    ) -> ProgramText | None:
        """See ``DerivedGenerator``: what it states, to be written from words."""
        split = "train" if self._known_words else names.split
        asked = self._asking.ask_statement(known, English(rng, split))
        return asked if asked is None or self._with_program else replace(asked, metadata={})
