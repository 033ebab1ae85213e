"""The interface of every search: its functions, its records and its result.

Flows out: the records below, the types of the functions that a search takes, and ``Search``. Not
handled here: what was spent and learned (``spending``), how states are read from a verdict and how
a policy is asked (the caller brings both).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

from proverrl.config.search import SearchConfig
from proverrl.lang.records import Prefix, Segment, SegmentFn, Verify
from proverrl.policy.base import Policy
from proverrl.search.spending import FoundProof, SearchSpending, SearchTurn
from proverrl.search.tree import Tree
from proverrl.types import Candidate, Problem, Verdict

StopReason = Literal["proved", "calls", "idle", "exhausted"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One continuation written after a prefix.

    ``body`` is the whole body: the prefix's text and what was written. ``logprob`` is the sum over
    the ``num_tokens`` tokens that were written. ``truncated`` says that they were cut off at the
    limit. ``reason`` says why the answer has no body; then only its tokens count.
    """

    body: str
    num_tokens: int
    logprob: float
    truncated: bool = False
    reason: str = ""

    @property
    def is_read(self) -> bool:
        """True if a body was found."""
        return not self.reason


Propose = Callable[[Problem, Prefix, int, int], Awaitable[list[Proposal]]]
"""Problem, prefix, how many, seed."""

CorrectFn = Callable[[Problem, str, Verdict, int], Awaitable[Proposal]]
"""Problem, refused body, its verdict, seed: a corrected body."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a search calls. Only ``propose`` and ``verify`` are always needed.

    ``confirm`` is a verifier with fresh workers: a proof counts only when it agrees. Its calls are
    counted apart. ``policy`` is what ``propose`` asks, for a search of somebody's own.
    """

    propose: Propose
    verify: Verify
    segment: SegmentFn | None = None
    correct: CorrectFn | None = None
    confirm: Verify | None = None
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One expansion: up to ``num`` proposals after ``prefix``, from the node ``node``.

    ``number`` counts expansions from 0; with the search's seed it gives ``seed``.
    """

    number: int
    node: int
    prefix: Prefix
    num: int
    seed: int


@dataclass(frozen=True, slots=True)
class CountedProposal:
    """A proposal whose tokens are counted: ``tokens`` of the search up to its last one, and its
    place among the turns of its expansion."""

    proposal: Proposal
    tokens: int
    place: int


@dataclass(frozen=True, slots=True)
class JudgedProposal:
    """A proposal, what the verifier said (always judged), and the states on its way."""

    proposal: Proposal
    verdict: Verdict
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The spending and the results up to the end of an expansion."""

    calls: int
    tokens: int
    proofs: int
    nodes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The findings of a search and its spending.

    ``refuted`` holds bodies that ``verify`` called proved and ``confirm`` did not, with the second
    verdict. ``tree`` is None where no search of whole bodies has begun; ``walk`` is what a search
    that is made around another says of itself, as JSON values.
    """

    name: str
    problem_id: str
    stopped: StopReason
    proofs: tuple[FoundProof, ...]
    refuted: tuple[tuple[str, Verdict], ...]
    calls: int
    tokens: int
    confirmations: int
    expansions: int
    curve: tuple[CurvePoint, ...]
    turns: tuple[SearchTurn, ...]
    tree: Tree | None
    walk: dict[str, Any] | None = None

    @property
    def proved(self) -> bool:
        return bool(self.proofs)

    @property
    def judged(self) -> bool:
        """False where every call ended without a verdict: the search says nothing of the problem.
        One that had nothing to ask has failed."""
        calls = [turn.judged for turn in self.turns if turn.is_call]
        return not calls or any(calls)

    @property
    def verifier_seconds(self) -> float:
        """The time of the calls that ended, second verdicts on proofs not counted."""
        return sum(turn.seconds or 0.0 for turn in self.turns if turn.is_call)


class Search(ABC):
    """A search of a problem that can be run and watched.

    ``config.calls`` bounds the verifier calls of all its parts together.
    """

    def __init__(
        self, problem: Problem, functions: Functions, config: SearchConfig, *, seed: int = 0
    ) -> None:
        self.problem = problem
        self.functions = functions
        self.config = config
        self.seed = seed
        self.spent = SearchSpending()
        self.curve: list[CurvePoint] = []
        self.find_known: Callable[[Candidate], Verdict | None] = lambda _: None
        """the verdict that another search on the same budget got on a candidate"""

    @property
    @abstractmethod
    def calls(self) -> int:
        """Verifier calls so far, those under way included."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Generated tokens so far."""

    @property
    def confirmations(self) -> int:
        """Second verdicts on proofs so far."""
        return self.spent.confirmations

    @property
    @abstractmethod
    def num_expansions(self) -> int:
        """Expansions that have ended."""

    @property
    def num_proofs(self) -> int:
        """Proofs of the problem found so far."""
        return len(self.spent.proofs)

    @property
    @abstractmethod
    def all_turns(self) -> list[SearchTurn]:
        """All turns so far, those of parts under way as well."""

    @abstractmethod
    async def run(self, watch: Callable[[Self], None] | None = None) -> SearchResult:
        """Search until a proof or the end of the budget; ``watch`` is told of every expansion.

        Cancelled or failing, it leaves nothing running.
        """

    @property
    @abstractmethod
    def tree(self) -> Tree | None:
        """Its tree; None where no search of whole bodies has begun."""

    @property
    def is_enough(self) -> bool:
        """True if there are as many proofs as are wanted."""
        return self.num_proofs >= self.config.stop_after

    def _add_point(self) -> None:
        nodes = len(self.tree) if self.tree is not None else 0
        self.curve.append(CurvePoint(self.calls, self.tokens, self.num_proofs, nodes))

    def _stop_reason(self) -> StopReason | None:
        if self.is_enough:
            return "proved"
        return "calls" if self.calls >= self.config.calls else None

    def _result(self) -> SearchResult:
        return SearchResult(
            name=self.config.name,
            problem_id=self.problem.id,
            stopped=self._stop_reason() or "exhausted",
            proofs=tuple(self.spent.proofs),
            refuted=tuple(self.spent.refuted),
            calls=self.calls,
            tokens=self.tokens,
            confirmations=self.confirmations,
            expansions=self.num_expansions,
            curve=tuple(self.curve),
            turns=tuple(self.spent.turns),
            tree=self.tree,
        )
