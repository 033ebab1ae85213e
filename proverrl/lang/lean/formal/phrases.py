"""Reads Lean propositions as ``Phrase``s, to be said in English.

Flows in: the text of a proposition of the curriculum's kind. Flows out: a phrase, or None for what
has no words yet (lambdas, ``match``, structures, notation beyond the table). Signs bind as in core
Lean. Not handled here: whether Lean accepts the text.
"""

from __future__ import annotations

from proverrl.lang.english import Phrase, UnsaidError
from proverrl.lang.lean.syntax.tokens import scan_code

# Strength, and whether the right side may hold the same sign again.
_BINARY: dict[str, tuple[str, int, bool]] = {
    "↔": ("iff", 20, False),
    "→": ("implies", 25, True),
    "∨": ("or", 30, True),
    "∧": ("and", 35, True),
    "=": ("=", 50, False),
    "≠": ("!=", 50, False),
    "<": ("<", 50, False),
    "≤": ("<=", 50, False),
    ">": (">", 50, False),
    "≥": (">=", 50, False),
    "::": ("cons", 67, True),
    "+": ("+", 65, False),
    "-": ("-", 65, False),
    "*": ("*", 70, False),
    "/": ("/", 70, False),
    "%": ("%", 70, False),
}
_NOT = 40
_BOUND = {"∀": "all", "∃": "some"}


def read_phrase(text: str) -> Phrase | None:
    """The proposition as a phrase."""
    reader = PropositionReader([token.text for token in scan_code(text)])
    try:
        phrase = reader.read(0)
    except (UnsaidError, RecursionError):
        return None
    return phrase if reader.at_end else None


class PropositionReader:
    """Goes over the tokens of a proposition."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = [*pieces, ""]
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._pieces[self._place] == ""

    def read(self, least: int) -> Phrase:
        left = self._read_head()
        while (found := _BINARY.get(self._pieces[self._place])) and found[1] >= least:
            self._place += 1
            op, strength, is_right = found
            left = Phrase(op, (left, self.read(strength if is_right else strength + 1)))
        return left

    def _read_head(self) -> Phrase:
        piece = self._pieces[self._place]
        if piece == "¬":
            self._place += 1
            return Phrase("not", (self.read(_NOT),))
        if piece in _BOUND:
            self._place += 1
            return self._read_bound(_BOUND[piece])
        args = [self._read_atom()]
        while self._at_atom():
            args.append(self._read_atom())
        if len(args) == 1:
            return args[0]
        if args[0].op != "name":
            raise UnsaidError(piece)
        return Phrase("call", tuple(args[1:]), args[0].text)

    def _read_bound(self, op: str) -> Phrase:
        names = []
        while self._pieces[self._place] not in (",", ":"):
            names.append(self._next_name())
        kind: tuple[Phrase, ...] = ()
        if self._take(":"):
            kind = (Phrase("name", text=self._next_name()),)
        if not names or not self._take(","):
            raise UnsaidError("a binder")
        return Phrase(op, (self.read(0), *kind), " ".join(names))

    def _at_atom(self) -> bool:
        piece = self._pieces[self._place]
        return piece == "(" or piece.isdigit() or _is_name(piece)

    def _read_atom(self) -> Phrase:
        piece = self._pieces[self._place]
        if self._take("("):
            inner = self.read(0)
            if not self._take(")"):
                raise UnsaidError("a bracket")
            return inner
        if piece.isdigit():
            self._place += 1
            return Phrase("number", text=piece)
        return Phrase("name", text=self._next_name())

    def _next_name(self) -> str:
        piece = self._pieces[self._place]
        if not _is_name(piece):
            raise UnsaidError(piece)
        self._place += 1
        return piece

    def _take(self, piece: str) -> bool:
        found = self._pieces[self._place] == piece
        self._place += found
        return found


def _is_name(piece: str) -> bool:
    return piece.replace(".", "").isidentifier() and piece not in (
        "fun",
        "by",
        "if",
        "match",
        "let",
    )
