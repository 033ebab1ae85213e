"""Consistent renaming of a problem and its body: the same proof under other names.

Flows in: a statement, a body, and names to choose from. Flows out: both texts with every
identifier of the statement or body replaced, one to one. A program and its renamed form mean the
same, so that a reference stays a reference. Not handled here: programs with strings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from proverrl.problems.dafny import BUILT_IN_MEMBERS, KEYWORDS

_NAME = re.compile(r"/\*.*?\*/|\{:\s*\w+|[A-Za-z_][\w']*", re.DOTALL)


def find_names(text: str) -> list[str]:
    """The user's identifiers in a text, in order of first occurrence."""
    found = (match.group() for match in _NAME.finditer(text))
    return list(dict.fromkeys(name for name in found if _is_users(name)))


def collect_names(texts: Iterable[str]) -> list[str]:
    """All user identifiers of many texts, sorted: a pool for ``rename``."""
    return sorted({name for text in texts for name in find_names(text)})


def rename(
    statement: str, body: str, pool: Sequence[str], rng: random.Random
) -> tuple[str, str]:
    """Both texts with their identifiers replaced by distinct ones drawn from ``pool``.

    Capitalised names are replaced by capitalised ones and others by others. A pool that is too
    small is filled up with the text's own names.
    """
    old = find_names(statement + "\n" + body)
    mapping: dict[str, str] = {}
    for is_upper in (True, False):
        mine = [name for name in old if name[0].isupper() == is_upper]
        free = sorted({name for name in (*pool, *mine) if name[0].isupper() == is_upper})
        mapping |= zip(mine, rng.sample(free, len(mine)), strict=True)

    def replace(match: re.Match[str]) -> str:
        return mapping.get(match.group(), match.group())

    return _NAME.sub(replace, statement), _NAME.sub(replace, body)


def _is_users(name: str) -> bool:
    is_word = name[0].isalpha() or name[0] == "_"
    return is_word and name not in KEYWORDS and name not in BUILT_IN_MEMBERS
