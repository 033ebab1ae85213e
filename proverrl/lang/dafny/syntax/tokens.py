"""Splits Dafny 2.3 text into tokens.

Flows in: text that a policy wrote. Flows out: tokens, and a ``Finding`` for each thing that must
not be there. Two readings: ``read_body`` for what stands in a hole (plain ASCII, no comments),
``read_file`` for whole programs (comments nest, as in Dafny).
Covered: whatever could make Dafny's scanner and this one disagree is refused, not guessed.
Not handled here: what the tokens mean (``dafny_grammar``, ``dafny_audit``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
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

_BODY_TOKEN = re.compile(
    r"(?P<blank>(?:[ \t\n]|\r\n)+)"
    r"|(?P<word>!in(?![A-Za-z0-9_'?])|[A-Za-z_][A-Za-z0-9_'?]*)"
    r"|(?P<number>(?:0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|\d+(?:_\d+)*(?:\.\d+(?:_\d+)*)?)"
    r"(?![A-Za-z0-9_'?]))"
    r"""|(?P<char>'[ !#-&(-\[\]-~]'(?![A-Za-z0-9_'?]))"""
    r"""|(?P<string>"[ !#-\[\]-~]*")"""
    rf"|(?P<operator>{_OPERATOR})",
    re.ASCII,
)
_FILE_TOKEN = re.compile(
    r"(?P<blank>(?:[ \t\n]|\r\n)+)"
    r"|(?P<line_comment>//[^\n]*)"
    r"|(?P<comment>/\*)"
    r"|(?P<word>!in(?![A-Za-z0-9_'?])|[A-Za-z_][A-Za-z0-9_'?]*)"
    r"|(?P<number>0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|\d+(?:_\d+)*(?:\.\d+(?:_\d+)*)?)"
    rf"""|(?P<char>'(?:[^'\\\r\n]|{_ESCAPE})'(?![A-Za-z0-9_'?]))"""
    rf"""|(?P<string>"(?:[^"\\\r\n]|{_ESCAPE})*")"""
    r"""|(?P<verbatim>@"(?:[^"]|"")*")"""
    rf"|(?P<operator>{_OPERATOR}|[@#`&^])",
    re.ASCII,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\ufeff]|\r(?!\n)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)
_LITERALS = ("char", "string", "verbatim")


def find_places(text: str, tokens: Iterable[Token]) -> list[int]:
    """Where each token begins in the text that it was read from, in characters."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return [starts[token.line - 1] + token.column for token in tokens]


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def read_body(text: str) -> tuple[list[Token], list[Finding]]:
    """Tokens of a body, ended by an ``end`` token, and what must not stand in one.

    After the first finding nothing more is read.
    """
    tokens: list[Token] = []
    offset = line_start = 0
    line = 1
    while offset < len(text):
        column = offset - line_start
        match = _BODY_TOKEN.match(text, offset)
        if match is None or text.startswith(("//", "/*", "*/"), offset):
            return tokens, [_explain_body(text, offset, line, column)]
        kind, piece = match.lastgroup, match.group()
        if kind == "blank":
            breaks = piece.count("\n")
            if breaks:
                line += breaks
                line_start = offset + piece.rfind("\n") + 1
        else:
            tokens.append(Token(_token_kind(kind), piece, line, column))
        offset = match.end()
    tokens.append(Token("end", "", line, offset - line_start))
    return tokens, []


def _token_kind(group: str | None) -> TokenKind:
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
    for pattern, message in (
        (_CONTROL, "a control character is not allowed"),
        (_SURROGATE, "half a character is not allowed"),
        (_DIRECTIVE, "a line must not begin with #"),
    ):
        if found := pattern.search(text):
            return [], [Finding("cheat", "characters", message, *_position(text, found.start()))]
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _FILE_TOKEN.match(text, offset)
        if match is None:
            place = _position(text, offset)
            return tokens, [Finding("syntax", "characters", f"unexpected {text[offset]!r}", *place)]
        offset = match.end()
        if match.lastgroup == "comment":
            end = skip_comment(text, offset)
            if end is None:
                place = _position(text, match.start())
                return tokens, [Finding("syntax", "comments", "a comment does not end", *place)]
            offset = end
        elif match.lastgroup == "verbatim" and "\n" in match.group():
            message = "a string must not span lines: the checker would print it among its own"
            place = _position(text, match.start())
            return tokens, [Finding("cheat", "strings", message, *place)]
        elif match.lastgroup in _LITERALS and not match.group().isascii():
            message = "write characters outside ASCII as \\uXXXX: Dafny reads their bytes"
            place = _position(text, match.start())
            return tokens, [Finding("syntax", "characters", message, *place)]
        elif match.lastgroup not in ("blank", "line_comment"):
            place = _position(text, match.start())
            tokens.append(Token(_token_kind(match.lastgroup), match.group(), *place))
    tokens.append(Token("end", "", *_position(text, len(text))))
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
