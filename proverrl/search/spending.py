"""What a search has spent, what it knows already, and what of that belongs to which expansion.

Flows in: calls, tokens and verdicts as they happen. Flows out: counts and known verdicts. What an
expansion spends is its own until it ends: a saved search leaves it out, because the expansion will
be made again. Not handled here: who calls the verifier (``proverrl.search.run``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from proverrl.rollout.completion_counts import CompletionCounts
from proverrl.search.base import FoundProof, SearchTurn
from proverrl.types import Verdict

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


def dump_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON values."""
    raw: dict[str, Any] = _VERDICT.dump_python(verdict, mode="json")
    return raw


def read_verdict(raw: dict[str, Any]) -> Verdict:
    """What ``dump_verdict`` made of a verdict."""
    return _VERDICT.validate_python(raw)


def count_turns(turns: Sequence[SearchTurn]) -> CompletionCounts:
    """What became of a search's completions; what was only verified is none."""
    counts = CompletionCounts()
    for turn in turns:
        if turn.num_tokens:
            counts.add(truncated=turn.truncated, reason=turn.reason)
    return counts


@dataclass(slots=True)
class Ledger:
    """What one expansion, or all that have ended, spent and learned."""

    calls: int = 0
    tokens: int = 0
    confirmations: int = 0
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    proofs: list[FoundProof] = field(default_factory=list)
    refuted: list[tuple[str, Verdict]] = field(default_factory=list)
    turns: list[SearchTurn] = field(default_factory=list)

    def take_in(self, other: Ledger) -> None:
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
    def from_state(cls, state: dict[str, Any]) -> Ledger:
        """What ``state_dict`` gave, read back."""
        return cls(
            calls=state["calls"],
            tokens=state["tokens"],
            confirmations=state["confirmations"],
            verdicts={body: read_verdict(raw) for body, raw in state["verdicts"]},
            proofs=[
                FoundProof(body, read_verdict(raw), calls, tokens, confirmed)
                for body, raw, calls, tokens, confirmed in state["proofs"]
            ],
            refuted=[(body, read_verdict(raw)) for body, raw in state["refuted"]],
            turns=[SearchTurn(*turn) for turn in state["turns"]],
        )
