"""A curriculum of theorems of core Lean, each with one hole, over six levels.

Level 1 has one or two tactics; levels 2 and 3 have first case distinctions, quantifiers, rewriting
and inductions; levels 4 to 6 have proofs of 6 to 20 tactics that branch, about propositions,
relations, own types, predicates, functions and small programs. How drafts are drawn and split:
``proverrl.lang.generating``. Everything that a theorem needs and core Lean does not surely have is
declared in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from proverrl.lang.base import BackendOptions
from proverrl.lang.generating import CurriculumDraft, Family, Generator, LearnMetadata, Pools
from proverrl.lang.lean.backend import open_lean
from proverrl.lang.lean.generate import (
    data,
    level1,
    level2,
    level3,
    numbers,
    programs,
    routes,
    trees,
)
from proverrl.lang.lean.generate.names import POOLS
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.verify.base import LanedVerifier, Limits

_PORTFOLIO = ("rfl", "trivial", "decide", "simp", "omega")
_OURS = frozenset(name for pool in POOLS.values() for names in pool for name in names)


_MODULES = (
    {1: level1.FAMILIES, 2: level2.FAMILIES, 3: level3.FAMILIES},
    data.FAMILIES,
    numbers.FAMILIES,
    trees.FAMILIES,
    programs.FAMILIES,
    routes.FAMILIES,
)


class LeanGenerator(Generator):
    """Families over six levels, some of them kept back."""

    language = "lean"
    families: ClassVar[dict[int, dict[str, Family]]] = {
        level: {name: make for module in _MODULES for name, make in module.get(level, {}).items()}
        for level in range(1, 7)
    }
    unseen: ClassVar[frozenset[str]] = frozenset(
        """l1_deliver l1_derive l2_choice l3_meet l3_lift l4_mono l5_equal l5_tree l6_cases
        l6_flat""".split()
    )
    pools: ClassVar[Pools] = POOLS

    def normalise(self, statement: str) -> str:
        """The tokens; names of the pools are numbered by first occurrence, in their dotted parts
        too."""
        renamed: dict[str, str] = {}

        def rename(part: str) -> str:
            return renamed.setdefault(part, f"n{len(renamed)}") if part in _OURS else part

        words = (token.text for token in scan_code(statement))
        return " ".join(".".join(map(rename, word.split("."))) for word in words)

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """A fixed portfolio, above level 1."""
        return _PORTFOLIO if draft.level > 1 else ()

    def open_verifier(self, workers: int) -> tuple[LanedVerifier, LearnMetadata]:
        """Nothing is learned: rows are the same whatever Lean checked them. References are ours, no
        policy's, so that a fresh process confirms one in ten."""
        options = BackendOptions(workers=workers, limits=Limits(), confirm="sample:0.1")
        backend = open_lean(options)
        return backend.verifier, lambda problem: {}


GENERATOR = LeanGenerator()
