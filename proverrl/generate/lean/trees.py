"""Levels 5 and 6: own trees, and all families of own lists and trees.

Flows in: a random source and names. Flows out: theorems that an induction over a tree proves, as in
``lists``.
"""

from __future__ import annotations

import random

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import ask_theorem, equate, have, prove_all
from proverrl.generate.lean.lists import (
    Lists,
    Maker,
    Shape,
    make_append,
    make_insert,
    make_passing,
    make_reverse,
)
from proverrl.generate.lean.numbers import add


def _draw_tree(rng: random.Random, names: Names) -> Shape:
    """A type of trees with one to three kinds of nodes."""
    left, right, x = names.picks("term", "term", "point")
    label = rng.choice(("Nat", "Bool", names.pick("type")))
    makers = [Maker(names.pick("base"), (x,) if rng.random() < 0.5 else (), ())]
    two = rng.choice(((left, right), (left, right, x), (left, x, right), (x, left, right)))
    one = rng.choice(((left,), (left, x), (x, left)))
    nodes = rng.choice(([two], [two, one], [two, two], [two, one, one]))
    makers += [Maker(names.pick("join"), args, tuple(a for a in args if a != x)) for args in nodes]
    if all(x not in maker.args for maker in makers):
        makers[0] = Maker(makers[0].word, (x,), ())
    return Shape(names.pick("tree"), label, tuple(rng.sample(makers, len(makers))))


def make_tree(rng: random.Random, names: Names) -> ProgramText:
    """A law about two trees and a function that turns trees over, after a lemma by induction."""
    tree, turn, size = _draw_tree(rng, names), *names.picks("recursive", "recursive")
    a, s, t, fact = names.picks("term", "term", "term", "hyp")
    given, got = names.picks("hyp", "hyp")
    style, rows, sums = rng.randrange(4), [], []
    weights: dict[tuple[str, ...], str] = {}
    twins = {m.args: [n for n in tree.makers if n.args == m.args] for m in tree.makers}
    cross = rng.random() < 0.5
    for maker in tree.makers:
        other = dict(zip(maker.inner, reversed(maker.inner), strict=True))
        group = twins[maker.args]
        image = group[group.index(maker) - len(group) + 1] if cross and maker.inner else maker
        args = [f"{turn} {other[arg]}" if arg in other else arg for arg in maker.args]
        rows.append(image.write(*args))
        parts = [f"{size} {arg}" for arg in maker.inner]
        sums.append(
            add(rng, *parts, weights.setdefault(maker.args, str(names.number("slope", 1, 20))))
        )
    before = [*tree.declare(), *tree.define(turn, f": {tree.full} → {tree.full}", *rows)]
    if style == 0:
        before += tree.define(size, f": {tree.full} → Nat", *sums)
        proofs = [
            [f"rw [{turn}, {size}, {size}]", "omega"] if m.inner else ["rfl"] for m in tree.makers
        ]
        law = f"{size} ({turn} {a}) = {size} {a}"
    else:
        hyps = ["{0}", "{1}"]
        proofs = [
            [f"rw [{turn}, {turn}, {', '.join(hyps[: len(m.inner)])}]"] if m.inner else ["rfl"]
            for m in tree.makers
        ]
        law = f"{turn} ({turn} {a}) = {a}"
    lemma = [f"intro {a}", *tree.induct(names, a, proofs)]
    proof = have(fact, f"∀ {a} : {tree.full}, {law}", lemma)
    binders = [tree.binder.strip()][: bool(tree.parameter)]
    binders.append(f"({' '.join(rng.sample((s, t), 2))} : {tree.full})")
    if style == 0:
        binders.append(f"({given} : {equate(rng, f'{turn} {s}', t)})")
        arrow = "" if binders[-1].endswith(f"= {turn} {s})") else "← "
        claim = equate(rng, f"{size} {s}", f"{size} {t}")
        proof += [f"rw [{arrow}{given}, {fact}]"]
    elif style == 1:
        binders.append(f"({given} : {turn} {s} = {turn} {t})")
        claim = equate(rng, s, t)
        proof += [f"have {got} := {fact} {s}", f"rw [{given}, {fact}] at {got}"]
        proof += [f"exact {got}{'.symm' if claim.startswith(s + ' ') else ''}"]
    else:
        claim = f"{turn} {s} = {t} ↔ {turn} {t} = {s}"
        if style == 3:
            claim = f"{s} = {turn} {t} ↔ {t} = {turn} {s}"
        arrow = "← " if style == 2 else ""
        half = [f"intro {given}", f"rw [{arrow}{given}, {fact}]"]
        proof += prove_all(half, half)
    return ask_theorem(names.pick("theorem"), binders, claim, proof, before)


def make_flat(rng: random.Random, names: Names) -> ProgramText:
    """The list of an own tree's labels has the measure of the tree, after a lemma on lists."""
    lists = Lists(rng, names)
    app, x, (left, right) = lists.append(), lists.head, names.picks("term", "term")
    slope, factor = names.number("slope", 1, 30), rng.randrange(1, 4)
    weight = str(slope)
    if lists.shape.label == "Nat" and rng.random() < 0.7:
        weight = rng.choice((x, f"{factor + 1} * {x}", f"({x} + {slope})"))
    row = f"{weight} + {{0}} {lists.tail}"
    size = lists.define("recursive", f": {lists.shape.full} → Nat", "0", row)
    leaf = Maker(names.pick("base"), (x,) if rng.random() < 0.3 else (), ())
    node = Maker(names.pick("join"), tuple(rng.sample((left, right, x), 3)), (left, right))
    makers = [leaf, node]
    if rng.random() < 0.5:
        makers.append(Maker(names.pick("join"), tuple(rng.sample((left, x), 2)), (left,)))
    tree = Shape(names.pick("tree"), lists.shape.label, tuple(rng.sample(makers, len(makers))))
    flat, count, fact, got = names.picks("recursive", "recursive", "hyp", "hyp")
    first, last = rng.sample((left, right), 2)
    style, rows, sums, proofs = rng.randrange(2), [], [], []
    for maker in tree.makers:
        parts = [f"{count} {arg}" for arg in maker.inner] + [weight] * (x in maker.args)
        sums.append(add(rng, *parts) if parts else "0")
        if maker is node:
            pair = f"{flat} {first}", f"{flat} {last}" if style else lists.push(x, f"{flat} {last}")
            text = f"{app} ({pair[0]}) ({pair[1]})"
            rows.append(lists.push(x, text) if style else text)
            end = pair[1] if style else lists.term(x, f"{flat} {last}")
            proof = [f"have {got} := {fact} ({pair[0]}) ({end})"]
            proof += (
                [f"rw [{flat}, {size}, {count}]"]
                if style
                else [f"rw [{size}] at {got}", f"rw [{flat}, {count}]"]
            )
            proofs.append([*proof, "omega"])
        elif maker.inner:
            rows.append(lists.push(x, f"{flat} {left}"))
            proofs.append([f"rw [{flat}, {size}, {count}]", "omega"])
        else:
            rows.append(lists.push(x, lists.nil.write()) if maker.args else lists.nil.write())
            proofs.append(["rfl"])
    a, b, t = names.picks("term", "term", "term")
    before = [*lists.lines, *tree.declare()]
    before += tree.define(flat, f": {tree.full} → {lists.shape.full}", *rows)
    before += tree.define(count, f": {tree.full} → Nat", *sums)
    proof = lists.lemma(fact, (a, b), lists.count_append(app, size, 0, a, b))
    proof += tree.induct(names, t, proofs)
    binders = [*[tree.binder.strip()][: bool(tree.parameter)], f"({t} : {tree.full})"]
    claim = equate(rng, f"{size} ({flat} {t})", f"{count} {t}")
    return ask_theorem(names.pick("theorem"), binders, claim, proof, before)


FAMILIES: dict[int, dict[str, Family]] = {
    4: {"l4_append": make_append},
    5: {"l5_reverse": make_reverse, "l5_tree": make_tree},
    6: {"l6_passing": make_passing, "l6_insert": make_insert, "l6_flat": make_flat},
}
