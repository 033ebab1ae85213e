"""Reads the expressions of Dafny contracts as ``Phrase``s, to be said in English.

Flows in: the text of an expression. Flows out: a phrase, or None for what has no words yet
(lambdas, ``match``, sets, maps, types of quantified names other than whole numbers).
Not handled here: whether Dafny accepts the text.
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens
from proverrl.lang.english import Phrase, UnsaidError

# From loose to tight. Relations may stand in a chain and are read apart.
_LEVELS: tuple[dict[str, str], ...] = (
    {"<==>": "iff"},
    {"==>": "implies"},
    {"&&": "and", "||": "or"},
)
_RELATIONS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SUMS = frozenset("+-")
_PRODUCTS = frozenset("*/%")
_PLAIN = frozenset(("nat", "int"))
_SEQUENCES = frozenset(("single", "join", "prefix", "suffix", "contents"))


def read_phrase(text: str) -> Phrase | None:
    """The expression as a phrase."""
    try:
        reader = ContractReader([piece for _, piece in scan_tokens(text)])
        phrase = reader.read()
    except (UnsaidError, ProblemError, IndexError):
        return None
    return phrase if reader.at_end else None


class ContractReader:
    """Goes over the tokens of an expression."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = [*pieces, ""]
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._pieces[self._place] == ""

    def read(self, level: int = 0) -> Phrase:
        if level == len(_LEVELS):
            return self._read_relations()
        words = _LEVELS[level]
        left = self.read(level + 1)
        while (sign := self._pieces[self._place]) in words:
            self._place += 1
            # An arrow takes all that follows it.
            right = self.read(level if sign == "==>" else level + 1)
            left = Phrase(words[sign], (left, right))
        return left

    def _read_relations(self) -> Phrase:
        args, signs = [self._read_sum()], []
        while (sign := self._pieces[self._place]) in _RELATIONS:
            self._place += 1
            signs.append(_RELATIONS[sign])
            args.append(self._read_sum())
        if len(signs) < 2:
            return Phrase(signs[0], tuple(args)) if signs else args[0]
        return Phrase("chain", tuple(args), " ".join(signs))

    def _read_sum(self) -> Phrase:
        return self._read_left(_SUMS, lambda: self._read_left(_PRODUCTS, self._read_sign))

    def _read_left(self, signs: frozenset[str], read: Callable[[], Phrase]) -> Phrase:
        left = read()
        while (sign := self._pieces[self._place]) in signs:
            self._place += 1
            right = read()
            joins = sign == "+" and {left.op, right.op} & _SEQUENCES
            left = Phrase("join" if joins else sign, (left, right))
        return left

    def _read_sign(self) -> Phrase:
        if self._take("!"):
            return Phrase("not", (self._read_sign(),))
        if self._take("-"):
            return Phrase("neg", (self._read_sign(),))
        return self._read_tail(self._read_head())

    def _read_head(self) -> Phrase:
        piece = self._next()
        if piece == "(":
            return self._close(self.read(), ")")
        if piece == "|":
            return Phrase("length", (self._close(self.read(), "|"),))
        if piece == "[":
            return Phrase("single", (self._close(self.read(), "]"),))
        if piece in ("forall", "exists"):
            return self._read_bound("all" if piece == "forall" else "some")
        if piece == "if":
            condition = self._close(self.read(), "then")
            return Phrase("if", (condition, self._close(self.read(), "else"), self.read()))
        if piece in ("old", "multiset") and self._take("("):
            inner = self._close(self.read(), ")")
            return Phrase("old" if piece == "old" else "bag", (inner,))
        if piece.isdigit():
            return Phrase("number", text=piece)
        if piece in KEYWORDS - {"true", "false"} or not piece.isidentifier():
            raise UnsaidError(piece)
        return self._read_call(piece) if self._take("(") else Phrase("name", text=piece)

    def _read_call(self, name: str) -> Phrase:
        args = [self.read()]
        while self._take(","):
            args.append(self.read())
        return self._close(Phrase("call", tuple(args), name), ")")

    def _read_tail(self, phrase: Phrase) -> Phrase:
        while True:
            if self._take("["):
                phrase = self._read_index(phrase)
            elif self._take("."):
                if self._next() != "Length":
                    raise UnsaidError("a member")
                phrase = Phrase("length", (phrase,))
            else:
                return phrase

    def _read_index(self, phrase: Phrase) -> Phrase:
        if self._take(".."):
            if self._take("]"):
                return Phrase("contents", (phrase,))
            return Phrase("prefix", (phrase, self._close(self.read(), "]")))
        index = self.read()
        if self._take(".."):
            return Phrase("suffix", (phrase, self._close(index, "]")))
        return Phrase("index", (phrase, self._close(index, "]")))

    def _read_bound(self, op: str) -> Phrase:
        names = [self._next()]
        while not self._take("::"):
            if self._take(":"):
                if self._next() not in _PLAIN:
                    raise UnsaidError("a type")
            elif self._take(","):
                names.append(self._next())
            else:
                raise UnsaidError("a range")
        return Phrase(op, (self.read(),), " ".join(names))

    def _next(self) -> str:
        piece = self._pieces[self._place]
        if not piece:
            raise UnsaidError("the end")
        self._place += 1
        return piece

    def _take(self, piece: str) -> bool:
        found = self._pieces[self._place] == piece
        self._place += found
        return found

    def _close(self, inside: Phrase, piece: str) -> Phrase:
        if not self._take(piece):
            raise UnsaidError(piece)
        return inside
