"""Parses the declarations of types in whole Dafny programs, and parameters.

Flows in: tokens. Flows out: ``Element``s, and the ``TypePart``s that a declared type is made of.
Not handled here: classes and modules, which hold other declarations (``dafny_program``).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.syntax.statements import StatementElements
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.dafny.syntax.types import COLLECTIONS

_ARRAY = re.compile(r"array[0-9]*")
_TYPES = frozenset("class trait datatype codatatype type newtype iterator".split())


@dataclass(frozen=True, slots=True)
class TypePart:
    """A type that a declared type is made of for good: tokens ``start`` to ``end``.

    An argument of a datatype's constructor, a constant of a class, a parameter of an iterator, the
    right-hand side of a synonym; ``inherited``: a trait that a class extends.
    """

    owner: str
    start: int
    end: int
    inherited: bool = False


def leaves_out_arguments(
    tokens: Sequence[Token], place: int, parameters: Mapping[str, tuple[str, ...]]
) -> bool:
    """Whether the name at ``place`` is that of a type with parameters, and none are given."""
    name, after = tokens[place].text.removesuffix("?"), tokens[place + 1].text
    has_parameters = name in COLLECTIONS or name in parameters or _ARRAY.fullmatch(name)
    return bool(has_parameters) and after not in ("<", ".")


class TypeDeclarations(StatementElements):
    """Datatypes, synonyms, subset types and newtypes."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.parts: list[TypePart] = []
        self.parameters: dict[str, tuple[str, ...]] = {}
        # The type whose declaration is being read; "" where types are no part of one.
        self._owner = ""
        self._formals: dict[int, tuple[int, int]] = {}

    @abstractmethod
    def _parse_members(self) -> None:
        """The members of a class, a module, or a type of Dafny 4."""

    def _parse_name(self) -> None:
        self.skip_attributes()
        self._element.name = self.expect_name().text

    def _parse_type_parameters(self) -> None:
        """``<T(==), U(0)>``, with marks of variance before the names."""
        if self.at("<"):
            if self._element.word in _TYPES and self._owner in self.parameters:
                raise self.fail(f"two types named {self._owner!r} are taken for one; rename one")
            self.advance()
            self.parse_items(self._parse_type_parameter)
            self.expect(">")

    def _parse_type_parameter(self) -> None:
        if self.at("+", "-", "*", "!"):
            self.advance()
        name = self.expect_name().text
        if self._element.word in _TYPES:
            self.parameters[self._owner] = (*self.parameters.get(self._owner, ()), name)
        self._skip_type_properties()

    def _parse_part(self, *, inherited: bool = False) -> None:
        """A type, noted as a part of the type that is being declared."""
        start = self._place
        self.parse_type()
        if self._owner:
            self.parts.append(TypePart(self._owner, start, self._place, inherited))

    def _skip_type_properties(self) -> None:
        while self.take("("):
            while not self.at(")") and not self.at_end:
                if not self.at("==", "!", "new", ",") and self.token.kind != "number":
                    raise self.fail("expected a property of a type")
                self.advance()
            self.expect(")")

    def _parse_formal(self) -> None:
        while self.at("ghost", "new") or (self.at("nameonly", "older") and self.peek().text != ":"):
            if self.at("new") and self._element.word not in ("lemma", "method"):
                message = "a function of what may be new is believed of every heap in a lambda"
                raise self.refuse("cheat", "unread-heap", message)
            self.advance()
        place = self._place
        self._parse_member_name_and_type()
        self._formals[place] = (place + 2, self._place)
        if self.take(":="):
            self.parse_inner()

    def _parse_member_name_and_type(self) -> None:
        self.expect_name()
        self.expect(":")
        self._parse_part() if self._element.word == "iterator" else self.parse_type()

    def _parse_formals(self) -> None:
        self.expect("(")
        self._formals = {}
        self.parse_list(self._parse_formal, ")")

    def _parse_inputs(self) -> None:
        """The formals of a function or method, whose values are not kept."""
        self._parse_formals()
        self.reading.typed.update(self._formals)
        for number, place in enumerate(self._formals):
            self.reading.formals.append((self._element.name, number, place))

    def _parse_datatype(self) -> None:
        self.advance()
        self._parse_name()
        outer, self._owner = self._owner, self._element.name
        self._parse_type_parameters()
        self.expect("=")
        self.take("|")
        self._parse_constructor_of_datatype()
        while self.take("|"):
            self._parse_constructor_of_datatype()
        self.take(";")
        if self.at("{"):
            # Dafny 4's members of a datatype.
            self._parse_members()
        self._owner = outer

    def _parse_constructor_of_datatype(self) -> None:
        self.skip_attributes()
        self.take("ghost")
        self.reading.keepers.add(self.expect_name().text)
        if self.take("("):
            self.parse_list(self._parse_datatype_formal, ")")

    def _parse_datatype_formal(self) -> None:
        self.take("ghost")
        if (self.at_name or self.token.kind == "number") and self.peek().text == ":":
            self.advance()
            self.advance()
        self._parse_part()

    def _parse_type_declaration(self) -> None:
        self.advance()
        self._parse_name()
        outer, self._owner = self._owner, self._element.name
        self._skip_type_properties()
        self._parse_type_parameters()
        if self.take("="):
            if self.at_name and self.peek().text in (":", "|"):
                place = self._place
                self.parse_bound_name()
                if self._place > place + 2:
                    self.parts.append(TypePart(self._owner, place + 2, self._place))
                self.expect("|")
                self.parse_expression()
            else:
                self._parse_part()
            if self.at("ghost") and self.peek().text == "witness":
                self.advance()
            if self.take("witness") and not self.take("*"):
                self.parse_expression()
        self.take(";")
        if self.at("{"):
            self._parse_members()
        self._owner = outer
