"""Rewards of a verifier that errs: corrections, and an estimate of how often it errs.

Flows in: a verdict as yes or no, and the verifier's rates: f0, the share of wrong proofs that it
accepts, and f1, the share of right proofs that it refuses. Flows out: a reward whose policy
gradient is, on average over the verifier's errors, that of a verifier without errors (times a
constant). Both corrections: Cai et al. 2025, arXiv 2510.00915. Within a group that shares one pair
of rates, centring reduces them to a constant factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proverrl.config import CorrectionName
from proverrl.errors import RecordError
from proverrl.seeds import derive_seed
from proverrl.statistics import clopper_pearson

EMA = 0.95
"""How much of an average stays when one more value is added."""

ALL = ""
"""The key under which everything is averaged, whatever its own key is."""

MAX_ONLINE = 0.5
"""A larger estimate is not used to correct a reward: few candidates were proved by then, and the
correction's variance would be unbounded."""


def backward(proved: bool, f0: float, f1: float) -> float:
    """(r - f0) / (1 - f0 - f1): on average 1 for a right proof and 0 for a wrong one. Its variance
    grows without bound as f0 + f1 nears 1. Raises ``RecordError`` if the rates do not lie in [0, 1)
    with a sum below 1."""
    _check(f0, f1)
    return (float(proved) - f0) / (1.0 - f0 - f1)


def forward(proved: bool, f0: float, f1: float) -> float:
    """f1 for a yes, f1 - 1 for a no: on average 0 for a right proof and -(1 - f0 - f1) for a wrong
    one. f0 is not needed, and values stay within [-1, 1]. Raises ``RecordError`` if the rates do
    not lie in [0, 1) with a sum below 1."""
    _check(f0, f1)
    return f1 if proved else f1 - 1.0


CORRECTIONS: dict[CorrectionName, Callable[[bool, float, float], float]] = {
    "none": lambda proved, f0, f1: float(proved),
    "backward": backward,
    "forward": forward,
}


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


def _check(f0: float, f1: float) -> None:
    if not (0.0 <= f0 < 1.0 and 0.0 <= f1 < 1.0 and f0 + f1 < 1.0):
        raise RecordError(f"error rates must lie in [0, 1) with a sum below 1, got {f0} and {f1}")
