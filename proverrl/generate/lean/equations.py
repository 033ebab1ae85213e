"""Level 3: chains of rewriting with laws of own functions.

Flows in: a random source and names. Flows out: theorems; ``level3`` lists them.
"""

from __future__ import annotations

import random

from proverrl.generate.families import Names, ProgramText
from proverrl.generate.lean.setting import Setting
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
