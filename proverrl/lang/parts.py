"""The parts that a language may have beside its texts and its verifier.

Flows out: what searches (``Searching``, ``Pooling``, ``Filling``) and composers (``Composing``)
ask of it. Methods with a body here are defaults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from proverrl.config.search import SearchStates
from proverrl.lang.records import (
    Failure,
    Hole,
    Operator,
    PooledHint,
    Prefix,
    RefusedHints,
    SegmentFn,
)
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.body_place import hole_column


class Searching(ABC):
    """The interface to searches of a language whose partial proofs have states."""

    kinds: frozenset[str]
    """The kinds of problems whose bodies have states."""
    has_steps = False
    """True if a policy can write one step, a line, instead of a whole proof."""
    needs_traces = False
    """True if verdicts must carry the goals before each step (``trace_states``)."""

    @abstractmethod
    def segment(self, states: SearchStates) -> SegmentFn:
        """The function that reads the states of a judged body."""

    @abstractmethod
    def count_open(self, state: str) -> int | None:
        """The obligations that a state's key names as open, at least; None where it names none."""

    def resume_comment(self, problem: Problem, prefix: Prefix) -> str:
        """The comment between a kept prefix and what is written next."""
        return ""

    def opens_block(self, line: str) -> bool:
        """True if a line is no step without the next one."""
        return False

    def next_column(self, problem: Problem, text: str) -> int:
        """The column of a step that is written without blanks before it after a kept text."""
        return hole_column(problem)


class Pooling(Protocol):
    """Proof hints of different bodies that can stand in one body and fail one by one."""

    kinds: frozenset[str]

    def list_hints(self, problem: Problem, body: str) -> list[PooledHint]:
        """The hints of a body, also of one that cannot be read as a whole."""

    def list_added(self, problem: Problem, body: str) -> list[PooledHint]:
        """All that a whole program adds, with what it declares and what speaks of that."""

    guessed_kinds: frozenset[str]
    """Those of ``kinds`` for which ``list_added``, ``guess`` and what follows, up to ``insert``,
    work."""

    def guess(self, problem: Problem, verdict: Verdict) -> list[list[PooledHint]]:
        """Hints that the problem's own text suggests, given the verdict on a body without any, in
        batches in the order in which they should be pooled."""

    def assert_apart(self, problem: Problem, hints: Sequence[str]) -> str:
        """A body that shows more of these hints that fail than a body of them; empty where none
        would. It is never proved."""

    def list_false(self, body: str, verdict: Verdict) -> set[int]:
        """The places among these hints of those that fail in that body."""

    def list_failing(self, body: str, verdict: Verdict) -> dict[str, int]:
        """The declarations of a whole program in which something fails, and their lines."""

    def find_holders(self, problem: Problem, facts: Sequence[str]) -> list[str]:
        """The declarations of a whole program that hints of it stand in, as named there."""

    def pose(self, name: str, text: str) -> Problem:
        """A file as a problem whose text is given back with hints. Raises ``ProblemError`` where
        that cannot be done."""

    def place(self, text: str, facts: Sequence[str]) -> list[tuple[int, int, str]]:
        """Line and column, from 1, in a file's own text before which each hint of its problem
        stands, and the hint."""

    def find_fault(self, problem: Problem, text: str) -> Verdict | None:
        """What of a file's text is more than its problem with hints; None where nothing is."""

    def insert(self, text: str, facts: Sequence[str]) -> str:
        """A file's own text with hints of its problem."""

    def put_together(self, problem: Problem, hints: Sequence[str]) -> str:
        """A body of hints, given by their texts."""

    def begin(self, problem: Problem, hints: Sequence[str]) -> str:
        """The beginning of a body, up to the end of its hints; nothing without hints."""

    def find_refused(self, candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
        """The hints in a body that a verdict refuses; None when it tells nothing."""

    def is_covered(self, problem: Problem, body: str) -> bool:
        """True if a body proves nothing that its hints in a larger body would not prove."""

    def is_ordered(self, problem: Problem) -> bool:
        """True if a hint may hold only behind another."""


class Filling(Protocol):
    """Holes that the author of a whole file left in its proofs, filled by tactics on one line."""

    def find_holes(self, text: str) -> list[Hole]:
        """The holes of a file in order that can be filled without a change of what it means."""

    def suggest(self, text: str, hole: Hole, unproved: Collection[str]) -> list[str]:
        """Fillings for one hole, in the order in which they should be tried, that name nothing of
        what is ``unproved``."""

    def fill(self, text: str, holes: Sequence[Hole], fillings: Sequence[str]) -> str:
        """The file's text with these holes filled, as it should be kept."""

    def try_out(self, text: str, holes: Sequence[Hole], fillings: Sequence[str]) -> str:
        """The same, so that what does not fill its hole, or no proof is wanted there, fails at its
        place."""

    def list_failures(
        self, text: str, holes: Sequence[Hole], fillings: Sequence[str], verdict: Verdict
    ) -> list[Failure | None]:
        """What the verdict on ``try_out`` says of each filling; None where it found no fault."""

    def find_holder(self, text: str, line: int) -> tuple[str, int]:
        """The declaration at a line, and its own line."""

    def list_open(self, text: str, verdict: Verdict) -> dict[str, int]:
        """The declarations with a hole, or with what failed, in them or what they speak of, and
        their lines, as far as the verdict says."""


class Composing(ABC):
    """The interface of a language to composers and filters."""

    operators: Mapping[str, Operator]
    """The operators, by the names that ``selfplay.operators`` takes."""

    @abstractmethod
    def find_cheats(self, problem: Problem) -> Sequence[tuple[str, str]]:
        """Parts of a statement that a policy may not write: the rule and a message for each."""

    def own_preamble(self, parent: Problem) -> str:
        """The preamble, which a policy may not write, of a statement composed from ``parent``."""
        return ""

    @abstractmethod
    def ask_well_formed(self, problem: Problem) -> Candidate:
        """The candidate that shows whether a problem can be read."""

    @abstractmethod
    def explain_malformed(self, problem: Problem, verdict: Verdict) -> tuple[str, str] | None:
        """From that verdict: the reason why no body could prove the problem, and its detail."""

    @abstractmethod
    def list_trivial(self, problem: Problem) -> Sequence[str]:
        """Bodies that prove what is not worth a proof of its own."""

    @abstractmethod
    def ask_contradiction(self, problem: Problem) -> Sequence[Candidate]:
        """Candidates that show, in order, whether the assumptions contradict each other."""

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
        """True if the verdict on those says that one does."""
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
