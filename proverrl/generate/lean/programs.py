"""Levels 5 and 6: predicates on own lists, optimisers of expressions, stack machines.

Flows in: a random source and names. Flows out: theorems that small programs do what they should,
proved by an induction over the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from proverrl.generate.families import Family, Names, ProgramText
from proverrl.generate.lean.draft import ask_theorem, equate, have, prove_all, split, write_function
from proverrl.generate.lean.lists import Lists, Maker, Shape
from proverrl.generate.lean.numbers import add


def make_holds(rng: random.Random, names: Names) -> ProgramText:
    """A predicate of all members: it holds of two lists together as of each of them."""
    lists = Lists(rng, names, "Nat")
    app, (s, t), pred = lists.append(), names.picks("term", "term"), names.pick("pred")
    none, some, x, full = *names.picks("base", "join"), lists.head, lists.shape.full
    given, other, first, second = names.picks("hyp", "hyp", "hyp", "hyp")
    limit, slope = names.number("limit", 0, 40), names.number("slope", 2, 20)
    conditions = [f"{x} ≤ {limit}", f"{limit} < {x}", f"{x} ≠ {limit}"]
    condition = rng.choice([*conditions, f"{x} % {slope} = {limit % slope}"])
    inner = rng.sample([condition, f"{pred} {lists.tail}"], 2)
    held = lists.term(x, lists.tail)
    rows = [f"  | {none} : {pred} {lists.term()}"]
    rows.append(f"  | {some} ({x} : Nat) ({lists.tail} : {full}) :")
    rows[1] += f" {' → '.join(inner)} → {pred} ({held})"
    before = [*lists.lines, f"inductive {pred} : {full} → Prop where", *rng.sample(rows, 2)]

    def push(rest: str) -> str:
        facts = [first if part == condition else rest for part in inner]
        return f"exact {pred}.{some} _ _ {' '.join(facts)}"

    def join() -> list[str]:
        ih = names.pick("hyp")
        hyps = " ".join([x, lists.tail, *(first if p == condition else second for p in inner), ih])
        arms = [
            [f"| {none} =>", f"  rw [{app}]", f"  exact {other}"],
            [f"| {some} {hyps} =>", f"  rw [{app}]", f"  {push(ih)}"],
        ]
        return split(f"induction {given}", *arms)

    def part() -> list[str]:
        hyps = " ".join(first if p == condition else second for p in inner)
        left, right = names.picks("hyp", "hyp")
        nil = [f"rw [{app}] at {given}", *prove_all([f"exact {pred}.{none}"], [f"exact {given}"])]
        step = [f"obtain ⟨{left}, {right}⟩ := {{0}} {second}"]
        step += prove_all([push(left)], [f"exact {right}"])
        cases = split(
            f"cases {given}", [f"| {some} _ _ {hyps} =>", *(f"  {line}" for line in step)]
        )
        return lists.induct(s, nil, [f"rw [{app}] at {given}", *cases])

    lists.lines, whole = before, f"{pred} ({app} {s} {t})"
    both, style = f"{pred} {s} ∧ {pred} {t}", rng.randrange(3)
    if style == 0:
        return lists.ask((s, t), both, part(), after=[f"({given} : {whole})"])
    pair = names.pick("hyp")
    joined = [f"intro {pair}", f"obtain ⟨{given}, {other}⟩ := {pair}", *join()]
    if style == 1:
        return lists.ask((s, t), f"{both} → {whole}", joined)
    halves = [f"intro {given}", *part()], joined
    if rng.random() < 0.5:
        return lists.ask((s, t), f"{whole} ↔ {both}", prove_all(*halves))
    return lists.ask((s, t), f"{both} ↔ {whole}", prove_all(*halves[::-1]))


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of expression: its constructor, its value, what the optimiser makes of it, and the
    steps that prove this right."""

    maker: Maker
    value: str
    better: str
    steps: tuple[str, ...] = ("rfl",)


def make_expression(rng: random.Random, names: Names) -> ProgramText:
    """An optimiser of expressions keeps their value."""
    a, b, x, env = names.picks("term", "term", "point", "number")
    run, opt, kind, e = names.picks("recursive", "recursive", "tree", "term")
    cst = Maker(names.pick("base"), (x,), ())
    var = Maker(names.pick("base"), (), ())
    total = Maker(names.pick("join"), (a, b), (a, b))
    value = f"{run} {env}"
    sums = f"rw [{opt}, {run}, {run}]", "omega"
    rules = [Rule(cst, x, cst.write()), Rule(var, env, var.write())]
    turned = rng.sample((a, b), 2)
    plain = add(
        rng,
        f"{value} {a}",
        f"{value} {b}",
        *[str(names.number("offset", 1, 20))][: rng.randrange(2)],
    )
    short = plain.count("+") == 1
    better = total.write(*(f"{opt} {arg}" for arg in turned))
    rules.append(Rule(total, plain, better, sums))
    for style in rng.sample(range(4), rng.randrange(1, 4)):
        slope = names.number("slope", 2, 20)
        if style == 0:
            maker = Maker(names.pick("join"), (a, b), (a, b))
            better = maker.write(f"{opt} {b}", f"{opt} {a}")
            steps = f"rw [{opt}, {run}, {run}, {{0}}, {{1}}]", "exact Nat.mul_comm _ _"
            rules.append(Rule(maker, f"{value} {a} * {value} {b}", better, steps))
            continue
        maker = Maker(names.pick("join"), (a,), (a,))
        if style == 1:
            rules.append(
                Rule(maker, add(rng, f"{value} {a}", str(slope)), maker.write(f"{opt} {a}"), sums)
            )
        elif style == 2 and short:
            pair = rng.sample((f"{opt} {a}", cst.write(str(slope))), 2)
            steps = f"rw [{opt}, {run}, {run}, {run}]", "omega"
            rules.append(
                Rule(maker, add(rng, f"{value} {a}", str(slope)), total.write(*pair), steps)
            )
        elif short:
            better = total.write(f"{opt} {a}", f"{opt} {a}")
            rules.append(Rule(maker, f"2 * {value} {a}", better, sums))
    rules = rng.sample(rules, len(rules))
    shape = Shape(kind, "Nat", tuple(rule.maker for rule in rules))
    before = shape.declare()
    parts = [
        shape.define(run, f"({env} : Nat) : {kind} → Nat", *(rule.value for rule in rules)),
        shape.define(opt, f": {kind} → {kind}", *(rule.better for rule in rules)),
    ]
    before += [line for lines in rng.sample(parts, 2) for line in lines]
    proof = shape.induct(names, e, [rule.steps for rule in rules])
    claim = equate(rng, f"{value} ({opt} {e})", f"{value} {e}")
    binders = rng.sample([f"({env} : Nat)", f"({e} : {kind})"], 2)
    return ask_theorem(names.pick("theorem"), binders, claim, proof, before)


def make_machine(rng: random.Random, names: Names) -> ProgramText:
    """Code for a stack machine leaves the value of the expression on the stack."""
    a, b, e, k, s = (names.pick("term") for _ in range(5))
    x, y, fact, theorem = names.picks("point", "point", "hyp", "theorem")
    tree, code = names.picks("tree", "list")
    value, run, make = (names.pick("recursive") for _ in range(3))
    stop, push = names.picks("base", "join")
    leaf = Maker(names.pick("base"), (x,), ())
    offset = names.number("offset", 0, 20)
    add_on = f"{x} + {offset}" if offset else x
    lines = [f"  | .{stop}, {s} => {s}", f"  | .{push} {x} {k}, {s} => {run} {k} ({x} :: {s})"]
    types = [(stop, ""), (push, "Nat → ")]
    makers = {leaf: (add_on, f".{push} {f'({add_on})' if offset else x} {k}")}
    for _ in range(rng.randrange(1, 4)):
        binary, word = rng.random() < 0.7, names.pick("join")
        maker = Maker(names.pick("join"), (a, b) if binary else (a,), (a, b) if binary else (a,))
        types.append((word, ""))
        number = str(names.number("slope", 2, 20))
        form: Callable[..., str] = rng.choice(
            ("{0} + {1}", "{0} * {1}", f"{{0}} + {{1}} + {number}", f"{{0}} * {number} + {{1}}")
            if binary
            else (f"{{0}} + {number}", f"{number} * {{0}}", "{0} * {0}")
        ).format
        text = form(f"{value} {a}", f"{value} {b}")
        if not binary:
            row, text_code = form(x), f"{make} {a} (.{word} {k})"
            lines.append(f"  | .{word} {k}, {x} :: {s} => {run} {k} (({row}) :: {s})")
        else:
            first, second = rng.sample((a, b), 2)
            row = form(*(x if arg == second else y for arg in (a, b)))
            text_code = f"{make} {first} ({make} {second} (.{word} {k}))"
            lines.append(f"  | .{word} {k}, {x} :: {y} :: {s} => {run} {k} (({row}) :: {s})")
            lines.append(f"  | .{word} _, [_] => []")
        lines.append(f"  | .{word} _, [] => []")
        makers[maker] = text, text_code
    order2 = rng.sample(list(makers.items()), len(makers))
    shape = Shape(tree, "Nat", tuple(maker for maker, _ in order2))
    arrows = [
        f"  | {word} : {before}{code}{'' if word == stop else f' → {code}'}"
        for word, before in types
    ]
    before = [f"inductive {code} where", *rng.sample(arrows, len(arrows))]
    before += shape.declare()
    before += shape.define(value, f": {tree} → Nat", *(v for _, (v, _) in order2))
    rows = [(f"{m.write()}, {k}", c) for m, (_, c) in order2]
    before += write_function(make, f": {tree} → {code} → {code}", rows)
    before += [f"def {run} : {code} → List Nat → List Nat", *lines]
    proofs = []
    for maker, (_, text_code) in order2:
        hyps = ["{0}", "{1}"][: len(maker.inner)]
        if len(hyps) == 2 and not text_code.startswith(f"{make} {a}"):
            hyps.reverse()
        proofs.append([f"rw [{', '.join([make, *hyps, run, value])}]"])
    law = f"{run} ({make} {{}} {{}}) {{}} = {run} {{}} ({value} {{}} :: {{}})".format
    inner = shape.induct(names, e, proofs, f"{k} {s}")
    binds = f"∀ ({e} : {tree}) ({k} : {code}) ({s} : List Nat), "
    proof = have(fact, binds + law(e, k, s, k, e, s), [f"intro {e} {k} {s}", *inner])
    halt, style = f"{code}.{stop}", rng.randrange(3)
    binders, steps = [f"({e} : {tree})"], f"rw [{fact}, {run}]"
    if style == 0:
        claim = f"{run} ({make} {e} {halt}) [] = [{value} {e}]"
    elif style == 1:
        binders.append(f"({s} : List Nat)")
        claim = f"{run} ({make} {e} {halt}) {s} = {value} {e} :: {s}"
    else:
        binders = [f"({' '.join(rng.sample((e, a), 2))} : {tree})", f"({s} : List Nat)"]
        claim = f"{run} ({make} {e} ({make} {a} {halt})) {s} = {value} {a} :: {value} {e} :: {s}"
        steps = f"rw [{fact}, {fact}, {run}]"
    claim = equate(rng, *claim.split(" = "))
    return ask_theorem(theorem, rng.sample(binders, len(binders)), claim, [*proof, steps], before)


FAMILIES: dict[int, dict[str, Family]] = {
    5: {"l5_holds": make_holds, "l5_expression": make_expression},
    6: {"l6_machine": make_machine},
}
