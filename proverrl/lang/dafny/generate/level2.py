"""Level 2: closed forms, division and roots; the hole holds loop invariants.

Flows in: a random source and names. Flows out: drafts of five families.
Not handled here: recursive functions (``level2_recurrences``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    LOOP_FORMS_UP,
    Draft,
    Family,
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
    return Draft(2, family, "invariants", join_lines(*lines), reference)


def make_triangle(rng: random.Random, names: Names) -> Draft:
    """A sum of multiples of the counter, against twice its closed form."""
    method, total = names.pick("method"), names.pick("total")
    bound, counter = names.pick("bound"), names.pick("counter")
    slope, equal = names.number("slope", 2, 30), draw_equation(rng)
    offset = names.number("offset", 1, 30) if rng.random() < 0.4 else 0
    tail = f" + {2 * offset}" if offset else ""
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    add = f"{total} := {total} + {slope} * {counter};"
    if rng.random() < 0.5:
        add = f"{total} := {slope} * {counter} + {total};"
    before = rng.random() < 0.5
    neighbour = "+" if before else "-"

    def closed(x: str) -> str:
        return f"{slope} * {x} * ({x} {neighbour} 1){tail}"

    lines = [
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(f'2 * {total}', closed(bound))}",
        "{",
        f"  {total} := {offset};",
        f"  var {counter} := 0;",
        *write_while(loop.guard, [loop.step, add] if before else [add, loop.step]),
        "}",
    ]
    last = equal(f"2 * {total}", closed(counter))
    return _draft("l2_tri", lines, write_invariants(loop.span, last))


def make_square(rng: random.Random, names: Names) -> Draft:
    """A sum of odd multiples against a square, with an optional linear or constant part."""
    method, total = names.pick("method"), names.pick("total")
    bound, counter = names.pick("bound"), names.pick("counter")
    slope, equal = names.number("slope", 2, 30), draw_equation(rng)
    offset = names.number("offset", 1, 40)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    extra = rng.choice(("", "constant", "linear"))
    odd = rng.choice((f"2 * {counter} + 1", f"1 + 2 * {counter}", f"{counter} + {counter} + 1"))
    amount = f"{slope} * ({odd})" + (f" + {offset}" if extra == "linear" else "")

    def closed(x: str) -> str:
        tail = {"": "", "constant": f" + {offset}", "linear": f" + {offset} * {x}"}[extra]
        return f"{slope} * {x} * {x}{tail}"

    lines = [
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(total, closed(bound))}",
        "{",
        f"  {total} := {offset if extra == 'constant' else 0};",
        f"  var {counter} := 0;",
        *write_while(loop.guard, [f"{total} := {total} + {amount};", loop.step]),
        "}",
    ]
    return _draft("l2_odd", lines, write_invariants(loop.span, equal(total, closed(counter))))


def make_division(rng: random.Random, names: Names) -> Draft:
    """Quotient and remainder by repeated subtraction, with an optional shift."""
    method, bound = names.pick("method"), names.pick("bound")
    quotient, rest = names.pick("total"), names.pick("total")
    divisor = names.number("slope", 2, 60)
    product = draw_line(divisor, 0, rng.randrange(2))(quotient)
    whole = f"{product} + {rest}" if rng.random() < 0.6 else f"{rest} + {product}"
    equal = draw_equation(rng)
    offset = names.number("offset", 1, 30) if rng.random() < 0.3 else 0
    dividend = f"{bound} + {offset}" if offset else bound
    guard = f"{rest} >= {divisor}" if rng.random() < 0.6 else f"{divisor} <= {rest}"
    steps = shuffled(rng, [f"{rest} := {rest} - {divisor};", f"{quotient} := {quotient} + 1;"])
    ensured = shuffled(rng, [equal(dividend, whole), f"0 <= {rest} < {divisor}"])
    start = f"{quotient}, {rest} := 0, {dividend};"
    if rng.random() < 0.5:
        start = f"{rest}, {quotient} := {dividend}, 0;"
    lines = [
        f"method {method}({bound}: nat) returns ({quotient}: int, {rest}: int)",
        f"  ensures {' && '.join(ensured)}",
        "{",
        f"  {start}",
        *write_while(guard, steps),
        "}",
    ]
    return _draft("l2_div", lines, write_invariants(f"0 <= {rest}", equal(dividend, whole)))


def make_root(rng: random.Random, names: Names) -> Draft:
    """The greatest number whose weighted square stays under a bound."""
    method, bound, total = names.pick("method"), names.pick("bound"), names.pick("total")
    slope = names.number("slope", 2, 30)
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    tail = f" + {offset}" if offset else ""
    following = f"({total} + 1)"

    def square(x: str) -> str:
        return f"{slope} * {x} * {x}{tail}"

    guard = f"{square(following)} <= {bound}"
    if rng.random() < 0.4:
        guard = f"{bound} >= {square(following)}"
    ensured = [f"{square(total)} <= {bound}", f"{bound} < {square(following)}"]
    clauses = [f"{square(total)} <= {bound} < {square(following)}"]
    if rng.random() < 0.4:
        clauses = shuffled(rng, ensured)
    lines = [
        f"method {method}({bound}: nat) returns ({total}: int)",
        *([f"  requires {bound} >= {offset}"] if offset else []),
        *(f"  ensures {clause}" for clause in clauses),
        "{",
        f"  {total} := 0;",
        *write_while(guard, [f"{total} := {total} + 1;"]),
        "}",
    ]
    held = (f"0 <= {total}", f"{square(total)} <= {bound}")
    return _draft("l2_sqrt", lines, write_invariants(*held))


def make_stride(rng: random.Random, names: Names) -> Draft:
    """A counter that moves by more than one, over a bound that it divides."""
    method, total = names.pick("method"), names.pick("total")
    bound, counter = names.pick("bound"), names.pick("counter")
    stride, slope = rng.randrange(2, 8), names.number("slope", 2, 24)
    equal, style = draw_equation(rng), rng.choice((0, 1, 3, 4))
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    line = draw_line(slope, offset, style)
    rising = rng.random() < 0.6
    if rising:
        start, step = "0", f"{counter} := {counter} + {stride};"
        guard, done = rng.choice((f"{counter} < {bound}", f"{bound} > {counter}")), counter
    else:
        start, step = bound, f"{counter} := {counter} - {stride};"
        guard = rng.choice((f"{counter} > 0", f"0 < {counter}"))
        done = f"({bound} - {counter})"
    lines = [
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  requires {bound} % {stride} == 0",
        f"  ensures {equal(total, line(bound))}",
        "{",
        f"  {total} := {offset};",
        f"  var {counter} := {start};",
        *write_while(guard, shuffled(rng, [f"{total} := {total} + {stride * slope};", step])),
        "}",
    ]
    clauses = (
        f"0 <= {counter} <= {bound} && {counter} % {stride} == 0",
        equal(total, line(done)),
    )
    return _draft("l2_step", lines, write_invariants(*clauses))


FAMILIES: dict[str, Family] = {
    "l2_tri": make_triangle,
    "l2_odd": make_square,
    "l2_div": make_division,
    "l2_sqrt": make_root,
    "l2_step": make_stride,
}
