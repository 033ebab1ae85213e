"""Changes a proposition as formalisers get it wrong, and says in which way; or only its wording.

Flows in: a closed proposition of the curriculum's kind and a random source. Flows out: another one,
and one of the kinds of error of CriticLean (Peng et al. 2025, arXiv 2507.06181), or none. Not
handled here: whether what comes out means something else (``equivalent`` finds out). Two of its
kinds have no room: a type that is changed, and a hypothesis too many, after which a true
proposition stays true.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.lang.lean.formal.difference import Closed, read_closed
from proverrl.lang.lean.formal.phrases import read_phrase
from proverrl.lang.lean.syntax.tokens import Token, scan_code

Table = Mapping[str, Sequence[str]]
Spoil = Callable[[random.Random, "Sequent"], "Sequent | None"]

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
_BROKEN: Table = {")": ("",), "(": ("",), ",": ("",)}
_TURNED = frozenset("=↔")


@dataclass(frozen=True, slots=True)
class Sequent:
    """What a proposition is about, what it supposes and what it claims."""

    closed: Closed
    given: tuple[str, ...]
    claim: str

    def write(self) -> str:
        """The proposition."""
        groups = " ".join(f"({' '.join(names)} : {kind})" for names, kind in self.closed.about)
        says = " → ".join([*self.given, self.claim])
        return f"∀ {groups}, {says}" if groups else says


def spoil(rng: random.Random, body: str) -> tuple[str, str] | None:
    """A proposition with one error, and its kind; None where no kind of error has a hold on it."""
    sequent = read_sequent(body)
    if sequent is None:
        return None
    for kind in rng.sample(sorted(ERRORS), len(ERRORS)):
        changed = ERRORS[kind](rng, sequent)
        if changed is not None:
            return changed.write(), kind
    return None


def reword(rng: random.Random, body: str) -> str | None:
    """What is supposed in another order, and the sides of equations exchanged, so that neither
    tells that a proposition is wrong; None for another text."""
    sequent = read_sequent(body)
    if sequent is None:
        return None
    given = [_turn(text) if rng.random() < 0.5 else text for text in sequent.given]
    return replace(sequent, given=tuple(rng.sample(given, len(given)))).write()


def read_sequent(body: str) -> Sequent | None:
    """A closed proposition in its parts; None for a text of another kind."""
    closed = read_closed(body)
    if closed is None:
        return None
    *given, claim = _split(closed.says, "→")
    return Sequent(closed, tuple(given), claim)


def _split(text: str, sign: str) -> list[str]:
    """The parts between this sign where it stands in no bracket and under no quantifier."""
    parts, start, depth = list[str](), 0, 0
    for token in scan_code(text):
        depth += (token.text in "({") - (token.text in ")}")
        if depth == 0 and token.text in ("∀", "∃"):
            break
        if depth == 0 and token.text == sign:
            parts.append(text[start : token.offset].strip())
            start = token.end
    return [*parts, text[start:].strip()]


def _turn(text: str) -> str:
    """``a = b`` as ``b = a``, in brackets or not; anything else as it is."""
    inner = text[1:-1] if text.startswith("(") and _split(text, "→") == [text] else text
    for sign in _TURNED:
        sides = _split(inner, sign)
        if len(sides) == 2:
            turned = f"{sides[1]} {sign} {sides[0]}"
            return f"({turned})" if inner != text else turned
    return text


def _change(text: str, table: Table, rng: random.Random) -> str | None:
    """One piece of a text becomes another; None where the table has none of them."""
    found = [token for token in scan_code(text) if token.text in table]
    if not found:
        return None
    token = rng.choice(found)
    return _put(text, token, rng.choice(table[token.text]))


def _put(text: str, token: Token, new: str) -> str:
    return text[: token.offset] + new + text[token.end :]


def _mix_up(sequent: Sequent) -> Table:
    """Each name with the others of its type."""
    kinds = sequent.closed.list_kinds()
    return {
        name: others
        for name, kind in kinds.items()
        if (others := [other for other, its in kinds.items() if its == kind and other != name])
    }


def _misstate(rng: random.Random, text: str, sequent: Sequent) -> str | None:
    """A sign or a name becomes another one."""
    tables = [_SIGNS, _mix_up(sequent)]
    rng.shuffle(tables)
    return next((new for table in tables if (new := _change(text, table, rng))), None)


def _premise(rng: random.Random, sequent: Sequent) -> Sequent | None:
    if not sequent.given:
        return None
    place = rng.randrange(len(sequent.given))
    new = _misstate(rng, sequent.given[place], sequent)
    return None if new is None else _put_given(sequent, place, new)


def _goal(rng: random.Random, sequent: Sequent) -> Sequent | None:
    new = _misstate(rng, sequent.claim, sequent)
    return None if new is None else replace(sequent, claim=new)


def _misrepresent(rng: random.Random, sequent: Sequent) -> Sequent | None:
    """A number becomes its neighbour."""
    places = [*range(len(sequent.given)), -1]
    for place in rng.sample(places, len(places)):
        text = sequent.claim if place < 0 else sequent.given[place]
        numbers = {t.text for t in scan_code(text) if t.kind == "number" and t.text.isdecimal()}
        near = {number: (str(int(number) + 1), str(max(0, int(number) - 1))) for number in numbers}
        if new := _change(text, near, rng):
            return replace(sequent, claim=new) if place < 0 else _put_given(sequent, place, new)
    return None


def _leave_out(rng: random.Random, sequent: Sequent) -> Sequent | None:
    """A hypothesis less."""
    if not sequent.given:
        return None
    place = rng.randrange(len(sequent.given))
    return replace(sequent, given=sequent.given[:place] + sequent.given[place + 1 :])


def _break(rng: random.Random, sequent: Sequent) -> Sequent | None:
    new = _change(sequent.claim, _BROKEN, rng)
    return None if new is None or read_phrase(new) else replace(sequent, claim=new)


def _put_given(sequent: Sequent, place: int, new: str) -> Sequent:
    return replace(sequent, given=(*sequent.given[:place], new, *sequent.given[place + 1 :]))


ERRORS: Mapping[str, Spoil] = {
    "premise": _premise,
    "goal": _goal,
    "representation": _misrepresent,
    "incomplete": _leave_out,
    "syntax": _break,
}
