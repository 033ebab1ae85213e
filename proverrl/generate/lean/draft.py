"""The small pieces of text that families of Lean theorems share.

Flows in: lines. Flows out: blocks of tactics, theorems with a hole. A block is a list of lines,
the first in the block's column; a line is one tactic, so that a policy can write one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from proverrl.generate.families import ProgramText
from proverrl.types import HOLE

_WIDTH = 90


def wrap(text: str) -> str:
    """A term, a proof or a formula as an argument."""
    return f"({text})" if " " in text and text[0] != "⟨" else text


def indent(lines: Sequence[str]) -> list[str]:
    """The lines two columns to the right."""
    return [f"  {line}" for line in lines]


def bullet(lines: Sequence[str]) -> list[str]:
    """A block that proves the first goal."""
    return [f"· {lines[0]}", *indent(lines[1:])]


def stack(blocks: Sequence[Sequence[str]]) -> list[str]:
    """Proofs of all goals: one stands as it is, several have bullets."""
    if len(blocks) == 1:
        return list(blocks[0])
    return [line for block in blocks for line in bullet(block)]


def arm(pattern: str, lines: Sequence[str]) -> list[str]:
    """An alternative of ``cases`` or ``induction``."""
    return [f"| {pattern} =>", *indent(lines)]


def split(tactic: str, *arms: Sequence[str]) -> list[str]:
    """``cases h`` or ``induction n`` with its alternatives."""
    return [f"{tactic} with", *(line for lines in arms for line in lines)]


def prove_all(*proofs: Sequence[str]) -> list[str]:
    """A conjunction, part by part."""
    if len(proofs) == 1:
        return list(proofs[0])
    first = "constructor" if len(proofs) == 2 else f"refine ⟨{', '.join(['?_'] * len(proofs))}⟩"
    return [first, *stack(proofs)]


def have(name: str, claim: str, proof: Sequence[str]) -> list[str]:
    """A statement on the way, and its proof."""
    return [f"have {name} : {claim} := by", *indent(proof)]


def equate(rng: random.Random, left: str, right: str) -> str:
    """An equation in either direction."""
    return f"{left} = {right}" if rng.random() < 0.5 else f"{right} = {left}"


def write_type(
    name: str, constructors: Sequence[tuple[str, Sequence[str]]], parameter: str = ""
) -> list[str]:
    """An inductive type: constructors with the types of their arguments, over a type
    ``parameter``."""
    head, result = (f" ({parameter} : Type)", f"{name} {parameter}") if parameter else ("", name)
    arms = [f"  | {word} : {' → '.join([*types, result])}" for word, types in constructors]
    return [f"inductive {name}{head} where", *arms]


def write_function(name: str, signature: str, equations: Sequence[tuple[str, str]]) -> list[str]:
    """A function by pattern matching; ``signature`` holds its binders, the colon and the type."""
    return [f"def {name} {signature}", *(f"  | {left} => {right}" for left, right in equations)]


def ask_theorem(
    name: str, binders: Sequence[str], claim: str, proof: Sequence[str], before: Sequence[str] = ()
) -> ProgramText:
    """A theorem, after the declarations ``before``, whose hole holds its proof by tactics.
    ``binders`` stand in their brackets."""
    lines = [f"theorem {name}"]
    for piece in (*binders, f": {claim} := by"):
        joined = f"{lines[-1]} {piece}"
        if len(joined) <= _WIDTH:
            lines[-1] = joined
        elif piece.startswith(": "):
            lines = [*lines[:-1], f"{lines[-1]} :", f"    {piece[2:]}"]
        else:
            lines.append(f"    {piece}")
    statement = [*before, *lines, f"  {HOLE}"]
    return ProgramText(statement, "\n  ".join(proof), "tactics")
