"""What operators and filters work with: a loop and a lemma, a verifier, and the problems that a
statement is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from proverrl.compose.filters import Asker, FilterTools
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.types import HOLE, Problem
from proverrl.verifier.base import Verifier

LOOP = f"""method Sum(n: nat) returns (r: int)
  ensures r == 7 * n + 5
{{
  r := 5;
  var i := 0;
  while i < n
    {HOLE}
  {{
    i := i + 1;
    r := r + 7;
  }}
}}
"""
LEMMA = f"""function F(n: nat): int {{ if n == 0 then 4 else F(n - 1) + 9 }}
lemma {{:induction false}} Law(m: nat)
  ensures F(m) == 9 * m + 4
{{
  {HOLE}
}}
"""


def make_tools(
    verifier: Verifier,
    *,
    existing: Iterable[Problem],
    held_out: Iterable[Problem],
    attacks: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> FilterTools:
    return FilterTools(
        asker=Asker(verifier),
        held_out=OverlapIndex(take_statements(held_out)),
        seen={make_skeleton(problem) for problem in existing},
        attacks=attacks,
    )
