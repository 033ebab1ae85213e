"""What of a Lean statement is left without its names, so that statements can be compared.

Flows in: the text of a statement. Flows out: its tokens. Not handled here: the comparison
(``proverrl.problems.contamination``).
"""

from __future__ import annotations

import re

from proverrl.lang.lean.syntax import tokens as lean_tokens
from proverrl.lang.words import drop_names
from proverrl.types import HOLE

_BINDERS = frozenset("∀ ∃ λ fun Σ Π ∑ ∏ ∃!".split())
_DECLARES = frozenset("theorem lemma example def abbrev instance structure".split())


def read_skeletons(text: str) -> tuple[str, str]:
    """The tokens without the statement's own name, and without any name that it binds."""
    text = text.replace(HOLE, " ")
    header_gone = [
        line
        for line in text.split("\n")
        if not line.startswith(("import ", "open ", "set_option ", "namespace ", "end "))
    ]
    found = lean_tokens.scan_tokens("\n".join(header_gone))
    tokens = [token.text for token in found if token.is_code]
    while tokens and tokens[-1] in ("sorry", "by", ":="):
        tokens.pop()
    plain = drop_names(tokens, _DECLARES)
    bound = _find_bound_names(plain)
    renamed: dict[str, str] = {}
    anonymous = []
    for token in plain:
        head, dot, rest = token.partition(".")
        if head in bound:
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
