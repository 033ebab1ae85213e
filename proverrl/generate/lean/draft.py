"""The names and the small pieces of text that families of Lean theorems share.

Flows in: lines. Flows out: blocks of tactics, theorems with a hole. A block is a list of lines,
the first in the block's column; a line is one tactic, so that a policy can write one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import MappingProxyType

from proverrl.generate.families import ProgramText
from proverrl.lang.pools import Pools, split_pool
from proverrl.types import HOLE

POOLS: Pools = MappingProxyType(
    {
        "theorem": split_pool("goal main claim step fact thm rule law prop key | done res aim"),
        # Lean wants a program behind "main".
        "task": split_pool("goal claim step fact thm rule law prop key | done res aim"),
        "type": split_pool("A B T X Y Obj Item Elem Pt | P Q R Good Ok Bad"),
        "prop": split_pool("p q r s t u v w p1 q1 r1 s1 | a b c d x y z k m n e j"),
        "pred": split_pool("P Q R Good Ok Fits Holds Bad | Sat Ev Has Cert"),
        "relation": split_pool("Rel Lt Le Near Joins Sees Likes | Links To Via"),
        "function": split_pool("f g h0 op inv swap next prev | size dbl tot run comp walk"),
        "point": split_pool("a b c d x y z e o a1 b1 c1 | p q r s t u v w p1 q1 r1 s1"),
        "number": split_pool("n m k i j len num cnt | x y a b"),
        "hyp": split_pool(
            "h h1 h2 h3 h4 h5 h6 h7 h8 h9 hp hq hr hs ha hb hc hd hx hy"
            " | w1 w2 w3 w4 w5 w6 w7 w8 w9 k1 k2 k3 k4 k5 k6 k7 k8 k9"
        ),
        "data": split_pool(
            "Color Shape Dir Mode State Signal Gate Phase Kind Step Coin"
            " | Chain Stack Queue Heap Term"
        ),
        "list": split_pool(
            "Chain Stack Queue Lst Line Row Pile Bag | Tree Heap Node Color State Gate"
        ),
        "tree": split_pool(
            "Tree Term Heap Node Branch Bush Fork Expr | Chain Queue Row Mode Signal"
        ),
        "term": split_pool("l s t xs ys zs ws us rest | p q r a b c d m n"),
        "value": split_pool(
            "red blue green on off up down lo hi mid one two six ten yes no"
            " | nil tip leaf node push link"
        ),
        "base": split_pool("nil empty leaf tip none0 stop end0 zero0 unit | red off lo mid six no"),
        "join": split_pool(
            "cons node push link add mul fork more put both | up on next two eval app dbl"
        ),
        "recursive": split_pool(
            "size dbl sum app rev count twist eval len0 total mk go tot run comp walk"
            " | f g op inv swap prev push put"
        ),
    }
)
"""The names that generated Lean theorems may use, by role."""

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
