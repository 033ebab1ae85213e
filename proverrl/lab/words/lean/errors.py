"""Changes a proposition as formalisers get it wrong, and says in which way; or only its wording.

Flows in: a closed proposition of the curriculum's kind and a random source. Flows out: another one,
and one of the kinds of error of CriticLean (Peng et al. 2025, arXiv 2507.06181), or none. Not
handled here: whether what comes out means something else (``equivalent`` finds out), and two of its
kinds: a type that is changed, and a hypothesis too many, after which a true proposition stays true.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from proverrl.lab.words.lean.closed import Closed, read_closed, split_at
from proverrl.lab.words.lean.phrases import read_phrase
from proverrl.lang.lean.syntax.tokens import Token, scan_code

Table = Mapping[str, Sequence[str]]
Spoil = Callable[[random.Random, Closed], Closed | None]

_SIGNS: Table = {
    "∧": ("∨",),
    "∨": ("∧",),
    "↔": ("→",),
    "=": ("≠",),
    "≠": ("=",),
    "≤": ("<", "≥"),
    "<": ("≤", ">"),
    "∀": ("∃",),
    "∃": ("∀",),
}
_BROKEN: Table = dict.fromkeys("(),", ("",))
_TURNED = {"iff": "↔", "=": "="}
_SYNTAX = "syntax"


def spoil(rng: random.Random, body: str) -> tuple[str, str] | None:
    """A proposition with one error, and its kind; None where no kind of error has a hold on it."""
    closed = read_closed(body)
    if closed is None:
        return None
    kinds = [*sorted(ERRORS), _SYNTAX]
    for kind in rng.sample(kinds, len(kinds)):
        if kind == _SYNTAX:
            text = _change(closed.write(), _BROKEN, rng)
        else:
            changed = ERRORS[kind](rng, closed)
            text = None if changed is None else changed.write()
        if text is not None:
            return text, kind
    return None


def reword(rng: random.Random, body: str) -> str | None:
    """The suppositions in another order, and the sides of equations exchanged, so that neither
    tells that a proposition is wrong; None for another text."""
    closed = read_closed(body)
    if closed is None:
        return None
    given = [_turn(text) if rng.random() < 0.5 else text for text in closed.given]
    return replace(closed, given=tuple(rng.sample(given, len(given)))).write()


def _turn(text: str) -> str:
    """``a = b`` as ``b = a``, in brackets or not; anything else as it is."""
    phrase = read_phrase(text)
    sign = _TURNED.get("" if phrase is None else phrase.op)
    if sign is None:
        return text
    whole = len(split_at(text, sign)) == 2
    sides = split_at(text if whole else text[1:-1], sign)
    if len(sides) != 2:
        return text
    turned = f"{sides[1]} {sign} {sides[0]}"
    return turned if whole else f"({turned})"


def _change(text: str, table: Table, rng: random.Random) -> str | None:
    """One piece of a text becomes another; None where the table has none of them."""
    found = [token for token in scan_code(text) if token.text in table]
    if not found:
        return None
    token = rng.choice(found)
    return _put(text, token, rng.choice(table[token.text]))


def _put(text: str, token: Token, new: str) -> str:
    return text[: token.offset] + new + text[token.end :]


def _mix_up(closed: Closed) -> Table:
    """Each name with the others of its type."""
    names = closed.list_names()
    return {
        name: others
        for name, kind in names
        if (others := [other for other, its in names if its == kind and other != name])
    }


def _misstate(rng: random.Random, text: str, closed: Closed) -> str | None:
    """A sign or a name becomes another one."""
    tables = [_SIGNS, _mix_up(closed)]
    rng.shuffle(tables)
    return next((new for table in tables if (new := _change(text, table, rng))), None)


def _premise(rng: random.Random, closed: Closed) -> Closed | None:
    if not closed.given:
        return None
    place = rng.randrange(len(closed.given))
    new = _misstate(rng, closed.given[place], closed)
    return None if new is None else _put_given(closed, place, new)


def _goal(rng: random.Random, closed: Closed) -> Closed | None:
    new = _misstate(rng, closed.claim, closed)
    return None if new is None else replace(closed, claim=new)


def _misrepresent(rng: random.Random, closed: Closed) -> Closed | None:
    """A number becomes its neighbour."""
    places = [*range(len(closed.given)), -1]
    for place in rng.sample(places, len(places)):
        text = closed.claim if place < 0 else closed.given[place]
        numbers = {t.text for t in scan_code(text) if t.kind == "number" and t.text.isdecimal()}
        near = {number: (str(int(number) + 1), str(max(0, int(number) - 1))) for number in numbers}
        if new := _change(text, near, rng):
            return replace(closed, claim=new) if place < 0 else _put_given(closed, place, new)
    return None


def _leave_out(rng: random.Random, closed: Closed) -> Closed | None:
    """A hypothesis less."""
    if not closed.given:
        return None
    place = rng.randrange(len(closed.given))
    return replace(closed, given=closed.given[:place] + closed.given[place + 1 :])


def _put_given(closed: Closed, place: int, new: str) -> Closed:
    return replace(closed, given=(*closed.given[:place], new, *closed.given[place + 1 :]))


ERRORS: Mapping[str, Spoil] = {
    "premise": _premise,
    "goal": _goal,
    "representation": _misrepresent,
    "incomplete": _leave_out,
}
