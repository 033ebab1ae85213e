"""A language of somebody's own, before it is used.

Flows in: what stands where ``[languages]`` says. Flows out: a ``Language`` that has what all have,
and shares neither name nor endings nor fences with ours and with those loaded before. What it calls
proved is proved in its own language: its verifier is trusted, and no check here can make up for a
wrong one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from proverrl.errors import UsageError
from proverrl.lang.base import Language

_ROWS = {".json", ".jsonl", ".parquet", ""}
"""Endings of what ``proverrl verify`` reads rows from."""
_NEEDED = ("title", "suffix", "comment", "fences", "kinds", "layout")


def check_own(name: str, found: Any, others: Sequence[Language]) -> Language:
    """The language, made of its class where that is given. Raises ``UsageError``: it is no
    ``Language``, lacks something, has another name, or an ending or a fence of one of the
    ``others``."""
    where = f"languages.{name}"
    if inspect.isclass(found) and issubclass(found, Language):
        try:
            found = found()
        except TypeError as error:
            raise UsageError(f"{where}: {error}") from error
    if not isinstance(found, Language):
        raise UsageError(
            f"{where}: it is no proverrl.lang.base.Language, but {type(found).__name__}"
        )
    if getattr(found, "name", "") != name:
        raise UsageError(
            f"{where}: the language calls itself {getattr(found, 'name', '')!r}; use that name"
        )
    if missing := [each for each in _NEEDED if not hasattr(found, each)]:
        raise UsageError(f"{where}: the language has no {missing[0]!r}; set it in its class")
    if found.suffix in _ROWS:
        raise UsageError(f"{where}: {found.suffix} files hold rows of problems; choose another")
    for other in others:
        if found.suffix == other.suffix or set(found.fences) & set(other.fences):
            raise UsageError(
                f"{where}: {found.suffix} or a fence of {', '.join(found.fences)} is that of "
                f"{other.name}, whose files are judged as {other.name}; choose another"
            )
    return found
