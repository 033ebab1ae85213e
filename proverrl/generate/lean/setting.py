"""The variables and hypotheses of a theorem in the making, and the trees that claims are made of.

Flows in: a random source and names. Flows out: theorems with a hole, proof terms, blocks of
tactics. A tree is a proposition or a pair of trees, joined by one connective.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from proverrl.generate.families import Names, ProgramText
from proverrl.generate.lean.draft import arm, ask_theorem, prove_all, split, wrap
from proverrl.generate.lean.terms import Law, Term, draw_claim, parse_term

Tree: TypeAlias = "str | tuple[Tree, Tree]"
Atom: TypeAlias = tuple[str, ...]
"""A predicate and its arguments."""
Prove: TypeAlias = Callable[[str], str]
"""From a proof to a proof."""


def write_atom(atom: Atom) -> str:
    """A predicate applied to its arguments."""
    return " ".join(atom)


def grow(rng: random.Random, leaves: Sequence[str]) -> Tree:
    """A random tree with the leaves in their order."""
    if len(leaves) == 1:
        return leaves[0]
    # Most trees lean to the right, as Lean reads them without brackets.
    cut = 1 if rng.random() < 0.6 else rng.randrange(1, len(leaves))
    return grow(rng, leaves[:cut]), grow(rng, leaves[cut:])


def write_tree(tree: Tree, symbol: str) -> str:
    """The formula; the symbol groups to the right."""
    if isinstance(tree, str):
        return tree
    left, right = (write_tree(side, symbol) for side in tree)
    if not isinstance(tree[0], str) or any(mark in left for mark in "∧∨→∃∀"):
        left = f"({left})"
    if isinstance(tree[1], str) and any(mark in right for mark in "∧∨→∃∀"):
        right = f"({right})"
    return f"{left} {symbol} {right}"


def pair(tree: Tree, prove: Mapping[str, str]) -> str:
    """A term that proves a conjunction, or the pattern that takes one apart."""
    if isinstance(tree, str):
        return prove[tree]
    left, right = (pair(side, prove) for side in tree)
    return f"⟨{left}, {right if isinstance(tree[1], str) else right[1:-1]}⟩"


def list_paths(tree: Tree, path: Sequence[int] = ()) -> list[tuple[str, Sequence[int]]]:
    """The leaves, each with its turns: 0 for left, 1 for right."""
    if isinstance(tree, str):
        return [(tree, path)]
    return [found for turn in (0, 1) for found in list_paths(tree[turn], [*path, turn])]


def enter(turns: Sequence[int], block: Sequence[str]) -> list[str]:
    """A block that proves a disjunction by the leaf that the turns lead to."""
    return [*("right" if turn else "left" for turn in turns), *block]


def prove_both(tree: Tree, prove: Callable[[str], Sequence[str]]) -> list[str]:
    """A block that proves a conjunction, from blocks for its leaves."""
    if isinstance(tree, str):
        return list(prove(tree))
    return prove_all(*(prove_both(side, prove) for side in tree))


class Setting:
    """Collects variables and hypotheses; hypotheses come in any order."""

    def __init__(self, rng: random.Random, names: Names, *, numerals: bool = False) -> None:
        self.rng, self.names = rng, names
        self._hyps: list[str] = []
        self._bound: list[str] = []
        self._variables: dict[str, list[str]] = {}
        self.arities: dict[str, int] = {}
        self.kind = "Nat" if numerals else ""
        """The type of the points; with ``numerals`` they are numbers."""

    def declare(self, role: str, kind: str) -> str:
        """A fresh variable of a type."""
        name = self.names.pick(role)
        self._variables.setdefault(kind, []).append(name)
        return name

    def suppose(self, claim: str) -> str:
        """A fresh hypothesis."""
        hyp = self.names.pick("hyp")
        self._hyps.append(f"({hyp} : {claim})")
        return hyp

    def props(self, count: int) -> list[str]:
        """Fresh propositions."""
        return [self.declare("prop", "Prop") for _ in range(count)]

    def literals(self, count: int) -> list[str]:
        """Fresh propositions, some negated."""
        return ["¬" * (self.rng.random() < 0.2) + prop for prop in self.props(count)]

    def open_type(self) -> str:
        """The type of the points."""
        self.kind = self.kind or self.declare("type", "Type")
        return self.kind

    def points(self, count: int) -> list[str]:
        """Fresh points: variables, or numerals."""
        if self.open_type() != "Nat":
            return [self.declare("point", self.kind) for _ in range(count)]
        found: list[str] = []
        while len(found) < count:
            number = str(self.names.number("base", 0, 60))
            found += [] if number in found else [number]
        return found

    def predicates(self, count: int, arity: int = 1) -> list[str]:
        """Fresh predicates of points."""
        kind = " → ".join([self.open_type()] * arity + ["Prop"])
        role = "pred" if arity == 1 else "relation"
        found = [self.declare(role, kind) for _ in range(count)]
        self.arities.update(dict.fromkeys(found, arity))
        return found

    def draw_atom(self, predicate: str, points: Sequence[str]) -> Atom:
        """A predicate of random points."""
        return (predicate, *(self.rng.choice(points) for _ in range(self.arities[predicate])))

    def fact(self, atom: Atom) -> str:
        """Supposes a predicate of points."""
        return self.suppose(write_atom(atom))

    def functions(self, count: int, arity: int = 1) -> list[str]:
        """Fresh functions from points to points."""
        kind = " → ".join([self.open_type()] * (arity + 1))
        found = [self.declare("function", kind) for _ in range(count)]
        self.arities.update(dict.fromkeys(found, arity))
        return found

    def bound(self, count: int) -> list[str]:
        """The names of the first bound variables, the same in all formulas."""
        while len(self._bound) < count:
            self._bound.append(self.names.pick("point"))
        return self._bound[:count]

    def rule(
        self, variables: Sequence[str], premises: Sequence[Atom], conclusion: Atom
    ) -> Callable[..., str]:
        """Supposes that the premises imply the conclusion for all values of ``variables``. The
        returned function makes a proof from proofs of the premises, ``at`` given values."""
        order = self.rng.sample(list(variables), len(variables))
        bound = dict(zip(order, self.bound(len(order)), strict=True))
        atoms = [tuple(bound.get(part, part) for part in atom) for atom in [*premises, conclusion]]
        hyp = self.suppose(f"∀ {' '.join(bound.values())}, {' → '.join(map(write_atom, atoms))}")

        def use(*proofs: str, at: Mapping[str, str] | None = None) -> str:
            values = [(at or {}).get(variable, variable) for variable in order]
            return " ".join([hyp, *values, *map(wrap, proofs)])

        return use

    def law(self, left: str, right: str) -> Law:
        """Supposes an equation, perhaps turned around; heads ``?x`` are its variables."""
        parts = [part.head for part in parse_term(left).list_parts()]
        found = list(dict.fromkeys(head for head in parts if head[0] == "?"))
        values = {
            head: Term(name) for head, name in zip(found, self.bound(len(found)), strict=True)
        }
        sides = [parse_term(left), parse_term(right)]
        turned = self.rng.random() < 0.3
        shown = Term("=", tuple(side.fill(values) for side in sides[:: -1 if turned else 1]))
        quantifier = f"∀ {' '.join(map(str, values.values()))}, " if values else ""
        return Law("← " * turned + self.suppose(f"{quantifier}{shown}"), *sides)

    def bridge(self, start: str, goal: str, steps: int, *, plain: bool = False) -> Prove:
        """Supposes implications that lead from one proposition to another; with ``plain`` no
        equivalences."""
        if not steps:
            return lambda proof: proof
        middle = self.props(1)[0] if steps > 1 else goal
        before, after, style = "", "", self.rng.random()
        if style < 0.2:
            side = self.props(1)[0]
            given = self.suppose(side)
            first = style < 0.1
            sides = [side, start, middle] if first else [start, side, middle]
            rule = self.suppose(" → ".join(sides))
            before, after = (f" {given}", "") if first else ("", f" {given}")
        elif style < 0.4 and not plain:
            turned = style < 0.3
            rule = self.suppose(f"{middle} ↔ {start}" if turned else f"{start} ↔ {middle}")
            rule += ".mpr" if turned else ".mp"
        else:
            rule = self.suppose(f"{start} → {middle}")
        rest = self.bridge(middle, goal, steps - 1, plain=plain)
        return lambda proof: rest(f"{rule}{before} {wrap(proof)}{after}")

    def distract(self, props: Sequence[str], chance: float = 0.4) -> None:
        """Perhaps supposes that a fresh proposition implies one of these."""
        if self.rng.random() < chance:
            self.suppose(f"{self.props(1)[0]} → {self.rng.choice(list(props))}")

    def split_cases(
        self, tree: Tree, hyp: str, prove: Callable[[str, str], Sequence[str]]
    ) -> list[str]:
        """A block that takes a disjunction apart; ``prove`` gets a leaf and its hypothesis."""
        if isinstance(tree, str):
            return list(prove(tree, hyp))
        arms = []
        for name, side in zip(("inl", "inr"), tree, strict=True):
            case = self.names.pick("hyp")
            arms.append(arm(f"{name} {case}", self.split_cases(side, case, prove)))
        return split(f"cases {hyp}", *arms)

    def ask_rewriting(
        self,
        laws: Sequence[Law],
        points: Sequence[str],
        heads: Sequence[str],
        steps: tuple[int, int],
        kinds: int = 1,
    ) -> ProgramText:
        """An equation or a fact about terms, by as many uses of laws; see ``draw_claim``."""
        relation = "=" if self.rng.random() < 0.5 else self.predicates(1)[0]
        leaves, arities = map(Term, points), {head: self.arities[head] for head in heads}
        drawn = draw_claim(self.rng, laws, list(leaves), arities, relation, steps, kinds)
        claim, used, rest = drawn
        proof = [f"rw [{name}]" for name in used]
        if relation != "=":
            proof.append(f"exact {self.suppose(str(rest))}")
        return self.ask(str(claim), proof)

    def ask(self, claim: str, proof: Sequence[str]) -> ProgramText:
        """The theorem."""
        kinds = [kind for kind in self._variables if kind != "Type"]
        kinds = ["Type"] * ("Type" in self._variables) + self.rng.sample(kinds, len(kinds))
        binders = [f"({' '.join(self._variables[kind])} : {kind})" for kind in kinds]
        hyps = self.rng.sample(self._hyps, len(self._hyps))
        return ask_theorem(self.names.pick("theorem"), binders + hyps, claim, proof)


def write_exists(points: Sequence[str], atoms: Sequence[Atom]) -> str:
    """The claim that there are points with all of these."""
    return f"∃ {' '.join(points)}, {' ∧ '.join(map(write_atom, atoms))}"
