"""Holds the grammar of Dafny's expressions to what may stand in a hole.

Flows in: tokens. Flows out: nothing but the place where an expression ends, or ``GrammarError``.
``CodeExpressions`` reads the forms; here are the tables of those that a hole admits, and what is
refused beyond them: wherever ``<`` or a brace could be read otherwise by Dafny, and what only
whole programs may hold (``CodeTypes.whole``).
Not covered (refused): statement expressions, bit operators, type tests, lambdas outside brackets
or with ``requires`` or ``reads``.
"""

from __future__ import annotations

from typing import Literal

from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.statements import StatementElements
from proverrl.lang.dafny.syntax.tokens import Finding, Token
from proverrl.lang.dafny.syntax.types import COLLECTIONS

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


class HintExpressions(StatementElements):
    """Types, patterns and expressions of a hole."""

    whole = False
    max_chain = 200
    signs = ("-", "!")
    endless = frozenset("if match forall exists var set iset map imap".split())

    def _parse_named_type(self, in_expression: bool) -> None:
        """A collection with its arguments, or a path with arguments behind its last name."""
        is_collection = self.at(*COLLECTIONS)
        if is_collection:
            self.advance()
        else:
            self.expect_name()
            while self.take("."):
                self.expect_name()
        if in_expression and self.at("<") and not self._at_type_arguments():
            raise self.fail("expected the end of the type")
        if is_collection or self.at("<"):
            self._parse_type_arguments()

    def _parse_pattern(self, *, typed: bool) -> None:
        super()._parse_pattern(typed=typed)
        if self.at(":") and not typed:
            raise self.refuse_typed_pattern()

    def parse_case_pattern(self) -> None:
        self._parse_pattern(typed=False)

    def skip_attributes(self) -> None:
        """Attributes that steer the prover and change no meaning; refuses all others."""
        while self.at("{") and self.peek().text == ":":
            self.advance()
            self.advance()
            if not self.at(*HARMLESS_ATTRIBUTES):
                raise GrammarError(refuse_attribute(self.token))
            self.advance()
            self.parse_list(self.parse_inner, "}")

    def parse_expression(
        self, *, semi: bool = False, lambdas: bool = True, bits: bool = True
    ) -> None:
        """One whole expression; no semicolon is a part of it."""
        super().parse_expression(lambdas=lambdas, bits=bits)

    def parse_frames(self, *, semi: bool = False, lambdas: bool = True) -> None:
        self.parse_expressions()

    def _take_operator(self, bits: bool) -> bool:
        if not self.at(*_BINARY):
            return False
        if self.advance().text == ">" and (self.at("{") or self._at_lambda()):
            # Dafny may read a<b> as types here, and the brace as a body.
            raise self.fail("put what stands after '>' in parentheses")
        return True

    def _at_lambda(self) -> bool:
        return self._brackets > 0 and super()._at_lambda()

    def parse_binding(self) -> list[Token]:
        """``pattern, pattern := e, e`` or ``pattern :| e``, whose e the checker proves to exist.

        Returns the names of the patterns.
        """
        num_bound = len(self.bound)
        self.parse_items(self.parse_pattern)
        names = self.bound[num_bound:]
        self.refuse_unread_choice()
        if self.take(":|"):
            self.parse_expression()
        else:
            self.expect(":=")
            self.parse_items(self.parse_expression)
        return names

    def _parse_let(self) -> None:
        self.parse_binding()
        self.expect(";")

    def open_cases(self, *, statement: bool) -> bool:
        """A match without cases is refused, and a statement whose last case could take in what
        follows the hole."""
        if statement:
            self.expect("{")
            return True
        braced = self.take("{")
        if not self.at("case"):
            raise self.fail("expected 'case'")
        return braced

    def _parse_after_name(self) -> bool:
        """Types stand before a call or a member only; any others may be a comparison to us."""
        place = self._place
        self._take_type_arguments()
        if self._place > place and not self.at("(", "."):
            raise self.fail("expected '(' or '.' after types")
        return False
