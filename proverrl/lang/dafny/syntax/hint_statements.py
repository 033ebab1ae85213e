"""A parser of what may stand in a hole of a Dafny 2.3 program.

Flows in: the tokens of a body. Flows out: the names that it declares for the text after the
hole; a body outside the grammar raises ``GrammarError`` with the first finding.

The grammar is a sublanguage of Dafny's: whole clauses or whole ghost statements, each with its
own end, so that no admitted body can run into the text after the hole.
Not covered (refused): labelled statements, ``if`` with cases, assignments, loops, declarations.
"""

from __future__ import annotations

from typing import Literal

from proverrl.lang.dafny.syntax.cursor import GrammarError, is_name
from proverrl.lang.dafny.syntax.hint_expressions import Expressions
from proverrl.lang.dafny.syntax.tokens import Token

__all__ = [
    "CALC_OPERATORS",
    "FORBIDDEN_WORDS",
    "GrammarError",
    "Statements",
    "classify_word",
    "is_name",
    "parse_body",
]

# What these words do in a hole would get a verdict without a proof.
CHEATING_WORDS = {
    "assume": "assumes what is to be proved",
    "expect": "is not a proof",
    "free": "assumes what is to be proved",
    "include": "brings in another file",
    "while": "could loop without a body",
    "return": "skips the rest of the program",
    "break": "skips the rest of the program",
    "yield": "skips the rest of the program",
    "modify": "changes the program",
    "modifies": "changes what may be modified",
}
# Words that no hole may hold, and why.
FORBIDDEN_WORDS = (
    CHEATING_WORDS
    | dict.fromkeys(("print", "new", "label"), "changes the program")
    | dict.fromkeys(
        """abstract class codatatype colemma const constructor copredicate datatype export extends
        function import inductive iterator lemma method module newtype opened predicate protected
        provides refines requires returns reveals static trait twostate type witness
        yields""".split(),
        "starts or changes a declaration",
    )
)


def classify_word(word: str) -> Literal["syntax", "cheat"]:
    """How bad a forbidden word is."""
    return "cheat" if word in CHEATING_WORDS else "syntax"


CALC_OPERATORS = frozenset("== != < <= > >= ==> <== <==>".split())


class Statements(Expressions):
    """Ghost proof statements."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._blocks = 0

    def parse_statements(self) -> None:
        while not self.at_end and not self.at("}", "case"):
            self.parse_statement()

    def parse_block(self) -> None:
        self.enter()
        self.expect("{")
        self._blocks += 1
        self.parse_statements()
        self._blocks -= 1
        self.expect("}")
        self.leave()

    def parse_statement(self) -> None:
        parsers = {
            "assert": self.parse_assert,
            "calc": self._parse_calc,
            "if": self._parse_if,
            "match": self._parse_match,
            "forall": self._parse_forall,
            "var": self._parse_var,
            "ghost": self._parse_var,
            "reveal": self._parse_reveal,
            "{": self.parse_block,
        }
        self.enter()
        parse = parsers.get(self.token.text)
        if parse is not None and self.token.kind in ("word", "operator"):
            parse()
        else:
            self._parse_call()
        self.leave()

    def parse_assert(self) -> None:
        self.expect("assert")
        self.skip_attributes()
        if self.at_name and self.peek().text == ":":
            self.declared.append(self.advance())
            self.advance()
        self.parse_expression()
        if self.take("by"):
            self.parse_block()
        else:
            self.expect(";")

    def _parse_call(self) -> None:
        if not self.at_name and not self.at("this"):
            raise self.fail("expected a statement")
        target = self.token.text
        called = self.parse_primary()
        if self.at(":=", ":|", ","):
            is_own = any(target == name.text for name in self.declared)
            message = "assigning to what exists already is not allowed"
            raise self.refuse("syntax" if is_own else "cheat", "assignment", message)
        if not called:
            raise self.fail("expected a call of a lemma")
        self.expect(";")

    def _parse_if(self) -> None:
        self.expect("if")
        self._parse_condition()
        self.parse_block()
        if self.take("else"):
            if self.at("if"):
                self.parse_statement()
            else:
                self.parse_block()

    def _parse_condition(self) -> None:
        """An expression, or ``x: T, y :| P`` where such values may not exist."""
        if self.at_name and self.peek().text in (":|", ":", ","):
            self._parse_bound_name()
            while self.take(","):
                self._parse_bound_name()
            self.expect(":|")
        self.parse_expression()

    def _parse_match(self) -> None:
        """Braces are asked for: without them the last case would take in what follows."""
        self.expect("match")
        self.parse_expression()
        self.expect("{")
        self._blocks += 1
        while self.take("case"):
            self.parse_pattern([], typed=False)
            self.expect("=>")
            self.parse_statements()
        self._blocks -= 1
        self.expect("}")

    def _parse_forall(self) -> None:
        self.expect("forall")
        parenthesised = self.take("(")
        self.parse_domain()
        if parenthesised:
            self.expect(")")
        while self.take("ensures"):
            self.skip_attributes()
            self.parse_expression()
            self.take(";")
        if self.at("::"):
            raise self.fail("expected 'ensures' or '{'")
        if not self.at("{"):
            raise self.refuse("cheat", "missing-body", "a forall statement needs a body")
        self.parse_block()

    def _parse_var(self) -> None:
        if self.take("ghost") and not self.at("var"):
            raise self.fail("expected 'var'")
        self.expect("var")
        self.parse_binding([] if self._blocks else self.declared)
        self.expect(";")

    def _parse_reveal(self) -> None:
        self.expect("reveal")
        self.parse_primary()
        while self.take(","):
            self.parse_primary()
        self.expect(";")

    def _parse_calc(self) -> None:
        self.expect("calc")
        self.skip_attributes()
        if self.at(*CALC_OPERATORS):
            self.advance()
        self.expect("{")
        self._blocks += 1
        while not self.at("}"):
            self.parse_expression()
            self.expect(";")
            self._parse_step()
        self._blocks -= 1
        self.expect("}")

    def _parse_step(self) -> None:
        """An optional operator and any hints. A brace here always opens a hint."""
        if self.at(*CALC_OPERATORS):
            self.advance()
        while self.at("{", "calc"):
            if self.at("{"):
                self.parse_block()
            else:
                self._parse_calc()

    def parse_calc_body(self) -> None:
        """Steps between two lines of ours: ``[op] hints { line; [op] hints }``."""
        self._blocks += 1
        self._parse_step()
        while not self.at_end:
            self.parse_expression()
            self.expect(";")
            self._parse_step()

    def parse_clauses(self) -> None:
        """Loop specifications, each of which may end with a semicolon."""
        while not self.at_end:
            if self.take("invariant"):
                self.skip_attributes()
                self.parse_expression()
            elif self.take("decreases"):
                self.skip_attributes()
                self.parse_expression()
                while self.take(","):
                    self.parse_expression()
            else:
                raise self.fail("expected 'invariant' or 'decreases'")
            self.take(";")


def parse_body(kind: str, tokens: list[Token]) -> list[Token]:
    """Parse a whole body; returns the names that it declares for the text after the hole.

    ``kind`` is ``invariants``, ``statements``, ``calc`` or ``assertions``. Raises
    ``GrammarError`` on the first thing that is not in the grammar of that kind.
    """
    parser = Statements(tokens)
    if kind == "invariants":
        parser.parse_clauses()
    elif kind == "calc":
        parser.parse_calc_body()
    elif kind == "assertions":
        while parser.at("assert"):
            parser.parse_assert()
    else:
        parser.parse_statements()
    if not parser.at_end:
        raise parser.fail("expected the end of the body")
    return parser.declared
