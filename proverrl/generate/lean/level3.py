"""Level 3: four to nine tactics: paths, quantifiers below quantifiers, orders, chains of rewriting.

Flows in: a random source and names. Flows out: theorems. Not handled here: own types, recursion.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import prove_all, stack, wrap
from proverrl.generate.lean.setting import (
    Atom,
    Prove,
    Setting,
    enter,
    grow,
    list_paths,
    pair,
    prove_both,
    write_atom,
    write_exists,
    write_tree,
)
from proverrl.generate.lean.terms import Term, draw_claim


def make_words(rng: random.Random, names: Names) -> ProgramText:
    """An equation or a fact about words of functions that undo, repeat or pass each other."""
    setting = Setting(rng, names)
    points = setting.points(rng.randrange(1, 3))
    f, g, h = setting.functions(3)
    undo, twice = (f"{f} ({g} ?x)", "?x"), (f"{f} ({f} ?x)", "?x")
    again, swap = (f"{g} ({g} ?x)", f"{g} ?x"), (f"{f} ({g} ?x)", f"{g} ({f} ?x)")
    shapes = [
        [undo, (f"{g} ({f} ?x)", "?x")],
        [undo, (f"{h} ?x", f"{g} ({g} ?x)")],
        [undo, (f"{h} ({h} ?x)", "?x")],
        [twice, again],
        [twice, swap],
        [again, swap],
        [twice, again, swap],
        [twice, (f"{h} ?x", f"{f} ({g} ?x)")],
        [undo, (f"{h} ({f} ?x)", f"{f} ({h} ?x)"), (f"{h} ({h} ?x)", "?x")],
    ]
    laws = [setting.law(*sides) for sides in rng.choice(shapes)]
    return setting.ask_rewriting(laws, points, [f, g, h], (4, 7), 2)


def make_laws(rng: random.Random, names: Names) -> ProgramText:
    """An equation or a fact about a function of one and a function of two arguments."""
    setting = Setting(rng, names)
    unit, *points = setting.points(rng.randrange(3, 5))
    [f], [op] = setting.functions(1), setting.functions(1, 2)
    image = (f"{f} ({op} ?x ?y)", f"{op} ({f} ?x) ({f} ?y)")
    mirror = (f"{f} ({op} ?x ?y)", f"{op} ({f} ?y) ({f} ?x)")
    left, right = (f"{op} {unit} ?x", "?x"), (f"{op} ?x {unit}", "?x")
    twice, still = (f"{f} ({f} ?x)", "?x"), (f"{f} {unit}", unit)
    join = (f"{op} ({op} ?x ?y) ?z", f"{op} ?x ({op} ?y ?z)")
    shapes = [
        [image, left, still],
        [image, twice],
        [mirror, twice],
        [mirror, right, still],
        [left, right, join],
        [join, image, left],
        [(f"{op} ?x ?x", "?x"), join],
        [(f"{op} ?x ({f} ?x)", unit), left, right],
        [(f"{op} ?x ({f} ?x)", unit), left, still],
    ]
    laws = [setting.law(*sides) for sides in rng.choice(shapes)]
    return setting.ask_rewriting(laws, points, [f, op], (4, 7), 2)


def make_lift(rng: random.Random, names: Names) -> ProgramText:
    """An equation of points that an injective function makes equal."""
    setting = Setting(rng, names)
    points = setting.points(rng.randrange(1, 4))
    f, g, h = setting.functions(3)
    x, y = setting.bound(2)
    rule = setting.suppose(f"∀ {x} {y}, {f} {x} = {f} {y} → {x} = {y}")
    over = (f"{f} ({g} ?x)", f"{h} ({f} ?x)")
    shapes = [
        [over, (f"{h} ({h} ?x)", "?x")],
        [over, (f"{h} ({h} ?x)", f"{h} ?x")],
        [(f"{f} ({g} ?x)", f"{h} ?x"), (f"{f} ({h} ?x)", f"{h} ?x")],
        [(f"{f} ({g} ?x)", f"{f} ?x"), (f"{f} ({h} ?x)", f"{f} ?x")],
        [(f"{f} ({g} ?x)", "?x"), (f"{f} ({h} ?x)", f"{g} ?x")],
        [over, (f"{f} {points[0]}", points[-1]), (f"{h} {points[-1]}", points[-1])],
    ]
    laws = [setting.law(*sides) for sides in rng.choice(shapes)]
    leaves, heads = [Term(point) for point in points], {f: 1, g: 1, h: 1}
    claim, used, _ = draw_claim(rng, laws, leaves, heads, "=", (3, 6), 2, f)
    goal = Term("=", tuple(side.args[0] for side in claim.args))
    return setting.ask(str(goal), [f"apply {rule}", *(f"rw [{name}]" for name in used)])


def _lay_edges(setting: Setting, relation: str, nodes: list[str]) -> tuple[list[str], list[str]]:
    """Supposes that one relation, symmetric where an edge needs it, joins neighbours; the block
    that turns edges around, and the proofs along the path."""
    rng, count = setting.rng, len(nodes) - 1
    lines: list[str] = []
    proofs: list[str] = []
    # At least four tactics in all.
    turned = rng.sample(range(count), rng.randrange(max(0, 5 - count), 4))
    flip = setting.rule(["x", "y"], [(relation, "x", "y")], (relation, "y", "x"))
    for place, (left, right) in enumerate(pairwise(nodes)):
        turn = place in turned
        edge = setting.fact((relation, right, left) if turn else (relation, left, right))
        if turn:
            hyp = setting.names.pick("hyp")
            lines.append(
                f"have {hyp} : {relation} {left} {right} := "
                + flip(edge, at={"x": right, "y": left})
            )
            edge = hyp
        proofs.append(edge)
    return lines, proofs


def _suppose_transitive(setting: Setting, relation: str) -> Callable[..., str]:
    return setting.rule(
        ["x", "y", "z"], [(relation, "x", "y"), (relation, "y", "z")], (relation, "x", "z")
    )


def _join_path(
    setting: Setting,
    step: Callable[..., str],
    relation: str,
    nodes: Sequence[str],
    proofs: Sequence[str],
) -> list[str]:
    """A block that follows a path by transitivity, from its first node on."""
    lines: list[str] = []
    proof, first, last = proofs[0], nodes[0], len(proofs) - 1
    for place, edge in enumerate(proofs[1:], 1):
        term = step(proof, edge, at={"x": first, "y": nodes[place], "z": nodes[place + 1]})
        if place == last:
            return [*lines, f"exact {term}"]
        proof = setting.names.pick("hyp")
        lines.append(f"have {proof} : {relation} {first} {nodes[place + 1]} := {term}")
    return [f"exact {proof}"]


def make_path(rng: random.Random, names: Names) -> ProgramText:
    """A path in a symmetric and transitive relation, among other edges."""
    setting = Setting(rng, names, numerals=rng.random() < 0.3)
    nodes = setting.points(rng.choice((4, 5, 5, 6)))
    [relation] = setting.predicates(1, 2)
    flips, proofs = _lay_edges(setting, relation, nodes)
    if rng.random() < 0.6:
        [other] = setting.points(1)
        setting.fact((relation, *rng.sample([rng.choice(nodes), other], 2)))
    step = _suppose_transitive(setting, relation)
    steps = _join_path(setting, step, relation, nodes, proofs)
    return setting.ask(f"{relation} {nodes[0]} {nodes[-1]}", [*flips, *steps])


def make_nested(rng: random.Random, names: Names) -> ProgramText:
    """Points that rules give one after the other."""
    setting = Setting(rng, names)
    length = rng.choice((2, 2, 3))
    chain = setting.predicates(length + 1)
    relations = setting.predicates(rng.randrange(1, 3), 2)
    points = setting.bound(length + 1)
    start, hyp = points[0], names.pick("hyp")
    lines, found, proof = [], [], hyp
    for place in range(length):
        here, there = points[place : place + 2]
        link: Atom = (rng.choice(relations), *rng.sample([here, there], 2))
        atoms = rng.sample([link, (chain[place + 1], there)], 2)
        rule = setting.suppose(f"∀ {here}, {chain[place]} {here} → {write_exists([there], atoms)}")
        hyps = dict(zip(atoms, names.picks("hyp", "hyp"), strict=True))
        lines.append(f"obtain ⟨{', '.join([there, *hyps.values()])}⟩ := {rule} {here} {proof}")
        found.append((link, hyps[link]))
        proof = hyps[chain[place + 1], there]
    found.append(((chain[-1], points[-1]), proof))
    if rng.random() < 0.5:
        kind = rng.choice([*relations, chain[0]])
        (atom, proof), points_used = found[0], points[:2]
        new = setting.draw_atom(kind, points_used)
        found[0] = (new, setting.rule(points_used, [atom], new)(proof))
    wanted = rng.sample(found, rng.randrange(2, len(found) + 1))
    parts = [atom for atom, _ in wanted]
    style = rng.randrange(3)
    meant = [point for point in points if any(point in atom for atom in parts)]
    meant = [point for point in meant if point != start or style == 1]
    rng.shuffle(meant)
    lines.append(f"exact ⟨{', '.join([*meant, *(proof for _, proof in wanted)])}⟩")
    claim = write_exists(meant, parts)
    if style == 1:
        lines[:0] = [
            f"obtain ⟨{start}, {hyp}⟩ := {setting.suppose(f'∃ {start}, {chain[0]} {start}')}"
        ]
        return setting.ask(claim, lines)
    lines[:0] = [f"intro {start} {hyp}"]
    return setting.ask(f"∀ {start}, {chain[0]} {start} → {claim}", lines)


def make_order(rng: random.Random, names: Names) -> ProgramText:
    """An inequality or equation of joins, which are least upper bounds."""
    setting = Setting(rng, names)
    points = setting.points(3)
    [below], [join] = setting.predicates(1, 2), setting.functions(1, 2)
    up, x, y, z = rng.random() < 0.5, *setting.bound(3)

    def less(left: object, right: object) -> str:
        sides = [wrap(str(side)) for side in (left, right)]
        return " ".join([below, *(sides if up else sides[::-1])])

    both = f"{join} {x} {y}"
    same = setting.suppose(f"∀ {x}, {less(x, x)}")
    lower = setting.suppose(f"∀ {x} {y}, {less(x, both)}")
    higher = setting.suppose(f"∀ {x} {y}, {less(y, both)}")
    least = setting.suppose(f"∀ {x} {y} {z}, {less(x, z)} → {less(y, z)} → {less(both, z)}")
    step = setting.suppose(f"∀ {x} {y} {z}, {less(x, y)} → {less(y, z)} → {less(x, z)}")
    low, high, _ = points
    given = {(low, high): setting.suppose(less(low, high))} if rng.random() < 0.5 else {}

    def climb(leaf: str, term: Term) -> str:
        """A proof that a point is below a term, or nothing."""
        if not term.args:
            return f"{same} {leaf}" if term.head == leaf else given.get((leaf, term.head), "")
        for rule, arg in zip((lower, higher), term.args, strict=True):
            edge = " ".join([rule, *(wrap(str(side)) for side in term.args)])
            if str(arg) == leaf:
                return edge
            if proof := climb(leaf, arg):
                ends = (leaf, wrap(str(arg)), f"({term})")
                return " ".join([step, *ends, wrap(proof), f"({edge})"])
        return ""

    def prove(left: Term, right: Term) -> list[str]:
        if not left.args:
            return [f"exact {climb(left.head, right)}"]
        blocks = [prove(arg, right) for arg in left.args]
        return [f"apply {least}", *stack(blocks)]

    def draw(size: int) -> Term:
        if size == 1:
            return Term(rng.choice(points))
        cut = rng.randrange(1, size)
        return Term(join, (draw(cut), draw(size - cut)))

    while True:
        left, right = draw(rng.randrange(2, 5)), draw(rng.randrange(1, 4))
        forth, back = prove(left, right), prove(right, left)
        # A line that says only "exact" marks a point that is not below.
        holds, turned = (
            not any(line.endswith("exact ") for line in block) for block in (forth, back)
        )
        if not holds or left == right:
            continue
        if 4 <= len(forth) <= 9 and rng.random() < 0.6:
            return setting.ask(less(left, right), forth)
        if turned and len(forth) + len(back) <= 9:
            equal = setting.suppose(f"∀ {x} {y}, {less(x, y)} → {less(y, x)} → {x} = {y}")
            proof = [f"apply {equal}", *stack([forth, back])]
            return setting.ask(f"{left} = {right}", proof)


def make_sides(rng: random.Random, names: Names) -> ProgramText:
    """A disjunction of conjunctions gives a disjunction or a conjunction."""
    setting = Setting(rng, names)
    groups = [setting.literals(size) for size in rng.choice(((2, 2), (2, 3), (2, 2, 1), (2, 1)))]
    rng.shuffle(groups)
    shapes = {write_tree(tree, "∧"): tree for tree in (grow(rng, group) for group in groups)}
    inner = dict(zip(shapes, groups, strict=True))
    tree = grow(rng, list(inner))
    given = setting.suppose(write_tree(tree, "∨"))
    conjunction = len(groups) == 2 and rng.random() < 0.5
    goals = setting.props(2)
    proofs: dict[str, list[tuple[str, str, Prove]]] = {}
    for place, (formula, group) in enumerate(inner.items()):
        aims = goals if conjunction else [goals[place % 2]]
        proofs[formula] = []
        for aim in aims:
            start = rng.choice(group)
            proofs[formula].append((start, aim, setting.bridge(start, aim, rng.choice((1, 1, 2)))))
    goal = grow(rng, goals)
    paths = dict(list_paths(goal))

    def prove(formula: str, case: str) -> list[str]:
        hyps = {part: names.pick("hyp") for part in inner[formula]}
        lines = []
        if len(hyps) == 1:
            hyps = dict.fromkeys(hyps, case)
        else:
            lines = [f"obtain {pair(shapes[formula], hyps)} := {case}"]
        blocks = {aim: [f"exact {lead(hyps[start])}"] for start, aim, lead in proofs[formula]}
        if conjunction:
            return [*lines, *prove_both(goal, blocks.__getitem__)]
        [(aim, block)] = blocks.items()
        return [*lines, *enter(paths[aim], block)]

    claim = write_tree(goal, "∧" if conjunction else "∨")
    return setting.ask(claim, setting.split_cases(tree, given, prove))


def make_compose(rng: random.Random, names: Names) -> ProgramText:
    """Functions one after the other, each injective, or each surjective, or their parts."""
    setting = Setting(rng, names)
    x, y = setting.bound(2)
    count = 3
    shifts = rng.randrange(count) if rng.random() < 0.4 else -1
    functions = [setting.functions(1, 2 if place == shifts else 1)[0] for place in range(count)]
    [fixed] = setting.points(1) if shifts >= 0 else [""]
    heads = [f"{f} {fixed}" if place == shifts else f for place, f in enumerate(functions)]

    def write(heads: list[str], point: str) -> str:
        for head in reversed(heads):
            point = f"{head} {wrap(point)}"
        return point

    (whole, image), style = (write(heads, point) for point in (x, y)), rng.randrange(4)
    hyps = names.picks(*["hyp"] * count)
    if style == 0:
        rules = [setting.suppose(f"∀ {x} {y}, {h} {x} = {h} {y} → {x} = {y}") for h in heads]
        lines = [f"intro {x} {y} {hyps[0]}"]
        for place, rule in enumerate(rules):
            left, right = (write(heads[place + 1 :], point) for point in (x, y))
            proof = f"{rule} {wrap(left)} {wrap(right)} {hyps[place]}"
            last = place == count - 1
            have = "exact" if last else f"have {hyps[place + 1]} : {left} = {right} :="
            lines.append(f"{have} {proof}")
        return setting.ask(f"∀ {x} {y}, {whole} = {image} → {x} = {y}", lines)
    if style == 1:
        lines, point = [f"intro {y}"], y
        for head, hyp in zip(heads, hyps, strict=True):
            rule, source = setting.suppose(f"∀ {y}, ∃ {x}, {head} {x} = {y}"), names.pick("point")
            lines.append(f"obtain ⟨{source}, {hyp}⟩ := {rule} {point}")
            point = source
        lines += [f"refine ⟨{point}, ?_⟩", *(f"rw [{hyp}]" for hyp in reversed(hyps))]
        return setting.ask(f"∀ {y}, ∃ {x}, {whole} = {y}", lines)
    claims: dict[str, list[str]] = {}
    if style == 2:
        rule = setting.suppose(f"∀ {x} {y}, {whole} = {image} → {x} = {y}")
        for cut in rng.sample(range(1, count), 2):
            left, right = (write(heads[cut:], point) for point in (x, y))
            block = [f"intro {x} {y} {hyps[0]}", f"apply {rule}", f"rw [{hyps[0]}]"]
            claims[f"(∀ {x} {y}, {left} = {right} → {x} = {y})"] = block
    else:
        rule = setting.suppose(f"∀ {y}, ∃ {x}, {whole} = {y}")
        for cut in rng.sample(range(1, count), 2):
            open_it = f"obtain ⟨{x}, {hyps[0]}⟩ := {rule} {y}"
            block = [f"intro {y}", open_it, f"exact ⟨{write(heads[cut:], x)}, {hyps[0]}⟩"]
            claims[f"(∀ {y}, ∃ {x}, {write(heads[:cut], x)} = {y})"] = block
    return setting.ask(" ∧ ".join(claims), prove_all(*claims.values()))


def make_meet(rng: random.Random, names: Names) -> ProgramText:
    """A path in a transitive relation over a point that is not named, and forks."""
    setting = Setting(rng, names, numerals=rng.random() < 0.3)
    start, end, *stops = setting.points(rng.choice((3, 4)))
    relation, other = setting.predicates(2, 2)
    [between] = setting.bound(1)
    step = _suppose_transitive(setting, relation)
    lift = setting.rule(["x", "y"], [(other, "x", "y")], (relation, "x", "y"))
    forks: dict[str, tuple[str, str]] = {}
    for stop in rng.sample([end, *stops], rng.randrange(2, 2 + len(stops))):
        forks[write_atom((rng.choice([relation, relation, other]), between, stop))] = (
            stop,
            "" if stop == end else setting.fact((relation, stop, end)),
        )
    tree = grow(rng, list(forks))
    whole, hyp = names.picks("hyp", "hyp")
    parts = {"edge": f"{relation} {start} {between}", "fork": f"({write_tree(tree, '∨')})"}
    order = rng.sample(list(parts), 2)
    given = setting.suppose(f"∃ {between}, {' ∧ '.join(parts[part] for part in order)}")
    pattern = [between, *({"edge": whole, "fork": hyp}[part] for part in order)]

    def prove(formula: str, case: str) -> list[str]:
        stop, rest = forks[formula]
        lines, proof = [], case
        if formula.startswith(other):
            proof = names.pick("hyp")
            lifted = lift(case, at={"x": between, "y": stop})
            lines = [f"have {proof} : {relation} {between} {stop} := {lifted}"]
        nodes, proofs = [start, between, stop], [whole, proof]
        if rest:
            nodes, proofs = [*nodes, end], [*proofs, rest]
        return [*lines, *_join_path(setting, step, relation, nodes, proofs)]

    proof = setting.split_cases(tree, hyp, prove)
    open_it = f"obtain ⟨{', '.join(pattern)}⟩ := {given}"
    return setting.ask(f"{relation} {start} {end}", [open_it, *proof])


FAMILIES: dict[str, Family] = {
    "l3_path": make_path,
    "l3_nested": make_nested,
    "l3_order": make_order,
    "l3_words": make_words,
    "l3_laws": make_laws,
    "l3_sides": make_sides,
    "l3_compose": make_compose,
    "l3_meet": make_meet,
    "l3_lift": make_lift,
}
