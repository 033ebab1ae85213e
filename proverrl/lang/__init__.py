"""The languages: one room each, and one line here.

Flows in: the name of a language, as problems have it. Flows out: the ``Language``, loaded when it
is first asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from proverrl.errors import ProblemError
from proverrl.types import FILE

# Loaded with the first language: the command line only wants the names.
if TYPE_CHECKING:
    from proverrl.lang.base import Language
    from proverrl.lang.parts import Composing

LANGUAGES: dict[str, str] = {
    "dafny": "proverrl.lang.dafny.language:DAFNY",
    "lean": "proverrl.lang.lean.language:LEAN",
    "critique": "proverrl.lang.critique.language:CRITIQUE",
}
"""Where each language is, by its name. A program may add its own before it uses it."""


@cache
def find_language(name: str) -> Language:
    """The language of a name. Raises ``ProblemError`` for one that is not known."""
    place = LANGUAGES.get(name)
    if place is None:
        raise ProblemError(f"unknown language {name[:60]!r}; known are: {', '.join(LANGUAGES)}")
    module, _, attribute = place.partition(":")
    found: Language = getattr(import_module(module), attribute)
    return found


def list_languages() -> list[Language]:
    """All languages, in the order of ``LANGUAGES``."""
    return [find_language(name) for name in LANGUAGES]


def find_suffixes() -> dict[str, str]:
    """The endings of files, with the dot, and the names of their languages; a language without bare
    files has none."""
    found = (language for language in list_languages() if FILE in language.kinds)
    return {language.suffix: language.name for language in found}


def find_composing(name: str) -> Composing:
    """What composers ask of a language. Raises ``ProblemError`` where it has none."""
    composing = find_language(name).composing
    if composing is None:
        raise ProblemError(f"there are no composers for {name}")
    return composing
