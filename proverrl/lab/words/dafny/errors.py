"""Changes a contract as formalisers get it wrong, and says in which way; or only its wording.

Flows in: the clauses of a contract and a random source. Flows out: other clauses, and one of the
kinds of error of CriticLean (Peng et al. 2025, arXiv 2507.06181), or none. Not handled here:
whether what comes out means something else (``equivalent`` finds out); its kind ``type``, for which
a contract whose head is given has no room.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from proverrl.lang.dafny.compose.declarations import map_tokens
from proverrl.lang.dafny.syntax.text import scan_places

Clause = tuple[str, str]
Spoil = Callable[[random.Random, list[Clause], Sequence[str]], list[Clause] | None]

_RELATIONS: Mapping[str, tuple[str, ...]] = {
    "==": ("<=", ">=", "!="),
    "!=": ("==",),
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "<==>": ("==>",),
}
_SIGNS: Mapping[str, tuple[str, ...]] = {"+": ("-",), "-": ("+",), "*": ("+",), "%": ("/",)}
_TURNED: Mapping[str, str] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_JOINS = frozenset(("==>", "<==>", "&&", "||", "::", "if", ":="))
_ALWAYS = (">= 0", "> -1", "!= -1")
_BROKEN: Mapping[str, tuple[str, ...]] = {"==": ("=",), ")": ("",), "::": (":",), "]": ("",)}


def spoil(
    rng: random.Random, clauses: Sequence[Clause], parameters: Sequence[str]
) -> tuple[list[Clause], str] | None:
    """Clauses with one error, and its kind; None where no kind of error has a hold on them.
    ``parameters`` are whole numbers."""
    for kind in rng.sample(sorted(ERRORS), len(ERRORS)):
        changed = ERRORS[kind](rng, list(clauses), parameters)
        if changed is not None:
            return changed, kind
    return None


def reword(
    rng: random.Random, clauses: Sequence[Clause], parameters: Sequence[str]
) -> list[Clause]:
    """The clauses in another order, relations turned around, and what holds of any natural number
    demanded besides, so that neither order nor a demand more tells that a contract is wrong."""
    changed = [(word, _turn(text) if rng.random() < 0.5 else text) for word, text in clauses]
    if parameters and rng.random() < 0.5:
        changed.append(("requires", f"{rng.choice(parameters)} {rng.choice(_ALWAYS)}"))
    return rng.sample(changed, len(changed))


def _turn(text: str) -> str:
    """A single relation with its sides exchanged; anything else as it is."""
    places = scan_places(text)
    signs = [(piece, start) for _, piece, start in places if piece in _TURNED]
    if len(signs) != 1 or {piece for _, piece, _ in places} & _JOINS:
        return text
    sign, start = signs[0]
    left, right = text[:start].strip(), text[start + len(sign) :].strip()
    return f"{right} {_TURNED[sign]} {left}"


def _change(word: str, table: Mapping[str, tuple[str, ...]]) -> Spoil:
    """One sign of a clause of this kind becomes another."""

    def change(
        rng: random.Random, clauses: list[Clause], parameters: Sequence[str]
    ) -> list[Clause] | None:
        places = [
            (number, i)
            for number, (kind, text) in enumerate(clauses)
            for i, (_, piece, _) in enumerate(scan_places(text))
            if piece in table and word in ("", kind)
        ]
        if not places:
            return None
        number, at = rng.choice(places)
        kind, text = clauses[number]
        new = rng.choice(table[scan_places(text)[at][1]])
        clauses[number] = kind, map_tokens(text, lambda _, place: new if place == at else None)
        return clauses

    return change


def _misrepresent(
    rng: random.Random, clauses: list[Clause], parameters: Sequence[str]
) -> list[Clause] | None:
    """A constant becomes its neighbour, or a sign of arithmetic another one."""
    numbers = {p for _, text in clauses for kind, p, _ in scan_places(text) if kind == "number"}
    near = {p: (str(int(p) + 1), str(max(0, int(p) - 1))) for p in numbers if p.isdigit()}
    table = rng.choice([near, _SIGNS]) if near else _SIGNS
    return _change("", table)(rng, clauses, parameters)


def _leave_out(
    rng: random.Random, clauses: list[Clause], parameters: Sequence[str]
) -> list[Clause] | None:
    """A clause less."""
    if len(clauses) < 2:
        return None
    del clauses[rng.randrange(len(clauses))]
    return clauses


def _suppose(
    rng: random.Random, clauses: list[Clause], parameters: Sequence[str]
) -> list[Clause] | None:
    """A demand that nobody asked for."""
    if not parameters:
        return None
    bound = rng.choice(("!=", ">", "<="))
    return [("requires", f"{rng.choice(parameters)} {bound} {rng.randrange(1, 9)}"), *clauses]


ERRORS: Mapping[str, Spoil] = {
    "premise": _change("requires", _RELATIONS),
    "goal": _change("ensures", _RELATIONS),
    "representation": _misrepresent,
    "incomplete": _leave_out,
    "wrong assumption": _suppose,
    "syntax": _change("", _BROKEN),
}
