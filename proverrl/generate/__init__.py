"""Generators of problems for the curricula, by language.

Flows in: the name of a language. Flows out: its ``Generator``, which writes drafts by level and
split. Not handled here: whether a verifier proves a draft (``proverrl.problems.drafts``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proverrl.generate.families import Generator

PROOFS = {"dafny": "dafny.stream", "lean": "lean.generator"}
"""The modules of the generators of problems that ask for a proof."""
CODE = {"dafny": "dafny.code", "lean": "lean.code"}
"""The modules of the generators of problems that ask for code."""


def find_generator(language: str, *, code: bool = False) -> Generator | None:
    """The generator of a language; None where there is none. Imports it only now."""
    place = (CODE if code else PROOFS).get(language)
    if place is None:
        return None
    found: Generator = import_module(f"proverrl.generate.{place}").GENERATOR
    return found
