"""The grammar of a hole in a Dafny program: a sublanguage of Dafny's grammar.

Flows in: the tokens of a body. Flows out: the names that it declares for the text after the
hole; a body outside the grammar raises ``GrammarError`` with the first finding.
``StatementElements`` reads the forms; here are the tables of those that a hole admits, and what is
refused beyond them: wherever ``<`` or a brace could be read otherwise by Dafny, and what only
whole programs may hold (``CodeTypes.whole``). A body is whole clauses or whole ghost statements,
each with its own end, so that none can run into the text after the hole.
Not covered (refused): labelled statements, assignments, loops, declarations, statement expressions,
type tests, lambdas with ``requires`` or ``reads``, or where neither a bracket nor a semicolon ends
them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import pairwise

from proverrl.lang.dafny.syntax.cursor import COLLECTIONS, GrammarError
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.statements import StatementElements
from proverrl.lang.dafny.syntax.tokens import Token
from proverrl.lang.records import Category, Finding

# What a hint may hold and nothing else, each with why Dafny believes no part of it unchecked. (What
# is checked: that each operand has a value where it stands.)
STATEMENTS = {
    "assert": "it is checked, proved, and only then believed",
    "calc": "each line is checked once the one before is, and each step proved; '<==' is refused",
    "if": "the condition is checked and believed in one branch; a guard's type must have values",
    "match": "the value is checked; a pattern is believed in its case only",
    "forall": "the range is checked; the block, which must be there, proves what it ensures",
    "var": "the value is checked; ':|' is proved to have one; no constructor stands in a pattern",
    "ghost": "as 'var'",
    "reveal": "it unfolds a definition of ours, which was checked",
    "{": "its statements are checked in their order",
}
OPERATORS = {
    **dict.fromkeys(("<==>", "==", "!=", "!!"), "both sides are checked"),
    **dict.fromkeys(("<", "<=", ">", ">=", "in", "!in"), "both sides are checked"),
    **dict.fromkeys(("+", "-", "*"), "both sides are checked; collections are of one type"),
    **dict.fromkeys(("&", "|", "^"), "both sides are checked, and are bits of one width"),
    **dict.fromkeys(("/", "%"), "both sides are checked, the right one to be no zero"),
    **dict.fromkeys(("==>", "<==", "&&", "||"), "one side is checked where the other asks for it"),
}
FORMS = {
    "if": "each branch is checked under its condition",
    "match": "each case is checked under its pattern",
    "var": "the value is checked, then the rest; no ':|' behind an operator or in loop clauses",
    **dict.fromkeys(("forall", "exists"), "the range is checked, then the rest under it"),
    **dict.fromkeys(("set", "iset"), "as 'forall'; references come from a collection"),
    **dict.fromkeys(("map", "imap"), "as 'set'; a key is the variable"),
}
OPERANDS = {
    **dict.fromkeys(("true", "false", "null", "this"), "it has a value"),
    "old": "it is checked in the state before; no labels, and not in a lambda",
    **dict.fromkeys(
        ("fresh", "allocated", "unchanged"), "its operands are checked; not in a lambda"
    ),
    "(": "its parts are checked; a lambda in it without 'reads' under its types",
    **dict.fromkeys(("[", "{", "|"), "its parts are checked"),
    **dict.fromkeys(COLLECTIONS, "its parts are checked"),
}
# In Dafny 2.3 and 4 they choose which instances of known facts are tried ('induction': of the
# hypothesis for smaller values), and what is said of that.
_HARMLESS_ATTRIBUTES = ("trigger", "autotriggers", "induction", "nowarn", "split_here")
# What Dafny or Boogie would not check, or say otherwise, because of them.
_CHEATING_ATTRIBUTES = frozenset(
    """assume_concurrent assumption axiom error extern ignore only options selective_checking
    start_checking_here subsumption termination verify""".split()
)
# What these say holds without them, or says how the text is to be read.
_IDLE_ATTRIBUTE = re.compile(r'verify true|options "--?(?:function|quantifier)-?[sS]yntax:?\d?"')
_REFUSED_ATTRIBUTES = {
    "autocontracts": "adds clauses that are not written there",
    "rlimit": "sets a limit of its own; raise that of the verifier instead",
} | dict.fromkeys(
    ("timeLimit", "timeLimitMultiplier"), "makes the verdict depend on the speed of the machine"
)
MAX_BITS = 64
_BITS = re.compile(r"bv0*([0-9]+)")
# What these words do in a hole would get a verdict without a proof.
_CHEATING_WORDS = {
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
# Words that no hole may hold, and why. Those which are no cheats by themselves could not be read
# anyway, but for 'print' in a program: here they get a name that says more.
_FORBIDDEN_WORDS = (
    _CHEATING_WORDS
    | dict.fromkeys(("print", "new", "label"), "changes the program")
    | dict.fromkeys(
        """abstract class codatatype colemma const constructor copredicate datatype export extends
        function import inductive iterator lemma method module newtype opened predicate protected
        provides refines requires returns reveals static trait twostate type witness
        yields""".split(),
        "starts or changes a declaration",
    )
)
# What a hint of these words is to be instead, where they hide nothing.
_INSTEAD = {
    "while": "a lemma that calls itself, or 'forall'",
    "return": "what is behind it under 'else'",
}
_ENDLESS = ("decreases", "*")


def refuse_attribute(name: Token, value: Token) -> Finding:
    """The finding for an attribute that is not on the list of harmless ones, and what follows its
    name."""
    is_idle = _IDLE_ATTRIBUTE.fullmatch(f"{name.text} {value.text}")
    is_cheat = name.text in _CHEATING_ATTRIBUTES and not is_idle
    category: Category = "cheat" if is_cheat else "syntax"
    why = _REFUSED_ATTRIBUTES.get(name.text, "is not allowed")
    return name.refuse(category, "attributes", f"the attribute {name.text!r} {why}")


def list_forbidden(
    tokens: list[Token], allowed: Container[str] = (), *, in_lemma: bool = False
) -> Iterator[Finding]:
    """The words, but for these, and the attributes that no hole and no hint may hold, wherever they
    stand. ``in_lemma``: behind a return is nothing but what the lemma has to prove."""
    for place, token in enumerate(tokens):
        word, before = token.sign, tokens[place - 1].sign if place else ""
        # Behind a dot a word is a member.
        if word in _FORBIDDEN_WORDS and word not in allowed and before != ".":
            category: Category = "cheat" if word in _CHEATING_WORDS else "syntax"
            said = f"{word!r} {_FORBIDDEN_WORDS[word]}"
            if in_lemma and (word == "return" or (word == "while" and _has_body(tokens[place:]))):
                category, said = (
                    "syntax",
                    f"{word!r} may not stand in a hint; write {_INSTEAD[word]}",
                )
            yield token.refuse(category, "keywords", said)
        elif word == ":" and before == "{":
            name, value = (tokens[min(place + i, len(tokens) - 1)] for i in (1, 2))
            if name.text not in _HARMLESS_ATTRIBUTES:
                yield refuse_attribute(name, value)


def _has_body(loop: list[Token]) -> bool:
    """True if a brace that begins no attribute follows before the statement around it ends, and
    nothing there gives up termination."""
    for token, following in pairwise(loop):
        is_open = token.text == "{" and following.text != ":"
        if is_open or token.text in (";", "}") or (token.text, following.text) == _ENDLESS:
            return is_open
    return False


def find_wide(name: Token) -> Finding | None:
    """The finding for bit vectors so wide that z3 works on them for long before it counts."""
    found = _BITS.fullmatch(name.text)
    if found is None or (len(found[1]) < 3 and int(found[1]) <= MAX_BITS):
        return None
    message = f"{name.text!r} has more than {MAX_BITS} bits, which z3 may work on past any deadline"
    return name.refuse("syntax", "size", message)


class HintGrammar(StatementElements):
    """Ghost proof statements, loop clauses, and the expressions in them.

    ``closed``: what follows the text is the brace that ends the block around it.
    """

    whole = False
    max_chain = 200
    signs = ("-", "!")
    closed = False
    endless = frozenset(FORMS)

    def _parse_named_type(self, in_expression: bool) -> None:
        """A collection with its arguments, or a path with arguments behind its last name."""
        is_collection = self.at(*COLLECTIONS)
        if is_collection:
            self.advance()
        else:
            if (wide := find_wide(self.expect_name())) is not None:
                raise GrammarError(wide)
            while self.take("."):
                self.expect_name()
        if in_expression and self.at("<") and not self._at_type_arguments():
            raise self.fail("expected the end of the type")
        if is_collection or self.at("<"):
            self._parse_type_arguments()

    def _parse_pattern(self, *, typed: bool) -> None:
        super()._parse_pattern(typed=typed)
        if self.at(":") and not typed:
            raise self.refuse_typed_pattern()

    def parse_pattern(self) -> None:
        """No types inside brackets: Dafny 4 believes them, even of a type without values."""
        start, is_nested = self._place, "(" in (self.token.text, self.peek().text)
        super().parse_pattern()
        if is_nested and ":" in map(self._text, range(start, self._place)):
            raise self.refuse_typed_pattern()

    def parse_case_pattern(self) -> None:
        self._parse_pattern(typed=False)

    def skip_attributes(self) -> None:
        """The content of an attribute is checked nowhere."""
        self._guards += 1
        super().skip_attributes()
        self._guards -= 1

    def parse_expression(
        self, *, semi: bool = False, lambdas: bool = True, bits: bool = True
    ) -> None:
        """One whole expression; no semicolon is a part of it."""
        super().parse_expression(lambdas=lambdas, bits=bits)

    def parse_frames(self, *, semi: bool = False, lambdas: bool = True) -> None:
        self.parse_expressions()

    def _take_operator(self, bits: bool) -> bool:
        if not self.at(*OPERATORS) or not super()._take_operator(bits):
            return False
        if self._text(self._place - 1) == ">" and (self.at("{") or self._at_lambda()):
            # Dafny may read a<b> as types here, and the brace as a body.
            raise self.fail("put what stands after '>' in parentheses")
        return True

    def _parse_atom(self) -> bool:
        is_simple = self.at_name or self.token.kind in ("number", "char", "string")
        if not is_simple and not self.at(*OPERANDS):
            raise self.fail("expected an expression")
        return super()._parse_atom()

    def _at_lambda(self) -> bool:
        return self._brackets > 0 and super()._at_lambda()

    def parse_binding(self) -> list[Token]:
        """``pattern, pattern := e, e`` or ``pattern :| e``, whose e the checker proves to exist.

        Returns the names of the patterns.
        """
        num_bound = len(self.bound)
        self.parse_items(self.parse_pattern)
        names = self.bound[num_bound:]
        self.refuse_unread_choice()
        if self.take(":|"):
            self.parse_expression()
        else:
            self.expect(":=")
            # The semicolon ends a lambda here as a bracket does elsewhere.
            self._brackets += 1
            self.parse_items(self.parse_expression)
            self._brackets -= 1
        return names

    def _parse_let(self) -> None:
        self.parse_binding()
        self.expect(";")

    def open_cases(self, *, statement: bool) -> bool:
        """No cases are refused, and a statement whose last case could take in what follows the
        hole."""
        braced = self.take("{")
        if statement and not braced and not (self.closed or self._blocks):
            raise self.fail("expected '{'")
        if not self.at("case"):
            raise self.fail("expected 'case'")
        return braced

    def _parse_after_name(self) -> bool:
        """Types stand before a call or a member only; any others may be a comparison to us."""
        place = self._place
        self.take_types_of_name()
        if self._place > place and not self.at("(", "."):
            raise self.fail("expected '(' or '.' after types")
        return False

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
        if self.at(*STATEMENTS):
            super()._parse_statement()
        else:
            self._parse_call()

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
        if not self.take("*"):
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

    def parse_contract(self) -> None:
        """The demands and promises of a method."""
        while not self.at_end:
            if not self.at("requires", "ensures"):
                raise self.fail("expected 'requires' or 'ensures'")
            self.advance()
            self.skip_attributes()
            self.parse_expression()
            self.take(";")

    def parse_hint_clause(self) -> None:
        """An invariant or a measure."""
        is_measure = self.advance().text == "decreases"
        self.refuse_decreases_to()
        self.skip_attributes()
        self._guards += 1
        self.parse_items(self._parse_measure) if is_measure else self.parse_expression()
        self._guards -= 1
        self.take(";")

    def _parse_measure(self, lambdas: bool = True) -> None:
        if self.at("*"):
            raise self.refuse("cheat", "wildcard", "'decreases *' gives up termination")
        self.parse_expression()


def parse_body(
    kind: str, tokens: list[Token], *, closed: bool = False
) -> tuple[list[Token], ParsedProgram]:
    """Parse a whole body; returns the names that it declares for the text after the hole, and what
    was read.

    ``kind`` is ``invariants``, ``statements``, ``calc``, ``assertions`` or ``contract``; ``closed``
    as for ``HintGrammar``. Raises ``GrammarError`` on the first thing that is not in the grammar of
    that kind.
    """
    parser = HintGrammar(tokens)
    parser.closed = closed
    if kind == "invariants":
        parser.parse_clauses()
    elif kind == "contract":
        parser.parse_contract()
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
    return parser.declared, parser.program
