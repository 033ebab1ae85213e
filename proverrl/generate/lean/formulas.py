"""Formulas of first-order logic as values, and the facts that a proof has at a place.

Flows in: names and parts. Flows out: text with as few brackets as Lean itself prints; new local
facts and points, each a role and a number (``hyp#101``). Not handled here: which formulas are true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

_STRENGTH = {"∀": 0, "∃": 0, "↔": 20, "→": 25, "∨": 30, "∧": 35, "¬": 40, "=": 50}


@dataclass(frozen=True, slots=True)
class Formula:
    """An atom, which is a head without parts (a predicate and its points, or ``=`` and two
    points); or a connective and its parts; or a quantifier, its bound names and its body."""

    head: tuple[str, ...]
    parts: tuple[Formula, ...] = ()

    @property
    def sign(self) -> str:
        """The connective or quantifier; empty for an atom."""
        return self.head[0] if self.parts else ""

    @property
    def strength(self) -> int:
        """The binding strength of the outermost sign."""
        return _STRENGTH.get(self.head[0], 99)

    def put(self, old: str, new: str) -> Formula:
        """The formula with one word for another."""
        words = tuple(new if word == old else word for word in self.head)
        return Formula(words, tuple(part.put(old, new) for part in self.parts))

    def words(self) -> Iterator[str]:
        """All words, as they stand."""
        yield from self.head
        for part in self.parts:
            yield from part.words()

    def __str__(self) -> str:
        sign, parts = self.head[0], self.parts
        if sign == "=":
            return f"{self.head[1]} = {self.head[2]}"
        if not parts:
            return " ".join(self.head)
        if self.strength == 0:
            return f"{sign} {' '.join(self.head[1:])}, {parts[0]}"
        if sign == "¬":
            return f"¬{self._embrace(parts[0], self.strength - 1)}"
        first = [self._embrace(part, self.strength) for part in parts[:-1]]
        is_last_open = sign == "→" and parts[-1].strength == 0
        last = str(parts[-1]) if is_last_open else self._embrace(parts[-1], self.strength - 1)
        return f" {sign} ".join([*first, last])

    @staticmethod
    def _embrace(part: Formula, most: int) -> str:
        return f"({part})" if part.strength <= most else str(part)


FALSE = Formula(("False",))


def join(sign: str, *parts: Formula) -> Formula:
    """The parts under one connective; a single part stays what it is, but for a negation."""
    return parts[0] if len(parts) == 1 and sign != "¬" else Formula((sign,), parts)


def is_local(point: str) -> bool:
    """True if a word is a witness that the proof takes out of a fact."""
    return point.startswith("point#5")


@dataclass(frozen=True, slots=True)
class Fact:
    """A term and what it proves; a ``guess`` holds in one case only and may be refuted there."""

    term: str
    formula: Formula
    guess: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A goal's local context: facts, points, and the alternatives split so far."""

    facts: tuple[Fact, ...] = ()
    points: tuple[str, ...] = ()
    split: frozenset[str] = frozenset()

    def learn(self, formula: Formula, guess: bool = False) -> tuple[Fact, Scope]:
        """A new local fact, named by its depth, so that branches share names."""
        fact = Fact(f"hyp#{100 + len(self.facts)}", formula, guess)
        return fact, replace(self, facts=(*self.facts, fact))

    def meet(self) -> tuple[str, Scope]:
        """A new local point."""
        point = f"point#5{len(self.points)}"
        return point, replace(self, points=(*self.points, point))
