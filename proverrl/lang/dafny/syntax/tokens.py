"""Splits Dafny text, of 2.3 or 4, into tokens.

Flows in: text. Flows out: tokens, and a ``Finding`` for the first thing that must not be there:
whatever could make Dafny's scanner and this one disagree is refused, not guessed. ``read_body``
reads the text in a hole (plain ASCII, no comments), ``read_file`` whole programs (comments nest, as
in Dafny). ``scan_any`` reads any text, which may be cut off, Dafny 4, or no Dafny at all.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from proverrl.lang.records import Category, Finding

TokenKind = Literal["word", "number", "char", "string", "operator", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token; ``line`` counts from 1 and ``column`` from 0 within the text that was read."""

    kind: TokenKind
    text: str
    line: int
    column: int

    @property
    def sign(self) -> str:
        """The text of a word or an operator; "" for literals and the end."""
        return self.text if self.kind in ("word", "operator") else ""

    def refuse(
        self, category: Category, rule: str, message: str, trust: str = "", *, older: bool = False
    ) -> Finding:
        return Finding(category, rule, message, self.line, self.column, trust, older)


_OPERATORS = "<==> ==> <== --> ... && || == != !! <= >= := :| :: .. => -> ~>".split()
_OPERATORS += "+-*/%<>=!.,;:|&^()[]{}"
_OPERATOR = "|".join(re.escape(operator) for operator in _OPERATORS)
_ESCAPE = r"""\\(?:['"\\0nrt]|u[0-9a-fA-F]{4}|U\{[0-9a-fA-F_]+\})"""

CLOSERS = {")": "(", "]": "[", "}": "{"}
"""Brackets, by what closes them."""
OPENERS = frozenset(CLOSERS.values())

_BLANK = r"(?P<blank>(?:[ \t\n]|\r\n)+)"
_WORD = r"(?P<word>!in(?![A-Za-z0-9_'?])|[A-Za-z_][A-Za-z0-9_'?]*)"
_NUMBER = r"0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?"

_BODY_TOKEN = re.compile(
    rf"{_BLANK}|{_WORD}|(?P<number>(?:{_NUMBER})(?![A-Za-z0-9_'?]))"
    r"""|(?P<char>'(?:[ !#-&(-\[\]-~]|\\(?:[\\0nrt]|u[0-9a-fA-F]{4}|U\{[0-9a-fA-F_]+\}))'"""
    r"""(?![A-Za-z0-9_'?]))"""
    r"""|(?P<string>"[ !#-\[\]-~]*")"""
    rf"|(?P<operator>(?!//|/\*|\*/)(?:{_OPERATOR}))"
)
_FILE = (
    r"(?P<line_comment>//[^\n]*)|(?P<comment>/\*)"
    rf"|{_BLANK}|{_WORD}|(?P<number>{_NUMBER})"
    rf"""|(?P<char>'(?:[^'\\\r\n]|{_ESCAPE})'(?![A-Za-z0-9_'?]))"""
    rf"""|(?P<string>"(?:[^"\\\r\n]|{_ESCAPE})*")"""
    r"""|(?P<verbatim>@"(?:[^"]|"")*")"""
    rf"|(?P<operator>{_OPERATOR}|[@#`])"
)
_FILE_TOKEN = re.compile(_FILE)
# What Dafny 4 reads beside it: numbers with an exponent, and names that begin with a quote or a
# question mark. Dafny 2.3 reads the latter too, but no text that a policy writes may hold them.
_ADMITTED_TOKEN = re.compile(
    r"(?P<real>[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?e-?[0-9]+(?:_[0-9]+)*)"
    rf"|(?P<space>\ufeff)|{_FILE}|(?P<name>\?[A-Za-z0-9_'?]*|'(?!'')[A-Za-z0-9_'?]*)"
)
# Whatever else stands in a text: names of other alphabets, forms of Dafny 4, a string that does not
# end (as one token, else each quote in it is tried as a start), single characters.
_ANY_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<attribute>\{:\s*[A-Za-z_][\w']*)|(?P<name>[A-Za-z_?][\w'?]*)"
    rf"""|(?P<bind>:-)|{_FILE}|(?P<other>"(?:[^"\\\r\n]|{_ESCAPE})*|.)"""
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\ufeff]|\r(?!\n)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Dafny's preprocessor drops all white space of Unicode before a directive.
_DIRECTIVE = re.compile(
    # Not over line breaks: a text of blank lines would be read once for each of them.
    r"^(?:[^\S\n]|[\u00ad\u180e\u200b-\u200f\u202a-\u202f\u2060-\u206f\ufeff])*#",
    re.MULTILINE,
)
# The groups of the patterns that are no operators.
_KINDS: dict[str, TokenKind] = {
    "word": "word",
    "number": "number",
    "real": "number",
    "name": "word",
    "char": "char",
    "string": "string",
    "verbatim": "string",
    "end": "end",
}


def find_places(text: str, tokens: Iterable[Token]) -> list[int]:
    """The beginning of each token in the text that it was read from, in characters."""
    starts = find_lines(text)
    return [starts[token.line - 1] + token.column for token in tokens]


def find_lines(text: str) -> list[int]:
    """The beginning of each line, in characters."""
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _scan(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, str, int]]:
    """As ``scan_any``; what is no token ends it, as ``unread``."""
    offset = 0
    while offset < len(text):
        match = pattern.match(text, offset)
        if match is None:
            yield "unread", text[offset], offset
            return
        kind, start, offset = str(match.lastgroup), offset, match.end()
        if kind == "comment":
            end = skip_comment(text, offset)
            if end is None:
                yield "unclosed", match.group(), start
                return
            offset = end
        elif kind not in ("blank", "space", "line_comment"):
            yield kind, match.group(), start


def scan_any(text: str) -> Iterator[tuple[str, str, int]]:
    """Group, text and place in characters of each token of any text, comments left out.

    Never fails: characters that begin no token are tokens (``other``). The last token is
    ``unclosed`` when a comment does not end.
    """
    return _scan(text, _ANY_TOKEN)


Refusal = tuple[Category, str, str]
"""Category, rule and message of a finding."""


def _read(
    text: str, pattern: re.Pattern[str], refuse: Callable[[str, str, int], Refusal | None]
) -> tuple[list[Token], list[Finding]]:
    """Tokens up to the first that ``refuse`` (group, text, place) refuses."""
    tokens: list[Token] = []
    starts = find_lines(text)
    for kind, piece, offset in (*_scan(text, pattern), ("end", "", len(text))):
        line = bisect_right(starts, offset)
        token = Token(_KINDS.get(kind, "operator"), piece, line, offset - starts[line - 1])
        if refused := refuse(kind, piece, offset):
            return tokens, [token.refuse(*refused)]
        tokens.append(token)
    return tokens, []


def read_body(text: str) -> tuple[list[Token], list[Finding]]:
    """Tokens of a body, ended by an ``end`` token, up to the first thing that is refused."""

    def refuse(kind: str, piece: str, offset: int) -> Refusal | None:
        if kind != "unread":
            return None
        if text.startswith(("//", "/*", "*/"), offset):
            return "cheat", "comments", "a comment that does not begin or does not end"
        group = unicodedata.category(piece), unicodedata.bidirectional(piece)
        if piece == "@" or group[0].startswith("C"):
            # Copied texts hold characters that have neither width nor direction.
            category: Category = "syntax" if group == ("Cf", "BN") else "cheat"
            return category, "characters", f"the character U+{ord(piece):04X} is not allowed here"
        return "syntax", "characters", f"unexpected {piece!r}"

    return _read(text, _BODY_TOKEN, refuse)


def read_file(text: str, *, admitted: bool = False) -> tuple[list[Token], list[Finding]]:
    """Tokens of a whole program without its comments, and what no program may hold.

    Lines that begin with # are refused even inside comments: the command line of Dafny runs a
    preprocessor over them before it looks for comments. ``admitted``: the text passed the audit
    before, or is Dafny 4 that no Dafny 2.3 gets; what Dafny 4 alone reads rightly is read.
    """
    begin = 1 if admitted and text.startswith("\ufeff") else 0
    for pattern, message in (
        (_CONTROL, "a control character is not allowed"),
        (_SURROGATE, "half a character is not allowed"),
        (_DIRECTIVE, "a line must not begin with #"),
    ):
        if found := pattern.search(text, begin):
            line_start = text.rfind("\n", 0, found.start()) + 1
            line, column = text.count("\n", 0, found.start()) + 1, found.start() - line_start
            return [], [Finding("cheat", "characters", message, line, column)]
    if admitted:
        return _read(text, _ADMITTED_TOKEN, _refuse_unread)
    return _read(text, _FILE_TOKEN, _refuse_in_file)


def _refuse_unread(kind: str, piece: str, _: int) -> Refusal | None:
    if kind == "unread":
        return "syntax", "characters", f"unexpected {piece!r}"
    if kind == "unclosed":
        return "syntax", "comments", "a comment does not end"
    return None


def _refuse_in_file(kind: str, piece: str, place: int) -> Refusal | None:
    if refused := _refuse_unread(kind, piece, place):
        return refused
    if kind == "verbatim" and "\n" in piece:
        message = "a string must not span lines: the checker would print it among its own"
        return "cheat", "strings", message
    if kind in ("char", "string", "verbatim") and not piece.isascii():
        message = "write characters outside ASCII as \\uXXXX: Dafny reads their bytes"
        return "syntax", "characters", message
    return None


def find_close(tokens: Sequence[Token], place: int) -> int:
    """The place of what closes the bracket at ``place``; the last place when nothing does."""
    return min(find_outer(tokens, place + 1), len(tokens) - 1)


def find_outer(
    tokens: Sequence[Token], place: int, stops: Container[str] = (), step: int = 1
) -> int:
    """The first place, from ``place`` on or back, at which one of these texts stands outside of
    brackets, or a bracket around ``place`` ends; where there is none, the place past all."""
    depth = 0
    while 0 <= place < len(tokens):
        text = tokens[place].text
        if depth == 0 and text in stops:
            break
        depth += step * ((text in OPENERS) - (text in CLOSERS))
        if depth < 0:
            break
        place += step
    return place


def skip_comment(text: str, offset: int) -> int | None:
    """The offset after the comment that was opened just before ``offset``; comments nest."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, offset)
        if edge is None:
            return None
        depth += 1 if edge.group() == "/*" else -1
        offset = edge.end()
    return offset
