"""Dafny programs as declarations that can be taken apart and written again.

Flows in: the text of a problem with its hole. Flows out: ``Declaration``s with their parameters and
clauses as text, and small rewritings of text by token that keep its layout.
Not handled here: type parameters, classes and modules (refused); scopes: a name is rewritten
wherever it stands in the text that is given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from proverrl.errors import ProblemError
from proverrl.lang.dafny.generate.names import GLOBAL_POOLS, VARIABLE_POOLS
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.program import Element, parse_program
from proverrl.lang.dafny.syntax.text import BUILT_IN_MEMBERS, KEYWORDS, scan_places
from proverrl.lang.dafny.syntax.tokens import Token, find_places, read_file
from proverrl.types import HOLE, Problem

Formal = tuple[str, str]
"""A parameter: its name and its type."""

Piece = tuple[str, str, int]
"""A token: kind, text, place in characters."""

_MEMBERS = ("function", "predicate", "method", "lemma")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A top-level declaration. ``text`` is how it stands in the program.

    ``prefix`` is all before the name (``lemma {:induction false}``), ``result`` what follows a
    function's parameters (``: int``), ``clauses`` are pairs of word and expression, ``body`` has
    its braces. What is no function, predicate, method or lemma has ``text`` and ``word`` only.
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


@dataclass(frozen=True, slots=True)
class Program:
    """Declarations in their order; exactly one holds the hole."""

    declarations: tuple[Declaration, ...]

    @property
    def target(self) -> Declaration:
        """The declaration that holds the hole."""
        return next(d for d in self.declarations if d.has_hole)

    @property
    def others(self) -> tuple[Declaration, ...]:
        return tuple(d for d in self.declarations if not d.has_hole)

    def with_target(self, *targets: Declaration) -> Program:
        """The program with other declarations in the place of the one with the hole."""
        place = self.declarations.index(self.target)
        parts = (*self.declarations[:place], *targets, *self.declarations[place + 1 :])
        return Program(parts)

    @property
    def text(self) -> str:
        return "\n".join(d.text for d in self.declarations) + "\n"


def read_problem(problem: Problem) -> Program:
    """The program of a problem. Raises ``ProblemError`` for what is outside this module's forms."""
    return read_program(problem.preamble + problem.statement)


@lru_cache(maxsize=4096)
def read_program(text: str) -> Program:
    """The declarations of a text with one hole. Raises ``ProblemError``."""
    if text.count(HOLE) != 1:
        raise ProblemError(f"a program to compose from must hold {HOLE} exactly once")
    tokens, findings = read_file(text)
    if findings:
        raise ProblemError(f"line {findings[0].line}: {findings[0].message}")
    try:
        root = parse_program(tokens)
    except GrammarError as error:
        raise ProblemError(f"line {error.finding.line}: {error.finding.message}") from error
    places = find_places(text, tokens)
    found = tuple(_read_member(text, tokens, places, e) for e in root.slots[0].elements)
    if sum(d.has_hole for d in found) != 1 or not next(d for d in found if d.has_hole).name:
        raise ProblemError("the hole must stand in a top-level method, function or lemma")
    return Program(found)


def _read_member(
    text: str, tokens: list[Token], places: list[int], element: Element
) -> Declaration:
    def cut(start: int, end: int) -> str:
        if start >= end:
            return ""
        return text[places[start] : places[end - 1] + len(tokens[end - 1].text)]

    whole = cut(element.start, element.end)
    if element.word not in _MEMBERS or not element.slots:
        return Declaration(element.word, whole)
    clauses = element.slots[0]
    name_at = next(i for i in range(element.start, element.end) if tokens[i].text == element.name)
    opened = name_at + 1
    if tokens[opened].text != "(":
        raise ProblemError(f"{element.name}: type parameters and bare names are not composed")
    closed = _find_close(tokens, opened)
    formals = _read_formals(cut(opened + 1, closed))
    rest, result = closed + 1, ""
    returns: tuple[Formal, ...] = ()
    if rest < clauses.start and tokens[rest].text == "returns":
        returns = _read_formals(cut(rest + 2, _find_close(tokens, rest + 1)))
    elif rest < clauses.start:
        result = cut(rest, clauses.start)
    return Declaration(
        word=element.word,
        text=whole,
        name=element.name,
        prefix=cut(element.start, name_at),
        formals=formals,
        returns=returns,
        result=result,
        clauses=tuple((e.word, cut(e.start + 1, e.end)) for e in clauses.elements),
        body=cut(clauses.end, element.end),
    )


def _find_close(tokens: list[Token], opened: int) -> int:
    depth = 0
    for place in range(opened, len(tokens)):
        depth += (tokens[place].text == "(") - (tokens[place].text == ")")
        if depth == 0:
            return place
    raise ProblemError("a bracket is never closed")


def _read_formals(text: str) -> tuple[Formal, ...]:
    formals = []
    for part in split_at(text, ",", is_type=True):
        name, colon, kind = part.partition(":")
        if not colon:
            raise ProblemError(f"the parameter {part!r} has no type")
        formals.append((name.strip(), kind.strip()))
    return tuple(formals)


def split_at(text: str, mark: str, *, is_type: bool = False) -> list[str]:
    """The parts of a text between top-level tokens ``mark``; none for an empty text.

    In types ``<`` is a bracket.
    """
    opening, closing = ("([{<", ")]}>") if is_type else ("([{", ")]}")
    parts, depth, start = [], 0, 0
    for _, piece, place in scan_places(text):
        depth += (piece in opening) - (piece in closing)
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


def map_tokens(text: str, rewrite: Callable[[list[Piece], int], str | None]) -> str:
    """The text, each token replaced by what ``rewrite`` gives for its place; None leaves it."""
    pieces, parts, end = scan_places(text), [], 0
    for number, (_, piece, place) in enumerate(pieces):
        changed = rewrite(pieces, number)
        parts += [text[end:place], piece if changed is None else changed]
        end = place + len(piece)
    return "".join([*parts, text[end:]])


def list_names(text: str) -> set[str]:
    """Names that a program uses and the language does not give."""
    return {
        piece.rstrip("?")
        for kind, piece, _ in scan_places(text)
        if kind == "name" and piece not in KEYWORDS and piece not in BUILT_IN_MEMBERS
    }


def rename(text: str, names: Mapping[str, str]) -> str:
    """The text with names replaced, discriminators (``Nil?``) too."""

    def change(pieces: list[Piece], place: int) -> str | None:
        kind, piece, _ = pieces[place]
        stem = piece.rstrip("?")
        return names[stem] + piece[len(stem) :] if kind == "name" and stem in names else None

    return map_tokens(text, change)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text with variables replaced by expressions, in brackets where these are needed."""

    def change(pieces: list[Piece], place: int) -> str | None:
        kind, piece, _ = pieces[place]
        if kind != "name" or piece not in values or (place and pieces[place - 1][1] == "."):
            return None
        value = values[piece]
        before = pieces[place - 1][1] if place else ""
        after = pieces[place + 1][1] if place + 1 < len(pieces) else ""
        is_alone = before in ("(", ",") and after in (")", ",")
        return value if is_alone or len(scan_places(value)) == 1 else f"({value})"

    return map_tokens(text, change)


def edit_calls(text: str, name: str, edit: Callable[[list[str]], list[str]], to: str = "") -> str:
    """The text with the arguments of every call of ``name`` edited, calls inside calls too.

    ``to`` is another name to call.
    """
    out, rest = "", text
    while True:
        pieces = scan_places(rest)
        found = next(
            (
                i
                for i, (kind, piece, _) in enumerate(pieces[:-1])
                if kind == "name" and piece == name and pieces[i + 1][1] == "("
            ),
            None,
        )
        if found is None:
            return out + rest
        opened = pieces[found + 1][2]
        depth, closed = 0, len(rest)
        for _, piece, place in pieces[found + 1 :]:
            depth += (piece == "(") - (piece == ")")
            if depth == 0:
                closed = place
                break
        inside = edit_calls(rest[opened + 1 : closed], name, edit, to)
        arguments = edit(split_at(inside, ","))
        out += f"{rest[: pieces[found][2]]}{to or name}({', '.join(arguments)})"
        rest = rest[closed + 1 :]


class FreshNames:
    """Names that a program does not use yet, from those that generated training programs use."""

    def __init__(self, rng: random.Random, used: Iterable[str]) -> None:
        self._rng = rng
        self._used = set(used)

    def pick(self, role: str) -> str:
        """A new name of a role (``lemma``, ``counter``), or of any role of variables or of
        declarations, as ``role`` is itself a name and small or capitalised."""
        pools = GLOBAL_POOLS if role in GLOBAL_POOLS or role[:1].isupper() else VARIABLE_POOLS
        wanted = [pools[role]] if role in pools else list(pools.values())
        free = sorted({name for train, _ in wanted for name in train} - self._used)
        spare = sorted({name for train, _ in pools.values() for name in train} - self._used)
        name = self._rng.choice(free or spare) if free or spare else f"{role}{len(self._used)}"
        self._used.add(name)
        return name


def make_disjoint(
    first: Sequence[str], second: Sequence[str], rng: random.Random
) -> tuple[str, ...]:
    """The texts of ``second`` with every name that the texts of ``first`` use too made fresh."""
    used = set().union(*map(list_names, first))
    own = set().union(*map(list_names, second))
    fresh = FreshNames(rng, used | own)
    names = {name: fresh.pick(name) for name in sorted(used & own)}
    return tuple(rename(text, names) for text in second)
