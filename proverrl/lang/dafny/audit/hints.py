"""Hints that a policy may add to a program of ours: the strict grammar of proof hints.

Flows in: the tokens of one added clause, statement or declaration. Flows out: an ``AddedHint``
with the names that it declares, assigns and calls; anything else raises ``GrammarError``.
Not covered (refused): attributes other than triggers and induction, loops, calls of lemmas inside
expressions. Not handled here: whether the names are free to use (``annotated``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.hint_grammar import HintGrammar, list_forbidden
from proverrl.lang.dafny.syntax.parsed import Element, ElementSlot
from proverrl.lang.dafny.syntax.tokens import Token, find_outer

_CLAUSE_WORDS = {
    "loop-clauses": ("invariant", "decreases"),
    "member-clauses": ("decreases",),
}
_STEP_WORDS = ("assert", "calc", "reveal")
_ADDED_DECLARATIONS = ("lemma", "function", "predicate")
_DECLARATION_MARKS = ("static", "ghost", "opaque")
_EXTREMES = ("least", "greatest")
_DECLARATION_WORDS = ("static", *_ADDED_DECLARATIONS, "method", "requires", "returns")


@dataclass(slots=True)
class AddedHint:
    """One admitted addition: its tokens from ``start`` to ``end``, and the names in it.

    ``local``: what it declares for the statements after it. ``added``: the declaration that it
    is, if any. ``member`` and ``words``: the place of our declaration around it, -1 for none, and
    the names in that.
    """

    start: int
    end: int
    local: list[Token] = field(default_factory=list)
    assigned: list[Token] = field(default_factory=list)
    called: list[Token] = field(default_factory=list)
    added: Token | None = None
    member: int = -1
    words: frozenset[str] = frozenset()


def read_hint(tokens: list[Token], slot: ElementSlot, element: Element) -> AddedHint:
    """The hint that an added element is; raises ``GrammarError`` when it is none."""
    last = tokens[element.end - 1]
    end = Token("end", "", last.line, last.column + len(last.text))
    parser = _HintParser([*tokens[element.start : element.end], end], ghost=slot.ghost)
    hint = AddedHint(element.start, element.end)
    if slot.kind == "declarations":
        hint.added = parser.parse_declaration()
    else:
        words = _CLAUSE_WORDS.get(slot.kind)
        if words and not parser.at(*words):
            message = f"a clause with {parser.token.text!r} may not be added here"
            raise parser.refuse("cheat", "contract", message)
        parser.refuse_forbidden()
        if slot.kind == "statements" or (slot.kind == "steps" and parser.at(*_STEP_WORDS)):
            parser.parse_statement()
        elif slot.kind == "steps":
            raise parser.fail("expected a proof step")
        else:
            parser.parse_hint_clause()
    if not parser.at_end:
        raise parser.fail("expected the end of the hint")
    hint.local, hint.assigned, hint.called = parser.declared, parser.assigned, parser.called
    return hint


class _HintParser(HintGrammar):
    """The proof statements of a hole, with ghost variables marked as such, and declarations.

    Where a hint ends was found before: its last case takes in nothing of ours.
    """

    closed = True

    def __init__(self, tokens: list[Token], *, ghost: bool) -> None:
        super().__init__(tokens)
        self._ghost = ghost
        self._in_own_lemma = False
        self.assigned: list[Token] = []
        self.called: list[Token] = []

    def refuse_forbidden(self, *allowed: str) -> None:
        """Refuse what no hint holds, wherever it stands, under the name that it has in holes."""
        for finding in list_forbidden(self._tokens, allowed):
            raise GrammarError(finding)

    def _parse_forall(self) -> None:
        """A proof, as calculations are: what is declared inside it is ghost."""
        outer, self._ghost = self._ghost, True
        super()._parse_forall()
        self._ghost = outer

    def _parse_var(self) -> None:
        if not self._ghost and not self.at("ghost"):
            raise self.refuse("cheat", "not-ghost", "a variable that is added must be ghost")
        super()._parse_var()

    def _parse_call(self) -> None:
        start = self._place
        if not self.at_name or self.peek().text not in (":=", ","):
            super()._parse_call()
            self.called.append(self._find_callee(start))
            return
        names: list[Token] = []
        self.parse_items(lambda: names.append(self.expect_name()))
        self.expect(":=")
        self.parse_items(self.parse_expression)
        self.expect(";")
        if not self._in_own_lemma:
            self.assigned += names

    def _find_callee(self, start: int) -> Token:
        """The name before the arguments of a call that ends just before this place."""
        place = find_outer(self._tokens, self._place - 3, step=-1) - 1
        depth = 0
        # Past the types.
        while place > start and (depth or self._tokens[place].text == ">"):
            depth += (self._tokens[place].text == ">") - (self._tokens[place].text == "<")
            place -= 1
        return self._tokens[place]

    def parse_declaration(self) -> Token:
        """A lemma, a function or a predicate with a body; returns its name. An extreme predicate
        is Dafny 4's: it calls itself where it may be more true or less, which Dafny checks."""
        extremes = self.peek().text == "predicate" and self.at(*_EXTREMES)
        while self.at(*_DECLARATION_MARKS) or (extremes and self.at(*_EXTREMES)):
            self.advance()
        if not self.at(*_ADDED_DECLARATIONS):
            message = f"a declaration that begins with {self.token.text!r} may not be added"
            raise self.refuse("cheat", "declaration", message)
        self.refuse_forbidden(*_DECLARATION_WORDS)
        word = self.advance().text
        if self.at("method"):
            raise self.refuse("cheat", "declaration", "only ghost functions may be added")
        self.skip_attributes()
        name = self.expect_name()
        if self.take("<"):
            self.parse_items(self._parse_type_parameter)
            self.expect(">")
        if extremes and self.take("["):
            self.expect("nat")
            self.expect("]")
        self._parse_formals()
        if word == "lemma" and self.take("returns"):
            self._parse_formals()
        if word == "function":
            self.expect(":")
            self.parse_type()
        start = self._place
        self._parse_own_clauses(word)
        words = {token.text for token in self._tokens[start : self._place]}
        if word != "lemma" and name.text in words and not words.isdisjoint(("var", "match")):
            message = "behind 'var' and 'match' Dafny 4 believes what a function says of itself"
            raise self.refuse("cheat", "own-promise", message)
        if not self.at("{"):
            raise self.refuse("cheat", "missing-body", f"this {word} has no body")
        if word == "lemma":
            self._ghost = self._in_own_lemma = True
            self.parse_block()
        else:
            self.expect("{")
            self.parse_expression()
            self.expect("}")
        return name

    def _parse_type_parameter(self) -> None:
        self.expect_name()
        if self.take("("):
            self.expect("==")
            self.expect(")")

    def _parse_formals(self) -> None:
        self.expect("(")
        self.parse_list(self._parse_formal, ")")

    def _parse_formal(self) -> None:
        self.expect_name()
        self.expect(":")
        self.parse_type()

    def _parse_own_clauses(self, word: str) -> None:
        while self.at("requires", "ensures", "decreases", "reads"):
            if self.at("reads") and word == "lemma":
                raise self.fail("expected a clause of a lemma")
            clause = self.advance().text
            self.refuse_decreases_to()
            if clause == "decreases":
                self.parse_items(self._parse_measure)
            elif clause == "reads":
                if not self.take("*"):
                    self.parse_frames()
            else:
                self.parse_expression()
            self.take(";")
