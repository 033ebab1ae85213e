"""Reads Lean propositions as ``Phrase``s, to be said in English.

Flows in: the text of a proposition of the curriculum's kind. Flows out: a phrase, or None for what
has no words yet (lambdas, ``match``, structures, notation beyond the table). Signs bind as in core
Lean. Not handled here: whether Lean accepts the text.
"""

from __future__ import annotations

from proverrl.lab.words.english import Phrase, PhraseReader, UnsaidError, is_number
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
_ENDLESS = frozenset("fun by if match let".split())
_BOUND = {"∀": "all", "∃": "some"}


def read_phrase(text: str) -> Phrase | None:
    """The proposition as a phrase."""
    return PropositionReader(token.text for token in scan_code(text)).read()


class PropositionReader(PhraseReader):
    """Reads a proposition."""

    def read_all(self) -> Phrase:
        return self._read_from(0)

    def _read_from(self, least: int) -> Phrase:
        left = self._read_head()
        while (found := _BINARY.get(self.piece)) and found[1] >= least:
            self.next()
            op, strength, is_right = found
            left = Phrase(op, (left, self._read_from(strength if is_right else strength + 1)))
        return left

    def _read_head(self) -> Phrase:
        piece = self.piece
        if piece == "¬":
            self.next()
            return Phrase("not", (self._read_from(_NOT),))
        if piece in _BOUND:
            self.next()
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
        while self.piece not in (",", ":"):
            names.append(self._next_name())
        kind: tuple[Phrase, ...] = ()
        if self.take(":"):
            kind = (Phrase("name", text=self._next_name()),)
        if not names or not self.take(","):
            raise UnsaidError("a binder")
        return Phrase(op, (self._read_from(0), *kind), " ".join(names))

    def _at_atom(self) -> bool:
        piece = self.piece
        return piece == "(" or is_number(piece) or _is_name(piece)

    def _read_atom(self) -> Phrase:
        piece = self.piece
        if self.take("("):
            inner = self._read_from(0)
            if not self.take(")"):
                raise UnsaidError("a bracket")
            return inner
        if is_number(piece):
            self.next()
            return Phrase("number", text=piece)
        return Phrase("name", text=self._next_name())

    def _next_name(self) -> str:
        piece = self.piece
        if not _is_name(piece):
            raise UnsaidError(piece)
        self.next()
        return piece


def _is_name(piece: str) -> bool:
    return piece.replace(".", "").isidentifier() and piece not in _ENDLESS
