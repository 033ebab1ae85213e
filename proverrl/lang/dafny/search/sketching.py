"""Proofs in parts: what ``Sketching`` promises, from the modules that do it."""

from __future__ import annotations

from proverrl.lang.dafny.search.sketch import fill, make_sketch, splice
from proverrl.lang.dafny.search.states import KINDS
from proverrl.lang.dafny.search.subgoals import close, lift, refine

__all__ = ["close", "fill", "kinds", "lift", "make_sketch", "refine", "splice"]

kinds = KINDS
