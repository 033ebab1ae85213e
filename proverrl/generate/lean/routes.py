"""Levels 4 to 6: theorems of logic, each with the proof it was made from.

Flows in: a random source and names. Flows out: theorems; their proofs choose among the hypotheses
at each step. Not handled here: how a plan is drawn (``plans``).
"""

from __future__ import annotations

import random

from proverrl.generate.families import Family, Names, NamesExhaustedError, ProgramText
from proverrl.generate.lean.plans import Plan, Style

_MAX_TRIES = 300


def _family(doc: str, style: Style) -> Family:
    """A family of theorems whose plans have a style."""

    def make(rng: random.Random, names: Names) -> ProgramText:
        for _ in range(_MAX_TRIES):
            if (made := Plan(rng, style).write(names)) is not None:
                return made
        raise NamesExhaustedError(doc)

    make.__doc__ = doc
    return make


_LOGIC = "apply apply apply split split ∧ absurd absurd"
_GOALS = "atom atom atom atom ∧ ∨ → ¬"
_CLUES = "atom atom atom atom ∧ →goal goal"

FAMILIES: dict[int, dict[str, Family]] = {
    4: {
        "l4_route": _family(
            "Implications, with one split or one contradiction on the way.",
            Style((6, 9), (1, 3), "atom ∨ →", _LOGIC, _GOALS, _CLUES),
        ),
        "l4_iff": _family(
            "An equivalence, each direction by its own cases.",
            Style((7, 12), (1, 3), "↔", "apply", "atom", "atom"),
        ),
        "l4_exists": _family(
            "Witnesses, given and found, and rules for all points.",
            Style(
                *((6, 9), (1, 3), "∃ ∃ atom", "apply ∃ ∃ ∧ split", "atom ∃ ∧", "atom ∃ ∧"),
                preds=3,
                points=2,
            ),
        ),
    },
    5: {
        "l5_route": _family(
            "Implications, with cases inside cases.",
            Style((9, 14), (2, 4), "atom ∨ ∧ →", f"{_LOGIC} split split", _GOALS, _CLUES, splits=2),
        ),
        "l5_relation": _family(
            "Edges of a relation joined and turned round, by cases.",
            Style(
                *((9, 14), (2, 4), "atom atom ∃", "trans trans symm apply split split"),
                *("atom", "atom ∧"),
                preds=2,
                points=4,
                edges=0.8,
                needs="trans",
                splits=1,
            ),
        ),
        "l5_equal": _family(
            "Points that are equal, and what carries over from one to another.",
            Style(
                *((9, 14), (2, 3), "atom ∧ ∃", "= = = apply apply split split", "atom = ∧"),
                *("= = atom ∧",),
                preds=3,
                points=4,
                needs="=",
                splits=1,
            ),
        ),
    },
    6: {
        "l6_route": _family(
            "Long routes of every kind over points, with a relation.",
            Style(
                *((12, 20), (2, 4), "atom ∃ ∨ ∧ →"),
                "apply apply apply split split ∧ ∃ absurd trans symm = =",
                *(f"{_GOALS} ∃", "atom atom atom ∧ ∃ →goal ="),
                preds=3,
                points=3,
                edges=0.35,
                splits=1,
            ),
        ),
        "l6_cases": _family(
            "Two or three disjunctions, and another route for each of their combinations.",
            Style(
                *((12, 20), (2, 4), "atom ∨", "split split split apply absurd"),
                *("atom ∨ →", _CLUES),
                splits=2,
                reuse=0.7,
            ),
        ),
    },
}
