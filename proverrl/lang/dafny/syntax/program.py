"""Parses whole Dafny 2.3 programs into elements.

Flows in: the tokens of a program. Flows out: a ``ParsedProgram``: one root ``Element`` whose slots
hold declarations, their clauses and their statements, and what was seen on the way; a program
outside the grammar raises ``GrammarError``.
Covered: all of Dafny 2.3 but what is named below, and the forms of Dafny 4 that its programs hold
most often. Not covered (refused): refinement (``refines``, ``...``), loops and forall statements
without a body; and what the program means (types, names).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proverrl.lang.dafny.syntax.declared_types import TypeDeclarations, TypePart
from proverrl.lang.dafny.syntax.elements import Element, Slot
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.dafny.syntax.types import Binding, Reading

__all__ = ["BodylessMember", "Element", "ParsedProgram", "Slot", "parse_program", "read_program"]

_MODIFIERS = frozenset("abstract ghost static protected".split())
# Words that Dafny 2.3 or 4 take for a modifier only before a declaration.
_SOFT_MODIFIERS = frozenset("twostate inductive least greatest opaque".split())
_FUNCTIONS = frozenset("function predicate copredicate".split())
_METHODS = frozenset("method lemma colemma comethod constructor".split())
_GHOST_METHODS = frozenset("lemma colemma comethod".split())
_CLAUSES = ("requires", "ensures", "modifies", "reads", "decreases", "yield")


@dataclass(frozen=True, slots=True)
class BodylessMember:
    """A method, lemma, function or iterator that ends without a body."""

    token: Token
    word: str
    claims: bool


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """``bindings``: what Dafny has to infer the type of, in the order of its parser.
    ``references``: the classes, traits and iterators. ``parameters``: of types. ``calc_lines``:
    tokens from and to, and where the calc ends."""

    root: Element
    bindings: tuple[Binding, ...]
    bodyless: tuple[BodylessMember, ...]
    wild: tuple[Token, ...]
    references: frozenset[str]
    parts: tuple[TypePart, ...]
    parameters: Mapping[str, tuple[str, ...]]
    reading: Reading
    calc_lines: tuple[tuple[int, int, int], ...]


class _Declarations(TypeDeclarations):
    """Modules, classes and what they declare."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.bodyless: list[BodylessMember] = []
        self.references: set[str] = set()

    def parse_root(self) -> Element:
        root = self._element
        self._parse_declarations()
        if not self.at_end:
            raise self.fail("expected a declaration")
        root.end = self._place
        return root

    def _parse_declarations(self) -> None:
        self.parse_slot("declarations", self._parse_declaration, ends=True, words=("}",))

    def _parse_declaration(self) -> None:
        modifiers = self._take_modifiers()
        word = self._element.word = self.token.text
        if word in _METHODS:
            self._parse_method(is_ghost=word in _GHOST_METHODS or "ghost" in modifiers)
        elif word in _FUNCTIONS:
            self._parse_function()
            if "twostate" in modifiers:
                self.reading.two_state.add(self._element.name)
        elif word == "iterator":
            self._parse_iterator()
        elif word in ("module", "class", "trait"):
            self._parse_container()
        elif word in ("datatype", "codatatype"):
            self._parse_datatype()
        elif word in ("newtype", "type"):
            self._parse_type_declaration()
        elif word == "var":
            self._parse_field()
        elif word == "const":
            self._parse_constant(is_static="static" in modifiers)
        elif word == "import":
            self._parse_import()
        elif word == "export":
            self._parse_export()
        else:
            raise self.fail("expected a declaration")

    def _take_modifiers(self) -> set[str]:
        modifiers = set()
        while self.at(*_MODIFIERS) or (
            self.at(*_SOFT_MODIFIERS)
            and (
                self.peek().text in _FUNCTIONS | _METHODS | _MODIFIERS
                or self.peek().text in _SOFT_MODIFIERS
            )
        ):
            modifiers.add(self.advance().text)
        return modifiers

    def _parse_clauses(self) -> bool:
        """The specification of a member; True when it claims something."""
        self.parse_slot("member-clauses", self._parse_clause_of_member, ends=False, words=_CLAUSES)
        clauses = self._element.slots[-1].elements
        return any(
            "ensures" in (self._text(clause.start), self._text(clause.start + 1))
            for clause in clauses
        )

    def _parse_clause_of_member(self) -> None:
        if self.at("yield"):
            self.advance()
            if not self.at("requires", "ensures"):
                raise self.fail("expected 'requires' or 'ensures'")
        self.parse_clause()

    def _note_body(self, token: Token, *, claims: bool, has_body: bool) -> None:
        if not has_body:
            self.bodyless.append(BodylessMember(token, self._element.word, claims))

    def _parse_method(self, *, is_ghost: bool) -> None:
        start = self.advance()
        is_constructor = start.text == "constructor"
        self.skip_attributes()
        if self.at_name:
            self._element.name = self.expect_name().text
        elif not is_constructor:
            raise self.fail("expected a name")
        self._parse_type_parameters()
        self._take_prefix_type()
        self._parse_inputs()
        if self.take("returns"):
            self._parse_formals()
        claims = self._parse_clauses()
        has_body = self.at("{")
        if has_body:
            outer, self._ghost = self._ghost, is_ghost
            self.parse_block()
            self._ghost = outer
        self._note_body(start, claims=claims, has_body=has_body)

    def _take_prefix_type(self) -> None:
        if self.take("["):
            if not self.at("nat", "ORDINAL"):
                raise self.fail("expected 'nat' or 'ORDINAL'")
            self.advance()
            self.expect("]")

    def _parse_function(self) -> None:
        start = self.advance()
        self._functions += 1
        self.take("method")
        self._parse_name()
        self._parse_type_parameters()
        self._take_prefix_type()
        if self.at("("):
            self._parse_inputs()
        if self.take(":"):
            if self.at("(") and self.peek(2).text == ":":
                self._parse_formals()
            else:
                self.parse_type()
        claims = self._parse_clauses()
        if any(self._text(clause.start) == "reads" for clause in self._element.slots[-1].elements):
            self.reading.functions.add(self._element.name)
        has_body = self.take("{")
        if has_body:
            outer, self._ghost = self._ghost, True
            self._in_function = True
            self.parse_inner()
            self._ghost, self._in_function = outer, False
            self.expect("}")
        self._functions -= 1
        if has_body and self.at("by") and self.peek().text == "method":
            self.advance()
            self.advance()
            self.parse_block()
        self._note_body(start, claims=claims, has_body=has_body)

    def _parse_iterator(self) -> None:
        start = self.advance()
        self._parse_name()
        outer, self._owner = self._owner, self._element.name
        self.references.add(self._element.name)
        self._parse_type_parameters()
        self._parse_formals()
        if self.at("yields", "returns"):
            self.advance()
            self._parse_formals()
        self._owner = outer
        claims = self._parse_clauses()
        has_body = self.at("{")
        if has_body:
            self.parse_block()
        self._note_body(start, claims=claims, has_body=has_body)

    def _parse_container(self) -> None:
        is_module = self.advance().text == "module"
        self._parse_name()
        if is_module:
            while self.take("."):
                self.expect_name()
        outer, self._owner = self._owner, "" if is_module else self._element.name
        if not is_module:
            self.references.add(self._element.name)
            self._parse_type_parameters()
            if self.take("extends"):
                self.parse_items(lambda: self._parse_part(inherited=True))
        self._parse_members()
        self._owner = outer

    def _parse_members(self) -> None:
        self.expect("{")
        self._parse_declarations()
        self.expect("}")

    def _parse_field(self) -> None:
        self.advance()
        self.skip_attributes()
        self._element.name = self.token.text
        self.parse_items(self._parse_member_name_and_type)
        self.take(";")

    def _parse_constant(self, *, is_static: bool) -> None:
        self.advance()
        self.skip_attributes()
        place = self._place
        self._element.name = self.expect_name().text
        if self.take(":"):
            self.parse_type() if is_static else self._parse_part()
        else:
            self.bindings.append(Binding(place, "variable"))
        if self.take(":="):
            self.parse_expression()
        self.take(";")

    def _parse_path(self) -> None:
        self.expect_name()
        while self.take("."):
            self.expect_name()
        if self.take("`"):
            if self.take("{"):
                self.parse_items(self.expect_name)
                self.expect("}")
            else:
                self.expect_name()

    def _parse_import(self) -> None:
        self.advance()
        self.take("opened")
        self._parse_path()
        if self.at("=", ":"):
            self.advance()
            self._parse_path()
        self.take(";")

    def _parse_export(self) -> None:
        self.advance()
        if self.at_name:
            self.advance()
        while self.at("provides", "reveals", "extends"):
            self.advance()
            if not self.take("*"):
                self.parse_items(self._parse_path)


def read_program(tokens: list[Token]) -> ParsedProgram:
    """A whole program; raises ``GrammarError`` at what is not in the grammar."""
    parser = _Declarations(tokens)
    root = parser.parse_root()
    return ParsedProgram(
        root,
        tuple(parser.bindings),
        tuple(parser.bodyless),
        tuple(parser.wild),
        frozenset(parser.references),
        tuple(parser.parts),
        parser.parameters,
        parser.reading,
        tuple(parser.calc_lines),
    )


def parse_program(tokens: list[Token]) -> Element:
    """The root of a program's elements; raises ``GrammarError`` at what is not in the grammar."""
    return read_program(tokens).root
