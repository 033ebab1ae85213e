"""Formulas of first-order logic as values, for families of Lean theorems that build a proof first.

Flows in: names and parts. Flows out: text with as few brackets as Lean itself prints. Not handled
here: which formulas are true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
        """How tightly the outermost sign binds."""
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
