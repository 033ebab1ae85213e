"""Where a Dafny body can be cut: the ends of its statements and clauses, and what is open there.

Flows in: the body of a problem. Flows out: cuts, each with the blocks that are open at it. A cut
stands after ``;``, after a brace that belongs to a statement, after ``case ... =>`` and before a
clause; braces and semicolons inside an expression or a hint of a calculation cut nothing.
Not handled here: text that is no Dafny tokens (it has no cuts), verdicts (``search.states``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_places

Token = tuple[str, str, int]

_CLAUSES = frozenset({"invariant", "decreases", "modifies"})
_BLOCK_WORDS = frozenset({"if", "else", "while", "match", "forall", "calc", "case"})
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two statements. ``end`` is after the last character before it, ``start`` at
    the first character after it (the body's length at its end). ``blocks`` are the heads of the
    blocks that are open, outermost first; ``last`` is the statement that ends here."""

    end: int
    start: int
    blocks: tuple[str, ...]
    last: tuple[str, ...]


@dataclass
class _Reader:
    """Reads tokens from left to right."""

    cuts: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)
    heads: list[list[str]] = field(default_factory=list)
    statement: list[str] = field(default_factory=list)
    depth: int = 0
    end: int = 0

    def read(self, token: Token) -> None:
        kind, text, place = token
        if text in _CLAUSES and kind == "name" and not self.depth and self.statement:
            self.cut()
        self.statement.append(text)
        self.end = place + len(text)
        if text == "{" and not self.depth and self.opens_block():
            self.heads.append([" ".join(self.statement)])
            self.cut()
        elif text in _CLOSED_BY or kind == "attribute":
            self.depth += 1
        elif text in (")", "]", "}") and self.depth:
            self.depth -= 1
        elif text == "}":
            if self.heads:
                self.heads.pop()
            self.cut()
        elif text == "=>" and not self.depth and self.statement[0] == "case":
            if self.heads:
                self.heads[-1][1:] = [" ".join(self.statement)]
            self.cut()
        elif text == ";" and not self.depth:
            self.cut()

    def opens_block(self) -> bool:
        first, *rest = self.statement
        return first in _BLOCK_WORDS or not rest or rest[-2:-1] == ["by"]

    def cut(self) -> None:
        blocks = tuple(head for pair in self.heads for head in pair)
        self.cuts.append((self.end, blocks, tuple(self.statement)))
        self.statement = []


def find_cuts(body: str) -> list[Cut]:
    """The cuts of a body in order, that at its end included; none for text that cannot be read."""
    try:
        tokens = scan_places(body)
    except ProblemError:
        return []
    reader = _Reader()
    for token in tokens:
        reader.read(token)
    if reader.statement:
        reader.cut()
    starts = [place for _, _, place in tokens] + [len(body)]
    return [
        Cut(end, starts[bisect_left(starts, end)], blocks, last)
        for end, blocks, last in reader.cuts
    ]


def find_branch_end(body: str, place: int) -> int:
    """Where the text of the branch ends that begins at ``place``, at its ``{`` or its ``case``:
    before the brace or the ``case`` that ends it. The body's length when no branch begins there."""
    try:
        tokens = scan_places(body)
    except ProblemError:
        return len(body)
    at = next((i for i, token in enumerate(tokens) if token[2] == place), None)
    if at is None or tokens[at][1] not in ("{", "case"):
        return len(body)
    is_case = tokens[at][1] == "case"
    depth = 0
    for _, text, where in tokens[at + 1 :]:
        if not depth and (text == "}" or (is_case and text == "case")):
            return where
        depth += (text in _CLOSED_BY) - (text in _CLOSED_BY.values())
    return len(body)


def rename_new(words: Sequence[str], known: frozenset[str]) -> str:
    """Words as one text in which names that are not ``known`` are numbered as they appear, so that
    two bodies that name their own variables differently agree."""
    numbers: dict[str, str] = {}
    return " ".join(
        word
        if word in known or word in KEYWORDS or not (word[:1].isalpha() or word[:1] == "_")
        else numbers.setdefault(word, f"?{len(numbers) + 1}")
        for word in words
    )
