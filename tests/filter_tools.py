"""What filters work with: a verifier, and the problems that a statement is held against."""

from __future__ import annotations

from collections.abc import Iterable

from proverrl.compose.filters import Asker, Attack, FilterTools
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.types import Problem
from proverrl.verifier.base import Verifier


def make_tools(
    verifier: Verifier,
    *,
    existing: Iterable[Problem],
    held_out: Iterable[Problem],
    attack: Attack | None = None,
) -> FilterTools:
    return FilterTools(
        asker=Asker(verifier),
        held_out=OverlapIndex(take_statements(held_out)),
        seen={make_skeleton(problem) for problem in existing},
        attack=attack,
    )
