"""Parses the statements of Dafny programs into elements.

Flows in: tokens. Flows out: ``Element``s. Skeletons (``...``), loops and forall statements without
a body are read with ``trusts`` only. Not handled here: what a hole may hold (``hint_grammar``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.expressions import CodeExpressions
from proverrl.lang.dafny.syntax.parsed import Binding, Element, ElementSlot, SlotKind
from proverrl.lang.dafny.syntax.tokens import find_outer

CALC_OPERATORS = frozenset("== != < <= > >= ==> <== <==>".split())

_STRICT = ("<", ">")

_LOOP_CLAUSES = ("invariant", "decreases", "modifies")


class StatementElements(CodeExpressions):
    """Clauses and statements."""

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

    def parse_proof(self) -> None:
        """A block that Dafny proves aside."""
        start = self._place
        self.parse_block(ghost=True)
        self.program.proofs.append((start, self._place))

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
        elif self.at("expect"):
            self._parse_expect()
        elif self.at("reveal", "hide"):
            self._parse_reveal()
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

    def _parse_expect(self) -> None:
        self.advance()
        self.skip_attributes()
        if not self.take_ellipsis():
            self.parse_items(self.parse_expression)
        elif self.take(","):
            self.parse_expression()
        self.expect(";")

    def _parse_reveal(self) -> None:
        """``reveal`` of Dafny 2.3; ``hide`` and the star are Dafny 4's."""
        if self.peek().text == "*":
            self.skip(2)
            self.expect(";")
        else:
            self._parse_listed()

    def _parse_return(self) -> None:
        self.advance()
        self.skip_newer_attributes()
        if not self.take(";"):
            self.parse_items(self._parse_right_side)
            self.expect(";")

    def _parse_break(self) -> None:
        self.advance()
        self.skip_newer_attributes()
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
            self.expect(";")
        else:
            self.parse_items(self._parse_variable)
            self._parse_assignment()
            self._end_assignment()

    def _parse_variable(self) -> None:
        self.skip_attributes()
        self.parse_bound_name()

    def _parse_assignment(self) -> None:
        """The rest after the left-hand sides, if anything; ``:-`` is Dafny 4's."""
        if self.take(":="):
            self.parse_items(self._parse_right_side)
        elif self.take_failing():
            if self.at("expect", "assert", "assume"):
                self.advance()
                self.skip_attributes()
            self.parse_items(self._parse_right_side)
        else:
            self.skip_attributes()
            if self.take(":|"):
                if self.take("assume"):
                    self.skip_attributes()
                self.parse_expression()

    def _end_assignment(self) -> None:
        """Dafny 4 may have a proof of what it asks there."""
        if self.take("by"):
            self.parse_proof()
        else:
            self.expect(";")

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
        if not self.at_failing:
            self.parse_items(self.parse_primary)
        self._parse_assignment()
        self._end_assignment()

    def parse_clause(self, *, lambdas: bool = False) -> None:
        """One clause of a specification, with the semicolon that it may end with.

        Dafny admits lambdas outside brackets in the clauses of loops only.
        """
        word = self.advance().text
        self.refuse_decreases_to()
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

    def refuse_decreases_to(self) -> None:
        """Raises at ``decreases to``, which Dafny 4 reads as a part of the clause before."""
        if self._text(self._place - 1) == "decreases" and self.at("to") and not self.admitted:
            message = (
                "Dafny 4 reads 'decreases to' as an operator of the clause before; put the "
                "variable 'to' in parentheses: 'decreases (to)'"
            )
            raise self.refuse("cheat", "decreases-to", message)

    def _parse_measure(self, lambdas: bool) -> None:
        if self.at("*"):
            self.program.wild.append(self.advance())
        else:
            self.parse_expression(lambdas=lambdas)

    def parse_statements(self) -> None:
        outer, self._in_function = self._in_function, False
        # Statements may stand in an expression, and their clauses are in no bracket of it.
        brackets, self._brackets = self._brackets, 0
        self.parse_slot("statements", self._parse_statement, lambda: not self.at("}", "case"))
        self._in_function, self._brackets = outer, brackets

    def _parse_statement(self) -> None:
        parsers: dict[str, Callable[[], None]] = {
            "assert": self._parse_assert,
            "assume": self._parse_assert,
            "expect": self._parse_expect,
            "calc": self._parse_calc,
            "if": self._parse_if,
            "match": self._parse_match,
            "forall": self._parse_forall,
            "parallel": self._parse_forall,
            "while": self._parse_while,
            "var": self._parse_var,
            "ghost": self._parse_var,
            "print": self._parse_listed,
            "reveal": self._parse_reveal,
            "return": self._parse_return,
            "yield": self._parse_return,
            "break": self._parse_break,
            "label": self._parse_label,
            "modify": self._parse_modify,
            "new": self._parse_new,
            "for": self._parse_for,
            "{": self.parse_block,
            "...": self._parse_skeleton,
        }
        parse = parsers.get(self.token.text)
        if parse is not None and self.token.kind in ("word", "operator"):
            parse()
        elif self.at_hide:
            self._parse_reveal()
        elif self.at("continue") and (self.peek().text == ";" or is_name(self.peek())):
            self._parse_break()
        elif self.at("opaque") and self.peek().text in ("{", "ensures", "modifies"):
            self._parse_opaque()
        else:
            self._parse_update()

    def _parse_skeleton(self) -> None:
        if not self.take_ellipsis():
            raise self.fail("expected a statement")
        self.expect(";")

    def _parse_label(self) -> None:
        self.advance()
        if self.token.kind == "number":
            self.advance()
        else:
            self.expect_name()
        self.expect(":")
        self._parse_statement()

    def _parse_modify(self) -> None:
        self.advance()
        self.skip_attributes()
        if not self.take_ellipsis():
            self.parse_frames()
        self.parse_block() if self.at("{") else self.expect(";")

    def _parse_opaque(self) -> None:
        """Dafny 4's block with a contract of its own."""
        self.advance()
        goes_on = partial(self.at, "ensures", "modifies")
        self.parse_slot("member-clauses", self.parse_clause, goes_on)
        self.parse_block()

    def _parse_condition(self) -> None:
        if self.take_ellipsis():
            return
        if self.whole and self.at("*"):
            self.advance()
        elif self.whole and self.at("(") and self.peek().text == "*" and self.peek(2).text == ")":
            self.skip(3)
        else:
            self.parse_inner()

    def _parse_if(self) -> None:
        self.expect("if")
        self.skip_newer_attributes()
        if self._at_alternatives():
            self._parse_alternatives()
            return
        if self.at_binding_guard():
            self.parse_binding_guard()
        else:
            self._parse_condition()
        self.parse_block()
        if self.take("else"):
            if self.at("if"):
                self.enter()
                self._parse_if()
                self.leave()
            else:
                self.skip_newer_attributes()
                self.parse_block()

    def _at_alternatives(self) -> bool:
        return self.at("case") or (self.at("{") and self.peek().text == "case")

    def _parse_alternatives(self) -> None:
        braced = self.open_cases(statement=True)
        while self.take("case"):
            self.skip_newer_attributes()
            if self.at_binding_guard():
                self.parse_binding_guard(lambdas=False)
            else:
                self.parse_expression(semi=True, lambdas=False)
            self.expect("=>")
            self.parse_statements()
        if braced:
            self.expect("}")

    def _parse_while(self) -> None:
        self.expect("while")
        self.skip_newer_attributes()
        if self.at(*_LOOP_CLAUSES) or self._at_alternatives():
            self._parse_loop_clauses()
            if self._at_alternatives():
                self._parse_alternatives()
            elif self.at("{"):
                # Dafny takes an empty pair of braces for alternatives, and else there is no loop.
                raise self.fail("expected 'case' behind the clauses of a loop without a condition")
            else:
                self.leave_out("a loop needs a body")
            return
        self._parse_condition()
        self._parse_loop_rest()

    def _parse_for(self) -> None:
        """``for i := a to b`` of Dafny 4, which 2.3 refuses."""
        self.advance()
        self.skip_attributes()
        first = len(self.program.bindings)
        self.parse_bound_name()
        end = len(self.program.bindings)
        self.expect(":=")
        self.parse_expression()
        if not self.at("to", "downto"):
            raise self.fail("expected 'to' or 'downto'")
        self.advance()
        if not self.take("*"):
            self.parse_expression()
        self._parse_loop_clauses()
        self.scope_bindings(first, end, self._place + 1)
        self._parse_loop_body()

    def _parse_loop_clauses(self) -> None:
        parse = partial(self.parse_clause, lambdas=True)
        self.parse_slot("loop-clauses", parse, lambda: self.at(*_LOOP_CLAUSES))

    def _parse_loop_rest(self) -> None:
        self._parse_loop_clauses()
        self._parse_loop_body()

    def _parse_loop_body(self) -> None:
        if self.at("{"):
            self.parse_block()
        elif not self.take_ellipsis():
            self.leave_out("a loop needs a body")

    def _parse_match(self) -> None:
        self.expect("match")
        self.skip_newer_attributes()
        start = self._place
        self.parse_inner()
        self.program.matched.append((start, self._place))
        braced = self.open_cases(statement=True)
        while self.take("case"):
            num_bindings = len(self.program.bindings)
            self.parse_case_pattern()
            self.parse_arrow(num_bindings)
            self.parse_statements()
        if braced:
            self.expect("}")

    def _parse_forall(self) -> None:
        start = self._place
        self.advance()
        if self.take("("):
            if not self.whole or not self.at(")"):
                self.parse_domain()
            self.expect(")")
        elif not self.whole or self.at_name:
            self.parse_domain()
        self._parse_ensured(start)
        if not self.whole and self.at("::"):
            raise self.fail("expected 'ensures' or '{'")
        self._parse_forall_block(start, self.parse_block)

    def _parse_ensured(self, start: int) -> None:
        """What a forall statement ensures."""
        if self.at("ensures"):
            self.program.ensuring.add(start)
        while self.take("ensures"):
            self.skip_attributes()
            promise = self._place
            self.parse_expression()
            self.program.promises.append((promise, self._place))
            self.take(";")

    def _parse_forall_block(self, start: int, parse: Callable[[], None]) -> None:
        if self.at("{"):
            parse()
            self.program.foralls.append((start, self._place))
        else:
            self.leave_out("a forall statement needs a body")

    def parse_promises(self, start: int) -> None:
        outer, self._in_function = self._in_function, False
        self._parse_ensured(start)
        self._parse_forall_block(start, self.parse_proof)
        self._in_function = outer

    def _parse_calc(self) -> None:
        self.expect("calc")
        self.skip_attributes()
        main = self._parse_calc_operator()
        opened = self._place
        self.expect("{")
        lines, signs = [], []
        while not self.at("}"):
            start = self._place
            self.parse_expression()
            lines.append((start, self._place))
            self.expect(";")
            signs.append(self._parse_calc_step())
        self._refuse_unproved_result(main, signs)
        if lines and not main and self._infers_reversed(lines[0], lines[-1]):
            self._note_inferred(opened, signs[:-1])
        self.program.calc_lines += [(start, end, self._place) for start, end in lines]
        self.program.proofs.append((opened, self._place))
        self.expect("}")

    def _refuse_unproved_result(self, main: str, signs: list[str]) -> None:
        """Dafny makes the relation that it believes of the first and the last line from all
        operators, that after ``calc`` and one behind the last line included."""
        has_strict_step = not {"", *_STRICT}.isdisjoint(signs[:-1])
        is_weak = main in _STRICT and len(signs) > 1 and not has_strict_step
        if self.admitted or not (is_weak or any(signs[-1:])):
            return
        message = "Dafny believes that this calc shows more than its steps do; write no operator "
        message += "after 'calc', and none behind the last line"
        raise self.refuse("cheat", "unproved-calc", message)

    def _infers_reversed(self, first: tuple[int, int], last: tuple[int, int]) -> bool:
        """True if Dafny reads a calc without an operator after its word as one with ``<==``: its
        last line is true, or its first one false."""
        begin, end = (
            [t.text for t in self._tokens[s:e] if t.text not in "()"] for s, e in (first, last)
        )
        return begin == ["false"] or end == ["true"]

    def _note_inferred(self, opened: int, signs: list[str]) -> None:
        if not any(signs):
            return
        if all(signs):
            self.program.reversed_calcs.append(opened)
        elif not self.admitted:
            message = "of this calc Dafny believes that some lines can be evaluated; write an "
            message += "operator behind each line but the last, or none"
            raise self.refuse("syntax", "unproved-calc", message)

    def _parse_calc_step(self) -> str:
        """An optional operator, which is returned, and any hints. A brace here always opens a
        hint."""
        sign = self._parse_calc_operator()
        while self.at("{", "calc"):
            if self.at("{"):
                self.parse_block(ghost=True)
            else:
                self._parse_calc()
        return sign

    def _parse_calc_operator(self) -> str:
        if not self.at(*CALC_OPERATORS):
            return ""
        if self.at("<==") and not self.admitted:
            message = "behind '<==' Dafny believes that the line can be evaluated; turn the calc"
            raise self.refuse("cheat", "reversed-calc", message)
        sign = self.advance().text
        if sign == "==" and self.whole and self.take("#"):
            self.expect("[")
            start = self._place
            self.parse_inner()
            if self._place > start + 1 and not self.admitted:
                message = "Dafny believes that this index has a value; give it a name before"
                raise self.refuse("cheat", "unproved-calc", message)
            self.expect("]")
        return sign
