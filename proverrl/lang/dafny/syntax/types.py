"""Parses the types of Dafny programs, and the names that are bound in them.

Flows in: tokens. Flows out: the place where a type or a pattern ends, the names that were bound
without a type (``bindings``), or ``GrammarError``.
A list of types after a name (``f<T>(x)``) is told from a comparison by the look-ahead of Dafny 2.3.
Not handled here: expressions (``atoms``, ``expressions``), what a hole may hold
(``hint_expressions``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from proverrl.lang.dafny.syntax.cursor import Cursor, is_name
from proverrl.lang.dafny.syntax.tokens import Token

COLLECTIONS = frozenset("seq set iset multiset map imap".split())

_BASE_TYPES = frozenset("int nat real bool char string object ORDINAL".split())
_ARROWS = ("->", "-->", "~>")
# What may follow a list of types after a name, so that ``a < b, c > ...`` is read as types.
_AFTER_TYPES = frozenset(
    """. ( [ { ) ] } , ; then else case == != as by in < > decreases modifies reads requires
    ensures invariant witness function predicate inductive twostate lemma copredicate ghost static
    protected import export class trait datatype codatatype var const newtype type iterator method
    colemma constructor""".split()
)


@dataclass(frozen=True, slots=True)
class Binding:
    """A place where Dafny's parser makes a type that is still to be inferred, in its order.

    ``variable``: of a variable that was declared without a type, ``lambda``: of the only parameter
    of a lambda without brackets, ``pattern``: of such a name in a pattern, which may turn out to
    be a constructor, ``value``: of a right-hand side.
    """

    place: int
    kind: Literal["variable", "lambda", "pattern", "value"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Where functions that read the heap may be in sight, as places of tokens.

    ``lambdas``: those with a ``reads`` clause. ``typed``: variables and input parameters, with the
    first token of their type and the one after its last. ``arguments``: of calls, with the name of
    what is called and the position; the initialiser of an array as that of ``new``. ``formals``:
    name of a function or method, position and name of the parameter. ``functions``: names of those
    with a ``reads`` clause. ``keepers``: names of constructors of datatypes. ``assigned``: the
    right-hand sides of statements. ``two_state``: names of two-state functions. ``in_lambdas``: the
    places of names inside lambdas.
    """

    lambdas: list[int] = field(default_factory=list)
    typed: dict[int, tuple[int, int]] = field(default_factory=dict)
    arguments: dict[int, tuple[str, int]] = field(default_factory=dict)
    formals: list[tuple[str, int, int]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    keepers: set[str] = field(default_factory=set)
    assigned: set[int] = field(default_factory=set)
    two_state: set[str] = field(default_factory=set)
    in_lambdas: set[int] = field(default_factory=set)


class CodeTypes(Cursor):
    """Types, bound names and patterns.

    ``whole``: this is the grammar of whole programs. Forms that ask for it are not read in a hole.
    ``bound`` holds the names of patterns.
    """

    whole = True

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.bindings: list[Binding] = []
        self.bound: list[Token] = []
        self.reading = Reading()

    @property
    def place(self) -> int:
        """How many tokens have been read."""
        return self._place

    def parse_list(self, parse: Callable[[], object], end: str) -> None:
        """Items separated by commas, up to and with ``end``."""
        self._brackets += 1
        if not self.at(end):
            self.parse_items(parse)
        self._brackets -= 1
        self.expect(end)

    def parse_items(self, parse: Callable[[], object]) -> None:
        """One or more items separated by commas."""
        parse()
        while self.take(","):
            parse()

    def parse_type(self, *, in_expression: bool = False) -> None:
        self.enter()
        if self.take("("):
            self.parse_list(self.parse_type, ")")
        elif self.at(*_BASE_TYPES):
            self.advance()
        else:
            self._parse_named_type(in_expression)
        if self.at(*_ARROWS):
            self.advance()
            self.parse_type(in_expression=in_expression)
        self.leave()

    def _parse_named_type(self, in_expression: bool) -> None:
        if self.at(*COLLECTIONS):
            self.advance()
            self._take_type_arguments(in_expression)
            return
        self.expect_name()
        self._take_type_arguments(in_expression)
        while self.at(".") and (is_name(self.peek()) or self.peek().kind == "number"):
            self.advance()
            self.advance()
            self._take_type_arguments(in_expression)

    def _take_type_arguments(self, in_expression: bool = True) -> None:
        """``<T, U>`` where Dafny takes it for types; in an expression that needs a look ahead."""
        if self.at("<") and (not in_expression or self._at_type_arguments()):
            self._parse_type_arguments()

    def _parse_type_arguments(self) -> None:
        if self._text(self._place - 1) in ("map", "imap"):
            self._note_missing_range()
        self.expect("<")
        self.parse_items(self.parse_type)
        self.expect(">")

    def _note_missing_range(self) -> None:
        """``map<T>`` leaves a type to be inferred."""
        after = self._find_type_end(self._place + 1)
        if after is not None and self._text(after) == ">":
            self.bindings.append(Binding(self._place, "value"))

    def _at_type_arguments(self) -> bool:
        end = self._find_types_end(self._place + 1, ">")
        if end is None:
            return False
        return self._tokens[end].kind == "end" or self._text(end) in _AFTER_TYPES

    def _find_types_end(self, place: int, end: str) -> int | None:
        """The place after the types from ``place`` on and the bracket behind them."""
        while (after := self._find_type_end(place)) is not None:
            if self._text(after) == end:
                return after + 1
            if self._text(after) != ",":
                return None
            place = after + 1
        return None

    def _find_type_end(self, place: int) -> int | None:
        """The place after the type at ``place``, as far as Dafny looks ahead; None for no type."""
        text = self._text(place)
        if text in _BASE_TYPES:
            return place + 1
        if text == "(":
            if self._text(place + 1) == ")":
                return place + 2
            return self._find_types_end(place + 1, ")")
        if text not in COLLECTIONS and not is_name(self._token_at(place)):
            return None
        while True:
            place += 1
            if self._text(place) == "<":
                end = self._find_types_end(place + 1, ">")
                if end is None:
                    return None
                place = end
            if text in COLLECTIONS or self._text(place) != ".":
                return place
            place += 1
            if not is_name(self._token_at(place)):
                return None

    def _token_at(self, place: int) -> Token:
        return self._tokens[min(place, len(self._tokens) - 1)]

    def _text(self, place: int) -> str:
        token = self._token_at(place)
        return token.text if token.kind in ("word", "operator") else ""

    def parse_bound_name(self) -> None:
        """A name with or without its type."""
        place = self._place
        self.expect_name()
        if self.take(":"):
            self.parse_type()
            self.reading.typed[place] = (place + 2, self._place)
        else:
            self.bindings.append(Binding(place, "variable"))

    def parse_pattern(self) -> None:
        """A name, a literal, or a constructor or tuple of patterns."""
        self._parse_pattern(typed=True)

    def parse_case_pattern(self) -> None:
        """The pattern of a case; a bare name is a constructor, whose type is known."""
        if self.at_name and self.peek().text not in ("(", ":", "|"):
            self.advance()
        else:
            self._parse_pattern(typed=False)

    def _parse_pattern(self, *, typed: bool) -> None:
        self.enter()
        if self.take("("):
            self.parse_list(lambda: self._parse_pattern(typed=typed), ")")
        elif self.at_name and self.peek().text == "(":
            self.advance()
            self.advance()
            self.parse_list(lambda: self._parse_pattern(typed=typed), ")")
        elif self.at_name:
            place = self._place
            self.bound.append(self.advance())
            if self.at(":") and not typed:
                raise self.refuse_typed_pattern()
            if self.take(":"):
                self.parse_type()
                self.reading.typed[place] = (place + 2, self._place)
            else:
                self.bindings.append(Binding(place, "pattern"))
        else:
            self._parse_literal_pattern()
        while self.whole and self.take("|"):
            self._parse_pattern(typed=typed)
        self.leave()

    def _parse_literal_pattern(self) -> None:
        """Dafny 4's."""
        if not self.whole:
            raise self.fail("expected a name")
        self.take("-")
        if self.token.kind not in ("number", "char", "string") and not self.at("true", "false"):
            raise self.fail("expected a pattern")
        self.advance()
