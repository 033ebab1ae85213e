"""Splits Lean 4 text into tokens, as Lean's own scanner does.

Flows in: any text. Flows out: tokens that, joined, are the text again; nothing is refused here.
Not handled here: Lean's table of symbols, which grows with every import. A symbol that is not on
the short list below comes out in pieces; what that can hide is the business of
``proverrl.lang.lean.audit.text``. The character classes are those of ``isLetterLike`` and
``isSubScriptAlnum`` in Lean's ``Init/Meta/Defs.lean``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal[
    "blank", "comment", "doc", "word", "number", "char", "string", "name", "symbol", "broken"
]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; ``line`` counts from 1, ``column`` and ``offset`` from 0, in characters.

    A ``word`` is an identifier or a keyword, a ``doc`` a documentation comment, a ``name`` a
    name with a backquote before it. An interpolated string comes in pieces, ``"a{`` and ``}b"``,
    with the tokens of its holes between them. ``broken`` is a comment, string or ``«`` that the
    text does not close (``«`` within its line and 100 characters); it reaches to the end.
    """

    kind: TokenKind
    text: str
    line: int
    column: int
    offset: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def is_code(self) -> bool:
        """False for blanks and comments, documentation too."""
        return self.kind not in ("blank", "comment", "doc")


# Greek but λ, Π, Σ; Coptic and polytonic Greek; the letterlike block; script and double-struck
# letters; Latin-1 and Latin Extended-A letters.
_LETTER = (
    r"A-Za-z_\u03b1-\u03ba\u03bc-\u03c9\u0391-\u039f\u03a1\u03a2\u03a4-\u03a9\u03ca-\u03fb"
    r"\u1f00-\u1ffe\u2100-\u214f\U0001d49c-\U0001d59f\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff"
    r"\u0100-\u017f"
)
_REST = _LETTER + r"0-9'!?\u2080-\u2089\u2090-\u209c\u1d62-\u1d6a\u2c7c"
# A quoted part may be of any length in Lean; the bound keeps the time linear in the text.
_PART = rf"(?:[{_LETTER}][{_REST}]*|«[^»\n]{{1,100}}»)"
IDENTIFIER = rf"{_PART}(?:\.{_PART})*"
"""A pattern for one identifier with its dots."""

_DIGITS = r"[0-9]+(?:_+[0-9]+)*"
# Lean takes the longest symbol that it knows. Those that hold a mark which means something else
# alone (a comment, a quote) must be here.
_SYMBOLS = (
    *("⁻¹'", "''", "]'", "<;>", "<|>", "|>.", "<$>", "<*>", "<->"),
    *("|||", "&&&", "^^^", "<<<", ">>>"),
    *("!![", "...", "![", "#[", "@[", ":=", "=>", "->", "<-", "//", "/\\", "\\/", "++", "==", "!="),
    *("<=", ">=", "::", "..", "&&", "||", "|>", "<|", ">>", "<<", "-/"),
)
_SYMBOL = "|".join(re.escape(symbol) for symbol in _SYMBOLS)

_TOKEN = re.compile(
    rf"""
      (?P<blank>[ \t\r\n]+)
    | (?P<comment>--[^\n]*)
    | (?P<block>/-)
    | (?P<raw>r(?P<hashes>\#*)")
    | (?P<word>{IDENTIFIER})
    | (?P<broken>«)
    | (?P<number>0[xX][0-9a-fA-F_]*|0[bB][01_]*|0[oO][0-7_]*
        |{_DIGITS}(?:\.{_DIGITS})?(?:[eE][+-]?{_DIGITS})?)
    | (?P<string>")
    | (?P<char>'(?!')(?:\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|.)|[^\\])')
    | (?P<name>``?{IDENTIFIER})
    | (?P<symbol>{_SYMBOL}|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/-|-/")
_PLAIN_REST = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_CHUNK_REST = re.compile(r'(?:[^"\\{]|\\.)*(?P<edge>["{])', re.DOTALL)
_INTERPOLATING = frozenset(
    "s! m! f! panic! println! eprintln! throwError logInfo logWarning logError dbg_trace".split()
)
"""Words after which Lean reads ``{`` in a string as a hole."""


def find_comment_end(text: str, start: int) -> int | None:
    """The place after the block comment that opens at ``start``; None when nothing closes it."""
    depth, place = 1, start + 2
    while depth:
        edge = _BLOCK_EDGE.search(text, place)
        if edge is None:
            return None
        depth += 1 if edge.group() == "/-" else -1
        place = edge.end()
    return place


def find_string_end(text: str, start: int) -> int | None:
    """The place after the plain string whose quote stands at ``start``; None when it is open."""
    match = _PLAIN_REST.match(text, start + 1)
    return None if match is None else match.end()


class _Scanner:
    """The place in the text, and how deep it is in the holes of interpolated strings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._line = 1
        self._line_start = 0
        # For each open hole, the braces that were opened inside it.
        self._holes: list[int] = []
        self._previous = ""
        self.tokens: list[Token] = []

    def scan(self) -> list[Token]:
        text = self._text
        while self._place < len(text):
            match = _TOKEN.match(text, self._place)
            if match is None:  # not reached: the last alternative takes any character
                self._add("broken", len(text))
                continue
            kind = match.lastgroup if match.lastgroup != "hashes" else "raw"
            if kind == "block":
                self._add_comment()
            elif kind == "string":
                self._add_string(self._previous in _INTERPOLATING)
            elif kind == "raw":
                close = '"' + match.group("hashes")
                end = text.find(close, match.end())
                self._close("string", None if end < 0 else end + len(close))
            elif kind == "broken":
                self._add("broken", len(text))
            elif kind == "symbol":
                self._add_symbol(match.group(), match.end())
            else:
                self._add(kind, match.end())  # type: ignore[arg-type]
        return self.tokens

    def _add(self, kind: TokenKind, end: int) -> None:
        piece = self._text[self._place : end]
        column = self._place - self._line_start
        token = Token(kind, piece, self._line, column, self._place)
        self.tokens.append(token)
        if token.is_code:
            self._previous = piece
        breaks = piece.count("\n")
        if breaks:
            self._line += breaks
            self._line_start = self._place + piece.rfind("\n") + 1
        self._place = end

    def _close(self, kind: TokenKind, end: int | None) -> None:
        if end is None:
            self._add("broken", len(self._text))
        else:
            self._add(kind, end)

    def _add_comment(self) -> None:
        is_doc = self._text[self._place + 2 : self._place + 3] in ("-", "!")
        self._close("doc" if is_doc else "comment", find_comment_end(self._text, self._place))

    def _add_string(self, has_holes: bool) -> None:
        """A plain string, or the next piece of an interpolated one."""
        if not has_holes:
            self._close("string", find_string_end(self._text, self._place))
            return
        match = _CHUNK_REST.match(self._text, self._place + 1)
        if match is not None and match["edge"] == "{":
            self._holes.append(0)
        self._close("string", None if match is None else match.end())

    def _add_symbol(self, symbol: str, end: int) -> None:
        if self._holes and symbol == "{":
            self._holes[-1] += 1
        elif self._holes and symbol == "}":
            if self._holes[-1] == 0:
                self._holes.pop()
                self._add_string(True)
                return
            self._holes[-1] -= 1
        self._add("symbol", end)


def scan_tokens(text: str) -> list[Token]:
    """All tokens of a text, blanks and comments too. Never raises."""
    return _Scanner(text).scan()


def scan_code(text: str) -> list[Token]:
    """The tokens of a text without blanks and comments, documentation too."""
    return [token for token in scan_tokens(text) if token.is_code]


def shift_line(line: str, columns: int) -> str:
    """A line moved sideways, as far as its blanks allow; one of blanks only becomes empty."""
    text = line.lstrip(" ")
    return " " * max(0, len(line) - len(text) + columns) + text if text else ""


def split_name(identifier: str) -> list[str]:
    """The components of an identifier, without ``«»`` and without a leading ``_root_``."""
    parts = [part.strip("«»") for part in re.findall(_PART, identifier)]
    return parts[1:] if parts[:1] == ["_root_"] and len(parts) > 1 else parts
