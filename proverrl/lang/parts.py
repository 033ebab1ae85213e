"""The parts that a language may have beside its texts and its verifier.

Flows out: what searches (``Searching``, ``Sketching``, ``Pooling``), what is written from words
(``Formalizing``, ``Programming``) and composers (``Composing``) ask of it. Methods with a body here
are defaults.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from proverrl.config.search import SearchStates
from proverrl.lang.english import English
from proverrl.lang.generating import ProgramText
from proverrl.lang.records import (
    Operator,
    PooledHint,
    Prefix,
    ProgramGrade,
    RefusedHints,
    SegmentFn,
    Sketch,
    Subgoal,
    Variant,
)
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.body_place import hole_column


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

    def has_holes(self, body: str) -> bool:
        """Whether a body is a sketch that can be verified with its holes."""

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


class Pooling(Protocol):
    """Proof hints of different bodies that can stand in one body and fail one by one."""

    kinds: frozenset[str]

    def list_hints(self, problem: Problem, body: str) -> list[PooledHint]:
        """The hints of a body, also of one that cannot be read as a whole."""

    def put_together(self, problem: Problem, hints: Sequence[str]) -> str:
        """A body of hints, given by their texts."""

    def begin(self, problem: Problem, hints: Sequence[str]) -> str:
        """The beginning of a body, up to the end of its hints; nothing without hints."""

    def find_refused(self, candidate: Candidate, verdict: Verdict) -> RefusedHints | None:
        """What a verdict says of the hints in a body; None when it tells nothing."""

    def is_covered(self, problem: Problem, body: str) -> bool:
        """Whether a body proves nothing that its hints in a larger body would not prove."""

    def is_ordered(self, problem: Problem) -> bool:
        """Whether a hint may hold only behind another."""


class Asking(Protocol):
    """What is to be written from words, and judged by what a given statement means."""

    kind: str
    """Of problems whose hole takes it. What is meant stands behind the hole, and a policy does not
    see it."""
    unseen: frozenset[str]
    """Families that no training file holds."""

    def ask_statement(self, known: Candidate, english: English) -> ProgramText | None:
        """The problem of writing what another one states (``known``, with its proof), a reference
        body, and what is meant in words; None where this has no words for it."""

    def list_empty(self, problem: Problem) -> Sequence[str]:
        """Bodies that say or do nothing, or say what nothing meets; none of them may be proved."""

    def ask_empty(self, problem: Problem, body: str) -> Sequence[tuple[str, Candidate]]:
        """What to verify, in order, of a body that can be read: a proof of one of these shows that
        it says nothing, or nothing that can be met; with each the reason in words."""

    def ask_admitted(self, problem: Problem, body: str) -> Candidate | None:
        """What to verify to see that what a body demands can be met; None where it demands nothing,
        or no such question is known."""

    def shows_admitted(self, verdict: Verdict) -> bool:
        """Whether the verdict on that says so."""


class Formalizing(Asking, Protocol):
    """Statements that are to be written from words."""

    has_parts: bool
    """Whether ``ask_parts`` compares parts of statements at all."""

    def is_well_formed(self, candidate: Candidate, verdict: Verdict) -> bool:
        """Whether the statement can be read and has a meaning, also where it is another one."""

    def ask_difference(self, problem: Problem, body: str) -> Sequence[Candidate]:
        """What to verify, in order, to see that a body means something else than what is meant."""

    def shows_difference(self, verdict: Verdict) -> bool:
        """Whether the verdict on that says so."""

    def spoil(self, problem: Problem, body: str, rng: random.Random) -> tuple[str, str] | None:
        """A body with an error, and the kind of it in words; None where there is none to make."""

    def reword(self, problem: Problem, body: str, rng: random.Random) -> str | None:
        """A body that should say the same in other words; None where there is none to make."""

    def ask_words(self, text: str, kind: str, words: str) -> Problem:
        """A problem for words of somebody's own about a program or definitions of theirs; nobody
        says what is meant. ``kind`` is what the program's own hole admits. Raises ``ProblemError``
        for a text that has no place for a statement."""

    def state(self, problem: Problem, meant: str | None) -> Problem:
        """The problem with another statement, one that was found well formed, as what is meant;
        None: nothing is, and no body is proved."""

    def ask_proof(self, problem: Problem, body: str) -> Problem | None:
        """The problem of proving what a well-formed body states; None where no program to prove it
        of came with the words."""

    def ask_parts(self, problem: Problem, body: str) -> Candidate | None:
        """What to verify to see which parts of what is meant a body says; None as above."""

    def rate_parts(self, problem: Problem, body: str, verdict: Verdict) -> str:
        """From that verdict a letter for each part: A said, B a stronger or a weaker form of it
        said, C not said, or said and not meant."""


class Programming(Asking, Protocol):
    """Contracts with code that meets them, both to be written from words, or the code alone."""

    def ask_code(self, known: Candidate) -> ProgramText | None:
        """The problem of writing the code of another one's method (``known``, with its proof),
        whose contract is shown, and the code; None where there is none."""

    def is_given(self, problem: Problem) -> bool:
        """Whether the contract is given, so that only code is to be written."""

    def grade(self, candidate: Candidate, verdict: Verdict) -> ProgramGrade:
        """How far a judged program came."""


class Deciding(Protocol):
    """Claims that are to be proved or disproved (``proverrl.lang.sides``)."""

    proof_kind: str
    """Of the problems that a side makes of a claim."""

    def state(self, problem: Problem, side: str) -> Problem:
        """The claim, or its closed negation, as a problem of its own, all of it our text. Raises
        ``ProblemError`` for one whose negation cannot be stated."""

    def check(self, problem: Problem) -> None:
        """Raise ``ProblemError`` as ``state`` does, for both sides."""

    def show(self, problem: Problem) -> str:
        """The claim with its hole, and what a disproof needs to know of the negation."""

    def list_variants(self, known: Candidate, rng: random.Random) -> Iterator[Variant]:
        """Without end, a theorem with its proof, then claims like it, true or false; nothing of a
        problem that has none."""

    def write(self, side: str, proof: str) -> str:
        """The body that chooses a side and proves it."""

    def ask_sides(self, variants: Sequence[Variant]) -> Candidate | None:
        """What to verify to see which bodies of variants of one theorem do; None where each has to
        be verified by itself."""

    def read_sides(self, variants: Sequence[Variant], verdict: Verdict) -> list[tuple[str, str]]:
        """From that verdict, for each variant the side that a body proves, and the body; two empty
        texts where none does."""

    def describe(self, problem: Problem, english: English) -> str:
        """The claim in words; empty where there are none."""


class Answering(Protocol):
    """Claims that something exists, whose body names it (``proverrl.lang.answers``)."""

    proof_kind: str
    """Of the problem that an answer makes of it."""

    def put(self, candidate: Candidate, answer: str, end: int) -> Candidate:
        """What is verified of a candidate that gives the answer, which ends there in its body: what
        is claimed of it, with the rest of the body as the proof. Raises ``ProblemError`` for a
        problem that asks for nothing."""

    def check(self, problem: Problem) -> None:
        """Raise ``ProblemError`` as ``put`` does."""

    def hide_claim(self, problem: Problem) -> str:
        """The problem's text without what it claims, where the words say it."""

    def ask(self, known: Candidate, rng: random.Random, english: English) -> ProgramText | None:
        """A question made of a problem with its proof, with the answer and a proof as its
        reference; None where there is none to make."""


class Composing(ABC):
    """What composers and filters need of a language."""

    operators: Mapping[str, Operator]
    """The operators, by the names that ``selfplay.operators`` takes."""

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
