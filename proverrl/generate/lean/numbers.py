"""Levels 3 to 5: own recursive functions and predicates on natural numbers.

Flows in: a random source and names. Flows out: theorems that an induction on a number proves.
Sums are left to ``omega``, which knows nothing of the functions: their equations come first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import (
    arm,
    ask_theorem,
    equate,
    have,
    prove_all,
    split,
    stack,
    write_function,
)


def add(rng: random.Random, *parts: str) -> str:
    """A sum in any order."""
    return " + ".join(rng.sample(parts, len(parts)))


def bound(rng: random.Random, low: str, high: str) -> str:
    """An inequality in either direction."""
    return f"{low} ≤ {high}" if rng.random() < 0.6 else f"{high} ≥ {low}"


def induct(number: str, zero: list[str], hyp: str, succ: list[str], *held: str) -> list[str]:
    """An induction on a natural number, for every value of the names in ``held``."""
    tactic = " ".join([f"induction {number}", *(["generalizing", *held] if held else [])])
    return split(tactic, arm("zero", zero), arm(f"succ {number} {hyp}", succ))


def make_closed(rng: random.Random, names: Names) -> ProgramText:
    """A closed form, a bound or a remainder of a function that grows by a constant."""
    f, n, hyp = names.picks("recursive", "number", "hyp")
    base, slope = names.number("base", 2, 30), names.number("slope", 2, 30)
    style, factor = rng.randrange(3), rng.choice(("", "", "2 * ", "3 * "))
    zero = ["rfl"]
    if style == 0:
        factor = ""
        claim = equate(rng, f"{f} {n}", add(rng, f"{slope} * {n}", str(base)))
    elif style == 1:
        low = rng.randrange(1, slope + 1)
        claim = bound(rng, add(rng, f"{low} * {n}", str(rng.randrange(1, base))), f"{f} {n}")
        zero = [f"rw [{f}]", "omega"]
    else:
        factor = "" if slope < 3 else f"{slope + 1} * " if factor else ""
        claim = equate(rng, f"{f} {n} % {slope}", str(base % slope))
    rows = [("0", str(base)), (f"{n} + 1", add(rng, f"{factor}{f} {n}", str(slope)))]
    before = write_function(f, ": Nat → Nat", rng.sample(rows, 2))
    proof = induct(n, zero, hyp, [f"rw [{f}]", "omega"])
    return ask_theorem(names.pick("theorem"), [f"({n} : Nat)"], claim, proof, before)


def make_tail(rng: random.Random, names: Names) -> ProgramText:
    """A function with an accumulator adds what a plain one gives, and does not fall below it."""
    run, plain, n, held = names.picks("recursive", "recursive", "number", "number")
    theorem, hyp, fact = names.picks("theorem", "hyp", "hyp")
    slope, offset = names.number("slope", 1, 30), names.number("offset", 1, 20)
    rest, first = names.number("base", 1, 20), rng.random() < 0.5
    amount = rng.choice((f"{slope}", f"({n} + {slope})", f"{slope} * {n}", f"2 * {n}"))
    step = add(rng, held, amount)

    def order(number: str, total: str, comma: str = " ") -> str:
        return comma.join((number, total) if first else (total, number))

    fast = [(order("0", held, ", "), add(rng, held, str(offset)))]
    fast.append((order(f"{n} + 1", held, ", "), f"{run} {order(n, f'({step})')}"))
    slow = [("0", str(offset + rest)), (f"{n} + 1", add(rng, f"{plain} {n}", amount))]
    before = write_function(run, ": Nat → Nat → Nat", fast)
    before += write_function(plain, ": Nat → Nat", slow)
    call = f"{run} {order(n, held)}"
    claims = {
        equate(rng, add(rng, call, str(rest)), f"{plain} {n} + {held}"): f"{run}, {plain}",
        bound(rng, held, call): run,
    }
    claims = dict(rng.sample(list(claims.items()), 2 if rng.random() < 0.5 else 1))
    if len(claims) == 1 and run in claims.values():
        before = before[:3]
    proofs = [
        induct(
            n,
            [f"rw [{words}]", "omega"],
            hyp,
            [f"have {fact} := {hyp} ({step})", f"rw [{words}]", "omega"],
            held,
        )
        for words in claims.values()
    ]
    binders = [f"({' '.join(rng.sample((n, held), 2))} : Nat)"]
    return ask_theorem(theorem, binders, " ∧ ".join(claims), prove_all(*proofs), before)


@dataclass(frozen=True, slots=True)
class Steps:
    """An own predicate that holds at ``base`` and, with any number, ``stride`` above it."""

    name: str
    start: str
    step: str
    base: int
    stride: int

    def declare(self, rng: random.Random, number: str) -> list[str]:
        """Its declaration, the constructors in either order."""
        start = f"  | {self.start} : {self.name} {self.base}"
        step = f"({number} + {self.stride})"
        up = f"  | {self.step} ({number} : Nat) : {self.name} {number} → {self.name} {step}"
        return [f"inductive {self.name} : Nat → Prop where", *rng.sample([start, up], 2)]

    def climb(self, fact: str, now: str, below: str, times: int, hyp: str) -> list[str]:
        """Proves the predicate of ``now`` from ``hyp``, which has it ``times`` steps below."""
        goal = below + f" + {self.stride}" * times
        for place in range(times):
            hyp = f"{self.name}.{self.step} _ {f'({hyp})' if place else hyp}"
        return [*have(fact, f"{now} = {goal}", ["omega"]), f"rw [{fact}]", f"exact {hyp}"]

    def induct(self, hyp: str, number: str, ih: str, start: list[str], up: list[str]) -> list[str]:
        """An induction on a proof ``hyp`` of the predicate."""
        arms = arm(self.start, start), arm(f"{self.step} {number} {hyp} {ih}", up)
        return split(f"induction {hyp}", *arms)


def _draw_steps(names: Names, base: int, stride: int) -> Steps:
    name, start, step = names.picks("pred", "base", "join")
    return Steps(name, start, step, base, stride)


def make_steps(rng: random.Random, names: Names) -> ProgramText:
    """A law about the numbers that a predicate reaches, or a list of such numbers."""
    n, hyp, ih, fact, theorem = names.picks("number", "hyp", "hyp", "hyp", "theorem")
    base, stride = names.number("base", 1, 20), names.number("slope", 2, 20)
    times, shift, style = rng.randrange(1, 4), rng.randrange(1, 20), rng.randrange(3)
    first = _draw_steps(names, base, stride * times)
    before, big = first.declare(rng, n), first.stride
    binders = [f"({n} : Nat)", f"({hyp} : {first.name} {n})"]
    if style == 0:
        second = _draw_steps(names, base + shift, stride)
        before = [
            line for lines in rng.sample([before, second.declare(rng, n)], 2) for line in lines
        ]
        claim = f"{second.name} ({n} + {shift})"
        up = second.climb(fact, f"{n} + {big} + {shift}", f"{n} + {shift}", times, ih)
        proof = first.induct(hyp, n, ih, [f"exact {second.name}.{second.start}"], up)
    elif style == 1:
        limit = rng.randrange(1, base + 1)
        claims = [equate(rng, f"{n} % {big}", str(base % big)), bound(rng, str(limit), n)]
        if times > 1:
            claims.append(equate(rng, f"{n} % {stride}", str(base % stride)))
        claims = rng.sample(claims, 2)
        proof = prove_all(*(first.induct(hyp, n, ih, ["omega"], ["omega"]) for _ in claims))
        claim = " ∧ ".join(claims)
    else:
        parts = rng.sample([f"{big} * {{}}", str(base)], 2)
        line = " + ".join(parts).format
        binders, claim = binders[:1], f"{first.name} ({line(n)})"
        up = first.climb(fact, line(f"({n} + 1)"), line(n), 1, ih)
        proof = induct(n, [f"exact {first.name}.{first.start}"], ih, up)
    return ask_theorem(theorem, binders, claim, proof, before)


def make_meet(rng: random.Random, names: Names) -> ProgramText:
    """A sum of two numbers that predicates reach is reached by a third."""
    n, m, theorem = names.picks("number", "number", "theorem")
    h1, h2, ih, ih2, fact = names.picks(*["hyp"] * 5)
    stride, times = names.number("slope", 1, 15), [rng.randrange(1, 3) for _ in range(2)]
    low, high = names.number("base", 0, 20), names.number("offset", 0, 20)
    one = _draw_steps(names, low, stride * times[0])
    two = _draw_steps(names, high, stride * times[1])
    both = _draw_steps(names, low + high, stride)
    declared = [one.declare(rng, n), two.declare(rng, n), both.declare(rng, n)]
    before = [line for lines in rng.sample(declared, 3) for line in lines]
    left = rng.random() < 0.5

    def total(a: str, b: str) -> str:
        return f"{a} + {b}" if left else f"{b} + {a}"

    climb2 = both.climb(
        fact, total(f"{low}", f"({m} + {two.stride})"), total(f"{low}", m), times[1], ih2
    )
    climb1 = both.climb(fact, total(f"({n} + {one.stride})", m), total(n, m), times[0], ih)
    inner = two.induct(h2, m, ih2, [f"exact {both.name}.{both.start}"], climb2)
    proof = one.induct(h1, n, ih, inner, climb1)
    binders = rng.sample([f"({h1} : {one.name} {n})", f"({h2} : {two.name} {m})"], 2)
    claim = f"{both.name} ({total(n, m)})"
    return ask_theorem(theorem, [f"({n} {m} : Nat)", *binders], claim, proof, before)


def make_mono(rng: random.Random, names: Names) -> ProgramText:
    """A function that does not fall: the claim for two numbers, from the one for a distance."""
    f, n, m, theorem = names.picks("recursive", "number", "number", "theorem")
    k, h, up, ih, fact, gap, case = names.picks("number", *["hyp"] * 6)
    base, slope = names.number("base", 0, 30), names.number("slope", 1, 30)
    low = rng.randrange(0, slope + 1)
    factor = rng.choice(("", "2 * ", "3 * "))
    extra = rng.choice(([], ["{0}"], ["2 * {0}"]))
    row = add(rng, f"{factor}{f} {{0}}", str(slope), *extra).format
    before = write_function(f, ": Nat → Nat", [("0", str(base)), (f"{n} + 1", row(n))])
    grown = f"{f} ({n} + ({k} + 1)) = {row(f'({n} + {k})')}"
    succ = [*have(fact, grown, ["rfl"]), "omega"]
    more = {0: "", 1: " + {0}"}.get(low, f" + {low} * {{0}}")
    lemma = ["intro " + k, *induct(k, ["exact Nat.le_refl _"], ih, succ)]
    proof = have(up, f"∀ {k}, {f} {n}{more.format(k)} ≤ {f} ({n} + {k})", lemma)
    reach = [f"have {gap} := {up} ({m} - {n})", *have(fact, f"{n} + ({m} - {n}) = {m}", ["omega"])]
    reach += [f"rw [{fact}] at {gap}", "omega"]
    given, claim = bound(rng, n, m), bound(rng, f"{f} {n}", f"{f} {m}")
    style = rng.randrange(4)
    if style == 1:
        given, claim = f"{f} {m} < {f} {n}", f"{m} < {n}"
        reach = [f"by_cases {case} : {n} ≤ {m}", *stack([reach, ["omega"]])]
    elif low and style == 2:
        given, claim = f"{n} < {m}", f"{f} {n} < {f} {m}"
    elif low and style == 3:
        claim = bound(rng, f"{f} {n} + ({m} - {n})", f"{f} {m}")
    binders = [f"({n} {m} : Nat)", f"({h} : {given})"]
    return ask_theorem(theorem, binders, claim, [*proof, *reach], before)


def make_twice(rng: random.Random, names: Names) -> ProgramText:
    """A function that goes down by two: a bound or a remainder, for two neighbours at once."""
    f, n, m, theorem = names.picks("recursive", "number", "number", "theorem")
    ih, both, one, two, fact = names.picks(*["hyp"] * 5)
    p, q = rng.randrange(1, 4), rng.randrange(1, 4)
    base, slope = names.number("base", 1, 20), names.number("slope", 2, 20)
    style = rng.randrange(3)
    if style == 0:
        values = [base + rng.randrange(6), base + rng.randrange(6)]
        more = rng.randrange(0, 20)
        form = bound(rng, str(base), f"{f} {{0}}")
    elif style == 1:
        p, q = rng.choice(((1, slope), (slope + 1, slope), (slope, 1)))
        more, rest = slope * rng.randrange(5), base % slope
        values = [rest + slope * rng.randrange(4) for _ in range(2)]
        form = equate(rng, f"{f} {{0}} % {slope}", str(rest))
    else:
        p, q, more, values = 0, 1, 2 * slope, [base, base + slope]
        form = equate(rng, f"{f} {{0}}", add(rng, f"{slope} * {{0}}", str(base)))
    parts = [f"{c} * {g}" if c > 1 else g for c, g in ((p, f"{f} ({n} + 1)"), (q, f"{f} {n}")) if c]
    rule = add(rng, *parts, *([str(more)] if more else []))
    rows = [("0", str(values[0])), ("1", str(values[1])), (f"{n} + 2", rule)]
    before = write_function(f, ": Nat → Nat", rows)
    close = [f"rw [{f}]", "omega"] if style == 0 else ["rfl"]
    lower, upper = form.format(n), form.format(f"({n} + 1)")
    deep = f"{f} ({n} + 1 + 1)"
    last = [*have(fact, f"{deep} = {rule}", ["rfl"]), "omega"]
    step = [f"obtain ⟨{one}, {two}⟩ := {ih}", *prove_all([f"exact {two}"], last)]
    lemma = [f"intro {n}", *induct(n, prove_all(close, close), ih, step)]
    proof = [*have(both, f"∀ {n}, {lower} ∧ {upper}", lemma), f"exact ({both} {m}).left"]
    return ask_theorem(theorem, [f"({m} : Nat)"], form.format(m), proof, before)


FAMILIES: dict[int, dict[str, Family]] = {
    3: {"l3_closed": make_closed},
    4: {"l4_tail": make_tail, "l4_steps": make_steps, "l4_mono": make_mono},
    5: {"l5_meet": make_meet, "l5_twice": make_twice},
}
