"""Parses whole Dafny 2.3 programs into elements.

Flows in: the tokens of a program. Flows out: one root ``Element`` whose slots hold declarations,
their clauses and their statements; a program outside the grammar raises ``GrammarError``.
Covered: what the programs of DafnyBench that run on Dafny 2.3 hold. Not covered (refused):
refinement, members of datatypes; and what the program means (types, names).
"""

from __future__ import annotations

from proverrl.verify.dafny_elements import Element, Slot, StatementElements
from proverrl.verify.dafny_tokens import Token

__all__ = ["Element", "Slot", "parse_program"]

_MODIFIERS = frozenset("abstract ghost static protected twostate inductive".split())
_FUNCTIONS = frozenset("function predicate copredicate".split())
_METHODS = frozenset("method lemma colemma constructor".split())
_GHOST_METHODS = frozenset("lemma colemma".split())
_CLAUSES = frozenset("requires ensures modifies reads decreases".split())


class _Declarations(StatementElements):
    """Modules, classes and what they declare."""

    def parse_root(self) -> Element:
        root = self._element
        self.parse_slot("declarations", self._parse_declaration, "}")
        if not self.at_end:
            raise self.fail("expected a declaration")
        root.end = self._place
        return root

    def _parse_declaration(self) -> None:
        modifiers = set()
        while self.at(*_MODIFIERS):
            modifiers.add(self.advance().text)
        word = self._element.word = self.token.text
        if word in _METHODS:
            self._parse_method(is_ghost=word in _GHOST_METHODS or "ghost" in modifiers)
        elif word in _FUNCTIONS:
            self._parse_function()
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
            self._parse_constant()
        elif word == "import":
            self._parse_import()
        elif word == "export":
            self._parse_export()
        else:
            raise self.fail("expected a declaration")

    def _parse_name(self) -> None:
        self.skip_attributes()
        self._element.name = self.expect_name().text

    def _parse_type_parameters(self) -> None:
        """``<T(==), U(0)>``, with marks of variance before the names."""
        if not self.take("<"):
            return
        while True:
            if self.at("+", "-", "*", "!"):
                self.advance()
            self.expect_name()
            while self.take("("):
                while not self.at(")") and not self.at_end:
                    if not self.at("==", "!", "new", ",") and self.token.kind != "number":
                        raise self.fail("expected a property of a type")
                    self.advance()
                self.expect(")")
            if not self.take(","):
                break
        self.expect(">")

    def _parse_formal(self) -> None:
        while self.at("ghost", "new"):
            self.advance()
        self._parse_bound_name()

    def _parse_formals(self) -> None:
        self.expect("(")
        self._parse_list(self._parse_formal, ")")

    def _parse_member_clauses(self) -> None:
        self.parse_slot("member-clauses", self.parse_clause_of_member, *_MEMBER_ENDS)

    def parse_clause_of_member(self) -> None:
        """A clause, or a refusal of what cannot be one."""
        if self.at("yield") and self.peek().text in ("requires", "ensures"):
            self.advance()
        if not self.at(*_CLAUSES):
            raise self.fail("expected a clause or a body")
        self.parse_clause()

    def _parse_method(self, *, is_ghost: bool) -> None:
        is_constructor = self.advance().text == "constructor"
        self.skip_attributes()
        if self.at_name:
            self._element.name = self.advance().text
        elif not is_constructor:
            raise self.fail("expected a name")
        self._parse_type_parameters()
        if self.take("["):
            self.expect("nat")
            self.expect("]")
        self._parse_formals()
        if self.take("returns"):
            self._parse_formals()
        self._parse_member_clauses()
        if self.at("{"):
            outer, self._ghost = self._ghost, is_ghost
            self.parse_block()
            self._ghost = outer

    def _parse_function(self) -> None:
        self.advance()
        self.take("method")
        self._parse_name()
        self._parse_type_parameters()
        if self.take("["):
            self.expect("nat")
            self.expect("]")
        if self.at("("):
            self._parse_formals()
        if self.take(":"):
            if self.at("(") and self.peek(2).text == ":":
                self._parse_formals()
            else:
                self.parse_type()
        self._parse_member_clauses()
        if self.take("{"):
            outer, self._ghost = self._ghost, True
            self._in_function = True
            self.parse_steps_and_expression()
            self._ghost, self._in_function = outer, False
            self.expect("}")

    def _parse_iterator(self) -> None:
        self.advance()
        self._parse_name()
        self._parse_type_parameters()
        self._parse_formals()
        if self.take("yields"):
            self._parse_formals()
        self._parse_member_clauses()
        if self.at("{"):
            self.parse_block()

    def _parse_container(self) -> None:
        is_module = self.advance().text == "module"
        self._parse_name()
        if is_module:
            while self.take("."):
                self.expect_name()
        else:
            self._parse_type_parameters()
            if self.take("extends"):
                self.parse_type()
                while self.take(","):
                    self.parse_type()
        self.expect("{")
        self.parse_slot("declarations", self._parse_declaration, "}")
        self.expect("}")

    def _parse_datatype(self) -> None:
        self.advance()
        self._parse_name()
        self._parse_type_parameters()
        self.expect("=")
        self.take("|")
        self._parse_constructor_of_datatype()
        while self.take("|"):
            self._parse_constructor_of_datatype()
        self.take(";")

    def _parse_constructor_of_datatype(self) -> None:
        self.skip_attributes()
        self.expect_name()
        if self.take("("):
            self._parse_list(self._parse_datatype_formal, ")")

    def _parse_datatype_formal(self) -> None:
        self.take("ghost")
        if (self.at_name or self.token.kind == "number") and self.peek().text == ":":
            self.advance()
            self.advance()
        self.parse_type()

    def _parse_type_declaration(self) -> None:
        self.advance()
        self._parse_name()
        if self.take("("):
            self.expect("==")
            self.expect(")")
        self._parse_type_parameters()
        if self.take("="):
            if self.at_name and self.peek().text in (":", "|"):
                self._parse_bound_name()
                self.expect("|")
                self.parse_expression()
            else:
                self.parse_type()
            if self.take("ghost"):
                pass
            if self.take("witness"):
                self.parse_expression()
        self.take(";")

    def _parse_field(self) -> None:
        self.advance()
        self._parse_name()
        self.expect(":")
        self.parse_type()
        while self.take(","):
            self._parse_bound_name()
        self.take(";")

    def _parse_constant(self) -> None:
        self.advance()
        self._parse_name()
        if self.take(":"):
            self.parse_type()
        if self.take(":="):
            self.parse_expression()
        self.take(";")

    def _parse_path(self) -> None:
        self.expect_name()
        while self.take("."):
            self.expect_name()
        if self.take("`"):
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
                self._parse_path()
                while self.take(","):
                    self._parse_path()


_MEMBER_ENDS = (
    *("{", "}", "module", "import", "export", "class", "trait", "datatype", "codatatype"),
    *("newtype", "type", "var", "const", "iterator"),
    *sorted(_MODIFIERS | _FUNCTIONS | _METHODS),
)


def parse_program(tokens: list[Token]) -> Element:
    """The root of a program's elements; raises ``GrammarError`` at what is not in the grammar."""
    return _Declarations(tokens).parse_root()
