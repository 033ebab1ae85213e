"""The seam of every search: what it is given, what it hands on, what it gives back.

Flows in: nothing. Flows out: the records below and the types of the functions that a search takes.
Not handled here: how states are read from a verdict, how a policy is asked (both are functions
that the caller brings).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proverrl.lang.records import Prefix, Segment, SegmentFn, Verify
from proverrl.types import Problem, Verdict

StopReason = Literal["proved", "calls", "tokens", "idle", "exhausted"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One continuation written after a prefix.

    ``body`` is the whole body: the prefix's text and what was written. ``logprob`` is the sum over
    the ``num_tokens`` tokens that were written, which were ``truncated`` at the limit or not.
    ``reason`` says why no body was found in the answer, of which then only the tokens count.
    """

    body: str
    num_tokens: int
    logprob: float
    truncated: bool = False
    reason: str = ""

    @property
    def is_read(self) -> bool:
        """Whether a body was found."""
        return not self.reason


class Searching(Protocol):
    """What runs a search of one problem: ``proverrl.search.run.Search``, and what is made of
    several of them. ``config.calls`` bounds the verifier calls of all its parts together."""

    problem: Problem
    functions: Functions

    @property
    def calls(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def num_proofs(self) -> int: ...
    @property
    def all_turns(self) -> Sequence[SearchTurn]: ...
    async def run(self, watch: Callable[[Any], None] | None = None) -> SearchResult: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


Propose = Callable[[Problem, Prefix, int, int], Awaitable[list[Proposal]]]
"""Problem, prefix, how many, seed."""

ValueFn = Callable[[Problem, Sequence[Prefix]], Awaitable[list[float]]]

CorrectFn = Callable[[Problem, str, Verdict, int], Awaitable[Proposal]]
"""Problem, refused body, its verdict, seed: a corrected body."""


@dataclass(frozen=True, slots=True)
class Functions:
    """What a search calls. Only ``propose`` and ``verify`` are always needed.

    ``confirm`` is a verifier with fresh workers: what ``verify`` called proved counts as found
    when it says so too. Its calls are counted apart. ``count_tokens`` is needed where
    ``max_prefix_tokens`` is set.
    """

    propose: Propose
    verify: Verify
    segment: SegmentFn | None = None
    value: ValueFn | None = None
    correct: CorrectFn | None = None
    confirm: Verify | None = None
    count_tokens: Callable[[str], int] | None = None


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
class Judged:
    """A proposal, what the verifier said, and the states on its way. Always a judged verdict."""

    proposal: Proposal
    verdict: Verdict
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A proposal, all tokens of the search up to its last one, and its place among the turns of
    its expansion."""

    proposal: Proposal
    tokens: int
    place: int


class Desk(Protocol):
    """Where one expansion asks for proposals and verdicts."""

    async def propose(self, prefix: Prefix, num: int, seed: int) -> list[Written]:
        """Up to ``num`` bodies that begin with the prefix; fewer where the policy wrote fewer."""
        ...

    async def correct(self, body: str, verdict: Verdict, seed: int) -> Written:
        """A body that mends a refused one."""
        ...

    async def judge(self, written: Sequence[Written]) -> tuple[Judged, ...]:
        """Those that could be judged, in order: not after the budget's end or the last proof."""
        ...

    async def value(self, prefixes: Sequence[Prefix]) -> list[float]:
        """The value model's estimates, one a prefix."""
        ...


@dataclass(frozen=True, slots=True)
class FoundProof:
    """A proof, and what had been spent when it was written and judged.

    ``calls`` counts verifier calls, this one included; ``tokens`` the tokens generated up to the
    last one of this body (of proposals written together: in their order). ``confirmed`` says that
    a second verifier proved it too.
    """

    body: str
    verdict: Verdict
    calls: int
    tokens: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class SearchTurn:
    """An answer in the order of writing. ``body`` is "" where none was found; ``is_call`` says that
    it was given to the verifier, ``truncated`` that it was cut off at the limit on tokens, and
    ``reason`` why it has no body. In a search of several, what was written for a part begins with a
    comment that names it, and what was only verified has no tokens."""

    body: str
    num_tokens: int
    is_call: bool
    truncated: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What had been spent and reached after an expansion."""

    calls: int
    tokens: int
    proofs: int
    nodes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found and what it spent.

    ``refuted`` holds bodies that ``verify`` called proved and ``confirm`` did not, with the second
    verdict. ``tree`` is the strategy's state as JSON values (``Tree.state_dict`` under "tree").
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
    tree: dict[str, Any]

    @property
    def proved(self) -> bool:
        return bool(self.proofs)

    def proved_within(self, calls: int, tokens: int = 0) -> bool:
        """Whether a proof was found with so many verifier calls and tokens (0: any number)."""
        return any(p.calls <= calls and (not tokens or p.tokens <= tokens) for p in self.proofs)
