"""What the attempts at one problem cost, counted while they stream past.

Flows in: stored attempts of one problem, in the order of their numbers. Flows out: for each unit
(turns, verifier calls, tokens) what was spent in all and when the first proof was in, as
``proverrl.evaluation.budgets`` counts it, without keeping the attempts.
Not handled here: attempts out of order, or of an earlier version: they have no cost (None).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proverrl.evaluation.attempts import AttemptRow
from proverrl.evaluation.budgets import BudgetUnit, Spending
from proverrl.types import Status


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

    def add(self, row: AttemptRow) -> None:
        """Count one attempt; one that was not judged costs nothing."""
        if "turns" not in row or row["attempt"] <= self.last_attempt:
            self.known = False
            self.seen.clear()
        if not self.known:
            return
        self.last_attempt = row["attempt"]
        if not row["status"].judged:
            return
        for turn in row["turns"]:
            self.turns += 1
            if turn["candidate"] is not None:
                self.seen.add(hash(turn["candidate"]))
            if turn["num_tokens"] is None:
                self.tokens_known = False
            else:
                self.tokens += turn["num_tokens"]
        self.calls = len(self.seen)
        if row["status"] is Status.PROVED and self.solved_at is None:
            self.solved_at = (self.turns, self.calls, self.tokens)

    def spending(self, unit: BudgetUnit) -> Spending | None:
        """The cost in that unit; None when it is not known."""
        if not self.known or (unit == "tokens" and not self.tokens_known):
            return None
        place = ("turns", "calls", "tokens").index(unit)
        total = (self.turns, self.calls, self.tokens)[place]
        return Spending(None if self.solved_at is None else self.solved_at[place], total)
