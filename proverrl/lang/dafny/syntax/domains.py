"""Parses what Dafny's expressions and statements bind, and what is written beside them.

Flows in: tokens. Flows out: the place where a domain, a guard, a frame or an attribute ends, or
``GrammarError``. Not handled here: the expressions in them (``expressions``).
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.lang.dafny.syntax.cursor import CodeTypes, is_name
from proverrl.lang.dafny.syntax.tokens import find_outer

# What ends a look ahead for the ``::`` of a set; another set may have one or none.
_DOMAIN_STOPS = frozenset(
    """; := :| => then else set iset requires ensures invariant decreases modifies reads abstract
    ghost static function predicate method lemma colemma comethod constructor iterator class trait
    datatype codatatype type newtype var const module import export""".split()
)
_DOMAIN_MARKS = _DOMAIN_STOPS | frozenset("forall exists map imap ::".split())


class CodeDomains(CodeTypes):
    """Domains of quantifiers, guards that bind, frames and attributes."""

    def parse_expression(
        self, *, semi: bool = False, lambdas: bool = True, bits: bool = True
    ) -> None:
        """One whole expression; known to ``CodeExpressions`` only."""
        raise self.fail("expected an expression")

    def parse_expressions(self) -> None:
        self.parse_items(self.parse_inner)

    def parse_inner(self) -> None:
        """An expression between brackets, where everything may stand."""
        self.parse_expression(semi=True)

    def skip_attributes(self) -> None:
        """``{:name expression, ...}`` any number of times; the names are judged elsewhere."""
        while self._opens_attribute(0):
            self.skip(2)
            if self.whole and self.token.kind == "word":
                self.advance()
            else:
                self.expect_name()
            if not self.at("}"):
                self.parse_expressions()
            self.expect("}")

    def _opens_attribute(self, distance: int) -> bool:
        """True if a brace there opens an attribute, and no block that begins with ``:-``."""
        is_failing = self.whole and self.peek(distance + 2).text == "-"
        is_opened = self.peek(distance).text == "{" and self.peek(distance + 1).text == ":"
        return is_opened and not is_failing

    def skip_newer_attributes(self) -> None:
        if self.whole:
            self.skip_attributes()

    def parse_frames(self, *, semi: bool = False, lambdas: bool = True) -> None:
        """The frames that ``reads``, ``modifies`` or ``unchanged`` lists."""

        def parse_frame() -> None:
            if self.take("*"):
                return
            if not self.at("`"):
                self.parse_expression(semi=semi, lambdas=lambdas)
            if self.take("`"):
                self.expect_name()

        self.parse_items(parse_frame)

    def parse_domain(
        self, parse_range: Callable[[], None] | None = None, *, is_closed: bool = True
    ) -> list[tuple[int, int]]:
        """``x: T, y {:attribute} | range``; the range may be missing. Returns the bar and the end
        of each range.

        In Dafny 4 variables may follow a range, which is then that of those before it. Unless
        ``is_closed`` a comma behind a range may be that of a list around all.
        """
        ranges = []
        while True:
            self.parse_items(self._parse_domain_name, goes_on=self._at_next_variable)
            self.skip_attributes()
            bar = self._place
            if self.take("|"):
                parse_range() if parse_range else self.parse_expression(semi=True)
                ranges.append((bar, self._place))
            if not self.whole or not self._at_next_variable():
                return ranges
            if not is_closed and not self._is_ranged_again():
                return ranges
            if not self.admitted:
                message = "write one range behind all variables"
                raise self.refuse("syntax", "grammar", message)
            self.expect(",")

    def _at_next_variable(self) -> bool:
        return self.at(",") and (not self.whole or is_name(self.peek()))

    def _is_ranged_again(self) -> bool:
        """True if the comma here parts the variables of a set: ``::`` follows that ends no other
        domain. In Dafny 2.3 the comma is that of a list, in which none follows."""
        num_open = 0
        place = self._place
        while True:
            place = find_outer(self._tokens, place + 1, _DOMAIN_MARKS)
            text = self._text(place)
            if text == "::" and not num_open:
                return True
            if text not in _DOMAIN_MARKS or text in _DOMAIN_STOPS:
                return False
            if text == "::" or is_name(self._token_at(place + 1)):
                num_open += -1 if text == "::" else 1

    def _parse_domain_name(self) -> None:
        self.refuse_unread_domain()
        self.parse_bound_name()
        if self.at("<") and self.peek().text == "-" and self.touches_last(1):
            # Dafny 4's ``x <- set``.
            self.skip(2)
            self.parse_expression(bits=False)
        self.skip_newer_attributes()

    def at_binding_guard(self) -> bool:
        """``x: T, y :| P`` after ``if`` or ``case``."""
        following = self.peek().text
        return self.at_name and (following in (":", ",", ":|") or self._opens_attribute(1))

    def parse_binding_guard(self, *, lambdas: bool = True) -> None:
        self.parse_items(self.parse_bound_name)
        if self.whole:
            self.skip_attributes()
        self.expect(":|")
        self.parse_expression(semi=True, lambdas=lambdas)
