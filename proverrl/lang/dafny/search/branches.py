"""The branches of a Dafny proof, and under which conditions each is reached.

Flows in: the statements of a lemma, as text. Flows out: its branches (those of ``if`` and
``match``, an ``else`` that is not there included) and its assertions, with their places and paths.
Not handled here: what is inside of ``forall``, ``calc`` and the proof of an assertion; text that
cannot be read (it has no branches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_places

Token = tuple[str, str, int]
Arms = tuple[tuple[int, int], ...]
"""For each branching statement on the way: its place, and which of its branches was taken."""

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
# A brace after one of these is a set or a map, not a block.
_BEFORE_SET = frozenset(
    "( [ { , == != < <= > >= ==> <== <==> && || ! !! + - * in !in := :| :: then else if | iset map "
    "imap multiset set".split()
)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch. ``head`` is the place where Dafny names it, ``start`` to ``end`` its statements.

    ``path`` are the conditions under which it is reached; None when they cannot be said in the
    names that are known outside. ``is_missing`` marks an ``else`` that is not written.
    """

    head: int
    start: int
    end: int
    path: tuple[str, ...] | None
    arms: Arms
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """An assertion (or a call): its text from ``start`` to ``end``, and what it says. ``path`` is
    None too where the claim itself is about names that are not known outside."""

    start: int
    end: int
    text: str
    path: tuple[str, ...] | None
    arms: Arms
    has_proof: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    path: tuple[str, ...] | None = ()
    arms: Arms = ()
    bound: frozenset[str] = frozenset()


@dataclass
class _Reader:
    text: str
    tokens: Sequence[Token]
    branches: list[Branch] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    calls: list[Claim] = field(default_factory=list)

    def word(self, at: int) -> str:
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def place(self, at: int) -> int:
        return self.tokens[at][2] if at < len(self.tokens) else len(self.text)

    def end(self, at: int) -> int:
        return self.place(at) + len(self.word(at))

    def find(self, at: int, stops: Sequence[str], *, block: bool = False) -> int:
        """The next of ``stops`` outside of brackets; with ``block`` also a brace of a block."""
        depth = 0
        while at < len(self.tokens):
            word = self.word(at)
            if not depth:
                if word in stops:
                    return at
                if block and word == "{" and self.word(at - 1) not in _BEFORE_SET:
                    return at
                if word in _CLOSE:
                    return len(self.tokens)
            depth += (word in _OPEN or self.tokens[at][0] == "attribute") - (word in _CLOSE)
            at += 1
        return at

    def match(self, at: int) -> int:
        """The bracket that closes the one at ``at``."""
        return self.find(at + 1, (_OPEN[self.word(at)],))

    def narrow(self, scope: _Scope, condition: str | None, arm: tuple[int, int]) -> _Scope:
        path = scope.path
        if condition is None or path is None or names_of(condition) & scope.bound:
            path = None
        else:
            path = (*path, condition)
        return _Scope(path, (*scope.arms, arm), scope.bound)

    def read(self, at: int, scope: _Scope) -> int:
        """Statements up to a closing brace, a ``case`` or the end."""
        while at < len(self.tokens) and self.word(at) not in ("}", "case"):
            word = self.word(at)
            if word == "if":
                at = self.read_if(at, scope)
            elif word == "match":
                at = self.read_match(at, scope)
            elif word == "{":
                at = self.match(at) + 1
            elif word == "assert":
                at = self.read_assert(at, scope)
            elif word in ("calc", "forall"):
                at = self.match(self.find(at, (), block=True)) + 1 if self.has_block(at) else 10**9
            else:
                stop = self.find(at, (";",))
                if word in ("var", "ghost"):
                    names = names_of(self.text[self.end(at) : self.place(stop)].split(":")[0])
                    scope = _Scope(scope.path, scope.arms, scope.bound | names)
                elif stop < len(self.tokens):
                    self.read_call(at, stop, scope)
                at = stop + 1
        return at

    def has_block(self, at: int) -> bool:
        return self.find(at, (), block=True) < len(self.tokens)

    def read_if(self, at: int, scope: _Scope) -> int:
        first = self.place(at)
        denied = scope
        number = 0
        while True:
            opening = self.find(at + 1, (), block=True)
            if opening >= len(self.tokens):
                return opening
            text = self.text[self.end(at) : self.place(opening)].strip()
            condition = None if ":|" in text else text
            self.read_block(opening, self.narrow(denied, condition, (first, number)))
            denied = self.narrow(denied, f"!({text})" if condition else None, (first, -1))
            denied = _Scope(denied.path, scope.arms, scope.bound)
            head, at, number = self.place(at), self.match(opening) + 1, number + 1
            if self.word(at) != "else":
                end = self.end(at - 1)
                arms = (*scope.arms, (first, number))
                self.branches.append(Branch(head, end, end, denied.path, arms, is_missing=True))
                return at
            at += 1
            if self.word(at) != "if":
                arms = (*scope.arms, (first, number))
                self.read_block(at, _Scope(denied.path, arms, scope.bound))
                return self.match(at) + 1 if self.word(at) == "{" else 10**9

    def read_block(self, at: int, scope: _Scope) -> None:
        closing = self.match(at) if self.word(at) == "{" else len(self.tokens)
        span = self.end(at), self.place(closing)
        self.branches.append(Branch(self.place(at), *span, scope.path, scope.arms))
        self.read(at + 1, scope)

    def read_match(self, at: int, scope: _Scope) -> int:
        first = self.place(at)
        opening = self.find(at + 1, (), block=True)
        if opening >= len(self.tokens):
            return opening
        closing = self.match(opening)
        subject = self.text[self.end(at) : self.place(opening)].strip()
        at, number = opening + 1, 0
        while at < closing and self.word(at) == "case":
            arrow = self.find(at + 1, ("=>",))
            head = self.place(at)
            is_plain = self.word(at + 2) in ("=>", "(") and self.tokens[at + 1][0] == "name"
            condition = f"({subject}).{self.word(at + 1)}?" if is_plain else None
            inner = self.narrow(scope, condition, (first, number))
            names = names_of(self.text[self.end(at + 1) : self.place(arrow)])
            inner = _Scope(inner.path, inner.arms, scope.bound | names)
            place = len(self.branches)
            at = self.read(arrow + 1, inner)
            span = self.end(arrow), self.place(at)
            self.branches.insert(place, Branch(head, *span, inner.path, inner.arms))
            number += 1
        return closing + 1

    def read_assert(self, at: int, scope: _Scope) -> int:
        stop = self.find(at + 1, (";", "by"))
        if stop >= len(self.tokens):
            return stop
        text = self.text[self.end(at) : self.place(stop)].strip()
        has_proof = self.word(stop) == "by"
        last = self.match(stop + 1) if has_proof and self.word(stop + 1) == "{" else stop
        path = None if names_of(text) & scope.bound else scope.path
        self.claims.append(Claim(self.place(at), self.end(last), text, path, scope.arms, has_proof))
        return last + 1

    def read_call(self, at: int, stop: int, scope: _Scope) -> None:
        text = self.text[self.place(at) : self.end(stop)]
        path = None if names_of(text) & scope.bound else scope.path
        self.calls.append(
            Claim(self.place(at), self.end(stop), text, path, scope.arms, has_proof=False)
        )


def read_branches(text: str) -> tuple[list[Branch], list[Claim]]:
    """The branches and assertions of a row of statements, in the order of the text."""
    reader = _read(text)
    return reader.branches, reader.claims


def read_facts(text: str) -> tuple[list[Claim], list[Claim]]:
    """The assertions and the calls of lemmas in a row of statements, in the order of the text."""
    reader = _read(text)
    return reader.claims, reader.calls


def _read(text: str) -> _Reader:
    try:
        tokens = scan_places(text)
    except ProblemError:
        return _Reader(text, ())
    reader = _Reader(text, tokens)
    reader.read(0, _Scope())
    is_broken = any(branch.end < branch.start for branch in reader.branches)
    return _Reader(text, ()) if is_broken else reader


def are_disjoint(one: Arms, other: Arms) -> bool:
    """Whether two places never lie on one way: they are in different branches of a statement."""
    taken = dict(one)
    return any(statement in taken and taken[statement] != arm for statement, arm in other)


def names_of(text: str) -> frozenset[str]:
    """The names in a piece of text."""
    try:
        tokens = scan_places(text)
    except ProblemError:
        return frozenset()
    return frozenset(w for kind, w, _ in tokens if kind == "name" and w not in KEYWORDS)
