"""The share of right proofs that a verifier refuses, estimated from second looks.

Flows in: verdicts as yes or no, and what became of failures that were judged again. Flows out: the
estimated rate, with an interval (after Cai et al. 2025, arXiv 2510.00915). Not handled here: who
judges again (``proverrl.run.pipeline.Reviewer``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proverrl.seeds import derive_seed
from proverrl.statistics import clopper_pearson

EMA = 0.95
"""The share of an average that stays when one more value is added."""


@dataclass
class Average:
    """A running average, corrected for the bias of its start: the weighted sum of the values, the
    sum of the weights and that of their squares."""

    total: float = 0.0
    weight: float = 0.0
    squares: float = 0.0

    def add(self, value: bool) -> None:
        self.total = EMA * self.total + (1.0 - EMA) * float(value)
        self.weight = EMA * self.weight + (1.0 - EMA)
        self.squares = EMA * EMA * self.squares + (1.0 - EMA) ** 2

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight > 0.0 else 0.0


@dataclass
class FalseNegativeRate:
    """Estimates f1, the share of right proofs that are refused, as verdicts arrive.

    Two averages, with weight 0.05 for each new value: the share p of judged candidates that are
    proved, and the share q of failures that an appeal with larger limits overturns. Among all
    candidates a share q (1 - p) is right and refused, and a share p is right and accepted when no
    wrong proof is accepted (Lean's kernel after the audit), so that
    f1 = q (1 - p) / (q (1 - p) + p).
    """

    proved: Average = field(default_factory=Average)
    overturned: Average = field(default_factory=Average)

    @property
    def rate(self) -> float:
        """The estimate of f1; 0 until something has been judged again."""
        return self._rate(self.overturned.value)

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval for f1: Clopper and Pearson's for q, with the number of appeals that the
        average still remembers, carried over to f1; p is taken as known. (0, 1) before the first
        appeal."""
        average = self.overturned
        if average.weight == 0.0:
            return (0.0, 1.0)
        low, high = clopper_pearson(average.value, average.weight**2 / average.squares)
        return self._rate(low), self._rate(high)

    def _rate(self, q: float) -> float:
        refused = q * (1.0 - self.proved.value)
        return refused / (refused + self.proved.value) if refused > 0.0 else 0.0

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``dataclasses.asdict`` wrote."""
        self.proved, self.overturned = Average(**state["proved"]), Average(**state["overturned"])


def is_appealed(candidate_key: str, *, share: float, seed: int = 0) -> bool:
    """True if a failed candidate is to be judged again: a draw that depends on nothing but the
    candidate and the seed, so that a resumed run draws the same ones."""
    # The word is part of the draw: another one would appeal other candidates.
    return derive_seed(seed, "audit", candidate_key) < share * 2**63
