"""Dafny, as the rest of ProverRL sees it.

Flows in: problems, candidates, text. Flows out: what ``Language`` promises. Not handled here: how
any of it is done; each method hands on to the module that does it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from proverrl.errors import ProblemError
from proverrl.lang.base import (
    BackendOptions,
    Composing,
    Facts,
    Language,
    Searching,
    Sketching,
)
from proverrl.lang.dafny import answers
from proverrl.lang.dafny.audit import KINDS, audit_candidate, check_problem
from proverrl.lang.dafny.backend import open_dafny
from proverrl.lang.dafny.canaries import CANARIES
from proverrl.lang.dafny.strip import DAFNY_4, explain_dafny_4, strip_hints
from proverrl.lang.dafny.syntax.text import BUILT_IN_MEMBERS, KEYWORDS, normalise, scan_tokens
from proverrl.lang.records import Extraction, Part
from proverrl.lang.words import drop_names
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Verdict
from proverrl.verify.router import Backend

_DECLARES = frozenset("method lemma function predicate".split())


class Dafny(Language):
    """Dafny 2.3, and the forms of Dafny 4 that its programs hold most often."""

    name = "dafny"
    title = "Dafny"
    suffix = ".dfy"
    comment = "//"
    fences = ("dafny", "dfy")
    kinds = KINDS
    layout = "dafny"
    keywords = KEYWORDS
    built_ins = BUILT_IN_MEMBERS
    file_start = re.compile(
        r"^(?:ghost |static )*(?:method|lemma|function|predicate)\b", re.MULTILINE
    )
    canaries = CANARIES

    @property
    def searching(self) -> Searching:
        from proverrl.lang.dafny.search.states import SEARCHING

        return SEARCHING

    @property
    def sketching(self) -> Sketching:
        from proverrl.lang.dafny.search import subgoals

        return subgoals

    @property
    def facts(self) -> Facts:
        from proverrl.lang.dafny.search import facts

        return facts

    @property
    def composing(self) -> Composing:
        from proverrl.lang.dafny.compose.composing import COMPOSING

        return COMPOSING

    def open_backend(self, options: BackendOptions) -> Backend:
        return open_dafny(options)

    def audit(self, candidate: Candidate) -> Verdict | None:
        return audit_candidate(candidate)

    def check_problem(self, problem: Problem) -> None:
        try:
            check_problem(problem)
        except ProblemError as error:
            newer = explain_dafny_4(problem.statement)
            raise ProblemError(f"{error} ({newer})" if newer else str(error)) from error

    def diagnose(self) -> list[Part]:
        from proverrl.lang.dafny.diagnose import check_dafny

        return check_dafny()

    def find_name(self, problem: Problem) -> str:
        return answers.find_name(problem)

    def read_body(self, problem: Problem, code: str) -> Extraction:
        return answers.read_body(problem, code)

    def normal_form(self, body: str) -> str:
        """Its tokens, since layout means nothing."""
        return " ".join(piece for _, piece in scan_tokens(body))

    def find_steps(self, body: str) -> list[int]:
        return answers.find_steps(body)

    def read_skeletons(self, text: str) -> tuple[str, str]:
        text = text.replace(HOLE, " ")
        try:
            tokens = [piece for _, piece in scan_tokens(text)]
            return " ".join(drop_names(tokens, _DECLARES)), normalise(text)
        except ProblemError:
            # A comment that is never closed: no program, and compared as it stands.
            return text, text

    def find_misfit(self, problems: Iterable[Problem], toolchain: str) -> str:
        newer = sum(p.metadata.get("dialect") == DAFNY_4 for p in problems)
        if not newer or not toolchain.startswith("dafny 2."):
            return ""
        return f"{newer} problems are written for Dafny 4; none can be proved by {toolchain}"

    def state_key(self, problem: Problem) -> str:
        """All of the program counts, names replaced by their order and hints left out."""
        program = (problem.preamble + problem.statement).replace(HOLE, "")
        if problem.kind == ANNOTATE:
            # What cannot be read is compared as it stands.
            with contextlib.suppress(ProblemError):
                program = strip_hints(program)[0]
        return normalise(program)


DAFNY = Dafny()
