"""Holds the grammar of Dafny's statements to what may stand in a hole of a Dafny 2.3 program.

Flows in: the tokens of a body. Flows out: the names that it declares for the text after the
hole; a body outside the grammar raises ``GrammarError`` with the first finding.

The grammar is a sublanguage of Dafny's: whole clauses or whole ghost statements, each with its
own end, so that no admitted body can run into the text after the hole.
Not covered (refused): labelled statements, ``if`` with cases, assignments, loops, declarations.
"""

from __future__ import annotations

from typing import Literal

from proverrl.lang.dafny.syntax.cursor import GrammarError, is_name
from proverrl.lang.dafny.syntax.hint_expressions import HintExpressions
from proverrl.lang.dafny.syntax.tokens import Token

__all__ = [
    "FORBIDDEN_WORDS",
    "GrammarError",
    "HintStatements",
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


_STATEMENTS = ("assert", "calc", "if", "match", "forall", "var", "ghost", "reveal", "{")


class HintStatements(HintExpressions):
    """Ghost proof statements."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._blocks = 0

    def parse_statements(self) -> None:
        self._blocks += 1
        super().parse_statements()
        self._blocks -= 1

    def parse_block(self, *, ghost: bool = False) -> None:
        self.enter()
        super().parse_block(ghost=ghost)
        self.leave()

    def parse_statement(self) -> None:
        self._parse_element(self._parse_statement)

    def _parse_statement(self) -> None:
        if self.at(*_STATEMENTS):
            super()._parse_statement()
        else:
            self._parse_call()

    def _take_label(self) -> None:
        if self.at_name and self.peek().text == ":":
            self.declared.append(self.advance())
            self.advance()

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

    def _parse_var(self) -> None:
        self.take("ghost")
        self.expect("var")
        names = self.parse_binding()
        if not self._blocks:
            self.declared += names
        self.expect(";")

    def _parse_reveal(self) -> None:
        self.expect("reveal")
        self.parse_items(self.parse_primary)
        self.expect(";")

    def parse_calc_body(self) -> None:
        """Steps between two lines of ours: ``[op] hints { line; [op] hints }``."""
        self._parse_calc_step()
        while not self.at_end:
            self.parse_expression()
            self.expect(";")
            self._parse_calc_step()

    def parse_clauses(self) -> None:
        """Loop specifications, each of which may end with a semicolon."""
        while not self.at_end:
            if not self.at("invariant", "decreases"):
                raise self.fail("expected 'invariant' or 'decreases'")
            self.parse_hint_clause()

    def parse_hint_clause(self) -> None:
        """An invariant or a measure."""
        is_measure = self.advance().text == "decreases"
        self.skip_attributes()
        self.parse_items(self._parse_measure) if is_measure else self.parse_expression()
        self.take(";")

    def _parse_measure(self, lambdas: bool = True) -> None:
        if self.at("*"):
            raise self.refuse("cheat", "wildcard", "'decreases *' gives up termination")
        self.parse_expression()


def parse_body(kind: str, tokens: list[Token]) -> list[Token]:
    """Parse a whole body; returns the names that it declares for the text after the hole.

    ``kind`` is ``invariants``, ``statements``, ``calc`` or ``assertions``. Raises
    ``GrammarError`` on the first thing that is not in the grammar of that kind.
    """
    parser = HintStatements(tokens)
    if kind == "invariants":
        parser.parse_clauses()
    elif kind == "calc":
        parser.parse_calc_body()
    elif kind == "assertions":
        while parser.at("assert"):
            parser.parse_statement()
    else:
        while not parser.at_end and not parser.at("}", "case"):
            parser.parse_statement()
    if not parser.at_end:
        raise parser.fail("expected the end of the body")
    return parser.declared
