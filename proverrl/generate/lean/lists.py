"""Levels 4 to 6: own lists, functions on them, and the writers of types that others use too.

Flows in: a random source and names. Flows out: theorems that an induction over a list proves, some
after a lemma on the way. A step about equal structures rewrites with equations and hypotheses; one
about numbers brings the equations in and leaves the sum to ``omega``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.generate.families import Names, ProgramText
from proverrl.generate.lean.draft import (
    arm,
    ask_theorem,
    equate,
    have,
    prove_all,
    split,
    stack,
    wrap,
    write_function,
    write_type,
)
from proverrl.generate.lean.numbers import add


@dataclass(frozen=True, slots=True)
class Maker:
    """A constructor: its name, its arguments, and those of them that hold a structure."""

    word: str
    args: tuple[str, ...]
    inner: tuple[str, ...]

    def write(self, *args: str) -> str:
        """The constructor with other arguments, or with its own."""
        return " ".join([f".{self.word}", *map(wrap, args or self.args)])


@dataclass(frozen=True, slots=True)
class Shape:
    """An own type: its name, the type of its labels, and its constructors."""

    name: str
    label: str
    makers: tuple[Maker, ...]

    @property
    def parameter(self) -> str:
        return "" if self.label in ("", "Nat", "Bool") else self.label

    @property
    def full(self) -> str:
        """The type as a text."""
        return f"{self.name} {self.parameter}".strip()

    @property
    def binder(self) -> str:
        """The binder of the type of labels, and a blank; empty where the type has a name."""
        return f"{{{self.parameter} : Type}} " if self.parameter else ""

    def declare(self) -> list[str]:
        """The declaration of the type."""
        rows = [
            (m.word, [self.full if a in m.inner else self.label for a in m.args])
            for m in self.makers
        ]
        return write_type(self.name, rows, self.parameter)

    def define(self, name: str, head: str, *rows: str) -> list[str]:
        """A function by cases of its structure, the results in the order of the constructors."""
        pairs = [(m.write(), row) for m, row in zip(self.makers, rows, strict=True)]
        return write_function(name, f"{self.binder}{head}", pairs)

    def induct(
        self, names: Names, value: str, proofs: Sequence[Sequence[str]], held: str = ""
    ) -> list[str]:
        """An induction; ``{0}``, ``{1}`` in the proofs stand for the hypotheses."""
        arms = []
        for maker, proof in zip(self.makers, proofs, strict=True):
            hyps = [names.pick("hyp") for _ in maker.inner]
            lines = [line.format(*hyps) for line in proof]
            arms.append(arm(" ".join([maker.word, *maker.args, *hyps]), lines))
        return split(f"induction {value}{held and ' generalizing '}{held}", *arms)


class Lists:
    """An own list type, and functions on it, each declared when it is first asked for."""

    def __init__(self, rng: random.Random, names: Names, label: str = "") -> None:
        self.rng, self.names = rng, names
        label = label or rng.choice(("Nat", "Bool", names.pick("type")))
        name, nil, cons, self.head, self.tail = names.picks("list", "base", "join", "point", "term")
        self.front = rng.random() < 0.6
        args = (self.head, self.tail) if self.front else (self.tail, self.head)
        self.nil, self.cons = Maker(nil, (), ()), Maker(cons, args, (self.tail,))
        self.swapped = rng.random() < 0.4
        makers = (self.cons, self.nil) if self.swapped else (self.nil, self.cons)
        self.shape = Shape(name, label, makers)
        self.lines = self.shape.declare()
        self.other = names.pick("term")

    def both(self, nil: list[str], cons: list[str]) -> list[list[str]]:
        """The items of the two constructors, in the order of the constructors."""
        return [cons, nil] if self.swapped else [nil, cons]

    def push(self, head: str, tail: str) -> str:
        """A list as a function's definition writes it."""
        return self.cons.write(*((head, tail) if self.front else (tail, head)))

    def term(self, head: str = "", tail: str = "") -> str:
        """A list as a claim writes it: the empty one, or one with a head."""
        return self.shape.name + (
            self.push(head, tail or self.term()) if head else f".{self.nil.word}"
        )

    def define(self, role: str, head: str, nil: str, cons: str, second: str = "") -> str:
        """A new function; ``{0}`` stands for its name, ``second`` for its second argument."""
        name = self.names.pick(role)
        more = f", {second}" if second else ""
        rows = self.both([self.nil.write() + more, nil], [self.cons.write() + more, cons])
        pairs = [(left, right.format(name)) for left, right in rows]
        self.lines += write_function(name, f"{self.shape.binder}{head}", pairs)
        return name

    def append(self) -> str:
        """Two lists, one after the other."""
        row = self.push(self.head, f"{{0}} {self.tail} {self.other}")
        full = self.shape.full
        return self.define("recursive", f": {full} → {full} → {full}", self.other, row, self.other)

    def apply(self, action: str) -> str:
        """A function on every label."""
        label, full = self.shape.label, self.shape.full
        head = f"({action} : {label} → {label}) : {full} → {full}"
        row = self.push(f"{action} {self.head}", f"{{0}} {action} {self.tail}")
        return self.define("recursive", head, self.nil.write(), row)

    def measure(self, base: int = 0) -> str:
        """A number that each label adds to."""
        slope = self.names.number("slope", 1, 30)
        parts = [f"{{0}} {self.tail}", str(slope)]
        if self.shape.label == "Nat" and self.rng.random() < 0.7:
            factor = self.rng.randrange(1, 6)
            parts[1 if self.rng.random() < 0.5 else 2 :] = [
                f"{factor} * {self.head}" if factor > 1 else self.head
            ]
        return self.define(
            "recursive", f": {self.shape.full} → Nat", str(base), add(self.rng, *parts)
        )

    def reverse(self, app: str) -> str:
        """A list from its end."""
        row = f"{app} ({{0}} {self.tail}) ({self.push(self.head, self.nil.write())})"
        return self.define(
            "recursive", f": {self.shape.full} → {self.shape.full}", self.nil.write(), row
        )

    def induct(self, value: str, nil: list[str], cons: list[str], held: str = "") -> list[str]:
        """An induction over a list."""
        return self.shape.induct(self.names, value, self.both(nil, cons), held)

    def count_append(self, app: str, size: str, base: int, s: str, t: str) -> tuple[str, list[str]]:
        """The measure of two lists together, and its proof."""
        left = f"{size} ({app} {s} {t})" + (f" + {base}" if base else "")
        proof = self.induct(
            s, [f"rw [{app}, {size}]", "omega"], [f"rw [{app}, {size}, {size}]", "omega"]
        )
        return f"{left} = {size} {s} + {size} {t}", proof

    def apply_append(self, app: str, over: str, f: str, s: str, t: str) -> tuple[str, list[str]]:
        """A function on every label of two lists together, and its proof."""
        claim = f"{over} {f} ({app} {s} {t}) = {app} ({over} {f} {s}) ({over} {f} {t})"
        return claim, self.induct(s, ["rfl"], [f"rw [{app}, {over}, {over}, {app}, {{0}}]"])

    def associate(self, app: str, s: str, t: str, u: str) -> tuple[str, list[str]]:
        """Three lists together, and the proof."""
        claim = f"{app} ({app} {s} {t}) {u} = {app} {s} ({app} {t} {u})"
        return claim, self.induct(s, ["rfl"], [f"rw [{app}, {app}, {app}, {{0}}]"])

    def end(self, app: str, s: str) -> tuple[str, list[str]]:
        """A list before an empty one, and the proof."""
        return f"{app} {s} {self.term()} = {s}", self.induct(s, ["rfl"], [f"rw [{app}, {{0}}]"])

    def lemma(self, fact: str, values: Sequence[str], law: tuple[str, list[str]]) -> list[str]:
        """A law for all lists, proved on the way."""
        claim = f"∀ {' '.join(values)} : {self.shape.full}, {law[0]}"
        return have(fact, claim, [f"intro {' '.join(values)}", *law[1]])

    def ask(
        self,
        values: Sequence[str],
        claim: str,
        proof: Sequence[str],
        more: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> ProgramText:
        """A theorem about ``values``, with binders before and after them."""
        shown = " ".join(self.rng.sample(list(values), len(values)))
        binders = [self.shape.binder.strip()][: bool(self.shape.parameter)]
        binders += [*more, f"({shown} : {self.shape.full})", *after]
        return ask_theorem(self.names.pick("theorem"), binders, claim, proof, self.lines)


def make_append(rng: random.Random, names: Names) -> ProgramText:
    """Two laws of own lists one after the other."""
    lists = Lists(rng, names)
    app, (s, t, u) = lists.append(), names.picks("term", "term", "term")
    kinds = rng.sample(("size", "over", "associate", "end"), 2)
    values, laws, more = {s}, [], []
    for kind in kinds:
        if kind == "size":
            base = rng.choice((0, names.number("base", 1, 30)))
            laws.append(lists.count_append(app, lists.measure(base), base, s, t))
        elif kind == "over":
            f = names.pick("function")
            laws.append(lists.apply_append(app, lists.apply(f), f, s, t))
            more = [f"({f} : {lists.shape.label} → {lists.shape.label})"]
        elif kind == "associate":
            laws.append(lists.associate(app, s, t, u))
        else:
            laws.append(lists.end(app, s))
        values |= {"size": {t}, "over": {t}, "associate": {t, u}}.get(kind, set())
    # A bare list on the left would be rewritten on both sides.
    claims = [
        claim if kind == "end" else equate(rng, *claim.split(" = "))
        for kind, (claim, _) in zip(kinds, laws, strict=True)
    ]
    proof = prove_all(*(proof for _, proof in laws))
    return lists.ask(sorted(values), " ∧ ".join(claims), proof, more)


def make_reverse(rng: random.Random, names: Names) -> ProgramText:
    """A law of an own list from its end, after a lemma on two lists together."""
    lists = Lists(rng, names)
    app, (s, t, x), fact = lists.append(), names.picks("term", "term", "point"), names.pick("hyp")
    rev, style, (a, b) = lists.reverse(app), rng.randrange(4), names.picks("term", "term")
    one, more = f"({lists.term(lists.head)})", []
    if style == 0:
        base = rng.choice((0, names.number("base", 1, 30)))
        size, got = lists.measure(base), names.pick("hyp")
        proof = lists.lemma(fact, (a, b), lists.count_append(app, size, base, a, b))
        cons = [f"have {got} := {fact} ({rev} {lists.tail}) {one}", f"rw [{size}, {size}] at {got}"]
        proof += lists.induct(s, ["rfl"], [*cons, f"rw [{rev}, {size}]", "omega"])
        claim = equate(rng, f"{size} ({rev} {s})", f"{size} {s}")
    elif style == 1:
        f = names.pick("function")
        over, more = lists.apply(f), [f"({f} : {lists.shape.label} → {lists.shape.label})"]
        proof = lists.lemma(fact, (a, b), lists.apply_append(app, over, f, a, b))
        step = f"rw [{rev}, {fact}, {{0}}, {over}, {over}, {over}, {rev}]"
        proof += lists.induct(s, ["rfl"], [step])
        claim = f"{over} {f} ({rev} {s}) = {rev} ({over} {f} {s})"
    elif style == 2:
        step = f"rw [{app}, {rev}, {rev}, {{0}}, {app}]"
        inner = f"∀ ({a} : {lists.shape.full}) ({x} : {lists.shape.label}), "
        inner += f"{rev} ({app} {a} ({lists.term(x)})) = {lists.term(x, f'{rev} {a}')}"
        proof = have(fact, inner, [f"intro {a} {x}", *lists.induct(a, ["rfl"], [step])])
        proof += lists.induct(s, ["rfl"], [f"rw [{rev}, {fact}, {{0}}]"])
        claim = f"{rev} ({rev} {s}) = {s}"
    else:
        unit, c = names.pick("hyp"), names.pick("term")
        law = lists.associate(app, a, b, c)[0]
        more = [f"({fact} : ∀ {a} {b} {c} : {lists.shape.full}, {law})"]
        proof = lists.lemma(unit, (a,), lists.end(app, a))
        step = f"rw [{app}, {rev}, {rev}, {{0}}, {fact}]"
        proof += lists.induct(s, [f"rw [{app}, {rev}, {unit}]"], [step])
        claim = f"{rev} ({app} {s} {t}) = {app} ({rev} {t}) ({rev} {s})"
    return lists.ask((s, t) if style == 3 else (s,), claim, proof, more)


def make_passing(rng: random.Random, names: Names) -> ProgramText:
    """A function that hands a list on, and the plain one: equal by a lemma for every such list."""
    lists = Lists(rng, names)
    app, (s, t, held) = lists.append(), names.picks("term", "term", "term")
    a, b, c = names.picks("term", "term", "term")
    assoc, unit, gen = names.picks("hyp", "hyp", "hyp")
    full, label = lists.shape.full, lists.shape.label
    f = names.pick("function") if rng.random() < 0.5 else ""
    head, act = (f"{f} {lists.head}", f"{f} ") if f else (lists.head, "")
    more = [f"({f} : {label} → {label})"][: bool(f)]
    signature = "".join([*more, " : "]).lstrip()
    row = f"{{0}} {act}{lists.tail} ({lists.push(head, held)})"
    slow = f"{app} ({{0}} {act}{lists.tail}) ({lists.push(head, lists.nil.write())})"
    if first := rng.random() < 0.5:
        rev = lists.define("recursive", f"{signature}{full} → {full}", lists.nil.write(), slow)
    run = lists.define("recursive", f"{signature}{full} → {full} → {full}", held, row, held)
    if not first:
        rev = lists.define("recursive", f"{signature}{full} → {full}", lists.nil.write(), slow)
    run, rev, fast = f"{run} {act}".strip(), f"{rev} {act}".strip(), run
    step = [f"rw [{fast}, {rev.split()[0]}, {{0}}, {assoc}, {app}, {app}]"]
    law = f"{run} {a} {b} = {app} ({rev} {a}) {b}", lists.induct(a, ["rfl"], step, b)
    proof: list[str] = []
    given = rng.choice((assoc, unit, "", ""))
    facts = [(assoc, (a, b, c), lists.associate(app, a, b, c)), (unit, (a,), lists.end(app, a))]
    for fact, values, known in rng.sample(facts, 2):
        if fact == given:
            more.append(f"({fact} : ∀ {' '.join(values)} : {full}, {known[0]})")
        else:
            proof += lists.lemma(fact, values, known)
    proof += lists.lemma(gen, (a, b), law)
    empty = lists.term()
    if rng.random() < 0.5:
        claim = equate(rng, f"{run} {s} {empty}", f"{rev} {s}")
        return lists.ask((s,), claim, [*proof, f"rw [{gen}, {unit}]"], more)
    claim = equate(rng, f"{app} ({run} {s} {empty}) {t}", f"{run} {s} {t}")
    return lists.ask((s, t), claim, [*proof, f"rw [{gen}, {gen}, {unit}]"], more)


def make_insert(rng: random.Random, names: Names) -> ProgramText:
    """Sorting by insertion keeps a measure, after a lemma on one insertion."""
    lists = Lists(rng, names, "Nat")
    x, s, a, fact, case = names.picks("point", "term", "term", "hyp", "hyp")
    full, head, tail = lists.shape.full, lists.head, lists.tail
    base, slope = names.number("base", 1, 30), names.number("slope", 1, 30)
    weight = rng.choice(("{0}", f"{slope}", f"{slope} * {{0}}", f"({{0}} + {slope})"))
    turn = rng.choice((1, -1))
    near, far = lists.push(x, lists.push(head, tail)), lists.push(head, f"{{0}} {x} {tail}")
    then, other = near, far
    test = rng.choice((f"{x} ≤ {head}", f"{head} ≥ {x}", f"{x} < {head}", f"{head} > {x}"))
    if rng.random() < 0.4:
        then, other, test = far, near, rng.choice((f"{head} ≤ {x}", f"{x} > {head}"))
    step = f"if {test} then {then} else {other}"
    one, empty = lists.push(x, lists.nil.write()), lists.nil.write()
    insert = lists.define("recursive", f"({x} : Nat) : {full} → {full}", one, step)
    sort = lists.define("recursive", f": {full} → {full}", empty, f"{insert} {head} ({{0}} {tail})")
    row = " + ".join([f"{{0}} {tail}", weight.format(head)][::turn])
    total = lists.define("recursive", f": {full} → Nat", str(base), row)
    claim = " + ".join([f"{total} {a}", weight.format(x)][::turn])
    claim = equate(rng, f"{total} ({insert} {x} {a})", claim)
    arms = [
        [f"rw [{insert}, {word} {case}]", "rfl"]
        if put == near
        else [f"rw [{insert}, {word} {case}, {total}, {total}]", "omega"]
        for word, put in (("if_pos", then), ("if_neg", other))
    ]
    steps = [f"by_cases {case} : {test}", *stack(arms)]
    cases = lists.induct(a, ["rfl"], steps)
    proof = have(fact, f"∀ ({x} : Nat) ({a} : {full}), {claim}", [f"intro {x} {a}", *cases])
    got = names.pick("hyp")
    last = [f"have {got} := {fact} {head} ({sort} {tail})", f"rw [{sort}, {total}]", "omega"]
    proof += lists.induct(s, ["rfl"], last)
    return lists.ask((s,), equate(rng, f"{total} ({sort} {s})", f"{total} {s}"), proof)
