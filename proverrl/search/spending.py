"""The spending of a search, or of one expansion of it, and what it learned.

Flows in: bodies, verdicts and counts as they come. Flows out: ``SearchSpending``.
Not handled here: when a search stops (``base``), who counts (``metering``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proverrl.types import Verdict


@dataclass(frozen=True, slots=True)
class FoundProof:
    """A proof, and what had been spent when it was written and judged.

    ``calls`` counts verifier calls, this one included; ``tokens`` the tokens generated up to the
    last one of this body. ``confirmed`` says that a second verifier proved it too.
    """

    body: str
    verdict: Verdict
    calls: int
    tokens: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class SearchTurn:
    """An answer, in the order of writing. ``body`` is "" where none was found, for the ``reason``;
    ``is_call`` says that it was given to the verifier, ``truncated`` that it was cut off. In a
    search made of several, the body of a part begins with a comment that names the part, and a
    body that was only verified has no tokens. ``seconds`` are the verifier's, of a call that has
    ended; ``judged`` is False of one that ended without a verdict (time, crash)."""

    body: str
    num_tokens: int
    is_call: bool
    truncated: bool = False
    reason: str = ""
    seconds: float | None = None
    judged: bool = True


@dataclass(slots=True)
class SearchSpending:
    """Cost and findings of one expansion, or of all that have ended."""

    calls: int = 0
    tokens: int = 0
    confirmations: int = 0
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    proofs: list[FoundProof] = field(default_factory=list)
    refuted: list[tuple[str, Verdict]] = field(default_factory=list)
    turns: list[SearchTurn] = field(default_factory=list)

    def take_in(self, other: SearchSpending) -> None:
        """Add what an expansion that ended has spent."""
        self.calls += other.calls
        self.tokens += other.tokens
        self.confirmations += other.confirmations
        self.verdicts |= other.verdicts
        self.proofs += other.proofs
        self.refuted += other.refuted
        self.turns += other.turns
