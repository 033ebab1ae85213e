"""The facts in the branches of a Dafny proof, and the conditions that reach each branch.

Flows in: the statements of a lemma, as text. Flows out: its assertions and its calls with their
paths through ``if`` and ``match``. Not handled here: what is inside ``forall``, ``calc``, blocks
and the proof of an assertion; text that cannot be read (it says nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.declarations import parse_text
from proverrl.lang.dafny.syntax.parsed import Element
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_places

Path = tuple[str, ...] | None
"""The conditions under which a place is reached; None when they cannot be said in the names that
are known outside."""


@dataclass(frozen=True, slots=True)
class ProofLine:
    """An assertion or a call: what it says. ``path`` is None too where that is about names that are
    not known outside."""

    text: str
    path: Path
    has_proof: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    path: Path = ()
    bound: frozenset[str] = frozenset()

    def narrow(self, condition: str | None) -> _Scope:
        """The scope where a condition holds too; None for one that cannot be said."""
        if condition is None or self.path is None or names_of(condition) & self.bound:
            return replace(self, path=None)
        return replace(self, path=(*self.path, condition))

    def bind(self, text: str) -> _Scope:
        return replace(self, bound=self.bound | names_of(text))


class _ProofReader:
    """Reads the statements of a proof; places are characters of ``text``."""

    def __init__(self, text: str) -> None:
        self.assertions: list[ProofLine] = []
        self.calls: list[ProofLine] = []
        try:
            self.program = parse_text(f"lemma L() {{{text}\n}}")
        except ProblemError:
            return
        self.words = [token.text for token in self.program.tokens]
        self.read(self.program.root.slots[0].elements[0].slots[-1].elements, _Scope())

    def between(self, token: int, other: int) -> str:
        """The text after one token and before another."""
        return self.program.cut(token + 1, other)

    def read(self, elements: Sequence[Element], scope: _Scope) -> None:
        for element in elements:
            first, last = element.start, element.end - 1
            if element.word == "if":
                self.read_if(element, scope)
            elif element.word == "match":
                self.read_match(element, scope)
            elif element.word in ("var", "ghost"):
                scope = scope.bind(self.between(first, last).split(":")[0])
            elif element.word == "assert":
                has_proof = self.words[last] == "}"
                stop = element.slots[-1].start - 2 if has_proof else last
                said = self.between(first, stop)
                self.assertions.append(self.make_step(said, scope, has_proof=has_proof))
            elif self.words[last] == ";":
                said = self.program.cut(first, last + 1)
                self.calls.append(self.make_step(said, scope, has_proof=False))

    def make_step(self, said: str, scope: _Scope, *, has_proof: bool) -> ProofLine:
        path = None if names_of(said) & scope.bound else scope.path
        return ProofLine(said, path, has_proof)

    def read_if(self, element: Element, scope: _Scope) -> None:
        at, denied = element.start, scope
        for block in element.slots:
            if block.kind != "statements":
                continue
            inner = denied
            if self.words[at] == "if":
                condition = self.between(at, block.start - 1)
                is_said = ":|" not in condition
                inner = denied.narrow(condition if is_said else None)
                denied = denied.narrow(f"!({condition})" if is_said and condition else None)
            self.read(block.elements, inner)
            at = block.end + 2

    def read_match(self, element: Element, scope: _Scope) -> None:
        cases = [slot for slot in element.slots if slot.kind == "statements"]
        if not cases:
            return
        head = next(i for i in range(cases[0].start - 1, 0, -1) if self.words[i] == "case")
        opening = head - (self.words[head - 1] == "{")
        subject = self.between(element.start, opening)
        for case in cases:
            arrow = case.start - 1
            name = self.words[head + 1]
            is_plain = self.words[head + 2] in ("=>", "(") and name[0] not in "(0123456789"
            inner = scope.narrow(f"({subject}).{name}?" if is_plain else None)
            inner = inner.bind(self.between(head + 1, arrow))
            self.read(case.elements, inner)
            head = case.end


def read_facts(text: str) -> tuple[list[ProofLine], list[ProofLine]]:
    """The assertions and the calls of lemmas in a row of statements, in the order of the text."""
    reader = _ProofReader(text)
    return reader.assertions, reader.calls


def names_of(text: str) -> frozenset[str]:
    """The names in a piece of text."""
    try:
        tokens = scan_places(text)
    except ProblemError:
        return frozenset()
    return frozenset(w for kind, w, _ in tokens if kind == "name" and w not in KEYWORDS)
