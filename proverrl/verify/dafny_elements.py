"""Parses the statements of whole Dafny 2.3 programs into elements.

Flows in: tokens. Flows out: ``Element``s, each with its ``Slot``s: the places inside it where
clauses, statements or declarations stand one after another, and where one more could be put. The
tokens of an element outside its slots are fixed.
Not covered (refused): skeletons (``...``), loops and forall statements without a body, ``free``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from proverrl.verify.dafny_code_expressions import CodeExpressions
from proverrl.verify.dafny_cursor import is_name
from proverrl.verify.dafny_grammar import CALC_OPERATORS
from proverrl.verify.dafny_tokens import Token

SlotKind = Literal["loop-clauses", "member-clauses", "statements", "declarations", "steps"]


@dataclass(slots=True)
class Slot:
    """A run of elements; ``start`` and ``end`` count tokens. ``ghost``: what runs here is not."""

    kind: SlotKind
    start: int
    ghost: bool
    end: int = 0
    elements: list[Element] = field(default_factory=list)


@dataclass(slots=True)
class Element:
    """A clause, a statement or a declaration: tokens ``start`` to ``end``, with its slots.

    ``word`` is its leading word, past modifiers; ``name`` what a declaration declares.
    """

    start: int
    word: str
    end: int = 0
    name: str = ""
    slots: list[Slot] = field(default_factory=list)


class StatementElements(CodeExpressions):
    """Statements and loop clauses as elements."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._ghost = False
        self._element = Element(0, "")

    def parse_slot(self, kind: SlotKind, parse: Callable[[], None], *ends: str) -> None:
        """Elements up to one of ``ends`` (not taken), added as a slot of the current element."""
        slot = Slot(kind, self._place, self._ghost)
        self._element.slots.append(slot)
        while not self.at_end and not self.at(*ends):
            slot.elements.append(self._parse_element(parse))
        slot.end = self._place

    def _parse_element(self, parse: Callable[[], None]) -> Element:
        outer = self._element
        element = self._element = Element(self._place, self.token.text)
        self.enter()
        parse()
        self.leave()
        self._element = outer
        element.end = self._place
        return element

    def parse_block(self, *, ghost: bool = False) -> None:
        outer, self._ghost = self._ghost, self._ghost or ghost
        self.expect("{")
        self._parse_statements()
        self.expect("}")
        self._ghost = outer

    def _parse_statements(self) -> None:
        outer_brackets, self._brackets = self._brackets, 0
        outer_guard, self._in_guard = self._in_guard, False
        self.parse_slot("statements", self._parse_statement, "}", "case")
        self._brackets, self._in_guard = outer_brackets, outer_guard

    def _parse_statement(self) -> None:
        parsers: dict[str, Callable[[], None]] = {
            "assert": self._parse_assert,
            "assume": self._parse_assert,
            "calc": self._parse_calc,
            "if": self._parse_if,
            "match": self._parse_match,
            "forall": self._parse_forall,
            "while": self._parse_while,
            "var": self._parse_var,
            "ghost": self._parse_var,
            "print": self._parse_listed,
            "reveal": self._parse_listed,
            "return": self._parse_return,
            "yield": self._parse_return,
            "break": self._parse_break,
            "label": self._parse_label,
            "modify": self._parse_modify,
            "new": self._parse_new,
            "{": self.parse_block,
        }
        parse = parsers.get(self.token.text)
        if parse is not None and self.token.kind in ("word", "operator"):
            parse()
        elif self.at("for") and is_name(self.peek()):
            self._parse_for()
        else:
            self._parse_update()

    def parse_steps(self) -> None:
        """``assert``, ``calc`` and ``reveal`` before an expression of a function's body."""
        slot = Slot("steps", self._place, ghost=True)
        self._element.slots.append(slot)
        while self.at("assert", "assume", "calc", "reveal"):
            slot.elements.append(self._parse_element(self._parse_step))
        slot.end = self._place

    def _parse_step(self) -> None:
        outer, self._in_function = self._in_function, False
        outer_brackets, self._brackets = self._brackets, 0
        if self.at("assert", "assume"):
            self._parse_assert()
        else:
            self.parse_proof_step()
        self._in_function, self._brackets = outer, outer_brackets

    def parse_proof_step(self) -> None:
        if self.at("calc"):
            self._parse_calc()
        else:
            self._parse_listed()

    def _parse_assert(self) -> None:
        self.advance()
        self.skip_attributes()
        if is_name(self.token) and self.peek().text == ":":
            self.advance()
            self.advance()
        self.parse_expression()
        if self.take("by"):
            self.parse_block(ghost=True)
        else:
            self.expect(";")

    def _parse_listed(self) -> None:
        self.advance()
        self.parse_expressions()
        self.expect(";")

    def _parse_return(self) -> None:
        self.advance()
        if not self.at(";"):
            self._parse_right_sides()
        self.expect(";")

    def _parse_break(self) -> None:
        while self.at("break"):
            self.advance()
        if self.at_name:
            self.advance()
        self.expect(";")

    def _parse_label(self) -> None:
        self.advance()
        self.expect_name()
        self.expect(":")
        self._parse_statement()

    def _parse_modify(self) -> None:
        self.advance()
        self._parse_frames()
        self.expect(";")

    def _parse_new(self) -> None:
        """``new;`` divides the body of a constructor."""
        self.advance()
        self.expect(";")

    def _parse_var(self) -> None:
        self.take("ghost")
        self.expect("var")
        self.skip_attributes()
        if self.at("(") or self.peek().text == "(":
            self.parse_pattern([])
            self.expect(":=")
            self.parse_expression()
        else:
            self._parse_bound_name()
            while self.take(","):
                self._parse_bound_name()
            self._parse_assignment()
        self.expect(";")

    def _parse_assignment(self) -> None:
        if self.take(":="):
            self._parse_right_sides()
            return
        self.skip_attributes()
        if self.take(":|"):
            self.take("assume")
            self.parse_expression()

    def _parse_right_sides(self) -> None:
        self._parse_right_side()
        while self.take(","):
            self._parse_right_side()

    def _parse_right_side(self) -> None:
        if self.take("*"):
            pass
        elif self.take("new"):
            if not self.at("["):
                self.parse_type()
            if self.take("["):
                self._parse_list(self.parse_expression, "]")
                if self.take("["):
                    self._parse_list(self.parse_expression, "]")
            if self.take("("):
                self._parse_list(self.parse_expression, ")")
        else:
            self.parse_expression()
        self.skip_attributes()

    def _parse_update(self) -> None:
        self.parse_primary()
        while self.take(","):
            self.parse_primary()
        self._parse_assignment()
        self.expect(";")

    def _parse_condition(self) -> None:
        if self.take("*"):
            return
        if self.at("(") and self.peek().text == "*" and self.peek(2).text == ")":
            for _ in range(3):
                self.advance()
        elif self._at_binding_guard():
            self.parse_binding_guard()
        else:
            self.parse_guard()

    def _at_binding_guard(self) -> bool:
        return self.at_name and self.peek().text in (":|", ":", ",")

    def _parse_if(self) -> None:
        self.expect("if")
        if self.at("case") or (self.at("{") and self.peek().text == "case"):
            self._parse_alternatives()
            return
        self._parse_condition()
        self.parse_block()
        if self.take("else"):
            if self.at("if"):
                self.enter()
                self._parse_if()
                self.leave()
            else:
                self.parse_block()

    def _parse_alternatives(self) -> None:
        braced = self.take("{")
        while self.take("case"):
            self._parse_condition()
            self.expect("=>")
            self._parse_statements()
        if braced:
            self.expect("}")

    def _parse_while(self) -> None:
        self.expect("while")
        if not self.at("invariant", "decreases", "modifies", "{") or (
            self.at("{") and self.peek().text != "case"
        ):
            self._parse_condition()
            self._parse_loop_rest()
            return
        self.parse_slot("loop-clauses", self._parse_loop_clause, "{", "}", ";", "case")
        self._parse_alternatives()

    def _parse_for(self) -> None:
        """``for i := a to b`` of Dafny 4, which 2.3 refuses."""
        self.advance()
        self._parse_bound_name()
        self.expect(":=")
        self.parse_expression()
        if not self.at("to", "downto"):
            raise self.fail("expected 'to' or 'downto'")
        self.advance()
        if not self.take("*"):
            self.parse_expression()
        self._parse_loop_rest()

    def _parse_loop_rest(self) -> None:
        self.parse_slot("loop-clauses", self._parse_loop_clause, "{", "}", ";", "case")
        if not self.at("{"):
            raise self.refuse("cheat", "missing-body", "a loop needs a body")
        self.parse_block()

    def _parse_loop_clause(self) -> None:
        if not self.at("invariant", "decreases", "modifies"):
            raise self.refuse("cheat", "missing-body", "expected a clause or the body of a loop")
        self.parse_clause()

    def parse_clause(self) -> None:
        """One clause of a specification, with the semicolon that it may end with."""
        word = self.advance().text
        self.skip_attributes()
        if word in ("modifies", "reads"):
            self._parse_frames()
        elif word == "decreases":
            self._parse_measure()
            while self.take(","):
                self._parse_measure()
        else:
            if is_name(self.token) and self.peek().text == ":":
                self.advance()
                self.advance()
            self.parse_expression()
        self.take(";")

    def _parse_measure(self) -> None:
        if not self.take("*"):
            self.parse_expression()

    def _parse_match(self) -> None:
        self.expect("match")
        self.parse_expression()
        braced = self.take("{")
        while self.take("case"):
            self.parse_pattern([])
            self.expect("=>")
            self._parse_statements()
        if braced:
            self.expect("}")

    def _parse_forall(self) -> None:
        self.expect("forall")
        parenthesised = self.take("(")
        if not self.at(")", "{"):
            self.parse_domain()
        if parenthesised:
            self.expect(")")
        while self.take("ensures"):
            self.skip_attributes()
            self.parse_expression()
            self.take(";")
        if not self.at("{"):
            raise self.refuse("cheat", "missing-body", "a forall statement needs a body")
        self.parse_block()

    def _parse_calc(self) -> None:
        self.expect("calc")
        self.skip_attributes()
        self._parse_calc_operator()
        self.expect("{")
        while not self.at("}"):
            self.parse_expression()
            self.expect(";")
            self._parse_calc_operator()
            while self.at("{", "calc"):
                if self.at("{"):
                    self.parse_block(ghost=True)
                else:
                    self._parse_calc()
        self.expect("}")

    def _parse_calc_operator(self) -> None:
        if self.at(*CALC_OPERATORS):
            self.advance()
