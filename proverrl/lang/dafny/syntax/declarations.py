"""Dafny declarations as text that can be taken apart and written again.

Flows in: the text of a program; a hole in it is a comment. Flows out: ``Declaration``s.
Not handled here: type parameters (refused), what the parts mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.lang.dafny.syntax.tokens import find_close
from proverrl.types import HOLE

Formal = tuple[str, str]
"""A parameter: its name and its type."""

_MEMBERS = ("function", "predicate", "method", "lemma", "constructor")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration. ``text`` is how it stands in the program.

    ``prefix`` is all before the name (``lemma {:induction false}``), ``result`` what follows a
    function's parameters (``: int``), ``clauses`` are pairs of word and expression, ``body`` has
    its braces. What is no function, predicate, method or lemma has ``text`` and ``word`` only.

    Places are characters of the text that it was read from: ``start`` the keyword, ``opening`` the
    body.
    """

    word: str
    text: str
    name: str = ""
    prefix: str = ""
    formals: tuple[Formal, ...] = ()
    returns: tuple[Formal, ...] = ()
    result: str = ""
    clauses: tuple[tuple[str, str], ...] = ()
    body: str = ""
    start: int = 0
    opening: int = 0

    @property
    def has_hole(self) -> bool:
        return HOLE in self.text

    @property
    def inner(self) -> str:
        """The body without its braces, no blank line at either end."""
        return self.body[1:-1].strip("\n").rstrip()

    def list_clauses(self, word: str) -> list[str]:
        """The expressions of the clauses of one kind."""
        return [text for kind, text in self.clauses if kind == word]

    def rewrite(self, **changes: object) -> Declaration:
        """A copy with other parts, and with the text that they make."""
        changed = replace(self, **changes)  # type: ignore[arg-type]
        return replace(changed, text=_write(changed))


def parse_text(text: str, **kinds: bool) -> ParsedProgram:
    """As ``read_text``; raises ``ProblemError`` for what is no program."""
    try:
        return read_text(text, **kinds)
    except GrammarError as error:
        raise ProblemError(f"line {error.finding.line}: {error}") from error


def read_element(
    program: ParsedProgram, element: Element, *, is_generic: bool = False
) -> Declaration:
    """A declaration of a program. Raises ``ProblemError`` for one without parameters, or with type
    parameters, which ``is_generic`` passes over."""
    whole = program.cut(element.start, element.end)
    if not _is_member(element):
        return Declaration(element.word, whole)
    words = [token.text for token in program.tokens]
    clauses = element.slots[0]
    named = words.index(element.name, element.start)
    has_types = is_generic and words[named + 1 : named + 2] == ["<"]
    opened = words.index(">", named) + 1 if has_types else named + 1
    if words[opened : opened + 1] != ["("]:
        raise ProblemError(f"{element.name}: type parameters and bare names are not composed")
    closed = find_close(program.tokens, opened)
    rest, returns = closed + 1, ""
    if rest < clauses.start and words[rest] == "returns":
        rest = find_close(program.tokens, rest + 1) + 1
        returns = program.cut(closed + 3, rest - 1)
    return Declaration(
        word=element.word,
        text=whole,
        name=element.name,
        prefix=program.cut(element.start, named),
        formals=_read_formals(program.cut(opened + 1, closed)),
        returns=_read_formals(returns),
        result=program.cut(rest, clauses.start),
        clauses=tuple(
            (e.word, program.cut(e.start + 1, e.end).rstrip(";")) for e in clauses.elements
        ),
        body=program.cut(clauses.end, element.end),
        start=program.places[words.index(element.word, element.start)],
        opening=program.places[clauses.end],
    )


def _is_member(element: Element) -> bool:
    return element.word in _MEMBERS and bool(element.slots)


def read_declarations(text: str) -> tuple[Declaration, ...]:
    """The top-level declarations of a program. Raises ``ProblemError``."""
    program = parse_text(text)
    return tuple(read_element(program, e) for e in program.root.slots[0].elements)


def _read_formals(text: str) -> tuple[Formal, ...]:
    formals = []
    for part in split_at(text, ",", is_type=True):
        name, colon, kind = part.partition(":")
        if not colon:
            raise ProblemError(f"the parameter {part!r} has no type")
        formals.append((name.strip(), kind.strip()))
    return tuple(formals)


def split_at(text: str, mark: str, *, is_type: bool = False) -> list[str]:
    """The parts of a text between top-level ``mark``s; none for an empty text. In types ``<`` is
    a bracket."""
    opening, closing = ("([{<", ")]}>") if is_type else ("([{", ")]}")
    parts, depth, start = [], 0, 0
    for _, piece, place in scan_places(text):
        depth += (piece in opening or piece.startswith("{:")) - (piece in closing)
        if piece == mark and depth == 0:
            parts.append(text[start:place].strip())
            start = place + len(mark)
    last = text[start:].strip()
    return [*parts, last] if last else parts


def write_formals(formals: Iterable[Formal]) -> str:
    """Parameters as they stand between brackets."""
    return ", ".join(f"{name}: {kind}" for name, kind in formals)


def _write(declaration: Declaration) -> str:
    d = declaration
    head = f"{d.prefix} {d.name}({write_formals(d.formals)})"
    if d.returns:
        head += f" returns ({write_formals(d.returns)})"
    if d.result:
        head += d.result if d.result.startswith(":") else f" {d.result}"
    if not d.clauses:
        return f"{head} {d.body}" if d.word in ("function", "predicate") else f"{head}\n{d.body}"
    clauses = "".join(f"\n  {word} {text}" for word, text in d.clauses)
    return f"{head}{clauses}\n{d.body}"
