"""A server's description of itself, before it is asked anything.

Flows in: answers of ``/v1/about``. Flows out: records; in words how two servers differ, and why one
could not be asked. Not handled here: asking (``remote``), answering (``proverrl.serve``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import httpx2


@dataclass(frozen=True, slots=True)
class LanguageAbout:
    """A server's description of a language that it judges. ``conditions`` is a hash of all that
    determines a verdict besides the candidate; ``states`` is whether verdicts carry them. The
    others are the server's limits: a text that is longer, a worker that grows above them and a
    proof that is not confirmed end otherwise elsewhere."""

    toolchain: str
    conditions: str
    rlimit: int
    states: bool
    confirm: str = "proved"
    memory_mb: float | None = None
    max_text: int = 0
    deadline_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerAbout:
    """The answer of ``/v1/about``; ``workers`` counts those of each language."""

    version: str
    workers: int
    languages: dict[str, LanguageAbout]


def explain_failure(error: Exception) -> str:
    """The reason why the first request failed, and the remedy."""
    status = error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else 0
    if status == 401:
        return "it asks for a key, or for another one; set PROVERRL_API_KEY to one of its keys"
    said = f"it answers {status}" if status else str(error).splitlines()[0]
    return f"{said}; is `proverrl serve` of this version running there?"


def find_difference(ours: Mapping[str, LanguageAbout], theirs: Mapping[str, LanguageAbout]) -> str:
    """The first thing that two servers say differently."""
    for language in sorted({*ours, *theirs}):
        if language not in ours or language not in theirs:
            return f"only one judges {language}"
        for one in fields(LanguageAbout):
            a, b = getattr(ours[language], one.name), getattr(theirs[language], one.name)
            if a != b:
                return f"{one.name} of {language}: {b} and {a}"
    return "nothing that is known here"
