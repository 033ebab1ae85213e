"""The form of a Lean statement without its names, so that statements can be compared.

Flows in: the text of a statement. Flows out: its tokens. Not handled here: the comparison
(``proverrl.problems.contamination``).
"""

from __future__ import annotations

import itertools
import re

from proverrl.lang.lean.syntax import tokens as lean_tokens
from proverrl.types import HOLE

_BINDERS = frozenset("∀ ∃ λ fun Σ Π ∑ ∏ ∃!".split())
_DECLARES = frozenset("theorem lemma example def abbrev instance structure".split())

_HEADER_LINE = re.compile(
    r"(import|open|set_option|namespace|end|universe|(noncomputable )?section)\b"
)


def read_skeletons(text: str) -> tuple[str, str]:
    """The tokens without the statement's own name, and without any name that is bound, or declared
    before it."""
    text = text.replace(HOLE, " ")
    header_gone = [line for line in text.split("\n") if not _HEADER_LINE.match(line)]
    found = lean_tokens.scan_tokens("\n".join(header_gone))
    tokens = [token.text for token in found if token.is_code]
    while tokens and tokens[-1] in ("sorry", "by", ":="):
        tokens.pop()
    declared = [
        name
        for word, name in itertools.pairwise(tokens)
        if word in _DECLARES and re.fullmatch(lean_tokens.IDENTIFIER, name)
    ]
    plain = ["_" if token in declared[-1:] else token for token in tokens]
    bound = _find_bound_names(plain)
    # Which of several definitions a statement is about is no matter of names.
    renamed = {name: f"d{place}" for place, name in enumerate(dict.fromkeys(declared[:-1]))}
    anonymous = []
    for token in plain:
        head, dot, rest = token.partition(".")
        if head in bound or head in renamed:
            token = renamed.setdefault(head, f"n{len(renamed)}") + dot + rest
        anonymous.append(token)
    return " ".join(plain), " ".join(anonymous)


def _find_bound_names(tokens: list[str]) -> set[str]:
    """Names that stand between an opening bracket or a binder and a colon, comma or arrow."""
    bound: set[str] = set()
    for place, token in enumerate(tokens):
        if token not in _BINDERS and token not in ("(", "{", "[", "⦃"):
            continue
        names: list[str] = []
        for name in tokens[place + 1 :]:
            if not re.fullmatch(lean_tokens.IDENTIFIER, name):
                ends = (":",) if token in ("(", "{", "[", "⦃") else (":", ",", "∈", "=>", "↦")
                if name in ends:
                    bound |= set(names)
                break
            names.append(name)
    return bound
