"""What the attempts at one problem cost, counted while they stream past.

Flows in: stored attempts of one problem, in the order of their numbers. Flows out: for each unit
(turns, verifier calls, tokens) what was spent in all and when the first proof was in, as
``proverrl.matched_budget`` counts it, without keeping the attempts.
Not handled here: attempts out of order, or of an earlier version: they have no cost (None).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proverrl.matched_budget import BudgetUnit, Spending
from proverrl.types import Status

_PROVED = Status.PROVED.value
_UNJUDGED = frozenset(status.value for status in Status if not status.judged)


@dataclass(slots=True)
class SpendingMeter:
    """The running cost of one problem. ``known`` turns False when it cannot be told."""

    known: bool = True
    tokens_known: bool = True
    turns: int = 0
    calls: int = 0
    tokens: int = 0
    solved_at: tuple[int, int, int] | None = None
    last_attempt: int = -1
    seen: set[int] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one attempt; one that was not judged costs nothing."""
        turns, number = row.get("turns"), row.get("attempt")
        if turns is None or not isinstance(number, int) or number <= self.last_attempt:
            self.known = False
            self.seen.clear()
        if not self.known:
            return
        assert isinstance(number, int)
        self.last_attempt = number
        status = row.get("status")
        if status in _UNJUDGED:
            return
        for turn in turns or ():
            self.turns += 1
            key = turn.get("candidate")
            if key is not None:
                self.seen.add(hash(key))
            tokens = turn.get("num_tokens")
            if tokens is None:
                self.tokens_known = False
            else:
                self.tokens += int(tokens)
        self.calls = len(self.seen)
        if status == _PROVED and self.solved_at is None:
            self.solved_at = (self.turns, self.calls, self.tokens)

    def spending(self, unit: BudgetUnit) -> Spending | None:
        """The cost in that unit; None when it is not known."""
        if not self.known or (unit == "tokens" and not self.tokens_known):
            return None
        place = ("turns", "calls", "tokens").index(unit)
        total = (self.turns, self.calls, self.tokens)[place]
        return Spending(None if self.solved_at is None else self.solved_at[place], total)
