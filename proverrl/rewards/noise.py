"""How often a verifier refuses a right proof, estimated from second looks.

Flows in: verdicts as yes or no, and what became of failures that were judged again. Flows out: the
estimated rate, with an interval (after Cai et al. 2025, arXiv 2510.00915). Not handled here: who
judges again (``proverrl.loops.appeals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proverrl.seeds import derive_seed
from proverrl.statistics import clopper_pearson

EMA = 0.95
"""How much of an average stays when one more value is added."""

ALL = ""
"""The key under which everything is averaged, whatever its own key is."""


class FalseNegativeRate:
    """Estimates f1 for each key, such as (back end, source of the problem), as verdicts arrive.

    Two averages per key, with weight 0.05 for each new value and corrected for the bias of their
    start: the share p of judged candidates that are proved, and the share q of failures that an
    appeal with larger limits overturns. Among all candidates a share q (1 - p) is right and
    refused, and a share p is right and accepted when f0 = 0 (Lean's kernel after the audit), so
    that f1 = q (1 - p) / (q (1 - p) + p). Every value counts for its key and for ``ALL``.
    """

    def __init__(self) -> None:
        self._proved: dict[str, _Average] = {}
        self._overturned: dict[str, _Average] = {}

    def observe(self, key: str, *, proved: bool) -> None:
        _add(self._proved, key, proved)

    def observe_appeal(self, key: str, *, overturned: bool) -> None:
        """A failure that was judged again; ``overturned`` when it is proved now."""
        _add(self._overturned, key, overturned)

    def rate(self, key: str) -> float:
        """The estimate of f1; 0 until something has been judged again."""
        return self._rate(key, _value(self._overturned.get(key, _NOTHING)))

    def interval(self, key: str) -> tuple[float, float]:
        """A 95 % interval for f1: Clopper and Pearson's for q, with the number of appeals that the
        average still remembers, carried over to f1; p is taken as known. (0, 1) before the first
        appeal."""
        average = self._overturned.get(key, _NOTHING)
        if average[1] == 0.0:
            return (0.0, 1.0)
        low, high = clopper_pearson(_value(average), average[1] ** 2 / average[2])
        return self._rate(key, low), self._rate(key, high)

    def _rate(self, key: str, q: float) -> float:
        p = _value(self._proved.get(key, _NOTHING))
        refused = q * (1.0 - p)
        return refused / (refused + p) if refused > 0.0 else 0.0

    def state_dict(self) -> dict[str, Any]:
        return {
            "proved": {key: list(average) for key, average in self._proved.items()},
            "overturned": {key: list(average) for key, average in self._overturned.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._proved = {key: tuple(a) for key, a in state["proved"].items()}
        self._overturned = {key: tuple(a) for key, a in state["overturned"].items()}


def is_appealed(candidate_key: str, *, share: float, seed: int = 0) -> bool:
    """Whether a failed candidate is to be judged again: a draw that depends on nothing but the
    candidate and the seed, so that a resumed run draws the same ones."""
    # The word is part of the draw: another one would appeal other candidates.
    return derive_seed(seed, "audit", candidate_key) < share * 2**63


_Average = tuple[float, float, float]
"""Weighted sum of the values, sum of the weights, sum of their squares."""

_NOTHING: _Average = (0.0, 0.0, 0.0)


def _add(averages: dict[str, _Average], key: str, value: bool) -> None:
    for name in dict.fromkeys((ALL, key)):
        total, weight, squares = averages.get(name, _NOTHING)
        averages[name] = (
            EMA * total + (1.0 - EMA) * float(value),
            EMA * weight + (1.0 - EMA),
            EMA * EMA * squares + (1.0 - EMA) ** 2,
        )


def _value(average: _Average) -> float:
    return average[0] / average[1] if average[1] > 0.0 else 0.0
