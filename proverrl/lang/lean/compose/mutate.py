"""Operators on Lean statements, as text: fusion, instance, generalisation, negation.

Flows in: problems whose statement is one theorem with a hole. Flows out: statements with a hole.
All was tested as text only: whether a result elaborates is for the guards to ask Lean.
Not handled here: ``variable``s and ``where``, a statement without a colon, proofs (no reference is
carried along).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proverrl.config.compose import LeanOperator
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens
from proverrl.lang.records import Made, Operator, Parent
from proverrl.types import HOLE, Problem

_OPEN, _CLOSE = "([{⦃⟨", ")]}⦄⟩"
_NUMBERS = ("ℕ", "ℤ", "ℚ", "ℝ", "Nat", "Int", "Rat", "Real")


@dataclass(frozen=True, slots=True)
class Binder:
    """One group of parameters, such as ``(x y : ℝ)``; an instance has no names."""

    bracket: str
    names: tuple[str, ...]
    kind: str

    @property
    def text(self) -> str:
        close = _CLOSE[_OPEN.index(self.bracket)]
        head = f"{' '.join(self.names)} : " if self.names else ""
        return f"{self.bracket}{head}{self.kind}{close}"


@dataclass(frozen=True, slots=True)
class Theorem:
    """A statement in parts. ``ending`` is all from its ``:=`` on, the hole included."""

    name: str
    binders: tuple[Binder, ...]
    goal: str
    ending: str

    @property
    def text(self) -> str:
        parts = [f"theorem {self.name}", *(binder.text for binder in self.binders)]
        return f"{' '.join(parts)} :\n    {self.goal} {self.ending}"

    @property
    def names(self) -> set[str]:
        return {name for binder in self.binders for name in binder.names}


def read_theorem(problem: Problem) -> Theorem | None:
    """The parts of a problem's theorem; None for what is outside this module's forms."""
    text = problem.statement
    tokens = [t for t in scan_tokens(text[: text.index(HOLE)]) if t.is_code]
    start = next((i for i, t in enumerate(tokens) if t.text in ("theorem", "lemma")), None)
    if start is None or start + 1 >= len(tokens) or tokens[start + 1].kind != "word":
        return None
    binders: list[Binder] = []
    place = start + 2
    while place < len(tokens) and tokens[place].text in ("(", "[", "{", "⦃"):
        closed = _find_close(tokens, place)
        if closed is None:
            return None
        binders.append(_read_binder(text, tokens[place : closed + 1]))
        place = closed + 1
    if place >= len(tokens) or tokens[place].text != ":":
        return None
    end = _find_assignment(tokens, place)
    if end is None:
        return None
    goal = " ".join(text[tokens[place].end : tokens[end].offset].split())
    ending = text[tokens[end].offset :]
    return Theorem(tokens[start + 1].text, tuple(binders), goal, ending)


def _find_close(tokens: Sequence[Token], opened: int) -> int | None:
    depth = 0
    for place in range(opened, len(tokens)):
        depth += (tokens[place].text in _OPEN) - (tokens[place].text in _CLOSE)
        if depth == 0:
            return place
    return None


def _find_assignment(tokens: Sequence[Token], start: int) -> int | None:
    depth = 0
    for place in range(start, len(tokens)):
        depth += (tokens[place].text in _OPEN) - (tokens[place].text in _CLOSE)
        if depth == 0 and tokens[place].text == ":=":
            return place
    return None


def _read_binder(text: str, tokens: Sequence[Token]) -> Binder:
    inside = tokens[1:-1]
    colon = next((i for i, t in enumerate(inside) if t.text == ":"), None)
    named = colon is not None and all(t.kind == "word" for t in inside[:colon])
    first = inside[colon + 1] if named and colon is not None else inside[0]
    kind = " ".join(text[first.offset : inside[-1].end].split())
    names = tuple(t.text for t in inside[:colon]) if named else ()
    return Binder(tokens[0].text, names, kind)


def replace_words(text: str, values: Mapping[str, str]) -> str:
    """The text with identifiers replaced; of ``h.left`` the part before the dot counts."""
    parts = []
    for token in scan_tokens(text):
        head, dot, rest = token.text.partition(".")
        is_name = token.kind == "word" and head in values
        parts.append(values[head] + dot + rest if is_name else token.text)
    return "".join(parts)


def _map_theorem(theorem: Theorem, values: Mapping[str, str]) -> Theorem:
    binders = tuple(
        Binder(
            b.bracket,
            tuple(replace_words(name, values) for name in b.names),
            replace_words(b.kind, values),
        )
        for b in theorem.binders
    )
    goal = replace_words(theorem.goal, values)
    return Theorem(theorem.name, binders, goal, theorem.ending)


def _make(parent: Parent, theorem: Theorem) -> Made:
    return Made(parent.problem.kind, theorem.text, None, parent.problem.preamble)


def fuse(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """The conjunction of two statements under the parameters of both; names that clash get a prime.

    Both need the same preamble and the same text after the hole.
    """
    first, second = (read_theorem(parent.problem) for parent in parents[:2])
    same = parents[0].problem.preamble == parents[1].problem.preamble
    if first is None or second is None or not same or first.ending != second.ending:
        return None
    taken = first.names | second.names
    primes: dict[str, str] = {}
    for name in sorted(first.names & second.names):
        new = name + "'"
        while new in taken:
            new += "'"
        taken.add(new)
        primes[name] = new
    second = _map_theorem(second, primes)
    fused = Theorem(
        f"{first.name}_and_{second.name}".replace(".", "_"),
        first.binders + second.binders,
        f"({first.goal}) ∧ ({second.goal})",
        first.ending,
    )
    return _make(parents[0], fused)


def instantiate(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One explicit parameter of a number type becomes a numeral of that type."""
    theorem = read_theorem(parents[0].problem)
    if theorem is None:
        return None
    choices = [(b, n) for b in theorem.binders if b.kind in _NUMBERS for n in b.names]
    if not choices:
        return None
    binder, name = rng.choice(choices)
    rest = tuple(other for other in binder.names if other != name)
    smaller = (Binder(binder.bracket, rest, binder.kind),) if rest else ()
    place = theorem.binders.index(binder)
    binders = theorem.binders[:place] + smaller + theorem.binders[place + 1 :]
    value = {name: f"({rng.randint(2, 12)} : {binder.kind})"}
    made = Theorem(f"{theorem.name}_at", binders, theorem.goal, theorem.ending)
    return _make(parents[0], _map_theorem(made, value))


def generalise(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A numeral becomes a parameter of the statement's first number type, wherever it stands."""
    theorem = read_theorem(parents[0].problem)
    if theorem is None:
        return None
    kind = next((b.kind for b in theorem.binders if b.kind in _NUMBERS), None)
    numerals = sorted({t.text for t in scan_tokens(theorem.goal) if t.kind == "number"})
    if kind is None or not numerals:
        return None
    numeral = rng.choice(numerals)
    used = theorem.names | {t.text for t in scan_tokens(theorem.goal)}
    name = next(n for n in ("k", "c", "m", "a'", "k'", "c'") if n not in used)

    def lift(text: str) -> str:
        return "".join(name if t.text == numeral else t.text for t in scan_tokens(text))

    binders = tuple(Binder(b.bracket, b.names, lift(b.kind)) for b in theorem.binders)
    made = Theorem(
        f"{theorem.name}_general",
        (Binder("(", (name,), kind), *binders),
        lift(theorem.goal),
        theorem.ending,
    )
    return _make(parents[0], made)


def negate(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """The closed negation ``¬ (∀ parameters, goal)`` (Xin et al. 2024, DeepSeek-Prover,
    arXiv 2405.14333)."""
    theorem = read_theorem(parents[0].problem)
    if theorem is None:
        return None
    binders = " ".join(binder.text for binder in theorem.binders)
    closed = f"¬ (∀ {binders}, {theorem.goal})" if binders else f"¬ ({theorem.goal})"
    return _make(parents[0], Theorem(f"{theorem.name}_not", (), closed, theorem.ending))


LEAN_OPERATORS: Mapping[LeanOperator, Operator] = {
    "lean_fuse": Operator(2, fuse),
    "lean_instantiate": Operator(1, instantiate),
    "lean_generalise": Operator(1, generalise),
    "lean_negate": Operator(1, negate),
}
