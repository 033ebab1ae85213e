"""Level 1: linear accumulators; the hole holds loop invariants.

Flows in: a random source and names. Flows out: drafts of six families.
Not handled here: anything that is not linear in the counter.
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Draft,
    Family,
    Term,
    draw_equation,
    draw_line,
    draw_loop,
    join_lines,
    shuffled,
    write_invariants,
    write_while,
)
from proverrl.lang.dafny.generate.names import Names


def _draft(family: str, lines: list[str], reference: str) -> Draft:
    return Draft(1, family, "invariants", join_lines(*lines), reference)


def _add(rng: random.Random, total: str, amount: int | str) -> str:
    if rng.random() < 0.7:
        return f"{total} := {total} + {amount};"
    return f"{total} := {amount} + {total};"


def _subtract(start: int, product: Term) -> Term:
    return lambda x: f"{start} - {product(x)}"


def make_accumulator(rng: random.Random, names: Names) -> Draft:
    """A total that grows by a constant each turn, from a constant."""
    method, total = names.pick("method"), names.pick("total")
    bound, counter = names.pick("bound"), names.pick("counter")
    loop = draw_loop(rng, counter, bound)
    slope = names.number("slope", 2, 40)
    style = rng.randrange(6)
    offset = names.number("offset", 1, 60) if rng.random() < 0.6 else 0
    line, equal = draw_line(slope, offset, style), draw_equation(rng)
    start = -offset if style % 3 == 2 else offset
    lines = [
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(total, line(bound))}",
        "{",
        f"  {total} := {start};",
        f"  var {counter} := {loop.start};",
        *write_while(loop.guard, shuffled(rng, [_add(rng, total, slope), loop.step])),
        "}",
    ]
    return _draft("l1_acc", lines, write_invariants(loop.span, equal(total, line(loop.done))))


def make_decrease(rng: random.Random, names: Names) -> Draft:
    """A total that shrinks by a constant each turn, from a constant or a parameter."""
    method, total = names.pick("method"), names.pick("total")
    bound, counter = names.pick("bound"), names.pick("counter")
    loop = draw_loop(rng, counter, bound)
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    product = draw_line(slope, 0, rng.randrange(2))
    start, parameters = str(names.number("offset", 10, 90)), f"{bound}: nat"
    if rng.random() < 0.4:
        start = names.pick("param")
        parameters = ", ".join(shuffled(rng, [parameters, f"{start}: int"]))
    lines = [
        f"method {method}({parameters}) returns ({total}: int)",
        f"  ensures {equal(total, f'{start} - {product(bound)}')}",
        "{",
        f"  {total} := {start};",
        f"  var {counter} := {loop.start};",
        *write_while(loop.guard, shuffled(rng, [f"{total} := {total} - {slope};", loop.step])),
        "}",
    ]
    last = equal(total, f"{start} - {product(loop.done)}")
    return _draft("l1_dec", lines, write_invariants(loop.span, last))


def make_multiply(rng: random.Random, names: Names) -> Draft:
    """A product by repeated addition of a parameter, with an optional constant start."""
    method, total, factor = names.pick("method"), names.pick("total"), names.pick("param")
    bound, counter = names.pick("bound"), names.pick("counter")
    loop, equal = draw_loop(rng, counter, bound), draw_equation(rng)
    style = rng.choice((0, 1, 3, 4))
    offset = names.number("offset", 1, 60) if rng.random() < 0.8 else 0
    line = draw_line(factor, offset, style)
    parameters = ", ".join(shuffled(rng, [f"{factor}: int", f"{bound}: nat"]))
    lines = [
        f"method {method}({parameters}) returns ({total}: int)",
        f"  ensures {equal(total, line(bound))}",
        "{",
        f"  {total} := {offset};",
        f"  var {counter} := {loop.start};",
        *write_while(loop.guard, shuffled(rng, [_add(rng, total, factor), loop.step])),
        "}",
    ]
    return _draft("l1_mul", lines, write_invariants(loop.span, equal(total, line(loop.done))))


def make_pair(rng: random.Random, names: Names) -> Draft:
    """Two totals in one loop, each growing or shrinking by its own constant."""
    method, bound, counter = names.pick("method"), names.pick("bound"), names.pick("counter")
    loop, equal = draw_loop(rng, counter, bound), draw_equation(rng)
    totals = [names.pick("total"), names.pick("total")]
    starts: list[str] = []
    steps: list[str] = []
    terms: list[Term] = []
    for total in totals:
        slope = names.number("slope", 2, 30)
        product = draw_line(slope, 0, rng.randrange(2))
        falls = rng.random() < 0.3
        start = names.number("offset", 10, 60) if falls else 0
        starts.append(str(start))
        steps.append(f"{total} := {total} - {slope};" if falls else _add(rng, total, slope))
        terms.append(_subtract(start, product) if falls else product)
    ensured = " && ".join(
        equal(total, term(bound)) for total, term in zip(totals, terms, strict=True)
    )
    first, second = totals
    lines = [
        f"method {method}({bound}: nat) returns ({first}: int, {second}: int)",
        f"  ensures {ensured}",
        "{",
        f"  {first}, {second} := {', '.join(starts)};",
        f"  var {counter} := {loop.start};",
        *write_while(loop.guard, [*shuffled(rng, steps), loop.step]),
        "}",
    ]
    held = [equal(total, term(loop.done)) for total, term in zip(totals, terms, strict=True)]
    return _draft("l1_two", lines, write_invariants(loop.span, *held))


def make_range(rng: random.Random, names: Names) -> Draft:
    """A loop from one parameter to another; the total follows the distance."""
    method, total, counter = names.pick("method"), names.pick("total"), names.pick("counter")
    low, high = names.pick("low"), names.pick("high")
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    product = draw_line(slope, 0, rng.randrange(2))
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    head = f"{offset} + " if offset else ""
    rising = rng.random() < 0.6
    if rising:
        start, step = low, f"{counter} := {counter} + 1;"
        guard = rng.choice((f"{counter} < {high}", f"{counter} != {high}", f"{high} > {counter}"))
        done = f"({counter} - {low})"
    else:
        start, step = high, f"{counter} := {counter} - 1;"
        guard = rng.choice((f"{counter} > {low}", f"{counter} != {low}", f"{low} < {counter}"))
        done = f"({high} - {counter})"
    lines = [
        f"method {method}({low}: int, {high}: int) returns ({total}: int)",
        f"  requires {low} <= {high}",
        f"  ensures {equal(total, head + product(f'({high} - {low})'))}",
        "{",
        f"  {total} := {offset};",
        f"  var {counter} := {start};",
        *write_while(guard, shuffled(rng, [_add(rng, total, slope), step])),
        "}",
    ]
    clauses = (f"{low} <= {counter} <= {high}", equal(total, head + product(done)))
    return _draft("l1_range", lines, write_invariants(*clauses))


def make_drain(rng: random.Random, names: Names) -> Draft:
    """One total is emptied while another fills, so a weighted sum stays the same."""
    method, bound = names.pick("method"), names.pick("bound")
    source, sink = names.pick("total"), names.pick("total")
    slope, equal = names.number("slope", 2, 40), draw_equation(rng)
    offset = names.number("offset", 1, 60) if rng.random() < 0.6 else 0
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    guard = rng.choice((f"{source} > 0", f"{source} != 0", f"0 < {source}", f"{source} >= 1"))
    steps = shuffled(rng, [f"{source} := {source} - 1;", _add(rng, sink, slope)])
    lines = [
        f"method {method}({bound}: nat) returns ({sink}: int)",
        f"  ensures {equal(sink, line(bound))}",
        "{",
        f"  {sink} := {offset};",
        f"  var {source} := {bound};",
        *write_while(guard, steps),
        "}",
    ]
    clauses = (f"0 <= {source} <= {bound}", equal(sink, line(f"({bound} - {source})")))
    return _draft("l1_drain", lines, write_invariants(*clauses))


FAMILIES: dict[str, Family] = {
    "l1_acc": make_accumulator,
    "l1_dec": make_decrease,
    "l1_mul": make_multiply,
    "l1_two": make_pair,
    "l1_range": make_range,
    "l1_drain": make_drain,
}
