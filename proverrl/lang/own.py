"""A language of somebody's own, before it is used.

Flows in: what stands where ``[languages]`` says. Flows out: a ``Language`` that has what all have,
and shares neither name nor endings nor fences with ours and with those loaded before. What it calls
proved is proved in its own language: its verifier is trusted, and no check here can make up for a
wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proverrl.errors import UsageError
from proverrl.lang.base import Language
from proverrl.plugins import make

_ROWS = {".json", ".jsonl", ".parquet", ""}
"""Endings of what ``proverrl verify`` reads rows from."""
_NEEDED = ("title", "suffix", "comment", "fences", "kinds", "layout")


def check_own(name: str, found: Any, others: Sequence[Language]) -> Language:
    """The language, made of its class where that is given. Raises ``UsageError``: it is no
    ``Language``, lacks something, has another name, or an ending or a fence of one of the
    ``others``."""
    where = f"languages.{name}"
    made = make(where, found, Language)  # type: ignore[type-abstract]
    if getattr(made, "name", "") != name:
        raise UsageError(
            f"{where}: the language calls itself {getattr(made, 'name', '')!r}; use that name"
        )
    if missing := [each for each in _NEEDED if not hasattr(made, each)]:
        raise UsageError(f"{where}: the language has no {missing[0]!r}; set it in its class")
    if made.suffix in _ROWS:
        raise UsageError(f"{where}: {made.suffix} files hold rows of problems; choose another")
    for other in others:
        if made.suffix == other.suffix or set(made.fences) & set(other.fences):
            raise UsageError(
                f"{where}: {made.suffix} or a fence of {', '.join(made.fences)} is that of "
                f"{other.name}, whose files are judged as {other.name}; choose another"
            )
    return made
