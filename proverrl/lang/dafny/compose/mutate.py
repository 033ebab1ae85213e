"""Mutations of one Dafny problem: constants, signs, bounds, assumptions, conclusions.

Flows in: a parent. Flows out: a changed program with one hole; where what changes is the same name
or number throughout, the reference changes with it. Not handled here: whether the result is true
(often not, where a claim changes; the filters find out).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from proverrl.lang.dafny.compose.declarations import Piece, map_tokens, read_problem
from proverrl.lang.dafny.syntax.declarations import Declaration
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_places
from proverrl.lang.pools import is_train_number
from proverrl.lang.records import Made, Parent

MIN_CONSTANT = 3
"""Smaller numbers belong to the structure of a program (halves, unit steps, base cases)."""

_FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_WEAKER: Mapping[str, tuple[str, ...]] = {
    "==": ("<=", ">="),
    "<": ("<=",),
    ">": (">=",),
    "<==>": ("==>", "<=="),
}
_STRONGER: Mapping[str, tuple[str, ...]] = {"<=": ("<", "=="), ">=": (">", "==")}


def change_constant(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One number of the program becomes another wherever it stands, in the reference too."""
    parent = parents[0]
    text = read_problem(parent.problem).text
    old = _pick(rng, list_constants(text))
    if old is None:
        return None
    taken = {piece for kind, piece, _ in scan_places(text) if kind == "number"}
    free = [
        str(value)
        for value in range(MIN_CONSTANT, 41)
        if str(value) not in taken
        and all(is_train_number(role, value) for role in ("slope", "offset", "limit", "base"))
    ]
    new = rng.choice(free)

    def change(pieces: list[Piece], place: int) -> str | None:
        return new if pieces[place][:2] == ("number", old) else None

    return _map_both(parent, change)


def flip_sign(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One number c of the program becomes -c wherever it stands, in the reference too."""
    parent = parents[0]
    text = read_problem(parent.problem).text
    old = _pick(rng, list_constants(text))
    if old is None:
        return None

    def is_binary(pieces: list[Piece], sign: int) -> bool:
        if sign == 0:
            return False
        kind, piece, _ = pieces[sign - 1]
        return (kind == "name" and piece not in KEYWORDS) or piece in ")]|"

    def change(pieces: list[Piece], place: int) -> str | None:
        kind, piece, _ = pieces[place]
        after = pieces[place + 1][1] if place + 1 < len(pieces) else ""
        if piece in "+-" and after == old:
            binary = is_binary(pieces, place) or (place > 0 and pieces[place - 1][0] == "number")
            return ("-" if piece == "+" else "+") if binary else ""
        before = pieces[place - 1][1] if place else ""
        if (kind, piece) == ("number", old) and before not in ("+", "-"):
            return f"-{old}"
        return None

    return _map_both(parent, change)


def change_bound(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """Comparisons with one number become strict or cease to be, throughout, so that a test and
    its opposite stay opposites."""
    parent = parents[0]
    pieces = scan_places(read_problem(parent.problem).text)
    numbers = {
        after
        for (_, piece, _), (kind, after, _) in pairwise(pieces)
        if piece in _FLIPPED and kind == "number" and int(after, 0) >= 1
    }
    limit = _pick(rng, sorted(numbers))
    if limit is None:
        return None

    def change(pieces: list[Piece], place: int) -> str | None:
        after = pieces[place + 1][1] if place + 1 < len(pieces) else ""
        return _FLIPPED.get(pieces[place][1]) if after == limit else None

    return _map_both(parent, change)


def drop_requires(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One precondition less; the reference stays, and may no longer do."""
    return _drop(rng, parents[0], "requires", least=1)


def add_requires(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One precondition more, a bound on a whole-number parameter: easier for a loop, harder for an
    induction that must keep it."""

    def change(target: Declaration) -> Declaration | None:
        names = [name for name, kind in target.formals if kind in ("nat", "int")]
        if not names:
            return None
        operator = rng.choice((">=", "<=", "!="))
        clause = ("requires", f"{rng.choice(names)} {operator} {rng.randint(2, 9)}")
        return target.rewrite(clauses=(clause, *target.clauses))

    return _map_target(parents[0], change)


def drop_ensures(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One conclusion less, of two or more."""
    return _drop(rng, parents[0], "ensures", least=2)


def _drop(rng: random.Random, parent: Parent, word: str, least: int) -> Made | None:
    def change(target: Declaration) -> Declaration | None:
        places = [i for i, (kind, _) in enumerate(target.clauses) if kind == word]
        if len(places) < least:
            return None
        place = rng.choice(places)
        return target.rewrite(clauses=target.clauses[:place] + target.clauses[place + 1 :])

    return _map_target(parent, change)


def weaken_ensures(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A comparison of a conclusion becomes one that it implies."""
    return _map_target(parents[0], lambda t: _change_claim(rng, t, _WEAKER))


def strengthen_ensures(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A comparison of a conclusion becomes one that implies it: false as often as not."""
    return _map_target(parents[0], lambda t: _change_claim(rng, t, _STRONGER))


def _change_claim(
    rng: random.Random, target: Declaration, table: Mapping[str, tuple[str, ...]]
) -> Declaration | None:
    places = []
    for clause, (word, text) in enumerate(target.clauses):
        if word != "ensures":
            continue
        pieces = scan_places(text)
        # A quantifier's range and what an implication assumes are left alone: they are no claims.
        start = max((i for i, p in enumerate(pieces) if p[1] in ("==>", "&&", "::")), default=-1)
        places += [
            (clause, i)
            for i, (_, piece, _) in enumerate(pieces)
            if piece in table and (i > start or piece == "<==>")
        ]
    if not places:
        return None
    clause, at = rng.choice(places)
    clauses = list(target.clauses)
    word, text = clauses[clause]
    new = rng.choice(table[scan_places(text)[at][1]])
    clauses[clause] = word, map_tokens(text, lambda _, place: new if place == at else None)
    return target.rewrite(clauses=tuple(clauses))


def _map_target(parent: Parent, change: Callable[[Declaration], Declaration | None]) -> Made | None:
    program = read_problem(parent.problem)
    changed = change(program.target)
    if changed is None:
        return None
    return Made(parent.problem.kind, program.with_target(changed).text, parent.reference)


def _map_both(parent: Parent, change: Callable[[list[Piece], int], str | None]) -> Made:
    reference = parent.reference
    return Made(
        parent.problem.kind,
        map_tokens(read_problem(parent.problem).text, change),
        None if reference is None else map_tokens(reference, change),
    )


def list_constants(text: str) -> list[str]:
    """Whole numbers of a program that are not part of its structure."""
    return sorted(
        {
            piece
            for kind, piece, _ in scan_places(text)
            if kind == "number" and piece.isdigit() and int(piece) >= MIN_CONSTANT
        }
    )


def _pick(rng: random.Random, items: Sequence[str]) -> str | None:
    return rng.choice(items) if items else None
