"""The seam of search: what a policy proposes, what a verdict shows, what a state is worth.

Flows in: nothing. Flows out: the records and the kinds of functions that every search takes.
Not handled here: the searches themselves; where states, proposals and values come from
(``states_dafny``, ``states_lean``, ``proposals``, ``values``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from proverrl.types import Candidate, Problem, Verdict


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where a proof attempt starts from. ``text`` is the proof text that is kept, "" at the root;
    ``state`` the key of the state that it reaches, "" when unknown (the root before its first
    verdict)."""

    text: str
    state: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One continuation written after a prefix. ``body`` is the whole body: the prefix's text and
    what was written; ``logprob`` the sum over the ``num_tokens`` tokens that were written."""

    body: str
    num_tokens: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a body after which a state was seen. ``text`` is the body's text up to the end of
    this segment (cumulative); ``state`` the canonical key of the state after it."""

    text: str
    state: str


Propose = Callable[[Problem, Prefix, int, int], Awaitable[list[Proposal]]]
"""From a problem, a prefix, how many are wanted and a seed to continuations."""

Verify = Callable[[Candidate], Awaitable[Verdict]]
"""From a candidate to its verdict: one verifier call."""

SegmentFn = Callable[[Candidate, Verdict], tuple[Segment, ...]]
"""From a candidate and its verdict to the states on its way, up to the first error."""

ValueFn = Callable[[Problem, Sequence[Prefix]], Awaitable[list[float]]]
"""From a problem and prefixes to the chance, in [0, 1], that each can be completed to a proof."""
