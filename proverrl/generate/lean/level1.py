"""Level 1: one or two tactics about propositions, instances and equations.

Flows in: a random source and names. Flows out: theorems. Not handled here: anything that branches.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import wrap
from proverrl.generate.lean.setting import Setting, grow, list_paths, pair, write_atom, write_tree
from proverrl.generate.lean.terms import Term


def project(proof: str, path: Sequence[int]) -> str:
    """A proof of the leaf of a conjunction that the turns lead to, from one of the whole."""
    return ".".join([proof, *(str(turn + 1) for turn in path)])


def inject(proof: str, path: Sequence[int]) -> str:
    """A proof of a disjunction, from one of the leaf that the turns lead to."""
    for turn in reversed(path):
        proof = f"Or.{('inl', 'inr')[turn]} {wrap(proof)}"
    return proof


def make_chain(rng: random.Random, names: Names) -> ProgramText:
    """Implications, one after the other."""
    setting = Setting(rng, names)
    start, goal = setting.props(2)
    given = setting.suppose(start)
    proof = setting.bridge(start, goal, rng.randrange(2, 5))(given)
    setting.distract([start, goal])
    return setting.ask(goal, [f"exact {proof}"])


def make_project(rng: random.Random, names: Names) -> ProgramText:
    """Some parts of a conjunction, in another order."""
    setting = Setting(rng, names)
    parts = setting.literals(rng.randrange(2, 6))
    tree = grow(rng, parts)
    given = setting.suppose(write_tree(tree, "∧"))
    proofs = {part: project(given, path) for part, path in list_paths(tree)}
    goal = grow(rng, rng.sample(parts, rng.randrange(1, min(4, len(parts)))))
    setting.distract(parts)
    return setting.ask(write_tree(goal, "∧"), [f"exact {pair(goal, proofs)}"])


def make_inject(rng: random.Random, names: Names) -> ProgramText:
    """A disjunction, one side of which is given."""
    setting = Setting(rng, names)
    leaves = setting.literals(rng.randrange(2, 6))
    tree = grow(rng, leaves)
    leaf, path = rng.choice(list_paths(tree))
    proof = setting.suppose(leaf)
    proof = inject(proof, path)
    for other in rng.sample(leaves, 2):
        if other != leaf:
            setting.distract([other])
    return setting.ask(write_tree(tree, "∨"), [f"exact {proof}"])


def make_deliver(rng: random.Random, names: Names) -> ProgramText:
    """A disjunction, one side of which follows by implications."""
    setting = Setting(rng, names)
    leaves = setting.props(rng.randrange(2, 5))
    tree = grow(rng, leaves)
    leaf, path = rng.choice(list_paths(tree))
    start = setting.props(1)[0]
    given = setting.suppose(start)
    proof = setting.bridge(start, leaf, rng.randrange(1, 4))(given)
    proof = inject(proof, path)
    setting.distract(leaves)
    return setting.ask(write_tree(tree, "∨"), [f"exact {proof}"])


def make_derive(rng: random.Random, names: Names) -> ProgramText:
    """A proposition that follows by implications from a part of a conjunction."""
    setting = Setting(rng, names)
    parts = setting.props(rng.randrange(2, 5))
    tree = grow(rng, parts)
    given = setting.suppose(write_tree(tree, "∧"))
    part, path = rng.choice(list_paths(tree))
    start = project(given, path)
    goal = setting.props(1)[0]
    proof = setting.bridge(part, goal, rng.randrange(1, 4))(start)
    setting.distract([*parts, goal])
    return setting.ask(goal, [f"exact {proof}"])


def make_instance(rng: random.Random, names: Names) -> ProgramText:
    """A rule for all points, used at given ones, and perhaps a second rule after it."""
    setting = Setting(rng, names, numerals=rng.random() < 0.4)
    points = setting.points(rng.randrange(2, 4))
    kinds = [*setting.predicates(2), *setting.predicates(1, 2)]
    rng.shuffle(kinds)
    atom, *rest = (setting.draw_atom(kind, points) for kind in kinds)
    proof = setting.fact(atom)
    for goal in rest[: rng.randrange(1, 3)]:
        sides = [setting.draw_atom(rng.choice(kinds), points)] if rng.random() < 0.3 else []
        used = sorted({*atom[1:], *goal[1:]}, key=points.index)
        given = [setting.fact(side) for side in sides]
        proof = setting.rule(used, [atom, *sides], goal)(proof, *given)
        atom = goal
    return setting.ask(write_atom(atom), [f"exact {proof}"])


def make_rewrite(rng: random.Random, names: Names) -> ProgramText:
    """An equation, used once in an equation or in a predicate."""
    setting = Setting(rng, names)
    first, second, other = setting.points(3)
    inner, outer, third = setting.functions(3)
    left, right = rng.choice(
        [
            (first, second),
            (f"{inner} ?x", f"{outer} ?x"),
            (f"{inner} ({outer} ?x)", f"{third} ?x"),
            (f"{inner} ({outer} ?x)", "?x"),
            (f"{inner} {first}", second),
        ]
    )
    law = setting.law(left, right)
    before = law.left.fill({"?x": Term(rng.choice([first, second, other]))})
    for _ in range(rng.randrange(3)):
        before = Term(rng.choice([inner, outer, third]), (before,))
    if rng.random() < 0.5:
        shape = setting.predicates(1, rng.randrange(1, 3))[0]
        args = [before, Term(other)][: setting.arities[shape]]
        claim = Term(shape, tuple(rng.sample(args, len(args))))
        used, rest = law.name, law.rewrite(claim)
        return setting.ask(str(claim), [f"rw [{used}]", f"exact {setting.suppose(str(rest))}"])
    claim = Term("=", (before, law.rewrite(before) or before))
    return setting.ask(str(claim), [f"rw [{law.name}]"])


def make_witness(rng: random.Random, names: Names) -> ProgramText:
    """Points that given facts are about, among facts about others."""
    setting = Setting(rng, names, numerals=rng.random() < 0.4)
    points = setting.points(rng.randrange(2, 4))
    kinds = [*setting.predicates(2), *setting.predicates(1, 2)]
    atoms = [setting.draw_atom(kind, points) for kind in rng.sample(kinds, rng.randrange(1, 4))]
    given = [setting.fact(atom) for atom in atoms]
    meant = list(dict.fromkeys(point for atom in atoms for point in atom[1:]))
    meant = rng.sample(meant, min(len(meant), rng.randrange(1, 3)))
    bound = dict(zip(meant, setting.bound(len(meant)), strict=True))
    parts = [write_atom(tuple(bound.get(part, part) for part in atom)) for atom in atoms]
    for kind in kinds:
        atom = setting.draw_atom(kind, points)
        if atom not in atoms and rng.random() < 0.3:
            setting.fact(atom)
    claim = f"∃ {' '.join(bound.values())}, {' ∧ '.join(parts)}"
    return setting.ask(claim, [f"exact ⟨{', '.join([*meant, *given])}⟩"])


FAMILIES: dict[str, Family] = {
    "l1_chain": make_chain,
    "l1_project": make_project,
    "l1_inject": make_inject,
    "l1_instance": make_instance,
    "l1_rewrite": make_rewrite,
    "l1_witness": make_witness,
    "l1_deliver": make_deliver,
    "l1_derive": make_derive,
}
