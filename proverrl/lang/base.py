"""The interface of a language. The rest of ProverRL asks here and knows no language by its name.

Flows out: ``Language``, to be subclassed once per language; what it may have beside it is in
``parts``. Methods with a body here are defaults.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proverrl.config.base import DafnyVersion, LeanBackend
from proverrl.errors import ProblemError, UsageError
from proverrl.lang.kinds import Kind, find_kind, list_kinds
from proverrl.lang.parts import (
    Composing,
    Filling,
    Pooling,
    Searching,
)
from proverrl.lang.records import (
    Extraction,
    Includes,
    Part,
    Project,
)
from proverrl.lang.trusted import REMEDY
from proverrl.plugins import refuse_exit
from proverrl.types import ANNOTATE, FILE, HOLE, Candidate, Message, Problem, Status, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.canaries import Canary
from proverrl.verifier.pool import Upkeep
from proverrl.verifier.router import Backend

_NEVER = re.compile(r"(?!)")

CANARY_RATE = 0.01
"""The share of calls that a false statement accompanies in runs, commands and servers. A broken
verifier is seen within some hundred calls, at the price of one call in a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options that a back end is opened with.

    ``memory_mb`` None leaves a worker what the language's own workers need. ``canary_rate`` is the
    share of calls that draw a false statement, from ``seed``. ``paranoid`` has accepted proofs
    checked again by what is installed for that. ``effort`` multiplies limits that ``limits`` do not
    name. ``trace_states`` has verdicts carry the goals before each step. ``toolchain`` is one that
    was found before. ``dafny_version`` is that of ``[dafny]``. ``lean_backend``, ``confirm`` and
    ``servers`` are those of ``[pool]``, and ``cluster`` is its address with the bounds of
    ``cluster_servers``. ``allowed`` are the words of
    ``verify --allow`` and ``arguments`` those of its ``--dafny-arg``. With ``solver_seed`` above 0
    the solver begins with another random seed.
    """

    workers: int
    limits: Limits
    memory_mb: float | None = None
    canary_rate: float = 0.0
    seed: int = 0
    paranoid: bool = False
    max_candidates: int = Upkeep().max_candidates
    effort: float = 1.0
    trace_states: bool = False
    toolchain: Any = None
    lean_backend: LeanBackend = "lean-server"
    dafny_version: DafnyVersion = "auto"
    confirm: str = "proved"
    servers: tuple[str, ...] = ()
    cluster: tuple[str, int, int] = ("", 1, 1)
    allowed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    solver_seed: int = 0


class Language(ABC):
    """A language: its texts, its verifier, and what search and composers may ask of it."""

    name: str
    """As problems name it (``problem.language``)."""
    title: str
    suffix: str
    """Of its files, with the dot."""
    comment: str
    """Begins a comment that ends with the line."""
    fences: tuple[str, ...]
    """Names of its code blocks, the first of them in our prompts."""
    kinds: tuple[str, ...]
    """Kinds of holes, the kind ``file`` among them where bare files can be verified."""
    layout: str
    """The layout of a conversation about it."""
    keywords: frozenset[str] = frozenset()
    built_ins: frozenset[str] = frozenset()
    """Names that the language itself gives; programs do not declare them."""
    file_start: re.Pattern[str] = _NEVER
    """The beginning of a file in an answer that sets it off by nothing."""
    writes_file = False
    """True if a policy answers with the whole file, not with the body alone."""
    include_word: str = ""
    """In every file that names others to be included; empty where the language has no such form."""
    project_file: str = ""
    """The name of files that choose the files and options of a project; empty where it has none."""
    canaries: Sequence[Canary] = ()
    confirms = False
    """True if another judge may confirm its proofs (``pool.confirm``)."""

    # Properties, so that a language loads these parts when they are first asked for.

    @property
    def searching(self) -> Searching | None:
        """The part that searches use; None where proofs have no states."""
        return None

    @property
    def pooling(self) -> Pooling | None:
        """Proof hints that bodies share, where it has them."""
        return None

    @property
    def filling(self) -> Filling | None:
        """Holes in the proofs of files, where there are words for them."""
        return None

    @property
    def composing(self) -> Composing | None:
        """The part that composers and filters use; None where there are none."""
        return None

    @abstractmethod
    def open_backend(self, options: BackendOptions) -> Backend:
        """Open what verifies it; raises ``ToolchainError`` with the command that brings it."""

    @abstractmethod
    def audit(self, candidate: Candidate) -> Verdict | None:
        """The verdict on a candidate that may not be verified; None for one that may."""

    def split_includes(self, text: str) -> Includes:
        """The files that a file with ``include_word`` includes."""
        return Includes(text)

    def read_project(self, path: Path) -> Project:
        """What a ``project_file`` says. Raises ``UsageError`` for one that cannot be followed."""
        raise UsageError(f"{path}: {self.name} has no project files")

    def are_modular(self, texts: Mapping[str, str], seen: Mapping[str, set[str]]) -> bool:
        """True if each file, proved with those that it has ``seen``, stays so beside the others."""
        return False

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        """The candidate to audit and verify: this one, or what the kind of its problem
        makes of it, where a plug-in brought that. Raises ``UsageError`` where it makes nothing that
        is judged here."""
        kind = self.find_kind(candidate.problem)
        if kind is None:
            return candidate
        # What a candidate's key does not hold must not decide what is verified of it.
        bare = replace(candidate.problem, informal="", metadata={})
        with self._guard(kind, candidate.problem):
            settled = kind.settle(replace(candidate, problem=bare))
        if not isinstance(settled, Candidate | Verdict) or (
            isinstance(settled, Verdict) and settled.proved
        ):
            said = "a proof" if isinstance(settled, Verdict) else type(settled).__name__
            raise UsageError(
                f"the kind {candidate.problem.kind!r} gives {said}; it must give a Candidate, "
                "which is judged, or the Verdict of a body that is refused"
            )
        if isinstance(settled, Verdict):
            return settled
        problem = settled.problem
        if problem.language != self.name or problem.kind not in self.kinds:
            raise UsageError(
                f"the kind {candidate.problem.kind!r} makes a problem of {problem.language} of the "
                f"kind {problem.kind!r}; it must be one of {', '.join(self.kinds)} of {self.name}"
            )
        return settled

    def find_kind(self, problem: Problem) -> Kind | None:
        """The problem's kind, where a plug-in brought it."""
        return find_kind(self.name, problem.kind, self.kinds)

    def _guard(self, kind: Kind, problem: Problem) -> AbstractContextManager[None]:
        """A plug-in that ends the program would leave a status that says that all is proved."""
        return refuse_exit(f"languages.{self.name}.{problem.kind}", type(kind).__name__)

    @abstractmethod
    def check_problem(self, problem: Problem) -> None:
        """Raise ``ProblemError`` when no body could be held to the problem."""

    def diagnose(self) -> list[Part]:
        """The parts of it that are installed here, for ``proverrl doctor``."""
        return []

    @abstractmethod
    def find_name(self, problem: Problem) -> str:
        """The last name that the statement declares before its hole, as it is written there."""

    @abstractmethod
    def read_body(self, problem: Problem, code: str) -> Extraction:
        """The body in a piece of code: what stands in our statement's hole, or else all of it."""

    def owns_name(self, word: re.Match[str]) -> bool:
        """True if a word, found in a text, is a name that programs give."""
        return word.group() not in self.keywords and word.group() not in self.built_ins

    def show_body(self, problem: Problem, body: str) -> str:
        """A body as it stands by itself, from which ``read_body`` makes it again."""
        return body

    def show_text(self, problem: Problem) -> str:
        """The part of a problem's text that a policy sees, with its hole."""
        if kind := self.find_kind(problem):
            with self._guard(kind, problem):
                return kind.show(problem)
        text = problem.preamble + problem.statement
        return text.partition(HOLE)[0] + HOLE if self.asks_statement(problem) else text

    def asks_statement(self, problem: Problem) -> bool:
        """True if a statement belongs into the hole of one of its own kinds: behind the hole stands
        what is meant, and showing it would show the answer."""
        return False

    def shows_words(self, problem: Problem) -> bool:
        """True if a policy sees the problem's words beside its text."""
        return self.find_kind(problem) is not None

    def hides_rest(self, problem: Problem) -> bool:
        """True if something stands behind the hole, and a policy sees nothing of it. Then nothing
        that is said of an answer may tell of it."""
        rest = problem.statement.partition(HOLE)[2].strip()
        return bool(rest) and not self.show_text(problem).partition(HOLE)[2].strip()

    def write_messages(self, problem: Problem) -> tuple[Message, ...]:
        """The messages of a conversation in the layout ``own``."""
        text = (
            f"Write the {self.title} text that belongs at the mark {HOLE}. Answer with one "
            f"{self.fences[0]} code block that holds it and nothing else."
        )
        return (Message("user", f"{text}\n\n{self.fence(self.show_text(problem))}"),)

    def show_problem(self, problem: Problem) -> str:
        """The problem as a file whose hole says that the proof is missing."""
        return self.show_text(problem)

    def normal_form(self, body: str) -> str:
        """A form that bodies share which differ only in comments and white space. Raises
        ``ProblemError`` for a text that cannot be read: a comment that is never closed."""
        return " ".join(body.split())

    def read_skeletons(self, text: str) -> tuple[str, str]:
        """A statement's tokens without its own name; and with all names as ``n0``, ``n1``, ..."""
        plain = " ".join(text.replace(HOLE, " ").split())
        return plain, plain

    def state_key(self, problem: Problem) -> str:
        """Equal for two problems that state the same under different names."""
        return self.read_skeletons(problem.preamble + problem.statement)[0]

    def find_misfit(self, problems: Iterable[Problem], toolchain: str) -> str:
        """A complaint when problems are written for another version than this; else empty."""
        return ""

    def looks_like(self, text: str) -> bool:
        """True if a text that does not say what it is may be of this language."""
        return False

    def fence(self, code: str) -> str:
        """Code as a fenced block."""
        return f"```{self.fences[0]}\n{code.rstrip()}\n```"

    def read_code(self, problem: Problem, code: str) -> Extraction:
        """As ``read_body``; where the whole text is the body, all of it."""
        if problem.kind in (ANNOTATE, FILE):
            whole = code.strip("\n") + "\n" if code.strip() else None
            return Extraction(whole, reason="" if whole else "the code is empty")
        return self.read_body(problem, code)

    def find_cheat(self, problem: Problem) -> str:
        """A thing in a stranger's problem that no bare file may hold, such as an axiom, or empty.
        What the audit does not read to its end could hide anything."""
        settled = self.settle(Candidate(problem, ""))
        if isinstance(settled, Candidate) and settled.problem.kind != problem.kind:
            return self.find_cheat(settled.problem)
        text = self.show_problem(problem)
        verdict = self.audit(Candidate(Problem("problem", self.name, FILE, "", HOLE), text))
        if verdict is None or verdict.status is Status.INCOMPLETE:
            return ""
        message = REMEDY.sub("", verdict.diagnostics[0].message)
        return f"line {verdict.diagnostics[0].line}: {message}"

    def find_objection(self, problem: Problem, reference: str | None) -> str:
        """The reason why a problem cannot be ours, its reference included; empty when it can."""
        known = (*self.kinds, *list_kinds(self.name))
        if problem.kind not in known:
            return f"unknown kind {problem.kind!r}; use {', '.join(known)}"
        kind = self.find_kind(problem)
        try:
            if kind is None:
                self.check_problem(problem)
            else:
                with self._guard(kind, problem):
                    kind.check(problem)
        except ProblemError as error:
            return str(error).removeprefix(f"problem {problem.id!r}: ")
        verdict = None
        if reference is not None:
            settled = self.settle(Candidate(problem, reference))
            verdict = settled if isinstance(settled, Verdict) else self.audit(settled)
        if verdict is None:
            return ""
        found = verdict.diagnostics[0]
        return f"the audit does not admit its own proof: line {found.line}: {found.message}"
