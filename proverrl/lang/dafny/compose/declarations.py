"""Problems as programs of Dafny declarations, and their text rewritten by token.

Flows in: the text of a problem with its hole. Flows out: a ``Program``, and text with its layout
kept. Not handled here: type parameters, classes and modules (refused); scopes: a name is rewritten
wherever it stands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.declarations import Declaration, read_declarations, split_at
from proverrl.lang.dafny.syntax.names import GLOBAL_POOLS, VARIABLE_POOLS
from proverrl.lang.dafny.syntax.text import BUILT_IN_MEMBERS, KEYWORDS, scan_places
from proverrl.text_cache import cache_texts
from proverrl.types import HOLE, Problem

Piece = tuple[str, str, int]
"""A token: kind, text, place in characters."""


OPEN_BODY = f"{{\n  {HOLE}\n}}"
"""A body that is nothing but the hole."""


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
        return Program((*self.declarations[:place], *targets, *self.declarations[place + 1 :]))

    @property
    def text(self) -> str:
        return "\n".join(d.text for d in self.declarations) + "\n"


def read_problem(problem: Problem) -> Program:
    """The program of a problem. Raises ``ProblemError`` for a form outside this module's."""
    return read_program(problem.preamble + problem.statement)


@cache_texts
def read_program(text: str) -> Program:
    """The declarations of a text with one hole. Raises ``ProblemError``."""
    if text.count(HOLE) != 1:
        raise ProblemError(f"a program to compose from must hold {HOLE} exactly once")
    found = read_declarations(text)
    if sum(d.has_hole for d in found) != 1 or not next(d for d in found if d.has_hole).name:
        raise ProblemError("the hole must stand in a top-level method, function or lemma")
    return Program(found)


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
    pieces = scan_places(text)
    starts = (
        at
        for at, ((kind, piece, _), (_, after, _)) in enumerate(pairwise(pieces))
        if kind == "name" and piece == name and after == "("
    )
    found = next(starts, None)
    if found is None:
        return text
    opened = pieces[found + 1][2]
    depths = accumulate((piece == "(") - (piece == ")") for _, piece, _ in pieces[found + 1 :])
    length = next((at for at, depth in enumerate(depths) if depth == 0), None)
    closed = len(text) if length is None else pieces[found + 1 + length][2]
    inside = edit_calls(text[opened + 1 : closed], name, edit, to)
    call = f"{to or name}({', '.join(edit(split_at(inside, ',')))})"
    return text[: pieces[found][2]] + call + edit_calls(text[closed + 1 :], name, edit, to)


def conjoin(claims: Sequence[str]) -> str:
    """All claims as one, each in brackets."""
    return " && ".join(f"({claim})" for claim in claims)


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
