"""The elements of whole Dafny 2.3 programs, and the parsers of clauses and simple statements.

Flows in: tokens. Flows out: ``Element``s, each with its ``Slot``s: the places inside it where
clauses, statements or declarations stand one after another, and where one more could be put. The
tokens of an element outside its slots are fixed.
Elements begin and end where Dafny 2.3 lets them begin and end. Not covered (refused): ``free``.
Not handled here: statements that hold others (``dafny_statements``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from proverrl.lang.dafny.syntax.expressions import CodeExpressions
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.dafny.syntax.types import Binding

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


class SimpleElements(CodeExpressions):
    """Clauses, and the statements that hold no other statement but in proofs.

    ``wild`` holds each ``*`` that gives up termination, ``calc_lines`` where lines of calcs are.
    """

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._ghost = False
        self._element = Element(0, "")
        self.wild: list[Token] = []
        self.calc_lines: list[tuple[int, int, int]] = []

    def parse_slot(
        self, kind: SlotKind, parse: Callable[[], None], *, ends: bool, words: tuple[str, ...]
    ) -> None:
        """Elements as a slot of the current element: up to one of ``words`` or, where they do not
        ``end`` it, as long as one begins with one of them."""
        slot = Slot(kind, self._place, self._ghost)
        self._element.slots.append(slot)
        while not self.at_end and self.at(*words) is not ends:
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
        self.parse_statements()
        self.expect("}")
        self._ghost = outer

    @abstractmethod
    def parse_statements(self) -> None:
        """Statements up to a closing brace or the next case, as a slot."""

    @abstractmethod
    def _parse_calc(self) -> None: ...

    def parse_steps(self, *, semi: bool) -> None:
        """``assert``, ``calc`` and ``reveal`` before an expression of a function's body."""
        slot = Slot("steps", self._place, ghost=True)
        self._element.slots.append(slot)
        while self.at("assert", "assume", "calc") or (semi and self._at_reveal_step()):
            slot.elements.append(self._parse_element(self._parse_step))
        slot.end = self._place

    def _at_reveal_step(self) -> bool:
        """``reveal F();`` goes before an expression; ``reveal F()`` alone is one."""
        if not self.at("reveal"):
            return False
        place, depth = self._place + 1, 0
        while self._token_at(place).kind != "end":
            text = self._text(place)
            if depth == 0 and text == ";":
                return True
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if depth < 0:
                return False
            place += 1
        return False

    def _parse_step(self) -> None:
        if not self.at("reveal"):
            self.parse_step_in_expression()
            return
        outer, self._in_function = self._in_function, False
        self._parse_listed()
        self._in_function = outer

    def parse_step_in_expression(self) -> None:
        outer, self._in_function = self._in_function, False
        if self.at("calc"):
            self._parse_calc()
        elif self.at("expect"):
            self._parse_listed()
        else:
            self._parse_assert()
        self._in_function = outer

    def _parse_assert(self) -> None:
        self.advance()
        self.skip_attributes()
        self._take_label()
        self.parse_expression()
        if self.take("by"):
            self.parse_block(ghost=True)
        else:
            self.expect(";")

    def _take_label(self) -> None:
        if (self.at_name or self.token.kind == "number") and self.peek().text == ":":
            self.advance()
            self.advance()

    def _parse_listed(self) -> None:
        self.advance()
        self.parse_items(self.parse_expression)
        self.expect(";")

    def _parse_reveal(self) -> None:
        self._parse_listed()

    def _parse_return(self) -> None:
        self.advance()
        if not self.at(";"):
            self.parse_items(self._parse_right_side)
        self.expect(";")

    def _parse_break(self) -> None:
        self.advance()
        while self.at("break", "continue"):
            self.advance()
        if self.at_name or self.token.kind == "number":
            self.advance()
        self.expect(";")

    def _parse_new(self) -> None:
        """``new;`` divides the body of a constructor."""
        self.advance()
        self.expect(";")

    def _parse_var(self) -> None:
        self.take("ghost")
        self.expect("var")
        if self.at("(") or (self.at_name and self.peek().text == "("):
            self.parse_pattern()
            if not self.take(":="):
                self.skip_attributes()
                self.expect(":|")
            self.parse_expression()
        else:
            self.parse_items(self._parse_variable)
            self._parse_assignment()
        self.expect(";")

    def _parse_variable(self) -> None:
        self.skip_attributes()
        self.parse_bound_name()

    def _parse_assignment(self) -> None:
        """What follows the left-hand sides, if anything; ``:-`` is Dafny 4's."""
        if self.take(":="):
            self.parse_items(self._parse_right_side)
            return
        if self.at(":") and self.peek().text == "-":
            self.advance()
            self.advance()
            if self.at("expect", "assert", "assume"):
                self.advance()
            self.parse_items(self._parse_right_side)
            return
        self.skip_attributes()
        if self.take(":|"):
            self.take("assume")
            self.parse_expression()

    def _parse_right_side(self) -> None:
        self.bindings.append(Binding(self._place, "value"))
        self.reading.assigned.add(self._place)
        if self.take("*"):
            pass
        elif self.take("new"):
            if self.at("["):
                self._parse_new_array()
            else:
                self.parse_type()
                if self.at("["):
                    self._parse_new_array()
                elif self.take("("):
                    self.parse_list(self._parse_argument, ")")
        else:
            self.parse_expression()
        self.skip_attributes()

    def _parse_new_array(self) -> None:
        self.expect("[")
        is_sized = not self.at("]")
        if is_sized:
            self.parse_expressions()
        self.expect("]")
        if is_sized and self.take("("):
            self.reading.arguments[self._place] = ("new", 0)
            self.parse_inner()
            self.expect(")")
        elif not is_sized or self.at("["):
            self.expect("[")
            self.parse_list(self.parse_inner, "]")

    def _parse_update(self) -> None:
        self.parse_primary()
        while self.take(","):
            self.parse_primary()
        self._parse_assignment()
        self.expect(";")

    def parse_clause(self, *, lambdas: bool = False) -> None:
        """One clause of a specification, with the semicolon that it may end with.

        Dafny admits lambdas outside brackets in the clauses of loops only.
        """
        word = self.advance().text
        self.skip_attributes()
        if word in ("modifies", "reads"):
            self.parse_frames(lambdas=lambdas)
        elif word == "decreases":
            self.parse_items(lambda: self._parse_measure(lambdas))
        else:
            self._take_label()
            self.parse_expression(lambdas=lambdas)
        self.take(";")

    def _parse_measure(self, lambdas: bool) -> None:
        if self.at("*"):
            self.wild.append(self.advance())
        else:
            self.parse_expression(lambdas=lambdas)
