"""Names that no text of a program holds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from proverrl.lang.dafny.syntax.text import scan_tokens


def find_fresh(stem: str, texts: Iterable[str]) -> str:
    """``stem``, or with the least number behind it that makes it no word of the texts."""
    taken = {piece for text in texts for _, piece in scan_tokens(text)}
    names = (f"{stem}{number or ''}" for number in count())
    return next(name for name in names if name not in taken)
