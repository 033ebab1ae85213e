"""Places to cut a Dafny body: the ends of its statements and clauses, and what is open there.

Flows in: the body of a problem, which may be unfinished or wrong. Flows out: cuts. A cut stands
after ``;``, after a brace that belongs to a statement, after ``case ... =>`` and before a clause;
braces and semicolons inside an expression or a hint of a calculation cut nothing. Not handled here:
text that is no Dafny tokens (it has no cuts), verdicts (``search.states``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_places

_CLAUSES = frozenset({"invariant", "decreases", "modifies"})
_BLOCK_WORDS = frozenset({"if", "else", "while", "match", "forall", "calc", "case"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two statements. ``end`` is after the last character before it, ``start`` at
    the first character after it (the body's length at its end). ``blocks`` are the heads of the
    blocks that are open, outermost first; ``last`` is the statement that ends here."""

    end: int
    start: int
    blocks: tuple[str, ...]
    last: tuple[str, ...]


def find_cuts(body: str) -> list[Cut]:
    """The cuts of a body in order, that at its end included; none for text that cannot be read."""
    try:
        tokens = scan_places(body)
    except ProblemError:
        return []
    starts = [*(place for _, _, place in tokens), len(body)]
    cuts: list[Cut] = []
    heads: list[list[str]] = []
    words: list[str] = []
    depth = 0

    def cut(at: int) -> None:
        end = starts[at - 1] + len(tokens[at - 1][1])
        blocks = tuple(head for pair in heads for head in pair)
        cuts.append(Cut(end, starts[at], blocks, tuple(words)))
        words.clear()

    for at, (kind, text, _) in enumerate(tokens):
        if kind == "name" and text in _CLAUSES and words and not depth:
            cut(at)
        words.append(text)
        is_end = text == ";" and not depth
        if text == "{" and not depth and _opens_block(words):
            heads.append([" ".join(words)])
            is_end = True
        elif text in _OPEN or kind == "attribute":
            depth += 1
        elif text in _CLOSE and depth:
            depth -= 1
        elif text == "}":
            del heads[-1:]
            is_end = True
        elif text == "=>" and not depth and words[0] == "case":
            for pair in heads[-1:]:
                pair[1:] = [" ".join(words)]
            is_end = True
        if is_end:
            cut(at + 1)
    if words:
        cut(len(tokens))
    return cuts


def _opens_block(words: Sequence[str]) -> bool:
    first, *rest = words
    return first in _BLOCK_WORDS or not rest or rest[-2:-1] == ["by"]


def split_body(body: str) -> list[tuple[int, int]]:
    """From where to where the statements and clauses of a body stand, blanks before them too."""
    ends = [cut.end for cut in find_cuts(body)]
    return list(zip([0, *ends], ends, strict=False))


def find_branch_end(body: str, place: int) -> int:
    """The end of the branch that begins at ``place``, at its ``{`` or its ``case``:
    before the brace or the ``case`` that ends it. The body's length when no branch begins there."""
    try:
        tokens = [(text, at) for _, text, at in scan_places(body) if at >= place]
    except ProblemError:
        return len(body)
    if not tokens or tokens[0] not in (("{", place), ("case", place)):
        return len(body)
    ends = {"}", tokens[0][0]} - {"{"}
    depth = 0
    for text, at in tokens[1:]:
        if not depth and text in ends:
            return at
        depth += (text in _OPEN) - (text in _CLOSE)
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
