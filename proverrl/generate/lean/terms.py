"""Terms of functions, and chains of rewriting as Lean's ``rw`` does it.

Flows in: laws, terms. Flows out: the laws that prove an equation, one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proverrl.generate.families import NamesExhaustedError

MAX_STEPS = 12
MAX_DRAWS = 400


@dataclass(frozen=True, slots=True)
class Term:
    """A head applied to arguments; a head ``?x`` is a variable of a law, ``=`` an equation."""

    head: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        parts = [f"({arg})" if arg.args else str(arg) for arg in self.args]
        if self.head == "=":
            return " = ".join(map(str, self.args))
        return " ".join([self.head, *parts])

    def list_parts(self) -> Iterator[Term]:
        """The term and its parts, in the order in which ``rw`` looks at them."""
        yield self
        for arg in self.args:
            yield from arg.list_parts()

    def replace(self, old: Term, new: Term) -> Term:
        """The term with one part replaced everywhere."""
        if self == old:
            return new
        return Term(self.head, tuple(arg.replace(old, new) for arg in self.args))

    def fill(self, values: dict[str, Term]) -> Term:
        """The term at values of its variables."""
        if self.head in values:
            return values[self.head]
        return Term(self.head, tuple(arg.fill(values) for arg in self.args))

    def match(self, term: Term, values: dict[str, Term]) -> bool:
        """True if ``term`` is an instance; fills ``values``."""
        if self.head[0] == "?":
            return values.setdefault(self.head, term) == term
        if (self.head, len(self.args)) != (term.head, len(term.args)):
            return False
        return all(map(lambda own, arg: own.match(arg, values), self.args, term.args))


def parse_term(text: str) -> Term:
    """A term of space-separated heads and brackets."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()

    def read() -> Term:
        parts: list[Term] = []
        while words and (word := words.pop(0)) != ")":
            parts.append(read() if word == "(" else Term(word))
        first, *rest = parts
        return Term(first.head, tuple(rest)) if rest else first

    return read()


@dataclass(frozen=True, slots=True)
class Law:
    """A hypothesis that rewrites instances of its left side; its name may carry an arrow."""

    name: str
    left: Term
    right: Term

    def rewrite(self, term: Term) -> Term | None:
        """The term after ``rw``; None without an instance."""
        for part in term.list_parts():
            values: dict[str, Term] = {}
            if self.left.match(part, values):
                return term.replace(part, self.right.fill(values))
        return None


def simplify(laws: Sequence[Law], term: Term) -> tuple[list[str], Term]:
    """Rewrites with the first law that applies until none does or the sides are equal; the names
    of the laws used, and what is left."""
    used: list[str] = []
    while len(used) <= MAX_STEPS and not is_settled(term):
        found = ((law.name, law.rewrite(term)) for law in laws)
        name, result = next(((name, new) for name, new in found if new), ("", None))
        if result is None:
            break
        used.append(name)
        term = result
    return used, term


def is_settled(term: Term) -> bool:
    """True if ``rw`` closes the term by reflexivity."""
    return term.head == "=" and term.args[0] == term.args[1]


def complicate(
    rng: random.Random, laws: Sequence[Law], leaves: Sequence[Term], term: Term, steps: int
) -> Term:
    """The term after ``steps`` uses of laws from right to left, at random places."""
    for _ in range(steps):
        parts = [part for part in term.list_parts() if part.head != "="]
        places = [(law, part) for law in laws for part in parts if law.right.match(part, {})]
        if places:
            law, part = rng.choice(places)
            values: dict[str, Term] = {}
            law.right.match(part, values)
            for piece in law.left.list_parts():
                if piece.head[0] == "?":
                    values.setdefault(piece.head, rng.choice(leaves))
            term = _replace_one(term, part, law.left.fill(values))
    return term


def draw_claim(
    rng: random.Random,
    laws: Sequence[Law],
    leaves: Sequence[Term],
    heads: Mapping[str, int],
    relation: str,
    steps: tuple[int, int],
    kinds: int = 1,
    head: str = "",
) -> tuple[Term, list[str], Term]:
    """An equation that the least to the most ``steps`` of rewriting prove, or a predicate of one
    argument that they simplify; the laws used, at least ``kinds`` of them, and what is left.
    ``heads`` are functions, with the numbers of their arguments, for what is equal; with ``head``
    all sides begin with it. Raises NamesExhaustedError when many draws bring nothing, so that the
    program is drawn anew."""
    for _ in range(MAX_DRAWS):
        core = rng.choice(leaves)
        for _ in range(rng.randrange(3)):
            outer = rng.choice(list(heads))
            args = [core, *(rng.choice(leaves) for _ in range(heads[outer] - 1))]
            core = Term(outer, tuple(rng.sample(args, len(args))))
        few = rng.choice((0, 0, 1, 2)) if relation == "=" else 0
        many = rng.randrange(steps[0], steps[1] + 1) - few
        counts = rng.sample([many, few], 2) if relation == "=" else [many]
        sides = (complicate(rng, laws, leaves, core, count) for count in counts)
        claim = Term(relation, tuple(sides))
        if head and any(side.head != head for side in claim.args):
            continue
        used, rest = simplify(laws, claim)
        fits = steps[0] <= len(used) <= steps[1] and len(set(used)) >= kinds
        if fits and (relation != "=" or is_settled(rest)):
            return claim, used, rest
    raise NamesExhaustedError("equation")


def _replace_one(term: Term, old: Term, new: Term) -> Term:
    """The term with the first place of ``old`` replaced."""
    if term == old:
        return new
    for place, arg in enumerate(term.args):
        if old in arg.list_parts():
            args = (*term.args[:place], _replace_one(arg, old, new), *term.args[place + 1 :])
            return Term(term.head, args)
    return term
