"""Parses types, patterns and expressions of Dafny 2.3.

Flows in: tokens. Flows out: nothing but the place where an expression ends, or ``GrammarError``.
Operators are read as a flat chain, because only the extent of an expression matters here.
Covered: chained comparisons, quantifiers, let, if, match, displays, comprehensions, slices,
updates, lambdas inside brackets, type arguments before a call. Not covered (refused): statement
expressions, bit operators, lambdas with ``requires`` or ``reads``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from proverrl.lang.dafny.syntax.cursor import MAX_DEPTH, Cursor, GrammarError
from proverrl.lang.dafny.syntax.tokens import Finding, Token

MAX_CHAIN = 200
HARMLESS_ATTRIBUTES = ("trigger", "autotriggers", "induction", "nowarn")
# What Dafny or Boogie would not check, or say otherwise, because of them.
_CHEATING_ATTRIBUTES = frozenset(
    """axiom assumption error extern ignore only options rlimit selective_checking
    start_checking_here subsumption termination timeLimit timeLimitMultiplier verify""".split()
)


def refuse_attribute(name: Token) -> Finding:
    """The finding for an attribute that is not on the list of harmless ones."""
    category: Literal["cheat", "syntax"] = (
        "cheat" if name.text in _CHEATING_ATTRIBUTES else "syntax"
    )
    message = f"the attribute {name.text!r} is not allowed"
    return Finding(category, "attributes", message, name.line, name.column)


_BINARY = frozenset("<==> ==> <== && || == != < <= > >= !! in !in + - * / %".split())
_BASE_TYPES = frozenset("int nat real bool char string object ORDINAL".split())
_COLLECTIONS = frozenset("seq set iset multiset map imap".split())
_CALL_WORDS = frozenset("old fresh allocated unchanged".split())
_CONSTANTS = frozenset("true false null this".split())


class Expressions(Cursor):
    """Types, patterns and expressions."""

    def parse_type(self) -> None:
        self.enter()
        if self.take("("):
            self._parse_list(self.parse_type, ")")
        elif self.at(*_BASE_TYPES):
            self.advance()
        elif self.at(*_COLLECTIONS):
            self.advance()
            self._parse_type_arguments()
        else:
            self.expect_name()
            while self.take("."):
                self.expect_name()
            if self.at("<"):
                self._parse_type_arguments()
        if self.at("->", "-->", "~>"):
            self.advance()
            self.parse_type()
        self.leave()

    def _parse_type_arguments(self) -> None:
        self.expect("<")
        self.parse_type()
        while self.take(","):
            self.parse_type()
        self.expect(">")

    def _parse_list(self, parse: Callable[[], object], end: str) -> None:
        """Items separated by commas, up to and with ``end``."""
        self._brackets += 1
        if not self.at(end):
            parse()
            while self.take(","):
                parse()
        self._brackets -= 1
        self.expect(end)

    def parse_pattern(self, names: list[Token], *, typed: bool = True) -> None:
        """A name, or a constructor or tuple of patterns; plain names are added to ``names``.

        ``typed``: a type may stand behind it.
        """
        self.enter()
        if self.take("("):
            self._parse_list(lambda: self.parse_pattern(names, typed=typed), ")")
        else:
            name = self.expect_name()
            if self.take("("):
                self._parse_list(lambda: self.parse_pattern(names, typed=typed), ")")
            else:
                names.append(name)
        if self.at(":") and not typed:
            raise self.refuse_typed_pattern()
        if self.take(":"):
            self.parse_type()
        self.leave()

    def parse_domain(self) -> None:
        """``x: T, y | range``; the range may be missing."""
        self._parse_domain_name()
        while self.take(","):
            self._parse_domain_name()
        self.skip_attributes()
        if self.take("|"):
            self.parse_expression()

    def skip_attributes(self) -> None:
        """Attributes that steer the prover and change no meaning; refuses all others."""
        while self.at("{") and self.peek().text == ":":
            self.advance()
            self.advance()
            if not self.at(*HARMLESS_ATTRIBUTES):
                raise GrammarError(refuse_attribute(self.token))
            self.advance()
            self._parse_list(self.parse_expression, "}")

    def _parse_domain_name(self) -> None:
        self.refuse_unread_domain()
        self._parse_bound_name()

    def _parse_bound_name(self) -> None:
        self.expect_name()
        if self.take(":"):
            self.parse_type()

    def parse_expression(self) -> None:
        """An operand, or a flat chain of operands and binary operators."""
        self.enter()
        num_operands = 1
        self._parse_operand()
        while True:
            if self.at("as"):
                self.advance()
                self.parse_type()
            elif self.at(*_BINARY):
                closes_types = self.advance().text == ">" and self.at("{")
                if closes_types:
                    # Dafny may read a<b> as types here, and the brace as a body.
                    raise self.fail("put the set after '>' in parentheses")
                num_operands += 1
                if num_operands > MAX_CHAIN:
                    raise self.refuse("syntax", "size", f"more than {MAX_CHAIN} operands")
                self._parse_operand()
            else:
                break
        self.leave()

    def _parse_operand(self) -> None:
        num_signs = 0
        while self.at("-", "!"):
            self.advance()
            num_signs += 1
            if num_signs > MAX_DEPTH:
                raise self.refuse("syntax", "size", f"more than {MAX_DEPTH} signs")
        if self.at("if", "match", "forall", "exists", "var"):
            self._parse_open_form()
        elif self._at_lambda():
            self._parse_lambda()
        else:
            self.parse_primary()

    def _parse_open_form(self) -> None:
        word = self.advance().text
        if word == "if":
            self.parse_expression()
            self.expect("then")
            self.parse_expression()
            self.expect("else")
            self.parse_expression()
        elif word == "match":
            self._parse_match_expression()
        elif word == "var":
            self.parse_binding([])
            self.expect(";")
            self.parse_expression()
        else:
            self.parse_domain()
            self.expect("::")
            self.parse_expression()

    def parse_binding(self, names: list[Token]) -> None:
        """``pattern, pattern := e, e`` or ``pattern :| e``; the checker proves that e exists."""
        self.parse_pattern(names)
        while self.take(","):
            self.parse_pattern(names)
        self.refuse_unread_choice()
        if self.take(":|"):
            self.parse_expression()
            return
        self.expect(":=")
        self.parse_expression()
        while self.take(","):
            self.parse_expression()

    def _parse_match_expression(self) -> None:
        self.parse_expression()
        braced = self.take("{")
        if not self.at("case"):
            raise self.fail("expected 'case'")
        while self.take("case"):
            self.parse_pattern([], typed=False)
            self.expect("=>")
            self.parse_expression()
        if braced:
            self.expect("}")

    def _at_lambda(self) -> bool:
        if not self._brackets:
            return False
        if self.at_name:
            return self.peek().text == "=>"
        if not self.at("("):
            return False
        distance, depth = 1, 1
        while depth and self.peek(distance).kind != "end":
            text = self.peek(distance).text
            depth += (text == "(") - (text == ")")
            distance += 1
        return self.peek(distance).text == "=>"

    def _parse_lambda(self) -> None:
        if self.take("("):
            self._parse_list(self._parse_bound_name, ")")
        else:
            self.expect_name()
        self.expect("=>")
        self._lambdas += 1
        self.parse_expression()
        self._lambdas -= 1

    def parse_primary(self) -> bool:
        """An atom with its suffixes; returns True when the last suffix is a call."""
        called = self._parse_atom()
        while True:
            if self.take("("):
                self._parse_list(self.parse_expression, ")")
                called = True
            elif self.take("["):
                self._parse_index()
                called = False
            elif self.take("."):
                self._parse_member()
                called = False
            elif self.at("<") and self._skip_call_types():
                called = False
            else:
                return called

    def _parse_atom(self) -> bool:
        if self.token.kind in ("number", "char", "string") or self.at(*_CONSTANTS):
            self.advance()
        elif self.at(*_CALL_WORDS):
            self.refuse_unread_heap()
            self.advance()
            self.expect("(")
            self._parse_list(self.parse_expression, ")")
        elif self.take("("):
            self._parse_list(self.parse_expression, ")")
        elif self.take("["):
            self._parse_list(self.parse_expression, "]")
        elif self.take("{"):
            self._parse_list(self.parse_expression, "}")
        elif self.take("|"):
            self.parse_expression()
            self.expect("|")
        elif self.at(*_COLLECTIONS):
            self._parse_collection()
        elif self.at_name:
            self.advance()
        else:
            raise self.fail("expected an expression")
        return False

    def _parse_collection(self) -> None:
        """A display or a comprehension that begins with the name of the collection."""
        word = self.advance().text
        if word in ("map", "imap") and self.take("["):
            self._parse_list(self._parse_pair, "]")
        elif word in ("iset", "multiset") and self.take("{"):
            self._parse_list(self.parse_expression, "}")
        elif word in ("multiset", "seq") and self.take("("):
            self._parse_list(self.parse_expression, ")")
        elif word in ("set", "iset", "map", "imap"):
            self.parse_domain()
            if self.take("::"):
                self.parse_expression()
                if word in ("map", "imap") and self.take(":="):
                    self.parse_expression()
        else:
            raise self.fail("expected a collection")

    def _parse_pair(self) -> None:
        self.parse_expression()
        self.expect(":=")
        self.parse_expression()

    def _parse_index(self) -> None:
        """What follows ``[``: an index, indices, a slice or an update."""
        self._brackets += 1
        if not self.at(".."):
            self.parse_expression()
        if self.take(".."):
            if not self.at("]"):
                self.parse_expression()
        elif self.take(":="):
            self.parse_expression()
        else:
            while self.take(","):
                self.parse_expression()
        self._brackets -= 1
        self.expect("]")

    def _parse_member(self) -> None:
        """What follows a dot: a field, a number of a tuple, or a datatype update."""
        is_number = self.token.kind == "number" and self.token.text.isdigit()
        if is_number or self.at("requires", "reads"):
            self.advance()
        elif self.take("("):
            self._parse_list(self._parse_update, ")")
        else:
            self.expect_name()

    def _parse_update(self) -> None:
        if self.token.kind == "number":
            self.advance()
        else:
            self.expect_name()
        self.expect(":=")
        self.parse_expression()

    def _skip_call_types(self) -> bool:
        """Take ``<T, U>`` when a call or a member follows; else take nothing."""
        place, depth = self._place, self._depth
        try:
            self._parse_type_arguments()
        except GrammarError:
            taken = False
        else:
            taken = self.at("(", ".")
        if not taken:
            self._place = place
        self._depth = depth
        return taken
