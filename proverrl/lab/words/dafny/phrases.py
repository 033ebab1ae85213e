"""Reads the expressions of Dafny contracts as ``Phrase``s, to be said in English.

Flows in: the text of an expression. Flows out: a phrase, or None for what has no words yet
(lambdas, ``match``, sets, maps, types of quantified names other than whole numbers).
Not handled here: whether Dafny accepts the text.
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.errors import ProblemError
from proverrl.lab.words.english import Phrase, PhraseReader, UnsaidError, is_number
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens

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
        pieces = [piece for _, piece in scan_tokens(text)]
    except ProblemError:
        return None
    return ContractReader(pieces).read()


class ContractReader(PhraseReader):
    """Reads an expression."""

    def read_all(self) -> Phrase:
        return self._read_level(0)

    def _read_level(self, level: int) -> Phrase:
        if level == len(_LEVELS):
            return self._read_relations()
        words = _LEVELS[level]
        left = self._read_level(level + 1)
        while (sign := self.piece) in words:
            self.next()
            # An arrow takes all that follows it.
            right = self._read_level(level if sign == "==>" else level + 1)
            left = Phrase(words[sign], (left, right))
        return left

    def _read_relations(self) -> Phrase:
        args, signs = [self._read_sum()], []
        while (sign := self.piece) in _RELATIONS:
            self.next()
            signs.append(_RELATIONS[sign])
            args.append(self._read_sum())
        if len(signs) < 2:
            return Phrase(signs[0], tuple(args)) if signs else args[0]
        return Phrase("chain", tuple(args), " ".join(signs))

    def _read_sum(self) -> Phrase:
        return self._read_left(_SUMS, lambda: self._read_left(_PRODUCTS, self._read_sign))

    def _read_left(self, signs: frozenset[str], read: Callable[[], Phrase]) -> Phrase:
        left = read()
        while (sign := self.piece) in signs:
            self.next()
            right = read()
            joins = sign == "+" and {left.op, right.op} & _SEQUENCES
            left = Phrase("join" if joins else sign, (left, right))
        return left

    def _read_sign(self) -> Phrase:
        if self.take("!"):
            return Phrase("not", (self._read_sign(),))
        if self.take("-"):
            return Phrase("neg", (self._read_sign(),))
        return self._read_tail(self._read_head())

    def _read_head(self) -> Phrase:
        piece = self.next()
        if piece == "(":
            return self._close(self.read_all(), ")")
        if piece == "|":
            return Phrase("length", (self._close(self.read_all(), "|"),))
        if piece == "[":
            return Phrase("single", (self._close(self.read_all(), "]"),))
        if piece in ("forall", "exists"):
            return self._read_bound("all" if piece == "forall" else "some")
        if piece == "if":
            condition = self._close(self.read_all(), "then")
            return Phrase("if", (condition, self._close(self.read_all(), "else"), self.read_all()))
        if piece in ("old", "multiset") and self.take("("):
            inner = self._close(self.read_all(), ")")
            return Phrase("old" if piece == "old" else "bag", (inner,))
        if is_number(piece):
            return Phrase("number", text=piece)
        if piece in KEYWORDS - {"true", "false"} or not piece.isidentifier():
            raise UnsaidError(piece)
        return self._read_call(piece) if self.take("(") else Phrase("name", text=piece)

    def _read_call(self, name: str) -> Phrase:
        args = [self.read_all()]
        while self.take(","):
            args.append(self.read_all())
        return self._close(Phrase("call", tuple(args), name), ")")

    def _read_tail(self, phrase: Phrase) -> Phrase:
        while True:
            if self.take("["):
                phrase = self._read_index(phrase)
            elif self.take("."):
                if self.next() != "Length":
                    raise UnsaidError("a member")
                phrase = Phrase("length", (phrase,))
            else:
                return phrase

    def _read_index(self, phrase: Phrase) -> Phrase:
        if self.take(".."):
            if self.take("]"):
                return Phrase("contents", (phrase,))
            return Phrase("prefix", (phrase, self._close(self.read_all(), "]")))
        index = self.read_all()
        if self.take(".."):
            return Phrase("suffix", (phrase, self._close(index, "]")))
        return Phrase("index", (phrase, self._close(index, "]")))

    def _read_bound(self, op: str) -> Phrase:
        names, kind = [self.next()], ""
        while not self.take("::"):
            if self.take(":"):
                kind = self.next()
                if kind not in _PLAIN:
                    raise UnsaidError("a type")
            elif self.take(","):
                names.append(self.next())
            else:
                raise UnsaidError("a range")
        claim = self.read_all()
        # Of integers nothing is said: it is what a name without a type is mostly found to be.
        types = (Phrase("name", text=kind),) if kind not in ("", "int") else ()
        return Phrase(op, (claim, *types), " ".join(names))

    def _close(self, inside: Phrase, piece: str) -> Phrase:
        if not self.take(piece):
            raise UnsaidError(piece)
        return inside
