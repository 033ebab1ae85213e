"""Dafny text as tokens, a normal form that forgets names, and text with its hole filled.

Flows in: Dafny source. Flows out: tokens, and a text that two programs share when they differ
only in names, comments and white space; a text in which a body stands in the hole.
Not handled here: scopes. A name is renamed the same way in the whole text, so two programs of
which one uses a bound variable twice where the other uses two differ. Members of the language
itself (``Length``, ``Keys``) keep their names.
"""

from __future__ import annotations

import re

from proverrl.errors import ProblemError
from proverrl.types import HOLE

KEYWORDS = frozenset(
    "abstract allocated as assert assume bool break by calc case char class codatatype colemma "
    "const constructor continue copredicate datatype decreases else ensures exists export extends "
    "extern false for forall free fresh function ghost if imap import in include inductive int "
    "invariant is iset iterator label least greatest lemma map match method modifies modify module "
    "multiset nat new newtype null object old opened ORDINAL predicate print protected provides "
    "reads real refines requires return returns reveal reveals seq set static string then this "
    "trait true twostate type unchanged var where while witness yield yields "
    "array array2 array3".split()
)
"""Reserved words and built-in types of Dafny 2.3 and 4.x that generated or real programs use."""

BUILT_IN_MEMBERS = frozenset("Length Length0 Length1 Length2 Floor Keys Values Items _".split())
"""Names that the language gives; they are not declared by a program."""

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>//[^\n]*|/\*)
    | (?P<string>"(?:\\.|[^"\\\n])*"|@"(?:""|[^"])*")
    | (?P<char>'(?:\\.|[^'\\\n])')
    | (?P<number>0x[0-9a-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?)
    | (?P<attribute>\{:\s*[A-Za-z_][\w']*)
    | (?P<name>[A-Za-z_?][\w'?]*)
    | (?P<symbol><==>|==>|<==|:\||::|:=|:-|==|!=|!in\b|!!|<=|>=|&&|\|\||\.\.\.|\.\.|=>|->|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _skip_comment(text: str, start: int) -> int:
    """The place after a block comment; Dafny's block comments nest."""
    depth, place = 1, start + 2
    while depth:
        mark = re.compile(r"/\*|\*/").search(text, place)
        if mark is None:
            raise ProblemError("Dafny text has a block comment that is never closed; close it")
        depth += 1 if mark.group() == "/*" else -1
        place = mark.end()
    return place


def scan_tokens(text: str) -> list[tuple[str, str]]:
    """All tokens as (kind, text), without white space and comments.

    Kinds are string, char, number, attribute (``{:name``), name and symbol. Raises ProblemError
    for a block comment that is not closed.
    """
    return [(kind, piece) for kind, piece, _ in scan_places(text)]


def scan_places(text: str) -> list[tuple[str, str, int]]:
    """As ``scan_tokens``, with the place of each token in characters from 0."""
    tokens: list[tuple[str, str, int]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ProblemError(f"Dafny text cannot be read at character {place}; remove it")
        kind, piece = str(match.lastgroup), match.group()
        if piece == "/*":
            place = _skip_comment(text, place)
            continue
        if kind not in ("space", "comment"):
            tokens.append((kind, piece, place))
        place = match.end()
    return tokens


def normalise(text: str) -> str:
    """``text`` without comments and layout, its names replaced by their order of appearance.

    Constants, operators, keywords, attributes and built-in members stay. The hole marker is a
    comment and goes too. Raises ProblemError for a block comment that is not closed.
    """
    renamed: dict[str, str] = {}
    pieces = []
    for kind, piece in scan_tokens(text):
        if kind != "name" or piece in KEYWORDS or piece in BUILT_IN_MEMBERS:
            pieces.append(piece)
            continue
        stem = piece.rstrip("?")
        mark = piece[len(stem) :]
        pieces.append(renamed.setdefault(stem, f"n{len(renamed)}") + mark)
    return " ".join(pieces)


def fill_hole(text: str, body: str) -> str:
    """The text with its hole filled. Further lines of the body are indented as the first, which
    stands where the hole is, when nothing but blanks stands before that."""
    before, _, after = text.partition(HOLE)
    line = before[before.rfind("\n") + 1 :]
    pad = "" if line.strip() else line
    return before + body.replace("\n", "\n" + pad) + after
