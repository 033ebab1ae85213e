"""Parses the expressions of whole Dafny 2.3 programs.

Flows in: tokens of a program. Flows out: the place where an expression ends, or ``GrammarError``.
More is read here than in a hole (``dafny_expressions``): what a problem's own text may hold, and
what an annotated program must therefore be able to repeat.
Not covered (refused): bit operators, prefix predicates (``P#[k]``), a set after ``>``.
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.verify.dafny_cursor import is_name
from proverrl.verify.dafny_expressions import Expressions
from proverrl.verify.dafny_tokens import Token


class CodeExpressions(Expressions):
    """Expressions with attributes, lambdas anywhere but in guards, and proof steps inside."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._in_guard = False
        self._in_function = False

    @property
    def place(self) -> int:
        """How many tokens have been read."""
        return self._place

    def skip_attributes(self) -> None:
        """``{:name expression, ...}`` any number of times; the names are judged elsewhere."""
        while self.at("{") and self.peek().text == ":":
            self.advance()
            self.advance()
            self.advance()
            self._brackets += 1
            if not self.at("}"):
                self.parse_expression()
                while self.take(","):
                    self.parse_expression()
            self._brackets -= 1
            self.expect("}")

    def parse_domain(self) -> None:
        self._parse_bound_name()
        while self.take(","):
            self._parse_bound_name()
        self.skip_attributes()
        if self.take("|"):
            self.parse_expression()

    def parse_guard(self, parse: Callable[[], None] | None = None) -> None:
        """An expression (or what ``parse`` reads) after which ``=>`` begins something else."""
        outer = self._in_guard, self._brackets
        self._in_guard, self._brackets = True, 0
        (parse or self.parse_expression)()
        self._in_guard, self._brackets = outer

    def parse_expression(self) -> None:
        """As in a hole; before it, proof steps (in a function's body) and ``&&`` or ``||``."""
        if self._in_function:
            self.parse_steps()
        if self.at("&&", "||"):
            self.advance()
        super().parse_expression()

    def parse_steps_and_expression(self) -> None:
        """An expression, after any calls of lemmas that end with a semicolon."""
        self.parse_expression()
        while self.take(";"):
            self.parse_expression()

    def parse_frame(self) -> None:
        """One item of ``reads`` or ``modifies``."""
        if self.take("*"):
            return
        if not self.take("`"):
            self.parse_expression()
            if not self.take("`"):
                return
        self.expect_name()

    def _parse_frames(self) -> None:
        self.parse_frame()
        while self.take(","):
            self.parse_frame()

    def parse_expressions(self) -> None:
        self.parse_expression()
        while self.take(","):
            self.parse_expression()

    def _parse_operand(self) -> None:
        if self.at("assert", "assume"):
            self._parse_step_in_expression()
            self.parse_expression()
        elif self.at("calc", "reveal"):
            self.parse_proof_step()
            self.parse_expression()
        elif self.at("ghost") and self.peek().text == "var":
            self.advance()
            super()._parse_operand()
        else:
            super()._parse_operand()

    def _parse_step_in_expression(self) -> None:
        self.advance()
        self.skip_attributes()
        self.parse_expression()
        self.expect(";")

    def parse_steps(self) -> None:
        """Proof steps before an expression; known to ``StatementElements`` only."""

    def parse_proof_step(self) -> None:
        """A statement that may stand inside an expression; known to ``Statements`` only."""
        raise self.fail("expected an expression")

    def _parse_open_form(self) -> None:
        if self.at("if") and self.peek(2).text in (":|", ":") and is_name(self.peek()):
            self.advance()
            self.parse_binding_guard()
            self.expect("then")
            self.parse_expression()
            self.expect("else")
            self.parse_expression()
            return
        super()._parse_open_form()

    def parse_binding_guard(self) -> None:
        """``x: T, y :| P``."""
        self._parse_bound_name()
        while self.take(","):
            self._parse_bound_name()
        self.expect(":|")
        self.skip_attributes()
        self.parse_expression()

    def _at_lambda(self) -> bool:
        outer = self._brackets
        if not self._in_guard:
            self._brackets += 1
        found = super()._at_lambda() or self._at_specified_lambda()
        self._brackets = outer
        return found

    def _at_specified_lambda(self) -> bool:
        """A lambda with ``requires`` or ``reads``, which no other expression has."""
        if not self._brackets or (not self.at("(") and not self.at_name):
            return False
        distance = 1
        if self.at("("):
            depth = 1
            while depth and self.peek(distance).kind != "end":
                text = self.peek(distance).text
                depth += (text == "(") - (text == ")")
                distance += 1
        if self.peek(distance).text not in ("requires", "reads"):
            return False
        return self._has_arrow_after(distance)

    def _has_arrow_after(self, distance: int) -> bool:
        """True when ``=>`` comes before this bracket, clause or statement ends."""
        depth = 0
        while self.peek(distance).kind != "end":
            text = self.peek(distance).text
            if depth == 0 and text == "=>":
                return True
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if depth < 0 or text in (";", "{", "ensures", "decreases"):
                return False
            distance += 1
        return False

    def _parse_lambda(self) -> None:
        if self.take("("):
            self._parse_list(self._parse_bound_name, ")")
        else:
            self.expect_name()
        while self.at("requires", "reads"):
            if self.advance().text == "requires":
                self.parse_guard()
            else:
                self.parse_guard(self._parse_frames)
        self.expect("=>")
        self.parse_expression()

    def _parse_member(self) -> None:
        """Function values have members that are named by reserved words."""
        if self.at("requires", "reads"):
            self.advance()
        else:
            super()._parse_member()

    def _parse_type_arguments(self) -> None:
        """Optional: ``seq`` alone stands for a type whose arguments Dafny finds."""
        if self.at("<"):
            super()._parse_type_arguments()

    def _parse_atom(self) -> bool:
        if self.at("old", "unchanged") and self.peek().text == "@":
            self.advance()
            self.advance()
            self.expect_name()
            self.expect("(")
            self._parse_list(self.parse_frame, ")")
            return False
        if self.at("unchanged"):
            self.advance()
            self.expect("(")
            self._parse_list(self.parse_frame, ")")
            return False
        if self.at("("):
            self.advance()
            self._brackets += 1
            outer, self._in_guard = self._in_guard, False
            if not self.at(")"):
                self.parse_steps_and_expression()
                while self.take(","):
                    self.parse_steps_and_expression()
            self._in_guard = outer
            self._brackets -= 1
            self.expect(")")
            return False
        return super()._parse_atom()
