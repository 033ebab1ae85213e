"""Parses names, literals, displays and what stands behind them in Dafny programs.

Flows in: tokens. Flows out: the place where an operand ends, or ``GrammarError``.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod

from proverrl.lang.dafny.syntax.cursor import COLLECTIONS, CodeTypes

_CONSTANTS = frozenset("true false null this".split())


class CodeAtoms(CodeTypes):
    """Operands of expressions.

    ``semi``: an expression may go on after the semicolon of a lemma call. ``lambdas``: a name
    before ``=>``, ``requires`` or ``reads`` begins a lambda. ``bits``: ``|`` is an operator.
    """

    @abstractmethod
    def parse_expression(
        self, *, semi: bool = False, lambdas: bool = True, bits: bool = True
    ) -> None:
        """One whole expression, as far as Dafny reads it."""

    def parse_expressions(self) -> None:
        self.parse_items(self.parse_inner)

    def parse_inner(self) -> None:
        """An expression between brackets, where everything may stand."""
        self.parse_expression(semi=True)

    def skip_attributes(self) -> None:
        """``{:name expression, ...}`` any number of times; the names are judged elsewhere."""
        while self.at("{") and self.peek().text == ":":
            self.skip(2)
            self.expect_name()
            if not self.at("}"):
                self.parse_expressions()
            self.expect("}")

    def parse_frames(self, *, semi: bool = False, lambdas: bool = True) -> None:
        """What ``reads``, ``modifies`` or ``unchanged`` lists."""

        def parse_frame() -> None:
            if self.take("*"):
                return
            if not self.at("`"):
                self.parse_expression(semi=semi, lambdas=lambdas)
            if self.take("`"):
                self.expect_name()

        self.parse_items(parse_frame)

    def parse_primary(self) -> bool:
        """An atom with its suffixes; returns True when the last suffix is a call."""
        is_call = self._parse_atom()
        while True:
            if self.at("("):
                self._parse_arguments(self._text(self._place - 1))
                is_call = True
            elif self.take("["):
                self._parse_index()
                is_call = False
            elif self.take("."):
                is_call = self._parse_member()
            else:
                return is_call

    def _parse_arguments(self, callee: str) -> None:
        self.expect("(")
        numbers = itertools.count()

        def parse() -> None:
            self.program.arguments[self._place] = (callee, next(numbers))
            self._parse_argument()

        self.parse_list(parse, ")")

    def _parse_argument(self) -> None:
        if self.whole and self.at_name and self.peek().text == ":=":
            # Dafny 4's arguments by name.
            self.skip(2)
        self.parse_inner()

    def _parse_atom(self) -> bool:
        """True for a call of a prefix predicate."""
        if self.token.kind in ("number", "char", "string") or self.at(*_CONSTANTS):
            self.advance()
        elif self.at("old", "fresh", "allocated", "unchanged"):
            self.refuse_unread_heap()
            is_frame = self.advance().text == "unchanged"
            if self.whole and self.take("@"):
                self.advance()
            self.expect("(")
            self.parse_frames(lambdas=False) if is_frame else self.parse_inner()
            self.expect(")")
        elif self.whole and self.at("int", "real") and self.peek().text == "(":
            self.skip(2)
            self.parse_inner()
            self.expect(")")
        elif self.at("(", "[", "{"):
            closer = {"(": ")", "[": "]", "{": "}"}[self.advance().text]
            self.parse_list(self.parse_inner, closer)
        elif self.take("|"):
            self.parse_expression(semi=True, bits=False)
            self.expect("|")
        elif self.at(*COLLECTIONS):
            self._parse_collection()
        elif self.at_name:
            self._take_name()
            return self._parse_after_name()
        else:
            raise self.fail("expected an expression")
        return False

    def _parse_after_name(self) -> bool:
        """Types, or the arguments of a prefix predicate (``P#[k](x)``); True for the latter."""
        if not self.at("#"):
            self._take_type_arguments()
            return False
        self.advance()
        self._take_type_arguments(in_expression=False)
        self.expect("[")
        self.parse_inner()
        self.expect("]")
        self.expect("(")
        self.parse_list(self.parse_inner, ")")
        return True

    def _parse_collection(self) -> None:
        word = self.advance().text
        if word in ("map", "imap") and self.take("["):
            self.parse_list(self._parse_pair, "]")
        elif word in ("iset", "multiset") and self.take("{"):
            self.parse_list(self.parse_inner, "}")
        elif word in ("multiset", "seq"):
            if self.whole:
                self._take_type_arguments()
            self.expect("(")
            self.parse_list(self.parse_inner, ")")
        else:
            raise self.fail("expected a collection")

    def _parse_pair(self) -> None:
        self.parse_inner()
        self.expect(":=")
        self.parse_inner()

    def _parse_index(self) -> None:
        """What follows ``[``: an index, indices, a slice, slices by length or an update."""
        self._brackets += 1
        if self.take(".."):
            if not self.at("]"):
                self.parse_inner()
        else:
            self.parse_inner()
            if self.take(".."):
                if not self.at("]"):
                    self.parse_inner()
            elif self.take(":="):
                self.program.updates.append(self._place)
                self.parse_inner()
            elif self.whole and self.at(":"):
                while self.take(":"):
                    if not self.at("]"):
                        self.parse_inner()
            else:
                while self.take(","):
                    self.parse_inner()
        self._brackets -= 1
        self.expect("]")

    def _parse_member(self) -> bool:
        """What follows a dot: a field, a number, or a datatype update; True for a prefix call."""
        if self.take("("):
            self.parse_list(self._parse_member_update, ")")
            return False
        # A tuple in a tuple gives ``1.1``.
        is_plain = self.whole or self.token.text.replace(".", "", 1).isdigit()
        if (self.token.kind == "number" and is_plain) or self.at("requires", "reads"):
            self.advance()
        else:
            self._take_name()
        return self._parse_after_name()

    def _take_name(self) -> None:
        if self._lambdas:
            self.program.in_lambdas.add(self._place)
        self.expect_name()

    def _parse_member_update(self) -> None:
        if self.token.kind == "number":
            self.advance()
        else:
            self.expect_name()
        self.expect(":=")
        self.parse_inner()
