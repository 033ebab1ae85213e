"""Lean statements: cut after their imports, named, read in parts, and made into a ``Problem``.

Flows in: Lean text as benchmarks write it; problems. Flows out: ``Problem`` records whose statement
ends in a hole; declarations with their full names; the parts of a problem's theorem. Not handled
here: whether a statement elaborates, or says what its author meant; names that a macro declares;
what a policy may write (``proverrl.lang.lean.audit.text``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from proverrl.errors import ProblemError
from proverrl.lang.lean.syntax.tokens import Token, scan_code, scan_tokens, split_name
from proverrl.text_cache import cache_texts
from proverrl.types import HOLE, Problem, Split

ProofKind = Literal["tactics", "term"]

NAMED_DECLARATIONS = frozenset(
    "theorem lemma def abbrev axiom opaque structure inductive class coinductive".split()
)
MODIFIERS = frozenset(
    "private protected public noncomputable unsafe partial nonrec meta local scoped".split()
)
_NAMELESS = frozenset({"example", "instance"})
_PROVABLE = frozenset({"theorem", "lemma", "def", "abbrev"})
_HOLE_TEXTS = {"tactics": f":= by\n  {HOLE}\n", "term": f":=\n  {HOLE}\n"}
OPENING = frozenset("( [ { ⟨ ⦃ #[ ![ !![ @[".split())
CLOSING = frozenset(") ] } ⟩ ⦄ ]'".split())
_IMPORT_WORDS = frozenset({"public", "meta", "private"})


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration in a text. ``name`` is full, without ``_root_``, and empty for an example or
    an instance. ``start`` is where its modifiers, attributes and doc comment begin, ``offset`` is
    where its keyword stands, both in characters from 0.
    """

    keyword: str
    name: str
    modifiers: tuple[str, ...]
    start: int
    offset: int


def split_header(text: str) -> tuple[str, str]:
    """The text to the end of its last leading import line, and the rest; both joined are the text.

    Only blanks and comments may stand before an import. Without imports the first part is empty.
    """
    tokens = [token for token in scan_tokens(text) if token.kind not in ("blank", "comment")]
    end = place = 0
    while place < len(tokens) and tokens[place].text in ("module", "prelude"):
        place += 1
    while place < len(tokens):
        start = place
        while place < len(tokens) and tokens[place].text in _IMPORT_WORDS:
            place += 1
        if place >= len(tokens) or tokens[place].text != "import":
            break
        place += 1
        if place < len(tokens) and tokens[place].text == "all":
            place += 1
        if place < len(tokens) and tokens[place].kind == "word":
            place += 1
        end = tokens[max(start, place - 1)].end
    if end:
        line_end = text.find("\n", end)
        rest_of_line = text[end : len(text) if line_end < 0 else line_end]
        if not rest_of_line.strip() or rest_of_line.lstrip().startswith("--"):
            end += len(rest_of_line) + (0 if line_end < 0 else 1)
    return text[:end], text[end:]


@dataclass(frozen=True, slots=True)
class Theorem:
    """A problem's theorem in parts: the text ``before`` it, its keyword, name and binders, what it
    says, and all from its last ``:=`` on, the hole included."""

    before: str
    keyword: str
    name: str
    binders: str
    target: str
    ending: str


class _Scopes:
    """The namespaces and sections that are open, one entry for each name component."""

    def __init__(self) -> None:
        self._open: list[tuple[str, bool]] = []

    def open(self, name: str, *, is_namespace: bool) -> None:
        parts = split_name(name) if name else [""]
        self._open += [(part, is_namespace) for part in parts]

    def close(self, name: str) -> None:
        num_parts = len(split_name(name)) if name else 1
        del self._open[max(0, len(self._open) - num_parts) :]

    def qualify(self, name: str) -> str:
        prefix = "_root_."
        if name.startswith(prefix):
            return name[len(prefix) :]
        spaces = [part for part, is_namespace in self._open if is_namespace]
        return ".".join((*spaces, name))


def find_mark(code: Iterable[Token], mark: str, *, last: bool = False) -> Token | None:
    """The first (or last) token ``mark`` outside of all brackets."""
    depth, found = 0, None
    for token in code:
        if token.text in OPENING:
            depth += 1
        elif token.text in CLOSING:
            depth -= 1
        elif token.text == mark and depth == 0:
            found = token
            if not last:
                return token
    return found


def read_theorem(problem: Problem) -> Theorem:
    """The parts of the last declaration before a problem's hole. Raises ``ProblemError`` if its
    statement has no theorem with a colon and a ``:=`` before the hole."""
    before = problem.statement.partition(HOLE)[0]
    declared = find_declarations(before)
    if declared:
        offset = declared[-1].offset
        tokens = scan_code(before[offset:])
        start = offset + tokens[1].end if len(tokens) > 1 else offset
        code = scan_code(before[start:])
        colon, value = find_mark(code, ":"), find_mark(code, ":=", last=True)
        if colon is not None and value is not None and colon.offset < value.offset:
            return Theorem(
                before[: declared[-1].start],
                declared[-1].keyword,
                tokens[1].text,
                before[start : start + colon.offset].strip(),
                before[start + colon.end : start + value.offset].strip(),
                problem.statement[start + value.offset :],
            )
    raise ProblemError(
        f"problem {problem.id!r}: no 'theorem name : type :=' before its hole: "
        f"{problem.statement[:120]!r}"
    )


def find_declarations(text: str) -> list[Declaration]:
    """The declarations of a text in order, their names made full by the namespaces around them.

    Reads tokens, not grammar: a keyword can stand nowhere else, because Lean reserves it.
    """
    tokens = [t for t in scan_tokens(text) if t.kind not in ("blank", "comment")]
    return list(_iter_declarations(tokens))


def _iter_declarations(tokens: list[Token]) -> Iterator[Declaration]:
    scopes = _Scopes()
    for place, token in enumerate(tokens):
        if token.kind != "word":
            continue
        name = _find_name(tokens, place + 1)
        if token.text in ("namespace", "section"):
            scopes.open(name, is_namespace=token.text == "namespace")
        elif token.text == "mutual":
            scopes.open("", is_namespace=False)
        elif token.text == "end":
            scopes.close(name)
        elif token.text in NAMED_DECLARATIONS or token.text in _NAMELESS:
            if token.text in ("inductive", "abbrev") and tokens[place - 1].text == "class":
                continue
            if token.text == "class" and name in ("inductive", "abbrev"):
                name = _find_name(tokens, place + 2)
            first, modifiers = _find_start(tokens, place)
            is_named = token.text in NAMED_DECLARATIONS
            yield Declaration(
                keyword=token.text,
                name=scopes.qualify(name) if is_named and name else "",
                modifiers=modifiers,
                start=tokens[first].offset,
                offset=token.offset,
            )


def _find_name(tokens: list[Token], place: int) -> str:
    """The identifier at a place if it stands on the line of the token before it, or is needed."""
    if place >= len(tokens) or tokens[place].kind != "word":
        return ""
    before, token = tokens[place - 1], tokens[place]
    if before.text in ("end", "section") and before.line != token.line:
        return ""
    return token.text


def _find_start(tokens: list[Token], place: int) -> tuple[int, tuple[str, ...]]:
    """The beginning of a declaration, with its doc comment, attributes and modifiers, and the
    first."""
    modifiers: list[str] = []
    while place:
        before = tokens[place - 1]
        if before.kind == "word" and before.text in MODIFIERS:
            modifiers.insert(0, before.text)
            place -= 1
        elif before.kind == "doc" and before.text.startswith("/--"):
            place -= 1
        elif (opened := _find_opening(tokens, place - 1)) is not None:
            place = opened
        else:
            break
    return place, tuple(modifiers)


def _find_opening(tokens: list[Token], place: int) -> int | None:
    """The beginning of the attributes, or of the command with ``in``, that end at ``place``."""
    if tokens[place].text == "]":
        return _find_attributes(tokens, place)
    return _find_in_command(tokens, place) if tokens[place].text == "in" else None


def _find_attributes(tokens: list[Token], place: int) -> int | None:
    """The place of the ``@[`` that the bracket at ``place`` closes."""
    depth = 0
    for i in range(place, -1, -1):
        if tokens[i].text == "]":
            depth += 1
        elif tokens[i].text in ("[", "#[", "![", "!![", "@["):
            depth -= 1
            if depth == 0:
                return i if tokens[i].text == "@[" else None
    return None


def _find_in_command(tokens: list[Token], place: int) -> int | None:
    """The place of the ``open``, ``set_option`` ... that the ``in`` at ``place`` belongs to."""
    for i in range(place - 1, max(-1, place - 40), -1):
        if tokens[i].text in ("open", "set_option", "variable", "include", "omit", "attribute"):
            return i
        if tokens[i].text in (":=", "by", "in") or tokens[i].text in NAMED_DECLARATIONS:
            return None
    return None


def find_target(problem: Problem) -> str:
    """The full name of the declaration in whose value the hole stands.

    Raises ``ProblemError`` when there is none, when it has no name, or when its name cannot be
    asked for (``private``).
    """
    try:
        return _find_target(problem.preamble, problem.statement)
    except ProblemError as error:
        raise ProblemError(f"problem {problem.id!r}: {error}") from error


@cache_texts
def _find_target(preamble: str, statement: str) -> str:
    before, _, _ = statement.partition(HOLE)
    found = [d for d in find_declarations(preamble + before) if d.offset >= len(preamble)]
    if not found:
        raise ProblemError(
            "no declaration before the hole; write the statement as 'theorem name : type := by', "
            "and the hole after it"
        )
    target = found[-1]
    if target.keyword not in _PROVABLE:
        remedy = "name it with 'theorem' or 'def'"
        raise ProblemError(
            f"the hole is in {target.keyword!r}, which cannot be asked for; {remedy}"
        )
    if not target.name:
        raise ProblemError(f"the {target.keyword} before the hole has no name; give it one")
    if "private" in target.modifiers:
        raise ProblemError(f"{target.name} is private; drop that word")
    return target.name


def problem_from_statement(
    problem_id: str,
    text: str,
    *,
    header: str = "",
    kind: ProofKind = "tactics",
    split: Split = "train",
    origin: str = "",
    informal: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem from a statement that ends in ``:=``, ``:= by``, ``:= by sorry`` or ``:= sorry``.

    The imports and the text before the declaration may stand in ``header`` or at the start of
    ``text``. Text after the ``sorry`` stays behind the hole. Raises ``ProblemError`` that names
    what was looked for.
    """
    try:
        preamble, statement = _cut_statement(header, text, kind)
    except ProblemError as error:
        raise ProblemError(f"problem {problem_id!r}: {error}") from error
    problem = Problem(
        id=problem_id,
        language="lean",
        kind=kind,
        preamble=preamble,
        statement=statement,
        split=split,
        origin=origin,
        informal=informal,
        metadata=metadata or {},
    )
    find_target(problem)
    return problem


def _cut_statement(header: str, text: str, kind: ProofKind) -> tuple[str, str]:
    """Preamble, and statement with its hole."""
    if HOLE in text or HOLE in header:
        raise ProblemError(f"the text holds the marker {HOLE} already; read it as a problem")
    if header.strip() and split_header(text)[0]:
        raise ProblemError("both the header and the text hold imports; leave them in one place")
    tokens = scan_tokens(text)
    if tokens and tokens[-1].kind == "broken":
        where = f"line {tokens[-1].line}"
        raise ProblemError(f"a comment, string or name that opens in {where} is never closed")
    cut, after = _find_ending([token for token in tokens if token.is_code], text)
    found = [d for d in find_declarations(text[:cut]) if d.keyword in _PROVABLE | _NAMELESS]
    if not found:
        raise ProblemError("no theorem, lemma, def, abbrev, example or instance before its ':='")
    start = found[-1].start
    hole = _HOLE_TEXTS[kind]
    tail = after.lstrip("\n")
    before = [token for token in tokens if token.offset < cut and token.kind != "blank"]
    # What follows a comment on its line is part of it.
    gap = "\n    " if before[-1].kind == "comment" else " "
    statement = text[start:cut].rstrip() + gap + hole + tail
    return _join_lines(header, text[:start]), statement


def _find_ending(code: list[Token], text: str) -> tuple[int, str]:
    """The place of the statement's ``:=``, and the text after the old proof."""
    sorries = [i for i, token in enumerate(code) if token.text == "sorry"]
    if len(sorries) > 1:
        lines = ", ".join(str(code[i].line) for i in sorries)
        raise ProblemError(
            f"{len(sorries)} sorries (lines {lines}); give the answers that all but one stand for"
        )
    last = sorries[0] - 1 if sorries else len(code) - 1
    after = text[code[sorries[0]].end :] if sorries else ""
    if last >= 1 and code[last].text == "by":
        last -= 1
    if last >= 0 and code[last].text == ":=":
        return code[last].offset, after
    ends = text.rstrip()[-40:]
    raise ProblemError(
        f"the statement must end in ':=', ':= by', ':= by sorry' or ':= sorry'; it ends in {ends!r}"
    )


def _join_lines(*parts: str) -> str:
    """The parts one after another, each ended by one line break at least."""
    return "".join(re.sub(r"\n*\Z", "\n", part, count=1) for part in parts if part.strip())
