"""Level 1: one or two tactics about propositions.

Flows in: a random source and names. Flows out: theorems. Not handled here: anything that branches.
"""

from __future__ import annotations

import random

from proverrl.lang.generating import Family, Names, ProgramText
from proverrl.lang.lean.generate.draft import ask_theorem


def make_chain(rng: random.Random, names: Names) -> ProgramText:
    """Implications, one after the other."""
    length = rng.randrange(2, 5)
    props = [names.pick("prop") for _ in range(length + 1)]
    hyps = [names.pick("hyp") for _ in range(length + 1)]
    proof = hyps[0]
    for hyp in hyps[1:]:
        proof = f"{hyp} ({proof})" if " " in proof else f"{hyp} {proof}"
    binders = [f"({' '.join(props)} : Prop)", f"({hyps[0]} : {props[0]})"]
    steps = zip(hyps[1:], props, props[1:], strict=False)
    rules = [f"({hyp} : {left} → {right})" for hyp, left, right in steps]
    binders += rng.sample(rules, len(rules))
    return ask_theorem(names.pick("theorem"), binders, props[-1], [f"exact {proof}"])


FAMILIES: dict[str, Family] = {"l1_chain": make_chain}
