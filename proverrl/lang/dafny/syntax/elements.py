"""The parsers of clauses and simple statements of Dafny 2.3 programs.

Flows in: tokens. Flows out: ``Element``s, which begin and end where Dafny 2.3 lets them begin and
end. Not covered (refused): ``free``. Not handled here: statements that hold others
(``statements``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from proverrl.lang.dafny.syntax.expressions import CodeExpressions
from proverrl.lang.dafny.syntax.parsed import Binding, Element, ElementSlot, SlotKind
from proverrl.lang.dafny.syntax.tokens import find_outer


class SimpleElements(CodeExpressions):
    """Clauses, and the statements that hold no other statement but in proofs."""

    def parse_slot(
        self, kind: SlotKind, parse: Callable[[], None], goes_on: Callable[[], bool]
    ) -> None:
        """Elements as a slot of the current element, as long as it ``goes_on``."""
        slot = ElementSlot(kind, self._place, self._ghost)
        self._element.slots.append(slot)
        while not self.at_end and goes_on():
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

    def parse_proof(self, *, ghost: bool = True) -> None:
        """A block that Dafny proves aside."""
        start = self._place
        self.parse_block(ghost=ghost)
        self.program.proofs.append((start, self._place))

    @abstractmethod
    def parse_statements(self) -> None:
        """Statements up to a closing brace or the next case, as a slot."""

    @abstractmethod
    def _parse_calc(self) -> None: ...

    def parse_steps(self, *, semi: bool) -> None:
        """``assert``, ``calc`` and ``reveal`` before an expression of a function's body."""
        self.parse_slot(
            "steps",
            self.parse_step_in_expression,
            lambda: self.at("assert", "assume", "calc") or (semi and self._at_reveal_step()),
        )

    def _at_reveal_step(self) -> bool:
        """``reveal F();`` goes before an expression; ``reveal F()`` alone is one."""
        if not self.at("reveal"):
            return False
        return self._text(find_outer(self._tokens, self._place + 1, (";",))) == ";"

    def parse_step_in_expression(self) -> None:
        outer, self._in_function = self._in_function, False
        if self.at("calc"):
            self._parse_calc()
        elif self.at("expect", "reveal"):
            self._parse_listed()
        else:
            self._parse_assert()
        self._in_function = outer

    def _parse_assert(self) -> None:
        self.advance()
        self.skip_attributes()
        place = self._place
        self._take_label()
        if self._place > place and self._results and not self.admitted:
            message = "Dafny believes what is revealed of results that were assigned to since"
            raise self.refuse("cheat", "labelled-assertion", message + "; drop the label")
        if not self.take_ellipsis():
            self.parse_expression()
        if self.take("by"):
            self.parse_proof()
        else:
            self.expect(";")

    def _take_label(self) -> None:
        if (self.at_name or self.token.kind == "number") and self.peek().text == ":":
            self.skip(2)

    def _parse_listed(self) -> None:
        self.advance()
        self.parse_items(self.parse_expression)
        self.expect(";")

    def _parse_reveal(self) -> None:
        self._parse_listed()

    def _parse_return(self) -> None:
        self.advance()
        if not self.take(";"):
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
        elif self.at(":") and self.peek().text == "-":
            self.skip(2)
            if self.at("expect", "assert", "assume"):
                self.advance()
            self.parse_items(self._parse_right_side)
        else:
            self.skip_attributes()
            if self.take(":|"):
                self.take("assume")
                self.parse_expression()

    def _parse_right_side(self) -> None:
        self.program.bindings.append(Binding(self._place, "value"))
        self.program.assigned.add(self._place)
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
            self.program.arguments[self._place] = ("new", 0)
            self.parse_inner()
            self.expect(")")
        elif not is_sized or self.at("["):
            self.expect("[")
            self.parse_list(self.parse_inner, "]")

    def _parse_update(self) -> None:
        self.parse_items(self.parse_primary)
        self._parse_assignment()
        self.expect(";")

    def parse_clause(self, *, lambdas: bool = False) -> None:
        """One clause of a specification, with the semicolon that it may end with.

        Dafny admits lambdas outside brackets in the clauses of loops only.
        """
        word = self.advance().text
        self.skip_attributes()
        is_early = word in ("invariant", "decreases", "modifies")
        self._guards += is_early
        if word in ("modifies", "reads"):
            self.parse_frames(lambdas=lambdas)
        elif word == "decreases":
            self.parse_items(lambda: self._parse_measure(lambdas))
        else:
            self._take_label()
            self.parse_expression(lambdas=lambdas)
        self._guards -= is_early
        self.take(";")

    def _parse_measure(self, lambdas: bool) -> None:
        if self.at("*"):
            self.program.wild.append(self.advance())
        else:
            self.parse_expression(lambdas=lambdas)
