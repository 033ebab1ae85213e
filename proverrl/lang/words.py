"""Words of a text among those of another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def find_words(words: Sequence[str], part: Sequence[str]) -> int | None:
    """The first place where ``part`` stands in ``words``."""
    for place in range(len(words) - len(part) + 1):
        if words[place] == part[0] and list(words[place : place + len(part)]) == list(part):
            return place
    return None


def drop_names(tokens: list[str], declares: frozenset[str]) -> list[str]:
    """The tokens, every use of the names that ``declares`` give replaced by a blank."""
    own = {b for a, b in itertools.pairwise(tokens) if a in declares}
    return ["_" if token in own else token for token in tokens]
