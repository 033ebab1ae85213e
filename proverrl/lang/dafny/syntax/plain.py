"""Takes comments out of a policy's Dafny text, and writes symbols in ASCII.

Flows in: text of a policy. Flows out: the text that is audited and verified, and the way back from
its columns. A comment becomes blanks of its own length, so that none can hide or end a line of
ours; ``≤`` becomes ``<=``, because Dafny 2.3 reads UTF-8 as single bytes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.lang.dafny.syntax.reply import Reply
from proverrl.lang.dafny.syntax.tokens import scan_any, skip_comment
from proverrl.types import ANNOTATE, Candidate

SYMBOLS = {
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "∀": " forall ",
    "∃": " exists ",
    "⇒": "==>",
    "⇐": "<==",
    "⇔": "<==>",
    "∧": "&&",
    "∨": "||",
    "¬": "!",
    "•": "::",
}
"""Symbols that Dafny's grammar knows beside their ASCII forms."""

# A text that does not end goes to the end of its line: else each quote in it is tried as a start.
_PIECE = re.compile(
    r"(?P<word>[A-Za-z_][A-Za-z0-9_'?]*)"
    r"|(?P<literal>@\"(?:[^\"]|\"\")*\"|\"(?:[^\"\\\r\n]|\\.)*\"?|'(?:[^'\\\r\n]|\\[^\r\n]+?)')"
    r"|(?P<line>//[^\n]*)"
    r"|(?P<comment>/\*)"
    rf"|(?P<symbol>[{''.join(SYMBOLS)}])"
)
_GHOST = ("ghost", "twostate", "least", "greatest", "inductive")
"""Words before ``function`` and ``predicate`` that say what they are."""
LIMITS = frozenset("resource_limit rlimit timeLimit timeLimitMultiplier".split())
"""Attributes with limits of their own."""
_NOT_BLANK = re.compile(r"[^\s]")

Insertion = tuple[int, str]
"""A place in a text, in characters, and what is put there."""


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text with insertions; ``inserted`` holds column and length of each, by line."""

    text: str
    inserted: Mapping[int, tuple[tuple[int, int], ...]]

    def restore(self, reply: Reply) -> Reply:
        """The reply with the columns of the text before the insertions."""
        messages = (replace(m, column=self.find_column(m.line, m.column)) for m in reply.messages)
        return replace(reply, messages=tuple(messages))

    def find_column(self, line: int, column: int) -> int:
        """The column of a place before the insertions; lines do not change."""
        inserted = self.inserted.get(line, ())
        return column - sum(max(0, min(length, column - start)) for start, length in inserted)


def insert(text: str, insertions: Sequence[Insertion]) -> WrittenText:
    """The text with all insertions; of several at one place the first comes first."""
    pieces = []
    inserted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    done = start = width = 0
    line = 1
    for place, piece in sorted(insertions, key=lambda item: item[0]):
        pieces += [text[done:place], piece]
        if breaks := text.count("\n", done, place):
            line += breaks
            start, width = text.rindex("\n", done, place) + 1, 0
        inserted[line].append((place - start + width, len(piece)))
        width += len(piece)
        done = place
    by_line = {number: tuple(places) for number, places in inserted.items()}
    return WrittenText("".join([*pieces, text[done:]]), by_line)


def write_plain(text: str, *, comments: bool = True) -> WrittenText:
    """The text without symbols and, where ``comments`` are to go, without those.

    A comment that does not end stays.
    """
    kept = list(text)
    insertions: list[Insertion] = []
    place = 0
    while found := _PIECE.search(text, place):
        start, place = found.span()
        if found.lastgroup == "comment":
            end = skip_comment(text, place)
            if end is None:
                break
            place = end
        if found.lastgroup == "symbol":
            written = SYMBOLS[found.group()]
            kept[start] = written[0]
            insertions.append((place, written[1:]))
        elif found.lastgroup in ("line", "comment") and comments:
            kept[start:place] = _NOT_BLANK.sub(" ", text[start:place])
    return insert("".join(kept), insertions)


def write_ghost(text: str) -> WrittenText:
    """The text in which functions are ghost that do not say otherwise, as in Dafny 2.3: in Dafny 4
    code may call them, and would promise what it was to compute."""
    tokens = [(piece, place) for _, piece, place in scan_any(text)]
    insertions = [
        (place, "ghost ")
        for (before, _), (word, place), (after, _) in zip(
            [("", 0), *tokens], tokens, [*tokens[1:], ("", 0)], strict=False
        )
        if word in ("function", "predicate") and after != "method" and before not in _GHOST
    ]
    return insert(text, insertions)


def leave_out_attributes(text: str) -> str:
    """A bare file with blanks in place of each attribute that is not followed there: our limits
    hold, and what is proved by contradiction is told (``{:rlimit 9}``, ``{:contradiction}``)."""
    kept = list(text)
    tokens = [
        (part, place)
        for kind, piece, place in scan_any(text)
        for part in (("{", ":", piece[2:].strip()) if kind == "attribute" else (piece,))
    ]
    tokens.append(("", len(text)))
    for (brace, start), (colon, _), (name, _), (value, place), (close, end) in zip(
        tokens, tokens[1:], tokens[2:], tokens[3:], tokens[4:], strict=False
    ):
        is_limit = name in LIMITS and close == "}" and (value[0].isdecimal() or value[0] in '@"')
        end = end if is_limit else place
        if (brace, colon) == ("{", ":") and (is_limit or (name, value) == ("contradiction", "}")):
            kept[start : end + 1] = _NOT_BLANK.sub(" ", text[start : end + 1])
    return "".join(kept)


def write_file(text: str) -> WrittenText:
    """A bare file as it is audited and verified: plain, without what is not followed there."""
    written = write_plain(text, comments=False)
    return replace(written, text=leave_out_attributes(written.text))


def make_plain(candidate: Candidate) -> tuple[Candidate, WrittenText]:
    """The candidate as it is verified, and its file with the way back to the given one."""
    if candidate.problem.kind in ("file", ANNOTATE):
        is_file = candidate.problem.kind == "file"
        body = candidate.body
        written = write_file(body) if is_file else write_plain(body, comments=False)
        return replace(candidate, body=written.text), written
    own = write_plain(candidate.body)
    plain = replace(candidate, body=own.text)
    head_lines = candidate.head.count("\n")
    head_column = len(candidate.head) - (candidate.head.rfind("\n") + 1)
    inserted = {
        line + head_lines: tuple(
            (column + (head_column if line == 1 else 0), length) for column, length in places
        )
        for line, places in own.inserted.items()
    }
    return plain, WrittenText(plain.source, inserted)
