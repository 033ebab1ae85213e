"""The spending of a search, or of one expansion of it, and what it learned.

Flows in: bodies, verdicts and counts as they come. Flows out: ``SearchSpending``, also as JSON
values and back. Not handled here: when a search stops (``base``), who counts (``metering``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from proverrl.types import Verdict

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_Count = Annotated[int, Field(strict=True, ge=0)]
check_count: Callable[[Any], int] = TypeAdapter(_Count).validate_python
"""A count of a saved search; ``ValueError`` for any other value."""


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
    ``is_call`` says that it was given to the verifier, ``truncated`` that it was cut off. A body
    that was put together from others, and only verified, has no tokens. ``seconds`` are the
    verifier's, of a call that has ended; ``judged`` is False of one that ended without a verdict
    (time, crash)."""

    body: str
    num_tokens: int
    is_call: bool
    truncated: bool = False
    reason: str = ""
    seconds: float | None = None
    judged: bool = True


def dump_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON values."""
    raw: dict[str, Any] = _VERDICT.dump_python(verdict, mode="json")
    return raw


def read_verdict(raw: dict[str, Any]) -> Verdict:
    """The verdict that ``dump_verdict`` wrote."""
    return _VERDICT.validate_python(raw)


@dataclass(slots=True)
class SearchSpending:
    """Cost and findings of one expansion, or of all that have ended. A saved search leaves out
    those of expansions under way, because they will be made again."""

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

    def state_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "calls": self.calls,
            "tokens": self.tokens,
            "confirmations": self.confirmations,
            "verdicts": [[body, dump_verdict(v)] for body, v in self.verdicts.items()],
            "proofs": [
                [p.body, dump_verdict(p.verdict), p.calls, p.tokens, p.confirmed]
                for p in self.proofs
            ],
            "refuted": [[body, dump_verdict(v)] for body, v in self.refuted],
            "turns": [astuple(turn) for turn in self.turns],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SearchSpending:
        """The spending that ``state_dict`` gave, read back."""
        return cls(
            calls=check_count(state["calls"]),
            tokens=check_count(state["tokens"]),
            confirmations=check_count(state["confirmations"]),
            verdicts={body: read_verdict(raw) for body, raw in state["verdicts"]},
            proofs=[
                FoundProof(body, read_verdict(raw), *spent) for body, raw, *spent in state["proofs"]
            ],
            refuted=[(body, read_verdict(raw)) for body, raw in state["refuted"]],
            turns=[SearchTurn(*turn) for turn in state["turns"]],
        )
