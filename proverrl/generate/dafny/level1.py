"""Level 1: linear accumulators; the hole holds loop invariants.

Flows in: a random source and names. Flows out: programs of six families.
Not handled here: anything that is not linear in the counter.
"""

from __future__ import annotations

import random

from proverrl.generate.dafny.draft import (
    Loop,
    Term,
    ask_invariants,
    draw_equation,
    draw_line,
    draw_loop,
    list_above,
    list_below,
    shuffled,
)
from proverrl.generate.families import Family, Names, ProgramText


def _add(rng: random.Random, total: str, amount: int | str) -> str:
    if rng.random() < 0.7:
        return f"{total} := {total} + {amount};"
    return f"{total} := {amount} + {total};"


def make_accumulator(rng: random.Random, names: Names) -> ProgramText:
    """A total that grows by a constant each turn, from a constant."""
    method, total, bound, counter = names.picks("method", "total", "bound", "counter")
    loop = draw_loop(rng, counter, bound)
    slope = names.number("slope", 2, 40)
    style = rng.randrange(6)
    offset = names.number("offset", 1, 60) if rng.random() < 0.6 else 0
    line, equal = draw_line(slope, offset, style), draw_equation(rng)
    start = -offset if style % 3 == 2 else offset
    steps = shuffled(rng, [_add(rng, total, slope), loop.step])
    return loop.ask(method, total, start, steps, lambda x: equal(total, line(x)))


def make_decrease(rng: random.Random, names: Names) -> ProgramText:
    """A total that shrinks by a constant each turn, from a constant or a parameter."""
    method, total, bound, counter = names.picks("method", "total", "bound", "counter")
    loop = draw_loop(rng, counter, bound)
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    product = draw_line(slope, 0, rng.randrange(2))
    start, parameters = str(names.number("offset", 10, 90)), f"{bound}: nat"
    if rng.random() < 0.4:
        start = names.pick("param")
        parameters = ", ".join(shuffled(rng, [parameters, f"{start}: int"]))
    steps = shuffled(rng, [f"{total} := {total} - {slope};", loop.step])

    def claim(x: str) -> str:
        return equal(total, f"{start} - {product(x)}")

    return loop.ask(method, total, start, steps, claim, parameters=parameters)


def make_multiply(rng: random.Random, names: Names) -> ProgramText:
    """A product by repeated addition of a parameter, with an optional constant start."""
    method, total, factor = names.picks("method", "total", "param")
    bound, counter = names.picks("bound", "counter")
    loop, equal = draw_loop(rng, counter, bound), draw_equation(rng)
    style = rng.choice((0, 1, 3, 4))
    offset = names.number("offset", 1, 60) if rng.random() < 0.8 else 0
    line = draw_line(factor, offset, style)
    parameters = ", ".join(shuffled(rng, [f"{factor}: int", f"{bound}: nat"]))
    steps = shuffled(rng, [_add(rng, total, factor), loop.step])
    return loop.ask(
        method, total, offset, steps, lambda x: equal(total, line(x)), parameters=parameters
    )


def make_pair(rng: random.Random, names: Names) -> ProgramText:
    """Two totals in one loop, each growing or shrinking by its own constant."""
    method, bound, counter = names.picks("method", "bound", "counter")
    loop, equal = draw_loop(rng, counter, bound), draw_equation(rng)
    first, second = totals = names.picks("total", "total")
    starts: list[str] = []
    steps: list[str] = []
    terms: list[Term] = []
    for total in totals:
        slope = names.number("slope", 2, 30)
        product = draw_line(slope, 0, rng.randrange(2))
        falls = rng.random() < 0.3
        start = str(names.number("offset", 10, 60) if falls else 0)
        starts.append(start)
        steps.append(f"{total} := {total} - {slope};" if falls else _add(rng, total, slope))
        terms.append(_subtract(start, product) if falls else product)

    def claims(turns: str) -> list[str]:
        return [equal(total, term(turns)) for total, term in zip(totals, terms, strict=True)]

    return ask_invariants(
        f"{method}({bound}: nat) returns ({first}: int, {second}: int)",
        [f"ensures {' && '.join(claims(bound))}"],
        [
            f"{first}, {second} := {', '.join(starts)};",
            *loop.write([*shuffled(rng, steps), loop.step]),
        ],
        loop.span,
        *claims(loop.done),
    )


def _subtract(start: str, product: Term) -> Term:
    return lambda x: f"{start} - {product(x)}"


def make_range(rng: random.Random, names: Names) -> ProgramText:
    """A loop from one parameter to another; the total follows the distance."""
    method, total, counter = names.picks("method", "total", "counter")
    low, high = names.picks("low", "high")
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    product = draw_line(slope, 0, rng.randrange(2))
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    head = f"{offset} + " if offset else ""
    if rng.random() < 0.6:
        start, step = low, f"{counter} := {counter} + 1;"
        guard, count = rng.choice(list_below(counter, high)), f"{counter} - {low}"
    else:
        start, step = high, f"{counter} := {counter} - 1;"
        guard, count = rng.choice(list_above(counter, low)), f"{high} - {counter}"
    span = f"{low} <= {counter} <= {high}"
    return Loop(counter, start, guard, step, span, count, f"({high} - {low})").ask(
        method,
        total,
        offset,
        shuffled(rng, [_add(rng, total, slope), step]),
        lambda x: equal(total, head + product(x)),
        parameters=f"{low}: int, {high}: int",
        requires=[f"requires {low} <= {high}"],
    )


def make_drain(rng: random.Random, names: Names) -> ProgramText:
    """One total is emptied while another fills, so a weighted sum stays the same."""
    method, bound, source, sink = names.picks("method", "bound", "total", "total")
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    offset = names.number("offset", 1, 60) if rng.random() < 0.6 else 0
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    guard = rng.choice((*list_above(source, "0"), f"{source} >= 1"))
    step, span = f"{source} := {source} - 1;", f"0 <= {source} <= {bound}"
    steps = shuffled(rng, [step, _add(rng, sink, slope)])
    loop = Loop(source, bound, guard, step, span, f"{bound} - {source}", bound)
    return loop.ask(method, sink, offset, steps, lambda x: equal(sink, line(x)))


FAMILIES: dict[str, Family] = {
    "l1_acc": make_accumulator,
    "l1_dec": make_decrease,
    "l1_mul": make_multiply,
    "l1_two": make_pair,
    "l1_range": make_range,
    "l1_drain": make_drain,
}
