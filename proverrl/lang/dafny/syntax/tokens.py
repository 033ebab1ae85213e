"""Splits Dafny 2.3 text into tokens.

Flows in: text that a policy wrote. Flows out: tokens, and a ``Finding`` for each thing that must
not be there. Three readings: ``read_body`` for what stands in a hole (plain ASCII, no comments),
``read_file`` for whole programs (comments nest, as in Dafny), ``scan_any`` for text that is only
looked at: it may be cut off, in Dafny 4, or no Dafny at all.
Covered: whatever could make Dafny's scanner and this one disagree is refused, not guessed.
Not handled here: what the tokens mean (``program``, ``hint_statements``, ``audit``).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["word", "number", "char", "string", "operator", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token; ``line`` counts from 1 and ``column`` from 0 within the text that was read."""

    kind: TokenKind
    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text is refused.

    ``syntax`` is what any model writes that has not learned the language; ``cheat`` is a known
    way to get a verdict without a proof. ``rule`` names the layer of the audit.
    """

    category: Literal["syntax", "cheat"]
    rule: str
    message: str
    line: int
    column: int


_OPERATORS = (
    "<==>",
    "==>",
    "<==",
    "-->",
    "...",
    "&&",
    "||",
    "==",
    "!=",
    "!!",
    "<=",
    ">=",
    ":=",
    ":|",
    "::",
    "..",
    "=>",
    "->",
    "~>",
    *"+-*/%<>=!.,;:|()[]{}",
)
_OPERATOR = "|".join(re.escape(operator) for operator in _OPERATORS)
_ESCAPE = r"""\\(?:['"\\0nrt]|u[0-9a-fA-F]{4})"""

_BLANK = r"(?P<blank>(?:[ \t\n]|\r\n)+)"
_WORD = r"(?P<word>!in(?![A-Za-z0-9_'?])|[A-Za-z_][A-Za-z0-9_'?]*)"
_NUMBER = r"0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?"

_BODY_TOKEN = re.compile(
    rf"{_BLANK}|{_WORD}|(?P<number>(?:{_NUMBER})(?![A-Za-z0-9_'?]))"
    r"""|(?P<char>'[ !#-&(-\[\]-~]'(?![A-Za-z0-9_'?]))"""
    r"""|(?P<string>"[ !#-\[\]-~]*")"""
    rf"|(?P<operator>(?!//|/\*|\*/)(?:{_OPERATOR}))"
)
_FILE = (
    r"(?P<line_comment>//[^\n]*)|(?P<comment>/\*)"
    rf"|{_BLANK}|{_WORD}|(?P<number>{_NUMBER})"
    rf"""|(?P<char>'(?:[^'\\\r\n]|{_ESCAPE})'(?![A-Za-z0-9_'?]))"""
    rf"""|(?P<string>"(?:[^"\\\r\n]|{_ESCAPE})*")"""
    r"""|(?P<verbatim>@"(?:[^"]|"")*")"""
    rf"|(?P<operator>{_OPERATOR}|[@#`&^])"
)
_FILE_TOKEN = re.compile(_FILE)
# Whatever else stands in a text: names of other alphabets, forms of Dafny 4, single characters.
_ANY_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<attribute>\{:\s*[A-Za-z_][\w']*)|(?P<name>[A-Za-z_?][\w'?]*)"
    rf"|(?P<bind>:-)|{_FILE}|(?P<other>.)"
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\ufeff]|\r(?!\n)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)
_LITERALS = ("char", "string", "verbatim")


def find_places(text: str, tokens: Iterable[Token]) -> list[int]:
    """Where each token begins in the text that it was read from, in characters."""
    starts = _find_lines(text)
    return [starts[token.line - 1] + token.column for token in tokens]


def _find_lines(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _position(starts: list[int], offset: int) -> tuple[int, int]:
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1]


def _scan(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, str, int]]:
    """Group, text and place of each token.

    The last is ``unclosed`` for a comment that does not end, ``unread`` for what is no token.
    """
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


def read_body(text: str) -> tuple[list[Token], list[Finding]]:
    """Tokens of a body, ended by an ``end`` token, and what must not stand in one.

    After the first finding nothing more is read.
    """
    tokens: list[Token] = []
    starts = _find_lines(text)
    for kind, piece, offset in _scan(text, _BODY_TOKEN):
        place = _position(starts, offset)
        if kind == "unread":
            return tokens, [_explain_body(text, offset, *place)]
        tokens.append(Token(_token_kind(kind), piece, *place))
    tokens.append(Token("end", "", *_position(starts, len(text))))
    return tokens, []


def _token_kind(group: str) -> TokenKind:
    if group == "word" or group == "number" or group == "char":
        return group  # type: ignore[return-value]
    return "string" if group in ("string", "verbatim") else "operator"


def _explain_body(text: str, offset: int, line: int, column: int) -> Finding:
    found = text[offset]
    if text.startswith(("//", "/*", "*/"), offset):
        message = "a comment that does not begin or does not end"
        return Finding("cheat", "comments", message, line, column)
    if found == "@" or unicodedata.category(found).startswith("C"):
        message = f"the character U+{ord(found):04X} is not allowed here"
        return Finding("cheat", "characters", message, line, column)
    return Finding("syntax", "characters", f"unexpected {found!r}", line, column)


def read_file(text: str) -> tuple[list[Token], list[Finding]]:
    """Tokens of a whole program without its comments, and what no program may hold.

    Lines that begin with # are refused even inside comments: the command line of Dafny runs a
    preprocessor over them before it looks for comments.
    """
    starts = _find_lines(text)
    for pattern, message in (
        (_CONTROL, "a control character is not allowed"),
        (_SURROGATE, "half a character is not allowed"),
        (_DIRECTIVE, "a line must not begin with #"),
    ):
        if found := pattern.search(text):
            place = _position(starts, found.start())
            return [], [Finding("cheat", "characters", message, *place)]
    tokens: list[Token] = []
    for kind, piece, offset in _scan(text, _FILE_TOKEN):
        place = _position(starts, offset)
        if kind == "unread":
            return tokens, [Finding("syntax", "characters", f"unexpected {piece!r}", *place)]
        if kind == "unclosed":
            return tokens, [Finding("syntax", "comments", "a comment does not end", *place)]
        if kind == "verbatim" and "\n" in piece:
            message = "a string must not span lines: the checker would print it among its own"
            return tokens, [Finding("cheat", "strings", message, *place)]
        if kind in _LITERALS and not piece.isascii():
            message = "write characters outside ASCII as \\uXXXX: Dafny reads their bytes"
            return tokens, [Finding("syntax", "characters", message, *place)]
        tokens.append(Token(_token_kind(kind), piece, *place))
    tokens.append(Token("end", "", *_position(starts, len(text))))
    return tokens, []


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
