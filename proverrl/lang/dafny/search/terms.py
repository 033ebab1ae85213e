"""Formulas as text: their parts, and terms that are replaced in them.

Flows in: pieces of a program's text. Flows out: such pieces. Not handled here: what they mean.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import pairwise

from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer

_LOOSE = frozenset(["==>", "<==>", "<==", "||", "if", "match", "var"])
_COMPARING = frozenset("< <= > >= == !=".split())
_RELATING = frozenset("in as is".split())
_BINDERS = frozenset("forall exists set iset map imap".split())

Span = tuple[int, int]
"""Start and end of a term, in characters."""


@cache
def scan(text: str) -> tuple[Token, ...]:
    """The tokens of a formula, each with its place as its column."""
    return tuple(
        Token("word", piece[:1] if piece[:2] == "{:" else piece, 1, place)
        for _, piece, place in scan_places(text)
    )


def plain(text: str) -> tuple[str, ...]:
    """The tokens alone."""
    return tuple(token.text for token in scan(text))


def _find_outer(text: str, stops: Container[str]) -> Iterator[Token]:
    tokens, place = scan(text), -1
    while (place := find_outer(tokens, place + 1, stops)) < len(tokens):
        yield tokens[place]


def _cut(text: str, tokens: Iterable[Token]) -> list[str]:
    """The parts of a text between these tokens."""
    edges = [(0, 0), *((t.column, t.column + len(t.text)) for t in tokens), (len(text), 0)]
    return [strip(text[end:start]) for (_, end), (start, _) in pairwise(edges)]


def split(text: str, sign: str) -> list[str]:
    """The parts between signs that stand in no bracket and in no looser operator."""
    text, signs = strip(text), []
    for token in _find_outer(text, {sign} | _LOOSE | _BINDERS):
        if token.text in _BINDERS:
            break
        if token.text != sign:
            return [text]
        signs.append(token)
    return [part for part in _cut(text, signs) if part]


def split_chain(text: str) -> list[str]:
    """The comparisons that are chained in one, as ``a <= b < c``; nothing of another formula."""
    signs = _list_comparisons(text)
    sides = _cut(text, signs)
    chained = zip(sides, signs, sides[1:], strict=False)
    return [f"{a} {sign.text} {b}" for a, sign, b in chained] if len(signs) > 1 else []


def compare(text: str) -> tuple[str, str, str] | None:
    """Sign, left and right side of a single comparison."""
    signs = _list_comparisons(text := strip(text))
    sides = _cut(text, signs)
    return (signs[0].text, sides[0], sides[1]) if len(signs) == 1 and all(sides) else None


def _list_comparisons(text: str) -> list[Token]:
    """Where a formula compares, if it does nothing that binds less tightly and names no type, whose
    brackets would be taken for signs."""
    found = list(_find_outer(text, _COMPARING | _LOOSE | _BINDERS | {"&&"}))
    is_other = text.startswith("!") or "is" in plain(text)
    return [] if is_other or any(t.text not in _COMPARING for t in found) else found


def strip(text: str) -> str:
    """A formula without brackets around all of it."""
    text = text.strip()
    while text[:1] == "(" and find_close(scan(text), 0) == len(scan(text)) - 1 > 1:
        text = text[1:-1].strip()
    return text


def find(text: str, term: str) -> Iterator[Span]:
    """Where a term stands, members of others left out."""
    tokens, wanted = scan(text), plain(term)
    for place in range(len(tokens) - len(wanted) + 1) if wanted else ():
        own = tokens[place : place + len(wanted)]
        if tuple(t.text for t in own) == wanted and (not place or tokens[place - 1].text != "."):
            yield own[0].column, own[-1].column + len(own[-1].text)


def is_single(text: str) -> bool:
    """True if no operator of a formula could bind less tightly than one beside it."""
    texts = plain(text)
    if texts[:1] == ("|",):
        return texts.index("|", 1) == len(texts) - 1
    tokens, place = scan(text), 0
    while place < len(tokens):
        word = tokens[place].text
        if word in ("(", "[", "{"):
            place = find_close(tokens, place)
        elif not (word[0].isalnum() or word[0] in "._'\"") or word in _RELATING:
            return False
        place += 1
    return not _LOOSE.intersection(texts)


def write_over(text: str, spans: Iterable[Span], new: str) -> str:
    """The text with another in place of these parts."""
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def substitute(text: str, term: str, new: str, most: int | None = None) -> str:
    """The text in which a term is replaced everywhere, or at its first ``most`` places."""
    return write_over(text, list(find(text, term))[:most], new if is_single(new) else f"({new})")


def list_calls(text: str, names: Container[str], opening: str = "(") -> Iterator[Span]:
    """Start and end of each call of one of these names, or of each of their elements."""
    tokens = scan(text)
    for place, (token, following) in enumerate(pairwise(tokens)):
        if token.text in names and following.text == opening:
            yield token.column, tokens[find_close(tokens, place + 1)].column + 1


def clean(text: str) -> str:
    """A piece of a program on one line, without comments."""
    made, end = "", 0
    for _, piece, place in scan_places(text):
        made += " " * (place > end and bool(made)) + piece
        end = place + len(piece)
    return made
