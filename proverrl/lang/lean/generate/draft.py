"""The small pieces of text that families of Lean theorems share.

Flows in: lines. Flows out: blocks of tactics, theorems with a hole. A block is a list of lines,
the first in the block's column; a line is one tactic, so that a policy can write one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.lang.generating import ProgramText
from proverrl.types import HOLE


def indent(lines: Sequence[str]) -> list[str]:
    """The lines two columns to the right."""
    return [f"  {line}" for line in lines]


def bullet(lines: Sequence[str]) -> list[str]:
    """A block that proves the first goal."""
    return [f"· {lines[0]}", *indent(lines[1:])]


def arm(pattern: str, lines: Sequence[str]) -> list[str]:
    """An alternative of ``cases`` or ``induction``."""
    return [f"| {pattern} =>", *indent(lines)]


def split(tactic: str, *arms: Sequence[str]) -> list[str]:
    """``cases h`` or ``induction n`` with its alternatives."""
    return [f"{tactic} with", *(line for lines in arms for line in lines)]


def ask_theorem(
    name: str,
    binders: Sequence[str],
    claim: str,
    proof: Sequence[str],
    before: Sequence[str] = (),
) -> ProgramText:
    """A theorem, after the declarations ``before``, whose hole holds its proof by tactics.
    ``binders`` stand in their brackets."""
    head = " ".join([f"theorem {name}", *binders])
    statement = [*before, f"{head} : {claim} := by", f"  {HOLE}"]
    return ProgramText(statement, "\n  ".join(proof), "tactics")
