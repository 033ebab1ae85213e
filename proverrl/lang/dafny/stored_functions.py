"""Finds functions that read the heap where they could come to lie in the heap.

Flows in: a program. Flows out: findings.
A field ``var f: int ~> int`` may be given ``x reads this => this.f(x) + 1``, after which ``f(0) ==
f(0) + 1``: Dafny asks no measure of a call through a variable (Landin's knot). So a function that
reads the heap may be held by a parameter or a local variable only, and be called, described by its
``reads`` and ``requires``, or passed on to a parameter whose type says that it reads (``~>``). No
field, array, collection, datatype or type argument can hold one then, be it by an inferred type.
Not covered: variables of one name are taken for one (too much is refused).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proverrl.lang.dafny.syntax.program import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Finding, Token

_ARROWS = ("->", "-->", "~>")
_STATEMENT_ENDS = ("", ";", "{", "}", "=>", "var")
_DECLARES = frozenset(
    "function predicate copredicate method lemma colemma reveal fuel provides reveals".split()
)


class _Finder:
    def __init__(self, tokens: Sequence[Token], program: ParsedProgram) -> None:
        self._tokens = tokens
        self._reading = program.reading
        self._parts = program.parts
        # The variables and parameters that may hold a function that reads.
        self._holders: set[str] = set()
        self._taking: set[tuple[str, int]] = set()

    def find(self) -> Iterator[Finding]:
        arrows = [i for i, token in enumerate(self._tokens) if token.text == "~>"]
        for place in arrows:
            if (holder := self._find_holder(place)) is None:
                yield self._refuse(place, "the type of a function that reads the heap")
            else:
                self._holders.add(self._text(holder))
        for place in self._reading.lambdas:
            if name := self._find_assigned(place):
                self._holders.add(name)
        formals = {
            (name, number, self._text(place) in self._holders and self._is_reading(place))
            for name, number, place in self._reading.formals
        }
        refused = {(name, number) for name, number, takes in formals if not takes}
        self._taking = {("new", 0)} | {
            (name, number)
            for name, number, takes in formals
            if takes and (name, number) not in refused and self._is_only_called(name)
        }
        for place in self._reading.lambdas:
            if not self._find_assigned(place) and not self._is_passed(place):
                yield self._refuse(place, "a lambda that reads the heap")
        if arrows or self._reading.lambdas or self._reading.functions or self._reading.two_state:
            yield from self._find_bare()
        for place in sorted(self._reading.in_lambdas):
            if self._text(place) in self._reading.two_state:
                message = "a two-state function in a lambda is believed of every heap; leave it out"
                token = self._tokens[place]
                yield Finding("cheat", "unread-heap", message, token.line, token.column)

    def _find_holder(self, place: int) -> int | None:
        """The name whose type the arrow at ``place`` makes a function that reads, and no more."""
        if any(part.start <= place < part.end for part in self._parts):
            return None
        for name, (start, end) in self._reading.typed.items():
            if start <= place < end and self._is_reading(name):
                return name
        return None

    def _is_reading(self, name: int) -> bool:
        """Whether the variable at ``name`` is declared as a function that reads, and no more."""
        start, end = self._reading.typed[name]
        texts = [self._text(place) for place in range(start, end)]
        if [text for text in texts if text in _ARROWS] != ["~>"]:
            return False
        before = texts[: texts.index("~>")]
        opened = sum(map(before.count, ("(", "<"))) - sum(map(before.count, (")", ">")))
        return opened == 0

    def _find_assigned(self, place: int) -> str:
        """The variable that a lambda at ``place`` is assigned to alone; "" when there is none."""
        if place not in self._reading.assigned or self._text(place - 1) != ":=":
            return ""
        typed = self._reading.typed.items()
        name = next((n for n, (_, end) in typed if end == place - 1), place - 2)
        is_alone = self._text(name - 1) in _STATEMENT_ENDS
        return self._text(name) if is_alone and self._tokens[name].kind == "word" else ""

    def _is_only_called(self, name: str) -> bool:
        """Whether nothing else has the name of a function or method."""
        if name in self._reading.keepers:
            return False
        places = (i for i, token in enumerate(self._tokens) if token.text == name)
        return all(
            self._text(place + 1) == "(" or self._text(place - 1) in _DECLARES for place in places
        )

    def _is_passed(self, place: int) -> bool:
        return self._reading.arguments.get(place) in self._taking

    def _find_bare(self) -> Iterator[Finding]:
        names = self._holders | self._reading.functions | self._reading.two_state
        for place, token in enumerate(self._tokens):
            if token.kind == "word" and token.text in names and not self._is_harmless(place):
                yield self._refuse(place, f"the function {token.text!r}, which may read the heap,")

    def _is_harmless(self, place: int) -> bool:
        """Whether a name is called, described, passed on, declared or assigned to."""
        before, after = self._text(place - 1), self._text(place + 1)
        if after in ("(", "#", ":") or before in _DECLARES or before == "var":
            return True
        if after == ".":
            described = self._text(place + 2) in ("reads", "requires")
            return described and self._text(place + 3) == "("
        if after == ":=":
            return before in _STATEMENT_ENDS
        return self._is_passed(place) and after in (",", ")")

    def _refuse(self, place: int, what: str) -> Finding:
        token = self._tokens[place]
        message = (
            f"{what} may only be held by a parameter or a local variable of its own and be called, "
            "because Dafny proves anything of one that lies in the heap"
        )
        return Finding("cheat", "stored-function", message, token.line, token.column)

    def _text(self, place: int) -> str:
        if not 0 <= place < len(self._tokens):
            return ""
        token = self._tokens[place]
        return token.text if token.kind in ("word", "operator") else ""


def find_stored(tokens: Sequence[Token], program: ParsedProgram) -> Iterator[Finding]:
    """A finding for each place where a function that reads the heap may come to be stored."""
    return _Finder(tokens, program).find()
