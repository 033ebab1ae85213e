"""Level 2: two to six tactics: one case distinction, one quantifier, a negation, a few rewritings.

Flows in: a random source and names. Flows out: theorems. Not handled here: several of these in one
proof (``level3``).
"""

from __future__ import annotations

import random

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import prove_all, wrap
from proverrl.generate.lean.setting import (
    Atom,
    Setting,
    enter,
    grow,
    list_paths,
    prove_both,
    write_atom,
    write_exists,
    write_tree,
)


def make_cases(rng: random.Random, names: Names) -> ProgramText:
    """Each side of a disjunction leads to one goal, or to one side of the goal."""
    setting = Setting(rng, names)
    parts = setting.props(rng.choice((2, 2, 3)))
    tree = grow(rng, parts)
    goals = setting.props(rng.choice((1, 1, 2)))
    goal = grow(rng, goals)
    paths = dict(list_paths(goal))
    aims = goals[:] + [rng.choice(goals) for _ in parts[len(goals) :]]
    rng.shuffle(aims)
    bridges = {
        part: (aim, setting.bridge(part, aim, rng.choice((1, 1, 2))))
        for part, aim in zip(parts, aims, strict=True)
    }

    def prove(part: str, hyp: str) -> list[str]:
        aim, lead = bridges[part]
        return enter(paths[aim], [f"exact {lead(hyp)}"])

    given = setting.suppose(write_tree(tree, "∨"))
    setting.distract([*parts, *goals])
    return setting.ask(write_tree(goal, "∨"), setting.split_cases(tree, given, prove))


def make_both(rng: random.Random, names: Names) -> ProgramText:
    """A conjunction, each side of which follows from given facts."""
    setting = Setting(rng, names)
    goals = setting.props(rng.choice((2, 2, 3)))
    proofs = {}
    for goal in goals:
        start = setting.props(1)[0]
        style = rng.random()
        if style < 0.5:
            given = setting.suppose(start)
        else:
            sides = [start, setting.literals(1)[0]]
            left = style < 0.75
            given = setting.suppose(" ∧ ".join(sides if left else sides[::-1]))
            given += ".1" if left else ".2"
        proofs[goal] = setting.bridge(start, goal, rng.choice((1, 1, 2)))(given)
    goal_tree = grow(rng, goals)
    setting.distract(goals)
    proof = prove_both(goal_tree, lambda goal: [f"exact {proofs[goal]}"])
    return setting.ask(write_tree(goal_tree, "∧"), proof)


def make_iff(rng: random.Random, names: Names) -> ProgramText:
    """Two propositions or predicates that imply each other in some steps."""
    setting = Setting(rng, names)
    there, back = rng.choice(((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1)))
    hyps = [names.pick("hyp"), names.pick("hyp")]
    if rng.random() < 0.5:
        left, right = setting.props(2)
        # A first step by an equivalence alone could be the goal itself.
        ends = ((left, right, there), (right, left, back))
        proofs = [
            setting.bridge(*way, plain=way[2] == 1)(hyp)
            for way, hyp in zip(ends, hyps, strict=True)
        ]
        intro: list[str] = []
        claim = f"{left} ↔ {right}"
    else:
        ring = setting.predicates(there + back)
        point = setting.bound(1)[0]
        proofs = list(hyps)
        for place, predicate in enumerate(ring):
            after = ring[(place + 1) % len(ring)]
            use = setting.rule([point], [(predicate, point)], (after, point))
            way = int(place >= there)
            proofs[way] = use(proofs[way])
        intro = [f"intro {point}"]
        claim = f"∀ {point}, {ring[0]} {point} ↔ {ring[there]} {point}"
    pairs = zip(hyps, proofs, strict=True)
    blocks = [[f"intro {hyp}", f"exact {proof}"] for hyp, proof in pairs]
    return setting.ask(claim, [*intro, *prove_all(*blocks)])


def make_negate(rng: random.Random, names: Names) -> ProgramText:
    """A negation, or anything, from facts that exclude each other."""
    setting = Setting(rng, names)
    start, goal, other = setting.props(3)
    lead = setting.bridge(start, goal, rng.randrange(1, 4))
    hyp, style = names.pick("hyp"), rng.randrange(5)
    setting.distract([start, goal, other])
    if style == 0:
        refuted = setting.suppose(f"¬{goal}")
        return setting.ask(f"¬{start}", [f"intro {hyp}", f"exact {refuted} {wrap(lead(hyp))}"])
    if style == 1:
        given = setting.suppose(start)
        return setting.ask(f"¬¬{goal}", [f"intro {hyp}", f"exact {hyp} {wrap(lead(given))}"])
    if style == 2:
        refuted = setting.suppose(f"¬{goal}")
        proof = [f"intro {hyp}", f"exact absurd {wrap(lead(hyp))} {refuted}"]
        return setting.ask(f"{start} → {other}", proof)
    left, right = names.picks("hyp", "hyp")
    if style == 3:
        refuted = setting.suppose(f"¬{goal}")
        turned = rng.random() < 0.5
        claim = f"¬({other} ∧ {start})" if turned else f"¬({start} ∧ {other})"
        open_it = f"obtain ⟨{left}, {right}⟩ := {hyp}"
        close = f"exact {refuted} {wrap(lead(right if turned else left))}"
        return setting.ask(claim, [f"intro {hyp}", open_it, close])
    [last] = setting.props(1)
    leads = {start: lead, other: setting.bridge(other, last, 1)}
    refuted_by = {start: setting.suppose(f"¬{goal}"), other: setting.suppose(f"¬{last}")}
    tree = grow(rng, rng.sample([start, other], 2))
    arms = setting.split_cases(
        tree, hyp, lambda part, case: [f"exact {refuted_by[part]} {wrap(leads[part](case))}"]
    )
    return setting.ask(f"¬({write_tree(tree, '∨')})", [f"intro {hyp}", *arms])


def make_exists(rng: random.Random, names: Names) -> ProgramText:
    """A point with some properties has others."""
    setting = Setting(rng, names)
    points = setting.bound(rng.choice((1, 1, 2)))
    held = [] if rng.random() < 0.6 else setting.points(1)
    olds = [*setting.predicates(2), *setting.predicates(1, 2)]
    news = [*setting.predicates(rng.choice((1, 1, 2))), *setting.predicates(1, 2)]
    given = [setting.draw_atom(kind, points + held) for kind in olds]
    given = [atom for atom in given if set(atom) & set(points)] or [(olds[0], points[0])]
    points = [point for point in points if any(point in atom for atom in given)]
    hyps = [names.pick("hyp") for _ in given]
    proofs = dict(zip(given, hyps, strict=True))
    for kind in rng.sample(news, rng.randrange(1, 3)):
        new = setting.draw_atom(kind, points)
        premises = rng.sample(given, min(len(given), rng.choice((1, 1, 2))))
        used = [point for point in points if any(point in atom for atom in [*premises, new])]
        proofs[new] = setting.rule(used, premises, new)(*(proofs[atom] for atom in premises))
    wanted = [atom for atom in proofs if atom not in given] + rng.sample(given, rng.randrange(2))
    rng.shuffle(wanted)
    meant = [point for point in points if any(point in atom for atom in wanted)]
    meant = rng.sample(meant, len(meant))
    whole = setting.suppose(write_exists(points, given))
    proof = [
        f"obtain ⟨{', '.join([*points, *hyps])}⟩ := {whole}",
        f"exact ⟨{', '.join([*meant, *(proofs[atom] for atom in wanted)])}⟩",
    ]
    return setting.ask(write_exists(meant, wanted), proof)


def make_rewrite_chain(rng: random.Random, names: Names) -> ProgramText:
    """An equation or a fact from two to four uses of equations for all points."""
    setting = Setting(rng, names)
    points = setting.points(rng.randrange(1, 4))
    f, g, h = setting.functions(3)
    shapes = [
        [(f"{f} ({g} ?x)", "?x")],
        [(f"{f} ({g} ?x)", "?x"), (f"{g} ({f} ?x)", "?x")],
        [(f"{f} ({g} ?x)", "?x"), (f"{h} ?x", f"{f} ?x")],
        [(f"{f} ({f} ?x)", "?x"), (f"{h} ?x", f"{f} ({g} ?x)")],
        [(f"{f} ({f} ?x)", f"{f} ?x")],
        [(f"{f} ({g} ?x)", f"{g} ({f} ?x)"), (f"{f} {points[0]}", points[0])],
        [(f"{f} ({g} ?x)", f"{h} ?x"), (f"{h} {points[0]}", points[-1])],
        [(f"{f} {points[0]}", points[-1]), (f"{g} {points[-1]}", points[0])],
    ]
    laws = [setting.law(*sides) for sides in rng.choice(shapes)]
    return setting.ask_rewriting(laws, points, [f, g, h], (2, 4))


def make_choice(rng: random.Random, names: Names) -> ProgramText:
    """A point with one of some properties, and a result of each property."""
    setting = Setting(rng, names)
    point = setting.bound(1)[0]
    held = setting.points(rng.randrange(2))
    kinds = [*setting.predicates(4), *setting.predicates(1, 2)]
    count = rng.choice((2, 2, 3))
    atoms: list[Atom] = []
    while len(atoms) < count + 1 + (count > 2):
        atom = setting.draw_atom(rng.choice(kinds), [point, *held])
        atoms += [atom] if point in atom and atom not in atoms else []
    start, aims = atoms[:count], atoms[count:]
    tree = grow(rng, [write_atom(atom) for atom in start])
    whole = setting.suppose(f"∃ {point}, {write_tree(tree, '∨')}")
    targets = {write_atom(atom): rng.choice(aims) for atom in start}
    leads = {
        write_atom(atom): setting.rule([point], [atom], targets[write_atom(atom)]) for atom in start
    }
    meant = list(dict.fromkeys(targets.values()))
    goal = grow(rng, [f"∃ {point}, {write_atom(atom)}" for atom in rng.sample(meant, len(meant))])
    paths = dict(list_paths(goal))
    hyp = names.pick("hyp")

    def prove(part: str, case: str) -> list[str]:
        turns = paths[f"∃ {point}, {write_atom(targets[part])}"]
        return enter(turns, [f"exact ⟨{point}, {leads[part](case)}⟩"])

    proof = setting.split_cases(tree, hyp, prove)
    return setting.ask(write_tree(goal, "∨"), [f"obtain ⟨{point}, {hyp}⟩ := {whole}", *proof])


FAMILIES: dict[str, Family] = {
    "l2_cases": make_cases,
    "l2_both": make_both,
    "l2_iff": make_iff,
    "l2_negate": make_negate,
    "l2_exists": make_exists,
    "l2_rewrite": make_rewrite_chain,
    "l2_choice": make_choice,
}
