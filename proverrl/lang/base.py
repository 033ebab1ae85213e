"""What a language must offer. The rest of ProverRL asks here and knows no language by its name.

Flows out: ``Language``, to be subclassed once per language, and the parts that a language may have:
``Searching``, ``Sketching``, ``Facts``, ``Pooling``, ``Composing``. Methods with a body here are
defaults.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from proverrl.config.base import LeanBackend
from proverrl.config.compose import ScaffoldName
from proverrl.config.search import SearchStates
from proverrl.errors import ProblemError
from proverrl.lang.generating import Generator
from proverrl.lang.records import (
    Extraction,
    Operator,
    Part,
    PooledHint,
    Prefix,
    RefusedHints,
    Scaffold,
    SegmentFn,
    Sketch,
    Subgoal,
)
from proverrl.types import ANNOTATE, FILE, HOLE, Candidate, Problem, Status, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.body_place import hole_column
from proverrl.verify.canaries import Canary
from proverrl.verify.pool import Upkeep
from proverrl.verify.router import Backend

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """What a back end is opened with.

    ``memory_mb`` None leaves a worker what the language's own workers need. ``canary_rate`` is the
    share of calls that draw a false statement, from ``seed``. ``paranoid`` has accepted proofs
    checked again by what is installed for that. ``effort`` multiplies limits that ``limits`` do not
    name. ``trace_states`` has verdicts carry the goals before each step. ``toolchain`` is one that
    was found before. ``lean_backend``, ``confirm`` and ``servers`` are those of ``[pool]``, and
    ``cluster`` is its address with the bounds of ``cluster_servers``.
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
    confirm: str = "proved"
    servers: tuple[str, ...] = ()
    cluster: tuple[str, int, int] = ("", 1, 1)


class Searching(ABC):
    """What a search needs of a language whose partial proofs have states."""

    kinds: frozenset[str]
    """The kinds of problems whose bodies have states."""
    has_steps = False
    """Whether a policy can write one step, a line, instead of a whole proof."""
    needs_traces = False
    """Whether verdicts must carry the goals before each step (``trace_states``)."""

    @abstractmethod
    def segment(self, states: SearchStates) -> SegmentFn:
        """How the states of a judged body are read."""

    @abstractmethod
    def count_open(self, state: str) -> int | None:
        """The obligations that a state's key names as open, at least; None where it names none."""

    @abstractmethod
    def list_prefixes(self, body: str) -> list[str]:
        """The empty prefix, and the body up to every place but the last where it could be cut."""

    def resume_comment(self, problem: Problem, prefix: Prefix) -> str:
        """What is shown between a kept prefix and what is written next."""
        return ""

    def opens_block(self, line: str) -> bool:
        """Whether a line is no step without the next one."""
        return False

    def next_column(self, problem: Problem, text: str) -> int:
        """The column of a step that is written without blanks before it after a kept text."""
        return hole_column(problem)


class Sketching(Protocol):
    """A proof in parts: a failed body with holes, each hole a problem of its own."""

    kinds: frozenset[str]

    def make_sketch(self, candidate: Candidate, verdict: Verdict) -> Sketch | None:
        """A failed body with holes where it failed; None where nothing is worth keeping."""

    def lift(
        self, problem: Problem, sketch: Sketch, subgoal: Subgoal, needs: tuple[str, ...]
    ) -> Problem | None:
        """A hole as a problem, with the statements of ``needs`` as hypotheses."""

    def close(self, problem: Problem, sketch: Sketch) -> Candidate | None:
        """The sketch with its holes assumed, to see whether they are enough."""

    def refine(
        self, problem: Problem, sketch: Sketch, closed: Candidate, verdict: Verdict
    ) -> Sketch | None:
        """The sketch with the holes that the closed form still misses; the same when none is."""

    def fill(self, sketch: Sketch, bodies: Mapping[str, str]) -> Sketch:
        """The sketch with some holes filled."""

    def splice(self, problem: Problem, sketch: Sketch, bodies: Mapping[str, str]) -> str:
        """The sketch with each hole filled."""


class Facts(Protocol):
    """Statements inside bodies that can be kept, proved and refuted apart."""

    kinds: frozenset[str]

    def list_facts(self, problem: Problem, verdicts: Mapping[str, Verdict]) -> dict[str, int]:
        """The facts that judged bodies state, with how often."""

    def put_together(self, problem: Problem, facts: Sequence[str], body: str = "") -> str:
        """A body of facts and what follows from them."""

    def find_standing(
        self, candidate: Candidate, verdict: Verdict, facts: Sequence[str]
    ) -> list[str]:
        """Those of the facts that the verdict does not question."""

    def show(self, problem: Problem, facts: Sequence[str]) -> Problem:
        """The problem as it is shown with facts that stand."""

    def negate(self, problem: Problem, fact: str, *, says_not: bool = True) -> Problem | None:
        """The fact, or that it does not hold, as a problem."""

    def prove_alone(self, problem: Problem, fact: str, body: str) -> str:
        """The fact with a proof of its own."""

    def calls_itself(self, problem: Problem, body: str) -> bool:
        """Whether a body rests on what it is to prove."""


class Pooling(Protocol):
    """Proof hints of different bodies that can stand in one body and fail one by one."""

    kinds: frozenset[str]

    def list_hints(self, problem: Problem, body: str) -> list[PooledHint]:
        """The hints of a body, also of one that cannot be read as a whole."""

    def put_together(self, problem: Problem, facts: Sequence[str], body: str = "") -> str:
        """A body of hints."""

    def find_refused(self, candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
        """What a verdict says of the hints in a body; None when it tells nothing."""

    def is_covered(self, problem: Problem, body: str) -> bool:
        """Whether a body proves nothing that its hints in a larger body would not prove."""


class Composing(ABC):
    """What composers and filters need of a language."""

    operators: Mapping[str, Operator]
    """The operators, by the names that ``selfplay.operators`` takes."""
    scaffolds: Mapping[ScaffoldName, Scaffold] = {}
    """What makes problems around one that was solved or failed."""

    @abstractmethod
    def find_cheats(self, problem: Problem) -> Sequence[tuple[str, str]]:
        """What a statement holds that a policy may not write: the rule and a message for each."""

    def own_preamble(self, parent: Problem) -> str:
        """The preamble, which a policy may not write, of a statement composed from ``parent``."""
        return ""

    @abstractmethod
    def ask_well_formed(self, problem: Problem) -> Candidate:
        """What to verify to see whether a problem can be read."""

    @abstractmethod
    def explain_malformed(self, problem: Problem, verdict: Verdict) -> tuple[str, str] | None:
        """From that verdict: the reason why no body could prove the problem, and its detail."""

    @abstractmethod
    def list_trivial(self, problem: Problem) -> Sequence[str]:
        """Bodies that prove what is not worth a proof of its own."""

    @abstractmethod
    def ask_contradiction(self, problem: Problem) -> Sequence[Candidate]:
        """What to verify, in order, to see whether the assumptions contradict each other."""

    @abstractmethod
    def explain_contradiction(self, candidate: Candidate, verdict: Verdict) -> str:
        """From a verdict on one of these: that they do, in words; else empty."""

    def list_exploits(self, problem: Problem) -> Iterable[Candidate]:
        """Programs that do nothing, to see whether one of them meets the contract."""
        return ()

    def ask_run(self, problem: Problem) -> Candidate | None:
        """Runs on small inputs, to see whether one breaks the contract."""
        return None

    def is_broken(self, verdict: Verdict) -> bool:
        """Whether the verdict on those says that one does."""
        return False

    @abstractmethod
    def negate(self, problem: Problem) -> str | None:
        """The name of the operator that negates the problem; None where it has no negation."""

    @abstractmethod
    def list_proofs(self, problem: Problem) -> Sequence[str]:
        """Plain bodies that may prove the problem."""

    @abstractmethod
    def list_refutations(self, problem: Problem) -> Sequence[str]:
        """Plain bodies that may prove its negation."""

    def examine_conclusions(self, problem: Problem) -> dict[str, int]:
        """What a statement's conclusions lack, and by how many steps that lowers its grade."""
        return {}

    @abstractmethod
    def read_shape(self, problem: Problem) -> list[str]:
        """The statement's tokens without its hole, names set aside."""


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
    """What code blocks that hold it are called, the first of them in our prompts."""
    kinds: tuple[str, ...]
    """What a hole may be, the kind ``file`` among them where bare files can be verified."""
    layout: str
    """The layout of a conversation about it."""
    keywords: frozenset[str] = frozenset()
    built_ins: frozenset[str] = frozenset()
    """Names that the language itself gives; programs do not declare them."""
    file_start: re.Pattern[str] = _NEVER
    """Where a file begins in an answer that sets it off by nothing."""
    writes_file = False
    """Whether a policy answers with the whole file, not with the body alone."""
    canaries: Sequence[Canary] = ()

    # Properties, so that a language loads these parts when they are first asked for.

    @property
    def searching(self) -> Searching | None:
        """What searches ask of it; None where proofs have no states."""
        return None

    @property
    def sketching(self) -> Sketching | None:
        """Proofs in parts, where it has them."""
        return None

    @property
    def facts(self) -> Facts | None:
        """Statements inside bodies, where it has them."""
        return None

    @property
    def pooling(self) -> Pooling | None:
        """Proof hints that bodies share, where it has them."""
        return None

    @property
    def composing(self) -> Composing | None:
        """What composers and filters ask of it; None where there are none."""
        return None

    @property
    def generator(self) -> Generator | None:
        """What makes a curriculum of it; None where there is none."""
        return None

    @abstractmethod
    def open_backend(self, options: BackendOptions) -> Backend:
        """Open what verifies it; raises ``ToolchainError`` with the command that brings it."""

    @abstractmethod
    def audit(self, candidate: Candidate) -> Verdict | None:
        """The verdict on a candidate that may not be verified; None for one that may."""

    @abstractmethod
    def check_problem(self, problem: Problem) -> None:
        """Raise ``ProblemError`` when no body could be held to the problem."""

    def diagnose(self) -> list[Part]:
        """What of it is installed here, for ``proverrl doctor``."""
        return []

    @abstractmethod
    def find_name(self, problem: Problem) -> str:
        """The last name that the statement declares before its hole, as it is written there."""

    @abstractmethod
    def read_body(self, problem: Problem, code: str) -> Extraction:
        """The body in a piece of code: what stands in our statement's hole, or else all of it."""

    def owns_name(self, word: re.Match[str]) -> bool:
        """Whether a word, found in a text, is a name that programs give."""
        return word.group() not in self.keywords and word.group() not in self.built_ins

    def show_body(self, problem: Problem, body: str) -> str:
        """A body as it stands by itself, from which ``read_body`` makes it again."""
        return body

    def show_problem(self, problem: Problem) -> str:
        """The problem as a file whose hole says that the proof is missing."""
        return problem.preamble + problem.statement

    def normal_form(self, body: str) -> str:
        """What two bodies share that differ only in comments and white space."""
        return " ".join(body.split())

    def find_steps(self, body: str) -> list[int]:
        """Where the steps of a body begin, in characters, but for the first."""
        return []

    def read_skeletons(self, text: str) -> tuple[str, str]:
        """A statement's tokens without its own name; and with all names as ``n0``, ``n1``, ..."""
        plain = " ".join(text.replace(HOLE, " ").split())
        return plain, plain

    def state_key(self, problem: Problem) -> str:
        """Equal for two problems that state the same under different names."""
        return self.read_skeletons(problem.preamble + problem.statement)[0]

    def find_misfit(self, problems: Iterable[Problem], toolchain: str) -> str:
        """What to say when problems are written for another version than this; else empty."""
        return ""

    def looks_like(self, text: str) -> bool:
        """Whether a text that does not say what it is may be of this language."""
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
        """What a stranger's problem holds and no bare file may hold, such as an axiom, or empty.
        What the audit does not read to its end could hide anything."""
        text = self.show_problem(problem)
        verdict = self.audit(Candidate(Problem("problem", self.name, FILE, "", HOLE), text))
        if verdict is None or verdict.status is Status.INCOMPLETE:
            return ""
        return f"line {verdict.diagnostics[0].line}: {verdict.diagnostics[0].message}"

    def find_objection(self, problem: Problem, reference: str | None) -> str:
        """Why a problem cannot be one of ours, its reference included; empty when it can."""
        if problem.kind not in self.kinds:
            return f"unknown kind {problem.kind!r}; use {', '.join(self.kinds)}"
        try:
            self.check_problem(problem)
        except ProblemError as error:
            return str(error).removeprefix(f"problem {problem.id!r}: ")
        verdict = None if reference is None else self.audit(Candidate(problem, reference))
        if verdict is None:
            return ""
        found = verdict.diagnostics[0]
        return f"the audit does not admit its own proof: line {found.line}: {found.message}"
