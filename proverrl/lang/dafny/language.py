"""Dafny, as the rest of ProverRL sees it.

Flows in: problems, candidates, text. Flows out: what ``Language`` promises. Answers that change our
text are refused here to save verifier calls; soundness does not rest on it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from proverrl.errors import ProblemError
from proverrl.lang.base import BackendOptions, Language
from proverrl.lang.dafny.audit.bodies import (
    CONTRACT,
    KINDS,
    PROGRAM,
    audit_candidate,
    check_problem,
    find_cheat,
)
from proverrl.lang.dafny.audit.methods import gives_contract
from proverrl.lang.dafny.audit.strip import DAFNY_4, strip_hints
from proverrl.lang.dafny.includes import are_modular, split_includes
from proverrl.lang.dafny.project import PROJECT_FILE, read_project
from proverrl.lang.dafny.syntax.text import (
    BUILT_IN_MEMBERS,
    KEYWORDS,
    normalise,
    scan_places,
    scan_tokens,
)
from proverrl.lang.dafny.verify.backend import open_dafny
from proverrl.lang.dafny.verify.canaries import CANARIES
from proverrl.lang.dafny.verify.workers.toolchain import check_dafny
from proverrl.lang.parts import (
    Composing,
    Pooling,
    Searching,
)
from proverrl.lang.records import Extraction, Includes, Part, Project
from proverrl.lang.words import drop_names, find_words
from proverrl.types import ANNOTATE, HOLE, Candidate, Problem, Verdict
from proverrl.verifier.router import Backend

_DECLARES = frozenset("method lemma function predicate".split())
_HEADS = _DECLARES | {"constructor", "iterator"}


class Dafny(Language):
    """Dafny 2.3 and Dafny 4."""

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
    include_word = "include"
    project_file = PROJECT_FILE
    canaries = CANARIES
    confirms = True

    @property
    def searching(self) -> Searching:
        from proverrl.lang.dafny.search.states import SEARCHING

        return SEARCHING

    @property
    def pooling(self) -> Pooling:
        from proverrl.lang.dafny.search import pooled

        return pooled

    @property
    def composing(self) -> Composing:
        from proverrl.lang.dafny.compose.composing import COMPOSING

        return COMPOSING

    def open_backend(self, options: BackendOptions) -> Backend:
        return open_dafny(options)

    def split_includes(self, text: str) -> Includes:
        return split_includes(text)

    def read_project(self, path: Path) -> Project:
        return read_project(path)

    def are_modular(self, texts: Mapping[str, str], seen: Mapping[str, set[str]]) -> bool:
        return are_modular(texts, seen)

    def audit(self, candidate: Candidate) -> Verdict | None:
        settled = self.settle(candidate)
        return settled if isinstance(settled, Verdict) else audit_candidate(settled)

    def check_problem(self, problem: Problem) -> None:
        check_problem(problem)

    def asks_statement(self, problem: Problem) -> bool:
        is_whole = problem.kind == PROGRAM and not gives_contract(problem)
        return is_whole or problem.kind == CONTRACT

    def find_cheat(self, problem: Problem) -> str:
        is_written = problem.kind in (CONTRACT, PROGRAM)
        return find_cheat(problem) if is_written else super().find_cheat(problem)

    def diagnose(self) -> list[Part]:
        return check_dafny()

    def find_name(self, problem: Problem) -> str:
        """The last name that the statement declares before its hole."""
        words = _words_of(problem.statement.partition(HOLE)[0])
        named = [name for word, name in itertools.pairwise(words) if word in _HEADS]
        return named[-1] if named else ""

    def read_body(self, problem: Problem, code: str) -> Extraction:
        tokens = _scan(code)
        words = [text for _, text, _ in tokens]
        name = self.find_name(problem)
        if not name or not any(a in _HEADS and b == name for a, b in itertools.pairwise(words)):
            # The audit reads what it is; an unclosed comment is refused there, with its place.
            return Extraction(code.strip())
        before, _, after = problem.statement.partition(HOLE)
        # A policy cannot give back what it is not shown.
        head, tail = _words_of(before), [] if self.hides_rest(problem) else _words_of(after)
        place = find_words(words, head)
        if place is None:
            return Extraction(None, reason=f"the statement of {name} was changed before the hole")
        first, last = place + len(head), len(words) - len(tail)
        if last < first or words[last:] != tail:
            reason = f"the text of {name} after the hole was changed or cut off"
            return Extraction(None, reason=reason)
        start = tokens[first - 1][2] + len(words[first - 1])
        end = tokens[last][2] if tail else len(code)
        return Extraction(code[start:end].strip())

    def normal_form(self, body: str) -> str:
        """Its tokens, since layout means nothing."""
        return " ".join(piece for _, piece in scan_tokens(body))

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


def _scan(text: str) -> list[tuple[str, str, int]]:
    """Tokens with their places; none for a comment that is never closed."""
    try:
        return scan_places(text)
    except ProblemError:
        return []


def _words_of(text: str) -> list[str]:
    return [word for _, word, _ in _scan(text)]


DAFNY = Dafny()
