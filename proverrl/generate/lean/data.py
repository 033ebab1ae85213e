"""Level 3: types of few values, tables of truth values, options of one's own.

Flows in: a random source and names. Flows out: theorems that a case distinction over every value
proves. Not handled here: types that contain themselves (``numbers``, ``lists``).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import (
    arm,
    ask_theorem,
    equate,
    split,
    wrap,
    write_function,
    write_type,
)


def _draw_turn(rng: random.Random, values: Sequence[str]) -> tuple[dict[str, str], int]:
    """A function that gives every value back after so many calls, two at least."""
    while True:
        table = dict(zip(values, rng.sample(values, len(values)), strict=True))
        state, order = table, 1
        while any(value != result for value, result in state.items()):
            state, order = {value: table[result] for value, result in state.items()}, order + 1
        if 2 <= order <= 4:
            return table, order


def make_enum(rng: random.Random, names: Names) -> ProgramText:
    """A law of functions on a type of three to five values, or what a result says of its cause."""
    kind, f, g, point = names.picks("data", "function", "function", "point")
    values = [names.pick("value") for _ in range(rng.randrange(3, 6))]
    binders, style = [f"({point} : {kind})"], rng.randrange(4)
    tables = {f: {value: rng.choice(values) for value in values}}
    wanted = set(values)
    if style == 0:
        tables[f], order = _draw_turn(rng, values)
        claim = equate(rng, f"{f} (" * (order - 1) + f"{f} {point}" + ")" * (order - 1), point)
    elif style == 1:
        inner, whole = names.picks("function", "function")
        tables[inner] = {value: rng.choice(values) for value in values}
        tables[whole] = {value: tables[f][result] for value, result in tables[inner].items()}
        claim = equate(rng, f"{f} ({inner} {point})", f"{whole} {point}")
    elif style == 2:
        goal = rng.choice(list(tables[f].values()))
        causes = [value for value in values if tables[f][value] == goal]
        wanted = set(causes)
        binders.append(f"({names.pick('hyp')} : {f} {point} = {kind}.{goal})")
        rng.shuffle(causes)
        claim = " ∨ ".join(f"{point} = {kind}.{cause}" for cause in causes)
    else:
        goal, others = rng.choice(values), rng.sample(values, rng.randrange(1, 3))
        tables[f] |= {value: goal for value in values if value not in others}
        wanted -= set(others)
        binders += [f"({names.pick('hyp')} : {point} ≠ {kind}.{other})" for other in others]
        claim = equate(rng, f"{f} {point}", f"{kind}.{goal}")
    if style != 1 and rng.random() < 0.4:
        tables[g] = {value: rng.choice(values) for value in values}

    def prove(value: str) -> list[str]:
        if value not in wanted:
            return ["contradiction"]
        if style != 2 or len(causes) == 1:
            return ["rfl"]
        place = causes.index(value)
        last = ["left"] if place < len(causes) - 1 else []
        return ["right"] * place + last + ["rfl"]

    before = write_type(kind, [(value, ()) for value in values])
    for name in rng.sample(sorted(tables), len(tables)):
        table = [(f".{value}", f".{result}") for value, result in tables[name].items()]
        before += write_function(name, f": {kind} → {kind}", table)
    arms = [arm(value, prove(value)) for value in values]
    return ask_theorem(
        names.pick("theorem"), binders, claim, split(f"cases {point}", *arms), before
    )


Truth = Mapping[tuple[bool, ...], bool]


@dataclass(frozen=True, slots=True)
class Valued:
    """A term over truth values: its text, and its value for each choice of the variables."""

    text: str
    values: tuple[bool, ...]

    @property
    def inner(self) -> str:
        return wrap(self.text)


def make_table(rng: random.Random, names: Names) -> ProgramText:
    """An equation between terms over own functions on truth values, true for every value."""
    points = [names.pick("point") for _ in range(rng.randrange(1, 3))]
    kind, values = "Bool", ["false", "true"]
    before: list[str] = []
    if rng.random() < 0.6:
        kind, values = names.pick("data"), names.picks("value", "value")
        before = write_type(kind, [(value, ()) for value in values])
    choices = list(product((False, True), repeat=len(points)))
    variables = [Valued(p, tuple(c[i] for c in choices)) for i, p in enumerate(points)]
    functions: dict[str, Truth] = {}
    for arity in rng.choice([(1, 2), (2, 2), (1, 1), (1, 2, 2)]):
        rows = list(product((False, True), repeat=arity))
        results = rng.choices((False, True), k=len(rows))
        name = names.pick("function")
        functions[name] = dict(zip(rows, results, strict=True))
        shown = [
            (", ".join(f".{values[v]}" for v in row), f".{values[result]}")
            for row, result in functions[name].items()
        ]
        sort = " → ".join([kind] * (arity + 1))
        before += write_function(name, f": {sort}", shown)

    def draw(depth: int) -> Valued:
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(variables)
        name, table = rng.choice(list(functions.items()))
        args = [draw(depth - 1) for _ in next(iter(table))]
        columns = zip(*(arg.values for arg in args), strict=True)
        made = tuple(table[column] for column in columns)
        return Valued(" ".join([name, *(arg.inner for arg in args)]), made)

    while True:
        left, right = draw(2), draw(rng.randrange(3))
        free = [p for p in points if p in f"{left.text} {right.text}".replace("(", " ").split()]
        if left.values == right.values and " " in left.text and left.text != right.text and free:
            break

    def prove(rest: Sequence[str]) -> list[str]:
        if not rest:
            return ["rfl"]
        return split(f"cases {rest[0]}", *(arm(value, prove(rest[1:])) for value in values))

    words = f"{left.text} {right.text}".replace("(", " ").replace(")", " ").split()
    used = [p for p in points if p in words]
    binders = [f"({' '.join(rng.sample(used, len(used)))} : {kind})"]
    claim = equate(rng, left.text, right.text)
    return ask_theorem(names.pick("theorem"), binders, claim, prove(used), before)


def make_option(rng: random.Random, names: Names) -> ProgramText:
    """A law of functions on an own type of values that may be missing."""
    kind, f, g = names.picks("data", "function", "function")
    over, bind, alt, held = (names.pick("recursive") for _ in range(4))
    x, d, o, p, q = names.picks("point", "point", "term", "term", "term")
    a, b, c = names.picks("type", "type", "type")
    empty = [names.pick("base") for _ in range(rng.randrange(1, 4))]
    full = [names.pick("join") for _ in range(rng.randrange(1, 3))]
    words = rng.sample(empty + full, len(empty) + len(full))

    def declare(name: str, head: str, none: str, some: str, second: str = "") -> list[str]:
        """A function with an equation for each constructor, which stands for ``{}``."""
        rows = [
            (f".{word} {x}{second and ', _'}", some.format(f".{word}"))
            if word in full
            else (f".{word}{second and f', {second}'}", none.format(f".{word}"))
            for word in words
        ]
        return write_function(name, head, rows)

    two, act = f"{{{a} {b} : Type}}", f"({g} : {a} → {b})"
    full_act, result = f"({g} : {a} → {kind} {b})", f"{kind} {a} → {kind} {b}"
    same = f"{kind} {a} → {kind} {a} → {kind} {a}"
    functions = {
        over: declare(over, f"{two} {act} : {result}", "{}", f"{{}} ({g} {x})"),
        bind: declare(bind, f"{two} {full_act} : {result}", "{}", f"{g} {x}"),
        alt: declare(alt, f"{{{a} : Type}} : {same}", p, f"{{}} {x}", p),
        held: declare(held, f"{{{a} : Type}} ({d} : {a}) : {kind} {a} → {a}", d, x),
    }
    before = write_type(kind, [(w, (a,) if w in full else ()) for w in words], a)
    types = f"{{{a} {b} {c} : Type}}"
    if rng.random() < 0.5:
        types, b, c = f"{{{a} : Type}}", a, a
    if types == f"{{{a} : Type}}" and rng.random() < 0.7:
        types, a = "", rng.choice(("Nat", "Bool"))
        b = c = a
    g1, g2 = f"({g} : {a} → {b})", f"({g} : {a} → {kind} {b})"
    f1, f2 = f"({f} : {b} → {c})", f"({f} : {b} → {kind} {c})"
    d1, o1, o2, o3 = (
        f"({d} : {a})",
        *(f"({n} : {kind} {a})" for n in (o, f"{o} {p}", f"{o} {p} {q}")),
    )
    inside = f"(fun {x} => {{}}) {o}".format
    binders, left, right = rng.choice(
        [
            ([g1, f1, o1], f"{over} {f} ({over} {g} {o})", f"{over} {inside(f'{f} ({g} {x})')}"),
            (
                [g2, f2, o1],
                f"{bind} {f} ({bind} {g} {o})",
                f"{bind} {inside(f'{bind} {f} ({g} {x})')}",
            ),
            (
                [g2, f1, o1],
                f"{over} {f} ({bind} {g} {o})",
                f"{bind} {inside(f'{over} {f} ({g} {x})')}",
            ),
            ([g1, f2, o1], f"{bind} {f} ({over} {g} {o})", f"{bind} {inside(f'{f} ({g} {x})')}"),
            ([o3], f"{alt} ({alt} {o} {p}) {q}", f"{alt} {o} ({alt} {p} {q})"),
            ([g1, o2], f"{over} {g} ({alt} {o} {p})", f"{alt} ({over} {g} {o}) ({over} {g} {p})"),
            ([g1, d1, o1], f"{held} ({g} {d}) ({over} {g} {o})", f"{g} ({held} {d} {o})"),
            ([d1, o2], f"{held} {d} ({alt} {o} {p})", f"{held} ({held} {d} {p}) {o}"),
            ([o1], f"{alt} {o} {o}", o),
        ]
    )
    for name in rng.sample(sorted(functions), len(functions)):
        if f"{name} " in f"{left} {right}" or rng.random() < 0.2:
            before += functions[name]
    arms = [arm(f"{word} {x}" if word in full else word, ["rfl"]) for word in words]
    binders = [types][: bool(types)] + rng.sample(binders, len(binders))
    proof = split(f"cases {o}", *arms)
    return ask_theorem(names.pick("theorem"), binders, equate(rng, left, right), proof, before)


FAMILIES: dict[int, dict[str, Family]] = {
    3: {"l3_enum": make_enum, "l3_table": make_table, "l3_option": make_option}
}
