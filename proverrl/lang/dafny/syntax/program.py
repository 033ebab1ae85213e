"""Parses whole programs of Dafny 2.3 and 4 into elements.

Flows in: the tokens of a program. Flows out: a ``ParsedProgram``, whose root ``Element`` holds
declarations, their clauses and their statements; a program outside the grammar raises
``GrammarError``.
Covered: all of Dafny 2.3 and of 4.11 but what is named below. A text that both take is read as 2.3
takes it. What only 4.11 reads so, and what would slip past a rule, is read in ``admitted`` texts
only. Refinement (``refines``, ``replaces``, ``...``), loops and forall statements without a body
are read with ``trusts`` only. Not covered: numbers and ``free`` as names, ``reveal F(); e`` outside
of brackets, what the program means (types, names).
"""

from __future__ import annotations

from proverrl.lang.dafny.syntax.cursor import GrammarError, is_name
from proverrl.lang.dafny.syntax.parsed import (
    Binding,
    BodylessMember,
    ParsedProgram,
    TypePart,
)
from proverrl.lang.dafny.syntax.statements import StatementElements
from proverrl.lang.dafny.syntax.tokens import Token, find_places, read_file

_MODIFIERS = frozenset("abstract ghost static protected".split())
# Words that Dafny 2.3 or 4 take for a modifier only before a declaration.
_SOFT_MODIFIERS = frozenset("twostate inductive least greatest opaque replaceable".split())
_FUNCTIONS = frozenset("function predicate copredicate".split())
_METHODS = frozenset("method lemma colemma comethod constructor".split())
CALLABLES = _FUNCTIONS | _METHODS
"""Words of declarations that can be called, iterators left out."""
_GHOST_METHODS = frozenset("lemma colemma comethod".split())
_EXPORTS = ("provides", "reveals", "extends")
TYPES = frozenset("class trait datatype codatatype type newtype iterator".split())
_AFTER_SOFT_MODIFIERS = CALLABLES | _MODIFIERS | _SOFT_MODIFIERS | {"const", "module"}
_CLAUSES = ("requires", "ensures", "modifies", "reads", "decreases", "yield")


class _Declarations(StatementElements):
    """Modules, classes and what they declare."""

    def parse_root(self) -> None:
        self._parse_declarations()
        if not self.at_end:
            raise self.fail("expected a declaration")
        self._element.end = self._place

    def _parse_include(self) -> None:
        if not self.admitted:
            message = "'include' brings in another file; only what opens a file is followed"
            raise self.refuse("syntax", "grammar", message)
        self.advance()
        if self.token.kind != "string":
            raise self.fail("expected the name of a file")
        self.advance()

    def _parse_declarations(self) -> None:
        self.parse_slot("declarations", self._parse_declaration, lambda: not self.at("}"))

    def _parse_declaration(self) -> None:
        outer = self._owner
        if self.at("include"):
            self._parse_include()
            return
        modifiers = self._take_modifiers()
        word = self._element.word = self.token.text
        self._element.named = self._place
        if word in _METHODS:
            self._parse_method(is_ghost=word in _GHOST_METHODS or "ghost" in modifiers)
        elif word in _FUNCTIONS:
            self._parse_function()
            if "twostate" in modifiers:
                self.program.two_state.add(self._element.name)
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
        self._owner = outer

    def _take_modifiers(self) -> set[str]:
        modifiers = set()
        while self.take("@"):
            # Dafny 4's attributes; what they say is judged elsewhere.
            self.parse_expression()
        while self.at(*_MODIFIERS) or (
            self.at(*_SOFT_MODIFIERS) and self.peek().text in _AFTER_SOFT_MODIFIERS
        ):
            if self.at("replaceable"):
                message = "'replaceable' declares what need not be proved"
                self.leave_out(message, "keywords", "abstract")
            modifiers.add(self.advance().text)
        return modifiers

    def _parse_contract(self, start: Token) -> bool:
        """The specification of a member; True when a body follows."""
        self.parse_slot("member-clauses", self._parse_clause_of_member, lambda: self.at(*_CLAUSES))
        if self.at("{"):
            return True
        claims = any(
            "ensures" in (self._text(clause.start), self._text(clause.start + 1))
            for clause in self._element.slots[-1].elements
        )
        self.program.bodyless.append(BodylessMember(start, self._element.word, claims))
        return False

    def _parse_clause_of_member(self) -> None:
        if self.at("yield"):
            self.advance()
            if not self.at("requires", "ensures"):
                raise self.fail("expected 'requires' or 'ensures'")
        self.parse_clause()

    def _parse_method(self, *, is_ghost: bool) -> None:
        start = self.advance()
        self.skip_attributes()
        if self.at_name or start.text != "constructor":
            self._take_declared_name()
        # What ``...`` stands for may have results.
        self._results = self.at("...")
        if not self.take_ellipsis():
            self._parse_type_parameters()
            self._take_prefix_type()
            self._parse_inputs()
            self._results = self.at("returns")
            if self.take("returns"):
                self._parse_formals()
        if self._parse_contract(start):
            outer, self._ghost = self._ghost, is_ghost
            self.parse_block()
            self._ghost = outer
        self._results = True

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
        if not self.take_ellipsis():
            self._parse_type_parameters()
            self._take_prefix_type()
            if self.at("("):
                self._parse_inputs()
        if self.take(":"):
            if self.at("(") and self.peek(2).text == ":":
                self._parse_formals()
            else:
                self.parse_type()
        has_body = self._parse_contract(start)
        if any(self._text(clause.start) == "reads" for clause in self._element.slots[-1].elements):
            self.program.reading_functions.add(self._element.name)
        if has_body:
            self.expect("{")
            outer, self._ghost = self._ghost, True
            self._in_function = True
            self.parse_inner()
            self._ghost, self._in_function = outer, False
            self.expect("}")
        self._functions -= 1
        if has_body and self.at("by") and self.peek().text == "method":
            self.skip(2)
            self.parse_block()

    def _parse_iterator(self) -> None:
        start = self.advance()
        self._parse_name()
        self._owner = self._element.name
        self.program.references.add(self._element.name)
        if not self.take_ellipsis():
            self._parse_type_parameters()
            self._parse_formals()
            if self.at("yields", "returns"):
                self.advance()
                self._parse_formals()
        if self._parse_contract(start):
            self.parse_block()

    def _parse_container(self) -> None:
        is_module = self.advance().text == "module"
        self._parse_name()
        if is_module:
            while self.take("."):
                self.expect_name()
            if self.at("replaces"):
                message = "'replaces' takes over what need not be proved"
                self.leave_out(message, "keywords", "abstract")
            if self.trusts and self.at("refines", "replaces"):
                self.advance()
                self._parse_path()
        self._owner = "" if is_module else self._element.name
        if not is_module:
            self.program.references.add(self._element.name)
            self._parse_type_parameters()
            self._parse_parents()
            self.take_ellipsis()
        self._parse_members()

    def _parse_parents(self) -> None:
        if self.take("extends"):
            self.parse_items(lambda: self._parse_part(inherited=True))

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
        self._take_declared_name()
        if self.take(":"):
            self.parse_type() if is_static else self._parse_part()
        else:
            self.program.bindings.append(Binding(place, "variable"))
        self.take_ellipsis()
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
        if self.at_name or self.token.kind == "number":
            self.advance()
        self.take_ellipsis()
        while self.at(*_EXPORTS):
            self.advance()
            if not self.take("*"):
                self.parse_items(self._parse_path, goes_on=self._at_exported)
            self.take(",")

    def _at_exported(self) -> bool:
        return self.peek().text not in _EXPORTS

    def _parse_name(self) -> None:
        self.skip_attributes()
        self._take_declared_name()

    def _take_declared_name(self) -> None:
        self._element.named = self._place
        self._element.name = self.expect_name().text

    def _parse_type_parameters(self) -> None:
        """``<T(==), U(0)>``, with marks of variance before the names."""
        if self.at("<"):
            earlier = None
            if self._element.word in TYPES:
                earlier = self.program.parameters.pop(self._owner, None)
            self.advance()
            self.parse_items(self._parse_type_parameter)
            own = self.program.parameters.get(self._owner)
            if earlier is not None and own != earlier and not self.admitted:
                message = f"two types named {self._owner!r} are taken for one; rename one, or give "
                raise self.refuse("syntax", "grammar", message + "both the same type parameters")
            self.expect(">")

    def _parse_type_parameter(self) -> None:
        if self.at("+", "-", "*", "!"):
            self.advance()
        name = self.expect_name().text
        if self._element.word in TYPES:
            earlier = self.program.parameters.get(self._owner, ())
            self.program.parameters[self._owner] = (*earlier, name)
        self._skip_type_properties()
        while self.take("extends"):
            self.parse_type()

    def _parse_part(self, *, inherited: bool = False) -> None:
        """A type, noted as a part of the type that is being declared."""
        start = self._place
        self.parse_type()
        if self._owner:
            self.program.parts.append(TypePart(self._owner, start, self._place, inherited))

    def _skip_type_properties(self) -> None:
        while self.take("("):
            while not self.at(")") and not self.at_end:
                if not self.at("==", "!", "new", ",") and self.token.kind != "number":
                    raise self.fail("expected a property of a type")
                self.advance()
            self.expect(")")

    def _parse_formal(self) -> None:
        self.skip_attributes()
        while self.at("ghost", "new") or (self.at("nameonly", "older") and self.peek().text != ":"):
            if (
                self.at("new")
                and self._element.word not in ("lemma", "method")
                and not self.admitted
            ):
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
        self.program.typed.update(self._formals)
        for number, place in enumerate(self._formals):
            self.program.formals.append((self._element.name, number, place))

    def _parse_datatype(self) -> None:
        self.advance()
        self._parse_name()
        self._owner = self._element.name
        self._parse_type_parameters()
        self._parse_parents()
        if not self.take_ellipsis():
            self.expect("=")
            self.take_ellipsis()
            self.take("|")
            self._parse_constructor_of_datatype()
            while self.take("|"):
                self._parse_constructor_of_datatype()
        self.take(";")
        if self.at("{"):
            # Dafny 4's members of a datatype.
            self._parse_members()

    def _parse_constructor_of_datatype(self) -> None:
        self.skip_attributes()
        self.take("ghost")
        self.skip_attributes()
        self.program.constructor_places.add(self._place)
        self.program.constructors.add(self.expect_name().text)
        if self.take("("):
            self.parse_list(self._parse_datatype_formal, ")")

    def _parse_datatype_formal(self) -> None:
        self.skip_attributes()
        while self.at("ghost") or (self.at("nameonly") and self._is_named(self.peek())):
            self.advance()
        if self._is_named(self.token) and self.peek().text == ":":
            self.skip(2)
        self._parse_part()
        if self.take(":="):
            self.parse_inner()

    def _is_named(self, token: Token) -> bool:
        return is_name(token) or token.kind == "number"

    def _parse_type_declaration(self) -> None:
        self.advance()
        self._parse_name()
        self._owner = self._element.name
        self._skip_type_properties()
        self._parse_type_parameters()
        self._parse_parents()
        if not self.take_ellipsis() and self.take("="):
            self.take_ellipsis()
            if self.at_name and self.peek().text in (":", "|"):
                place, first = self._place, len(self.program.bindings)
                self.parse_bound_name()
                if self._place > place + 2:
                    self.program.parts.append(TypePart(self._owner, place + 2, self._place))
                self.expect("|")
                self.scope_bindings(first, len(self.program.bindings), self._place)
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


def read_program(
    tokens: list[Token], *, admitted: bool = False, trusts: bool = False
) -> ParsedProgram:
    """A whole program; raises ``GrammarError`` at what is not in the grammar, to which only with
    ``trusts`` belongs what a program leaves out.

    ``admitted``: it passed the audit before; only what is no program is refused.
    """
    parser = _Declarations(tokens)
    parser.admitted, parser.trusts = admitted, trusts
    parser.parse_root()
    return parser.program


def read_text(text: str, *, admitted: bool = False, trusts: bool = False) -> ParsedProgram:
    """As ``read_program``, from text."""
    tokens, findings = read_file(text, admitted=admitted)
    for finding in findings:
        raise GrammarError(finding)
    program = read_program(tokens, admitted=admitted, trusts=trusts)
    program.text, program.places = text, find_places(text, tokens)
    return program
