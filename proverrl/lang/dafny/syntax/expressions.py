"""Parses the expressions of Dafny programs.

Flows in: tokens. Flows out: the place where an expression ends, or ``GrammarError``.
The extent of every expression is that which Dafny 2.3 gives it: the same look-ahead decides what is
a lambda, a list of types, a body or a set. Operators are read as a flat chain, because their
precedence changes no extent. What 2.3 refuses may be read (Dafny 4's forms, chains without
parentheses): Dafny refuses it again. Not handled here: what a hole may hold (``hint_grammar``).
"""

from __future__ import annotations

from collections.abc import Callable

from proverrl.lang.dafny.syntax.cursor import COLLECTIONS, MAX_DEPTH, is_name
from proverrl.lang.dafny.syntax.domains import CodeDomains
from proverrl.lang.dafny.syntax.parsed import Binding, Mixed

_CONSTANTS = frozenset("true false null this".split())
_RELATIONS = frozenset("== != < <= > >= in !in !! !".split())
_LOGICAL = frozenset("<==> ==> <== && ||".split())
_ARITHMETIC = frozenset("+ - * / %".split())
_BITS = frozenset("& | ^".split())
_FACTORS = (_ARITHMETIC - {"+"}) | _BITS
_QUANTIFIERS = ("forall", "exists", "set", "iset", "map", "imap")
_ENDLESS = frozenset(
    """if match forall exists set iset map imap assert assume expect calc var ghost reveal
    label""".split()
)


class CodeExpressions(CodeDomains):
    """Expressions, their operands, and the domains of quantifiers.

    ``semi``: an expression may go on after the semicolon of a lemma call. ``lambdas``: a name
    before ``=>``, ``requires`` or ``reads`` begins a lambda. ``bits``: ``|`` is an operator.
    ``signs`` may stand before an operand, ``endless`` are the words of the forms whose last part is
    an expression that goes on as far as it can.
    """

    max_chain = 400
    signs: tuple[str, ...] = ("-", "!", "!!")
    endless = _ENDLESS

    def parse_primary(self) -> bool:
        """An atom with its suffixes; returns True when the last suffix is a call."""
        start = self._place
        is_call = self._parse_atom()
        while True:
            if self.at("("):
                self._parse_arguments(self._text(self._place - 1))
                is_call = True
            elif self.take("["):
                self._parse_index()
                is_call = False
            elif self.at(".") and self._ends_number():
                raise self.fail("expected digits behind a point")
            elif self.take("."):
                self.program.selections.append((start, self._place - 1))
                is_call = self._parse_member()
            else:
                return is_call

    def _parse_arguments(self, callee: str) -> None:
        self.expect("(")
        spans: list[tuple[int, int]] = []

        def parse() -> None:
            start = self._place
            self.program.arguments[start] = (callee, len(spans))
            value = self._parse_argument()
            spans.append((value, self._place))

        self.program.calls.append((callee, self._place - 1, spans))
        self.parse_list(parse, ")")

    def _ends_number(self) -> bool:
        """Behind ``1``, to which Dafny 4 counts the point."""
        before = self._tokens[self._place - 1]
        is_whole = before.kind == "number" and "." not in before.text
        return is_whole and self._text(self._place - 2) != "." and not self.admitted

    def _parse_argument(self) -> int:
        """Returns where its value begins."""
        is_named = self.at_name or self.token.kind == "number"
        if self.whole and is_named and self.peek().text == ":=":
            # Dafny 4's arguments by name.
            self.skip(2)
        start = self._place
        self.parse_inner()
        return start

    def _parse_parentheses(self) -> None:
        """An expression in parentheses or a tuple, or what it may decrease to."""
        self.expect("(")
        self._brackets += 1
        if not self.at(")") and not self._at_decreases_to():
            self.parse_items(self._parse_tuple_part)
        if self._at_decreases_to():
            self.skip(2)
            if not self.at(")"):
                self.parse_expressions()
        self._brackets -= 1
        self.expect(")")

    def _parse_tuple_part(self) -> None:
        if self.whole and self.at("ghost") and self.peek().text != "var":
            self.advance()
        self._parse_argument()

    def _at_decreases_to(self) -> bool:
        """``decreases to`` of Dafny 4.

        In Dafny 2.3 a clause may begin so, with a variable that is called ``to``, and what follows
        may be a statement after a loop without a body. So no clause is read on there but in what
        is ``admitted``, where an operand follows.
        """
        if not self.whole or not self.at("decreases", "nonincreases") or self.peek().text != "to":
            return False
        if self._brackets > 0 or self._element.word in ("assert", "expect"):
            return True
        after = self.peek(2)
        is_literal = after.kind in ("number", "char", "string") or after.sign in _CONSTANTS
        return self.admitted and (is_literal or is_name(after))

    def _parse_atom(self) -> bool:
        """True for a call of a prefix predicate."""
        if self.token.kind in ("number", "char", "string") or self.at(*_CONSTANTS):
            self.advance()
        elif self.at("old", "fresh", "allocated", "unchanged"):
            self.refuse_unread_heap()
            is_frame = self.advance().text == "unchanged"
            if self.whole and self.take("@"):
                self.advance()
            self.expect("(")
            self.parse_frames(lambdas=False) if is_frame else self.parse_inner()
            self.expect(")")
        elif self.whole and self.at("int", "real") and self.peek().text == "(":
            self.skip(2)
            self.parse_inner()
            self.expect(")")
        elif self.at("("):
            self._parse_parentheses()
        elif self.at("[", "{"):
            closer = {"[": "]", "{": "}"}[self.advance().text]
            self.parse_list(self.parse_inner, closer)
        elif self.take("|"):
            self.parse_expression(semi=True, bits=False)
            self.expect("|")
        elif self.at(*COLLECTIONS):
            self._parse_collection()
        elif self.at_name:
            self._take_name()
            return self._parse_after_name()
        else:
            raise self.fail("expected an expression")
        return False

    def _parse_after_name(self) -> bool:
        """Types, or the arguments of a prefix predicate (``P#[k](x)``) or of a call in the state at
        a label (``f@L(x)``); True for the latter two."""
        if not self.at("#"):
            callee = self._text(self._place - 1)
            self.take_types_of_name()
            return self.whole and self._take_labelled_call(callee)
        self.advance()
        self._take_type_arguments(in_expression=False)
        self.expect("[")
        self.parse_inner()
        self.expect("]")
        self.expect("(")
        self.parse_list(self.parse_inner, ")")
        return True

    def _take_labelled_call(self, callee: str) -> bool:
        """Dafny 4 tells it by what touches the ``@`` from an attribute of the next declaration."""
        if not self.at("@") or not self.touches_last():
            return False
        self.program.labelled.add(self._place)
        self.advance()
        if self.token.kind == "number":
            self.advance()
        else:
            self.expect_name()
        self._parse_arguments(callee)
        return True

    def _parse_collection(self) -> None:
        word = self.advance().text
        if word in ("map", "imap") and self.take("["):
            self.parse_list(self._parse_pair, "]")
        elif word in ("iset", "multiset") and self.take("{"):
            self.parse_list(self.parse_inner, "}")
        elif word in ("multiset", "seq"):
            if self.whole:
                self.take_types_of_name()
            self.expect("(")
            self.parse_list(self.parse_inner, ")")
        else:
            raise self.fail("expected a collection")

    def _parse_pair(self) -> None:
        self.parse_inner()
        self.expect(":=")
        self.parse_inner()

    def _parse_index(self) -> None:
        """The rest after ``[``: an index, indices, a slice, slices by length or an update."""
        self._brackets += 1
        if self.take(".."):
            if not self.at("]"):
                self.parse_inner()
        else:
            self.parse_inner()
            if self.take(".."):
                if not self.at("]"):
                    self.parse_inner()
            elif self.take(":="):
                self.program.updates.append(self._place)
                self.parse_inner()
            elif self.whole and self.at(":"):
                while self.take(":"):
                    if not self.at("]"):
                        self.parse_inner()
            else:
                while self.take(","):
                    self.parse_inner()
        self._brackets -= 1
        self.expect("]")

    def _parse_member(self) -> bool:
        """The rest after a dot: a field, a number, or a datatype update; True for a prefix call."""
        if self.take("("):
            self.parse_list(self._parse_member_update, ")")
            return False
        # A tuple in a tuple gives ``1.1``.
        is_plain = self.whole or self.token.text.replace(".", "", 1).isdigit()
        if (self.token.kind == "number" and is_plain) or self.at("requires", "reads"):
            self.advance()
        else:
            self._take_name()
        return self._parse_after_name()

    def _take_name(self) -> None:
        if self._lambdas:
            self.program.in_lambdas.add(self._place)
        self.expect_name()

    def _parse_member_update(self) -> None:
        if self.token.kind == "number":
            self.advance()
        else:
            self.expect_name()
        self.expect(":=")
        self.parse_inner()

    def parse_expression(
        self, *, semi: bool = False, lambdas: bool = True, bits: bool = True
    ) -> None:
        """One whole expression, as far as Dafny reads it."""
        self.enter()
        if self._in_function:
            self.parse_steps(semi=semi)
        is_call = self._parse_chain(semi, lambdas, bits)
        if self._at_decreases_to() and self.peek(2).text != ")":
            self.skip(2)
            is_call = self._parse_chain(semi, lambdas, bits)
        if semi and is_call and self.take(";"):
            self.parse_expression(semi=semi, lambdas=lambdas, bits=bits)
        self.leave()

    def parse_steps(self, *, semi: bool) -> None:
        """Proof steps before an expression; known to ``StatementElements`` only."""

    def _parse_chain(self, semi: bool, lambdas: bool, bits: bool) -> bool:
        """Operands and operators between them; True for a single call."""
        self._take_leading()
        chain = [(self._place, "", self._place)]
        left = whole = self._place
        before = ""
        is_call = self._parse_operand(semi, lambdas, bits)
        num_operands = 1
        while True:
            text, sign = self.token.text, self._place
            if self.at("as") or (self.whole and self.at("is")):
                self.advance()
                self.parse_type(in_expression=True)
            elif self._take_operator(bits):
                num_operands += 1
                if num_operands > self.max_chain:
                    raise self.refuse("syntax", "size", f"more than {self.max_chain} operands")
                self._guards += 1
                started = self._place
                self._parse_operand(semi, lambdas, bits)
                self._guards -= 1
                if text in _LOGICAL:
                    chain.append((started, text, sign))
                if text == "+":
                    # In ``m - s + n`` the operand ``s`` need not be of the type of the others.
                    first = [(left, sign)] if before not in _FACTORS else []
                    values = [*first, (started, self._place)]
                    self.program.mixed[sign] = Mixed((whole, self._place), values)
                elif text not in _FACTORS:
                    whole = started
                left, before = started, text
            else:
                if len(chain) > 1:
                    self.program.chains.append((*chain, (sign, "", sign)))
                return is_call
            is_call = False

    def _take_leading(self) -> None:
        """The first of a list of conjuncts or disjuncts may have its operator too."""
        if self.at("&&", "||"):
            self.advance()

    def _take_operator(self, bits: bool) -> bool:
        text = self.token.text
        if self.token.kind not in ("word", "operator"):
            return False
        if text in ("<", ">") and self._at_shift():
            self.skip(2)
            return True
        if text in _RELATIONS:
            self.advance()
            if text == "!":
                self.take("!")
            elif text in ("==", "!=") and self.whole and self.take("#"):
                self.expect("[")
                self.parse_inner()
                self.expect("]")
            return True
        if text in _LOGICAL:
            self.advance()
            if text not in ("&&", "||"):
                self._take_leading()
            return True
        if text in _ARITHMETIC or (bits and text in _BITS):
            self.advance()
            return True
        return False

    def _at_shift(self) -> bool:
        token, following = self.token, self.peek()
        return (
            following.kind == "operator"
            and (following.text, following.line) == (token.text, token.line)
            and following.column == token.column + 1
        )

    def _parse_operand(self, semi: bool, lambdas: bool, bits: bool) -> bool:
        """True for a call without a sign before it."""
        num_signs = 0
        while self.at(*self.signs):
            self.advance()
            num_signs += 1
            if num_signs > MAX_DEPTH:
                raise self.refuse("syntax", "size", f"more than {MAX_DEPTH} signs")
        is_call = False
        self._guards += num_signs
        if lambdas and self._at_lambda():
            self._parse_lambda(semi, bits)
        elif self.at_failing:
            self._parse_failing_let(semi, lambdas, bits)
        elif self._at_endless():
            is_quantified = self.at(*_QUANTIFIERS)
            self._guards += is_quantified
            is_call = self._parse_endless(semi, lambdas, bits)
            self._guards -= is_quantified
        else:
            is_call = self.parse_primary()
        self._guards -= num_signs
        return is_call and not num_signs

    def _at_endless(self) -> bool:
        """One of the ``endless`` forms, and no display."""
        text, following = self.token.text, self.peek().text
        if self.at_hide:
            # In Dafny 2.3 a clause may end with this name, before a statement.
            return self._brackets > 0 or self.admitted
        if not self.at(*self.endless):
            return False
        if text in ("map", "imap"):
            return following != "["
        return not (text == "iset" and following == "{")

    def _parse_endless(self, semi: bool, lambdas: bool, bits: bool) -> bool:
        """True for ``reveal`` of a call, after which a semicolon may come."""

        def parse_rest() -> None:
            self.parse_expression(semi=semi, lambdas=lambdas, bits=bits)

        word, first = self.token.text, self._place
        if word in ("assert", "assume", "expect", "calc", "hide"):
            self.parse_step_in_expression()
            parse_rest()
            return False
        self.advance()
        if word == "if":
            is_binding = self.whole and self.at_binding_guard()
            self.parse_binding_guard() if is_binding else self.parse_inner()
            self.expect("then")
            start = self._place
            self.parse_inner()
            self.expect("else")
            middle = self._place
            parse_rest()
            values = [(start, middle - 1), (middle, self._place)]
            self.program.mixed[start - 1] = Mixed((first, self._place), values)
        elif word == "match":
            self._parse_match_expression(parse_rest)
        elif word in ("forall", "exists"):
            start = self._place - 1
            self.parse_domain()
            if word == "forall" and self.whole and self.at("ensures", "{"):
                self.parse_promises(start)
                parse_rest()
            else:
                self.expect("::")
                self.parse_expression(semi=semi, lambdas=lambdas)
        elif word in ("set", "iset"):
            bits = bits or word == "iset"
            start = self._place
            ranges = self.parse_domain(parse_rest, is_closed=False)
            if not self.whole and not ranges:
                self.expect("|")
            if word == "set":
                spans = ranges or [(self._place, self._place)]
                self.program.finite += [(start, bar, end) for bar, end in spans]
            if self.take("::"):
                parse_rest()
        elif word in ("map", "imap"):
            bits = bits or word == "imap"
            start = self._place
            ranges = self.parse_domain(self.parse_inner)
            bar = ranges[0][0] if ranges else self._place
            if word == "map":
                self.program.finite += [(start, bar, end) for bar, end in ranges]
            self.expect("::")
            key = self._place
            parse_rest()
            if self.at(":="):
                self.program.keys.append((start, bar, key, self._place))
                self.advance()
                parse_rest()
        elif word == "reveal" and self.whole and self.at("*"):
            self.advance()
            self.expect(";")
            parse_rest()
        elif word == "reveal":
            self.enter()
            is_call = self._parse_chain(semi=False, lambdas=False, bits=bits)
            self.leave()
            if self._brackets and not is_call and self.whole and self.take(";"):
                parse_rest()
                return False
            if self.at(";", ",") and not self._brackets and self.whole and not self.admitted:
                message = (
                    "Dafny 4 reads on behind 'reveal ...;' here; write parentheses around both"
                )
                raise self.refuse("syntax", "grammar", message)
            return is_call
        elif word == "label":
            self.expect_name()
            self.expect(":")
            parse_rest()
        else:
            if word == "ghost":
                self.expect("var")
            num_failing = len(self.program.failing)
            self._parse_let()
            parse_rest()
            for place in self.program.failing[num_failing:]:
                self._note_failing(place, first)
        return False

    def _note_failing(self, place: int, start: int) -> None:
        """The value of a failure, which no text shows, meets that of the rest."""
        # Of several, each is noted with the smallest expression around it.
        self.program.mixed.setdefault(place, Mixed((start, self._place), []))

    def _parse_failing_let(self, semi: bool, lambdas: bool, bits: bool) -> None:
        """``:- e; f`` of Dafny 4."""
        place = self._place
        self.take_failing()
        self.parse_expression()
        self.expect(";")
        self.parse_expression(semi=semi, lambdas=lambdas, bits=bits)
        self._note_failing(place, place)

    def _parse_let(self) -> None:
        self.parse_items(self.parse_pattern)
        if not self.take(":=") and not self.take_failing():
            self.skip_attributes()
            self.refuse_unread_choice()
            self.expect(":|")
        self.parse_items(self.parse_expression)
        self.expect(";")

    def _parse_match_expression(self, parse_rest: Callable[[], None]) -> None:
        first = self._place - 1
        parse_rest()
        self.program.matched.append((first + 1, self._place))
        braced = self.open_cases(statement=False)
        values: list[tuple[int, int]] = []
        cases = []
        while self.take("case"):
            cases.append(self._place - 1)
            num_bound, num_bindings = len(self.bound), len(self.program.bindings)
            self.parse_case_pattern()
            names = frozenset(token.text for token in self.bound[num_bound:])
            self.parse_arrow(num_bindings)
            start = self._place
            self.parse_inner() if braced else parse_rest()
            self.program.cases.append((names, start, self._place))
            values.append((start, self._place))
        if braced:
            self.expect("}")
        self.program.mixed |= dict.fromkeys(cases, Mixed((first, self._place), values))

    def open_cases(self, *, statement: bool) -> bool:
        """Take the brace before the cases of a match; True when there is one."""
        return self.take("{")

    def parse_step_in_expression(self) -> None:
        """A statement before an expression; known to ``StatementElements`` only."""
        raise self.fail("expected an expression")

    def parse_promises(self, start: int) -> None:
        """What a forall statement ensures and its block; known to ``StatementElements`` only."""
        raise self.fail("expected '::'")

    @property
    def at_hide(self) -> bool:
        """At ``hide`` of Dafny 4 before a name or ``*``; what else may follow it is not read."""
        following = self.peek()
        is_wild = following.text == "*" and self.peek(2).text == ";"
        return self.whole and self.at("hide") and (is_name(following) or is_wild)

    def _at_lambda(self) -> bool:
        place = self._place
        if self.token.text == "(" and self.token.kind == "operator":
            place += 1
            num_names = 0
            while self._text(place) != ")":
                if num_names:
                    if self._text(place) != ",":
                        return False
                    place += 1
                if not is_name(self._token_at(place)):
                    return False
                num_names += 1
                place += 1
                if self._text(place) == ":":
                    return True
        elif not self.at_name:
            return False
        return self._text(place + 1) in ("=>", "reads", "requires")

    def _parse_lambda(self, semi: bool, bits: bool) -> None:
        start = self._place
        if self.take("("):
            self.parse_list(self.parse_bound_name, ")")
        else:
            self.program.bindings.append(Binding(self._place, "lambda"))
            self.expect_name()
        self._lambdas += 1
        clauses, is_reading = self._place, False
        while self.whole and self.at("requires", "reads"):
            if self.advance().text == "requires":
                self.parse_expression(semi=True, lambdas=False)
            else:
                is_reading = True
                self.parse_frames(semi=True, lambdas=False)
        if is_reading:
            self.program.reading_lambdas.append((start, clauses, self._place))
        self.expect("=>")
        self.parse_expression(semi=semi, bits=bits)
        self._lambdas -= 1
        self.program.lambdas.append((start, self._place))
