"""A place in the tokens of Dafny text, and the parsers of types and of the names bound in them.

Flows in: tokens. Flows out: small steps for the other parsers, the place where a type or a pattern
ends, and ``GrammarError`` with the first finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from proverrl.lang.dafny.syntax.parsed import Binding, ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close
from proverrl.lang.records import Category, Finding

MAX_DEPTH = 60

RESERVED = frozenset(
    """abstract allocated as assert assume bool break by calc case char class codatatype colemma
    comethod const constructor copredicate datatype decreases else ensures exists expect export
    extends false forall free fresh function ghost if imap import in include inductive int
    invariant iset iterator label lemma map match method modifies modify module multiset nat
    new newtype null object old opened ORDINAL parallel predicate print protected provides
    reads real refines requires return returns reveal reveals seq set static string then this
    trait true twostate type unchanged var where while witness yield yields
    assigned continue for hide is nameonly nonincreases replaceable replaces""".split()
)
"""Dafny 2.3 reserves all but the last line, Dafny 4 those. A text that takes one for a name would
be another text for Dafny 4."""


_FUNCTION_WORDS = ("function", "predicate")
_VALUE_TYPE = re.compile(r"int|nat|bool|real|char|string|ORDINAL|bv[0-9]+")


COLLECTIONS = frozenset("seq set iset multiset map imap".split())

_BASE_TYPES = frozenset("int nat real bool char string object ORDINAL".split())
ARROWS = ("->", "-->", "~>")
# What may follow a list of types after a name, so that ``a < b, c > ...`` is read as types.
_AFTER_TYPES = frozenset(
    """. ( [ { ) ] } , ; then else case == != as by in < > decreases modifies reads requires
    ensures invariant witness function predicate inductive twostate lemma copredicate ghost static
    protected import export class trait datatype codatatype var const newtype type iterator method
    colemma constructor""".split()
)


# The same in Dafny 4, as far as it begins no operand in Dafny 2.3.
_AFTER_TYPES_4 = frozenset("&& || ==> <== <==> => @ is".split())
# Names in Dafny 2.3, which is why it reads on; Dafny 4 ends an expression before them.
_BEFORE_EXTREMES = frozenset("least greatest".split())
# Names that Dafny 4, where it looks ahead, takes for no types.
_NO_TYPES = frozenset("locals older opaque".split())


class GrammarError(Exception):
    """The body is not in the grammar; carries the one finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Cursor:
    """A place in the tokens, and what else the parsers keep in mind.

    ``declared`` collects names that stay visible after the hole, ``bound`` those of patterns.
    With ``trusts`` what a program leaves out is read, and noted. With ``admitted`` the text passed
    the audit before, and only what is no program is refused.
    """

    trusts = False
    admitted = False

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self._brackets = 0
        self._lambdas = 0
        self._functions = 0
        # Whether what is being read may assign to results.
        self._results = True
        # Operands on the left, quantifiers around, and clauses that are believed unchecked.
        self._guards = 0
        self._blocks = 0
        self._in_function = False
        self._ghost = False
        # The type whose declaration is being read; "" where types are no part of one.
        self._owner = ""
        self._formals: dict[int, tuple[int, int]] = {}
        self.declared: list[Token] = []
        self.bound: list[Token] = []
        self.program = ParsedProgram(tokens)
        self._element = self.program.root

    @property
    def token(self) -> Token:
        return self._tokens[self._place]

    def peek(self, distance: int = 1) -> Token:
        return self._tokens[min(self._place + distance, len(self._tokens) - 1)]

    def at(self, *texts: str) -> bool:
        return self.token.sign in texts

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

    def skip(self, num_tokens: int) -> None:
        for _ in range(num_tokens):
            self.advance()

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
        if is_unread and not self.admitted and self.at("old", "fresh", "allocated", "unchanged"):
            where = "lambda" if self._lambdas else "function"
            message = f"{self.token.text!r} in a {where} is believed of every heap; leave it out"
            raise self.refuse("cheat", "unread-heap", message)

    def refuse_unread_domain(self) -> None:
        """Raises at a variable bound inside a lambda whose values may be what a heap holds."""
        if not self._lambdas or self.admitted:
            return
        is_typed = self.peek().text == ":"
        if not is_typed or not _VALUE_TYPE.fullmatch(self.peek(2).text):
            message = (
                f"what {self.token.text!r} stands for in a lambda may depend on the heap, which is "
                "believed of every heap; give it a type such as int, or leave the lambda out"
            )
            raise self.refuse("cheat" if is_typed else "syntax", "unread-heap", message)

    def refuse_unread_choice(self) -> None:
        """Raises at ``:|`` there, and inside a lambda, which may choose what a heap holds."""
        if self.admitted or not self.at(":|"):
            return
        if self._guards:
            message = (
                "behind an operator, in a quantifier and in an invariant, 'decreases' or 'modifies'"
                " Dafny believes that what ':|' chooses exists; choose it in a statement before"
            )
            raise self.refuse("cheat", "guarded-choice", message)
        if self._lambdas:
            message = "a choice in a lambda may depend on the heap, which is believed of every heap"
            raise self.refuse("syntax", "unread-heap", message)

    def refuse_typed_pattern(self) -> GrammarError:
        """For a type behind a name in the pattern of a case, which Dafny 2.3 believes unseen."""
        message = (
            "a type in the pattern of a case is believed and not checked by Dafny 2.3; leave it out"
        )
        return self.refuse("cheat", "typed-pattern", message)

    def take_ellipsis(self) -> bool:
        """``...`` where a refining module leaves out what it repeats."""
        return self.trusts and self.take("...")

    def leave_out(self, message: str, rule: str = "missing-body", trust: str = "assume") -> None:
        """Note that a body is missing here; raises where nothing may be left out."""
        finding = self.token.refuse("cheat", rule, message, trust)
        if not self.trusts:
            raise GrammarError(finding)
        self.program.left_out.append(finding)

    def fail(self, message: str) -> GrammarError:
        found = "the end" if self.at_end else repr(self.token.text)
        return self.refuse("syntax", "grammar", f"{message}, found {found}")

    def refuse(self, category: Category, rule: str, message: str) -> GrammarError:
        return GrammarError(self.token.refuse(category, rule, message))

    def enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse("syntax", "size", f"nested more than {MAX_DEPTH} deep")

    def leave(self) -> None:
        self._depth -= 1

    def touches_last(self, distance: int = 0) -> bool:
        """True if nothing stands between the token at this distance and the one before it."""
        before, token = self._tokens[max(self._place + distance - 1, 0)], self.peek(distance)
        return (before.line, before.column + len(before.text)) == (token.line, token.column)


class CodeTypes(Cursor):
    """Types, bound names and patterns.

    ``whole``: this is the grammar of whole programs. Forms that ask for it are not read in a hole.
    A list of types after a name (``f<T>(x)``) is told from a comparison by Dafny 2.3's look-ahead.
    """

    whole = True

    @property
    def at_failing(self) -> bool:
        """At ``:-`` of Dafny 4, which gives up where its value is a failure."""
        return self.whole and self.at(":") and self.peek().text == "-" and self.touches_last(1)

    def take_failing(self) -> bool:
        """``:-`` is noted, because it may leave what stands around it."""
        if not self.at_failing:
            return False
        self.program.failing.append(self._place)
        self.skip(2)
        return True

    def parse_list(self, parse: Callable[[], object], end: str) -> None:
        """Items separated by commas, up to and with ``end``."""
        self._brackets += 1
        if not self.at(end):
            self.parse_items(parse)
        self._brackets -= 1
        self.expect(end)

    def parse_items(
        self, parse: Callable[[], object], *, goes_on: Callable[[], bool] | None = None
    ) -> None:
        """One or more items separated by commas, as long as it ``goes_on``."""
        parse()
        while self.at(",") and (goes_on is None or goes_on()):
            self.advance()
            parse()

    def parse_type(self, *, in_expression: bool = False) -> None:
        self.enter()
        start = self._place
        if self.take("("):
            self.parse_list(self._parse_type_in_tuple, ")")
        elif self.at(*_BASE_TYPES):
            self.advance()
        else:
            self._parse_named_type(in_expression)
        if self.at(*ARROWS):
            self.advance()
            self.parse_type(in_expression=in_expression)
        if self._text(start - 1) == ":":
            self.program.declared_types.append((start, self._place))
        self.leave()

    def _parse_type_in_tuple(self) -> None:
        if self.whole:
            self.take("ghost")
        self.parse_type()

    def _parse_named_type(self, in_expression: bool) -> None:
        if self.at(*COLLECTIONS):
            self.advance()
            self._take_type_arguments(in_expression)
            return
        self.expect_name()
        self._take_type_arguments(in_expression)
        while self.at(".") and (is_name(self.peek()) or self.peek().kind == "number"):
            self.skip(2)
            self._take_type_arguments(in_expression)

    def _take_type_arguments(self, in_expression: bool = True) -> None:
        """``<T, U>`` where Dafny takes it for types; in an expression that needs a look ahead."""
        is_arrow = self.whole and self.peek().text == "-"
        if self.at("<") and not is_arrow and (not in_expression or self._at_type_arguments()):
            self._parse_type_arguments()

    def take_types_of_name(self) -> None:
        """Types after a name in an expression. Before a brace, which may be a set or a body, they
        are refused: by these a text would hide a body from one who reads a comparison."""
        start = self._place
        self._take_type_arguments()
        if self._place > start and self.at("{") and not self.admitted:
            message = "types and a brace behind them may be a comparison; write parentheses"
            raise self.refuse("syntax", "grammar", message)

    def _parse_type_arguments(self) -> None:
        if self._text(self._place - 1) in ("map", "imap"):
            self._note_missing_range()
        start = self._place
        self.expect("<")
        self.parse_items(self.parse_type)
        self.expect(">")
        self.program.type_arguments.append((start, self._place))

    def _note_missing_range(self) -> None:
        """``map<T>`` leaves a type to be inferred."""
        after = self._find_type_end(self._place + 1)
        if after is not None and self._text(after) == ">":
            self.program.bindings.append(Binding(self._place, "value"))

    def _at_type_arguments(self) -> bool:
        end = self._find_types_end(self._place + 1, ">")
        if end is None:
            return False
        after = self._text(end)
        if after in _BEFORE_EXTREMES and not self.admitted:
            raise self._refuse_word(end)
        return (
            self._tokens[end].kind == "end"
            or after in _AFTER_TYPES
            or (self.whole and after in _AFTER_TYPES_4)
            or after in _BEFORE_EXTREMES
        )

    def _refuse_word(self, place: int) -> GrammarError:
        token = self._token_at(place)
        message = f"Dafny 2.3 and 4 read {token.text!r} after a '<' differently; rename it"
        return GrammarError(token.refuse("syntax", "grammar", message))

    def _find_types_end(self, place: int, end: str) -> int | None:
        """The place after the types from ``place`` on and the bracket behind them."""
        while (after := self._find_type_end(self._skip_ghost(place))) is not None:
            if self._text(after) == end:
                return after + 1
            if self._text(after) != ",":
                return None
            place = after + 1
        return None

    def _skip_ghost(self, place: int) -> int:
        return place + (self.whole and self._text(place) == "ghost")

    def _find_type_end(self, place: int) -> int | None:
        """The place after the type at ``place``, as far as Dafny looks ahead; None for no type.

        Arrows are seen by Dafny 4 only, but no expression of Dafny 2.3 holds one.
        """
        after = self._find_end_before_arrow(place)
        while self.whole and after is not None and self._text(after) in ARROWS:
            after = self._find_end_before_arrow(after + 1)
        return after

    def _find_end_before_arrow(self, place: int) -> int | None:
        text = self._text(place)
        if text in _NO_TYPES and not self.admitted:
            raise self._refuse_word(place)
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
            if self._text(place) in _NO_TYPES and not self.admitted:
                raise self._refuse_word(place)
            if not is_name(self._token_at(place)):
                return None

    def _token_at(self, place: int) -> Token:
        return self._tokens[min(place, len(self._tokens) - 1)]

    def _text(self, place: int) -> str:
        return self._token_at(place).sign

    def parse_bound_name(self) -> None:
        """A name with or without its type."""
        place = self._place
        self.expect_name()
        if not self.at_failing and self.take(":"):
            self.parse_type()
            self.program.typed[place] = (place + 2, self._place)
        else:
            self.program.bindings.append(Binding(place, "variable"))

    def parse_pattern(self) -> None:
        """A name, a literal, or a constructor or tuple of patterns."""
        self._parse_pattern(typed=True)

    def parse_case_pattern(self) -> None:
        """The pattern of a case; a bare name is a constructor, whose type is known."""
        self.skip_newer_attributes()
        self.take("|")
        if self.at_name and self.peek().text not in ("(", ":", "|"):
            self.advance()
        else:
            self._parse_pattern(typed=False)

    def _parse_pattern(self, *, typed: bool) -> None:
        self.enter()
        if self.take("("):
            self.parse_list(lambda: self._parse_pattern(typed=typed), ")")
        elif self.at_name and self.peek().text == "(":
            self.skip(2)
            self.parse_list(lambda: self._parse_pattern(typed=typed), ")")
        elif self.at_name:
            place = self._place
            if typed:
                self.program.unpacked.append(place)
            self.bound.append(self.advance())
            if self.at(":") and not typed and not self.admitted:
                raise self.refuse_typed_pattern()
            if not self.at_failing and self.take(":"):
                self.parse_type()
                self.program.typed[place] = (place + 2, self._place)
            else:
                self.program.bindings.append(Binding(place, "pattern"))
        elif self.whole or not typed:
            self._parse_literal_pattern()
        else:
            raise self.fail("expected a name")
        while (self.whole or not typed) and self.take("|"):
            self._parse_pattern(typed=typed)
        self.leave()

    def skip_newer_attributes(self) -> None:
        """Attributes where Dafny 4 alone has them; known to ``CodeExpressions`` only."""

    def parse_arrow(self, first: int) -> None:
        """The arrow behind the pattern of a case, whose bindings are those from ``first`` on."""
        self.expect("=>")
        self.program.case_names |= {binding.place for binding in self.program.bindings[first:]}
        self.scope_bindings(first, len(self.program.bindings), self._place)

    def scope_bindings(self, first: int, end: int, scope: int) -> None:
        """Note the token before which the names of these bindings may first be used."""
        bindings = self.program.bindings
        bindings[first:end] = [replace(binding, scope=scope) for binding in bindings[first:end]]

    def _parse_literal_pattern(self) -> None:
        """Dafny 4's."""
        self.take("-")
        if self.token.kind not in ("number", "char", "string") and not self.at(
            "true", "false", "null"
        ):
            raise self.fail("expected a pattern")
        self.advance()


def is_name(token: Token) -> bool:
    """True for a word that Dafny does not reserve."""
    return token.kind == "word" and token.text not in RESERVED and token.text != "!in"


def list_declared(tokens: list[Token], *words: str) -> set[str]:
    """The names that stand after one of these declaring words, past any attributes.

    ``function method F`` declares a function and no method.
    """
    names = set()
    for place, token in enumerate(tokens[:-1]):
        if token.kind != "word" or token.text not in words:
            continue
        if token.text == "method" and place and tokens[place - 1].text in _FUNCTION_WORDS:
            continue
        following = place + 1
        if token.text in _FUNCTION_WORDS and tokens[following].text == "method":
            following += 1
        while tokens[following].text == "{" and tokens[following + 1].text == ":":
            following = min(find_close(tokens, following) + 1, len(tokens) - 1)
        if is_name(tokens[following]):
            names.add(tokens[following].text)
    return names


def list_methods(tokens: list[Token]) -> set[str]:
    """Names of declarations that may change something when they are called."""
    return list_declared(tokens, "method", "constructor", "iterator") | {"MoveNext"}
