"""Dafny text as tokens, a normal form that forgets names, and text with its hole filled.

Flows in: Dafny source. Flows out: tokens, and a text that two programs share when they differ
only in names, comments and white space. Not handled here: scopes; a name is renamed the same way
in the whole text.
"""

from __future__ import annotations

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.cursor import RESERVED
from proverrl.lang.dafny.syntax.tokens import scan_any
from proverrl.types import HOLE

_DAFNY_4 = frozenset("extern greatest least".split())
_ARRAYS = frozenset("array array2 array3".split())
KEYWORDS = RESERVED | _DAFNY_4 | _ARRAYS
"""Reserved words and built-in types of Dafny 2.3 and 4.x that generated or real programs use."""

BUILT_IN_MEMBERS = frozenset("Length Length0 Length1 Length2 Floor Keys Values Items _".split())
"""Names that the language gives; they are not declared by a program."""

# How groups of ``scan_any`` are called here; all others are symbols.
_KINDS = {kind: kind for kind in ("name", "number", "char", "string", "attribute")}
_KINDS["verbatim"] = "string"


def scan_tokens(text: str) -> list[tuple[str, str]]:
    """All tokens as (kind, text), without white space and comments.

    Kinds are string, char, number, attribute (``{:name``), name and symbol. Raises ProblemError
    for a block comment that is not closed.
    """
    return [(kind, piece) for kind, piece, _ in scan_places(text)]


def scan_places(text: str) -> list[tuple[str, str, int]]:
    """As ``scan_tokens``, with the place of each token in characters from 0."""
    tokens = []
    for group, piece, place in scan_any(text):
        if group == "unclosed":
            raise ProblemError("Dafny text has a block comment that is never closed; close it")
        tokens.append((_KINDS.get(group, "symbol"), piece, place))
    return tokens


_CODE = "Impl$$_module.__default."


def name_entry(name: str) -> str:
    """Dafny's name for the entry of a method's or lemma's body."""
    return f"{_CODE}{mangle(name)}"


def name_contract(name: str) -> str:
    """Dafny's name for the entry of what a method or lemma demands and promises."""
    return f"CheckWellformed$$_module.__default.{mangle(name)}"


def find_own_entries(head: str) -> tuple[str, str]:
    """Dafny's names for the entries of the method in whose head or contract the hole stands, the
    last one that begins in ``head``, the text before it. One entry is that the contract has a
    meaning, the other that the code meets it. Raises ``ProblemError`` where there is none."""
    pieces = [piece for _, piece in scan_tokens(head)]
    places = [i + 1 for i, piece in enumerate(pieces) if piece == "method"]
    after = pieces[places[-1] :] if places else []
    while after and after[0].startswith("{:"):
        after = after[after.index("}") + 1 :] if "}" in after else []
    if not after:
        raise ProblemError("no method stands before the hole")
    name = after[0]
    return name_contract(name), name_entry(name)


def mangle(name: str) -> str:
    """A name as it stands in the names of entries."""
    return name.replace("_", "__").replace("'", "_k").replace("?", "_q")


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
