"""A place in the tokens of a body, and the words that Dafny 2.3 reserves.

Flows in: tokens. Flows out: small steps for the parsers, and ``GrammarError`` with the first
finding. Not handled here: any grammar.
"""

from __future__ import annotations

import re
from typing import Literal

from proverrl.lang.dafny.syntax.tokens import Finding, Token

MAX_DEPTH = 60

RESERVED = frozenset(
    """abstract allocated as assert assume bool break by calc case char class codatatype colemma
    comethod const constructor copredicate datatype decreases else ensures exists expect export
    extends false forall free fresh function ghost if imap import in include inductive int
    invariant iset iterator label lemma map match method modifies modify module multiset nat
    new newtype null object old opened ORDINAL parallel predicate print protected provides
    reads real refines requires return returns reveal reveals seq set static string then this
    trait true twostate type unchanged var where while witness yield yields""".split()
)


_VALUE_TYPE = re.compile(r"int|nat|bool|real|char|string|ORDINAL|bv[0-9]+")


class GrammarError(Exception):
    """The body is not in the grammar; carries the one finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Cursor:
    """A place in the tokens. ``declared`` collects names that stay visible after the hole."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self._brackets = 0
        self._lambdas = 0
        self._functions = 0
        self.declared: list[Token] = []

    @property
    def token(self) -> Token:
        return self._tokens[self._place]

    def peek(self, distance: int = 1) -> Token:
        return self._tokens[min(self._place + distance, len(self._tokens) - 1)]

    def at(self, *texts: str) -> bool:
        token = self.token
        return token.kind in ("word", "operator") and token.text in texts

    @property
    def at_end(self) -> bool:
        return self.token.kind == "end"

    @property
    def at_name(self) -> bool:
        return is_name(self.token)

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self._place += 1
        return token

    def take(self, text: str) -> bool:
        if self.at(text):
            self._place += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.fail(f"expected {text!r}")

    def expect_name(self) -> Token:
        if not self.at_name:
            raise self.fail("expected a name")
        return self.advance()

    def refuse_unread_heap(self) -> None:
        """Raises at a word that makes a lambda or a function depend on the heap.

        Dafny 2.3 asks no ``reads`` of it, and takes the value for one that no heap can change. What
        is ``old`` in a declared function is fixed by its call.
        """
        is_unread = self._lambdas or (self._functions and not self.at("old"))
        if is_unread and self.at("old", "fresh", "allocated", "unchanged"):
            where = "lambda" if self._lambdas else "function"
            message = f"{self.token.text!r} in a {where} is believed of every heap; leave it out"
            raise self.refuse("cheat", "unread-heap", message)

    def refuse_unread_domain(self) -> None:
        """Raises at a variable bound inside a lambda whose values may be what a heap holds."""
        if not self._lambdas:
            return
        is_typed = self.peek().text == ":"
        if not is_typed or not _VALUE_TYPE.fullmatch(self.peek(2).text):
            message = (
                f"what {self.token.text!r} stands for in a lambda may depend on the heap, which is "
                "believed of every heap; give it a type such as int, or leave the lambda out"
            )
            raise self.refuse("cheat" if is_typed else "syntax", "unread-heap", message)

    def refuse_unread_choice(self) -> None:
        """Raises at ``:|`` inside a lambda, whose choice may be of what a heap holds."""
        if self._lambdas and self.at(":|"):
            message = "a choice in a lambda may depend on the heap, which is believed of every heap"
            raise self.refuse("syntax", "unread-heap", message)

    def refuse_typed_pattern(self) -> GrammarError:
        """For a type behind a name in the pattern of a case, which Dafny 2.3 believes unseen."""
        message = (
            "a type in the pattern of a case is believed and not checked by Dafny 2.3; leave it out"
        )
        return self.refuse("cheat", "typed-pattern", message)

    def fail(self, message: str) -> GrammarError:
        found = "the end" if self.at_end else repr(self.token.text)
        return self.refuse("syntax", "grammar", f"{message}, found {found}")

    def refuse(self, category: Literal["syntax", "cheat"], rule: str, message: str) -> GrammarError:
        token = self.token
        return GrammarError(Finding(category, rule, message, token.line, token.column))

    def enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse("syntax", "size", f"nested more than {MAX_DEPTH} deep")

    def leave(self) -> None:
        self._depth -= 1


def is_name(token: Token) -> bool:
    """True for a word that Dafny does not reserve."""
    return token.kind == "word" and token.text not in RESERVED and token.text != "!in"
