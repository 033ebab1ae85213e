"""Closed propositions in their parts: what they are about, what they suppose, what they claim.

Flows in: the text of a proposition, or the binders of a theorem. Flows out: ``Closed``, or None for
a text of another kind than the curriculum's. Not handled here: what a part says (``phrases``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.errors import ProblemError
from proverrl.lab.words.lean.phrases import read_phrase
from proverrl.lang.lean.syntax.tokens import scan_code, scan_tokens

Binder = tuple[tuple[str, ...], str]
"""Names with their type."""

_GROUP = re.compile(r"[({]\s*([^:(){}]+?)\s*:\s*")
_ARROW = "→"


@dataclass(frozen=True, slots=True)
class Closed:
    """``about`` are names with their type, ``given`` what is supposed, in Lean's words."""

    about: tuple[Binder, ...]
    given: tuple[str, ...]
    claim: str

    @property
    def says(self) -> str:
        """The proposition that is said of the names."""
        return f" {_ARROW} ".join([*self.given, self.claim])

    @property
    def groups(self) -> str:
        """The names as Lean binds them."""
        return " ".join(f"({' '.join(names)} : {kind})" for names, kind in self.about)

    def list_names(self) -> list[tuple[str, str]]:
        """Each name with its type."""
        return [(name, kind) for names, kind in self.about for name in names]

    def write(self) -> str:
        """The proposition."""
        return f"∀ {self.groups}, {self.says}" if self.about else self.says


def read_closed(text: str) -> Closed | None:
    """A proposition that has all its names in one quantifier with brackets, and else nothing but
    signs, names and numbers; None for another text."""
    code = " ".join("".join(t.text if t.is_code else " " for t in scan_tokens(text)).split())
    about, says = list[Binder](), code
    if code.startswith("∀"):
        about, rest = split_binders(code[1:].lstrip())
        if not about or not rest.startswith(","):
            return None
        says = rest[1:].strip()
    if read_phrase(says) is None:
        return None
    *given, claim = split_at(says, _ARROW)
    return Closed(tuple(about), tuple(given), claim)


def read_binders(text: str) -> list[Binder]:
    """The binders of a theorem. Raises ``ProblemError`` for anything beside them."""
    found, rest = split_binders(text)
    if rest:
        raise ProblemError(f"no binder at {rest[:40]!r}")
    return found


def split_binders(text: str) -> tuple[list[Binder], str]:
    """The binders with brackets that a text begins with, and the rest of it."""
    found, place = list[Binder](), 0
    while match := _GROUP.match(text, place):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += (text[end] in "({") - (text[end] in ")}")
            end += 1
        kind = " ".join(text[match.end() : end - 1].split())
        found.append((tuple(match.group(1).split()), kind))
        place = end + len(text[end:]) - len(text[end:].lstrip())
    return found, text[place:]


def split_at(text: str, sign: str) -> Sequence[str]:
    """The parts between this sign where it stands in no bracket and under no quantifier."""
    parts, start, depth = list[str](), 0, 0
    for token in scan_code(text):
        depth += (token.text in "({") - (token.text in ")}")
        if depth == 0 and token.text in ("∀", "∃"):
            break
        if depth == 0 and token.text == sign:
            parts.append(text[start : token.offset].strip())
            start = token.end
    return [*parts, text[start:].strip()]
