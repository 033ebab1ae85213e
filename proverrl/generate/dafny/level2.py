"""Level 2: closed forms, division and roots, recurrences; the hole holds loop invariants.

Flows in: a random source and names. Flows out: programs of nine families.
Not handled here: arrays (``level3``).
"""

from __future__ import annotations

import random
from functools import partial

from proverrl.generate.dafny.draft import (
    LOOP_FORMS_UP,
    Loop,
    ask_invariants,
    draw_equation,
    draw_line,
    draw_loop,
    shuffled,
    write_while,
)
from proverrl.generate.families import Family, Names, ProgramText


def make_triangle(rng: random.Random, names: Names) -> ProgramText:
    """A sum of multiples of the counter, against twice its closed form."""
    method, total, bound, counter = names.picks("method", "total", "bound", "counter")
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
        return equal(f"2 * {total}", f"{slope} * {x} * ({x} {neighbour} 1){tail}")

    steps = [loop.step, add] if before else [add, loop.step]
    return loop.ask(method, total, offset, steps, closed)


def make_square(rng: random.Random, names: Names) -> ProgramText:
    """A sum of odd multiples against a square, with an optional linear or constant part."""
    method, total, bound, counter = names.picks("method", "total", "bound", "counter")
    slope, equal = names.number("slope", 2, 30), draw_equation(rng)
    offset = names.number("offset", 1, 40)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    extra = rng.choice(("", "constant", "linear"))
    odd = rng.choice((f"2 * {counter} + 1", f"1 + 2 * {counter}", f"{counter} + {counter} + 1"))
    amount = f"{slope} * ({odd})" + (f" + {offset}" if extra == "linear" else "")

    def closed(x: str) -> str:
        tail = {"": "", "constant": f" + {offset}", "linear": f" + {offset} * {x}"}[extra]
        return equal(total, f"{slope} * {x} * {x}{tail}")

    start = offset if extra == "constant" else 0
    steps = [f"{total} := {total} + {amount};", loop.step]
    return loop.ask(method, total, start, steps, closed)


def make_division(rng: random.Random, names: Names) -> ProgramText:
    """Quotient and remainder by repeated subtraction, with an optional shift."""
    method, bound, quotient, rest = names.picks("method", "bound", "total", "total")
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
    return ask_invariants(
        f"{method}({bound}: nat) returns ({quotient}: int, {rest}: int)",
        [f"ensures {' && '.join(ensured)}"],
        [start, *write_while(guard, steps)],
        f"0 <= {rest}",
        equal(dividend, whole),
    )


def make_root(rng: random.Random, names: Names) -> ProgramText:
    """The greatest number whose weighted square stays under a bound."""
    method, bound, total = names.picks("method", "bound", "total")
    slope = names.number("slope", 2, 30)
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    tail = f" + {offset}" if offset else ""
    now, after = (f"{slope} * {x} * {x}{tail}" for x in (total, f"({total} + 1)"))
    guard = f"{after} <= {bound}"
    if rng.random() < 0.4:
        guard = f"{bound} >= {after}"
    clauses = [f"{now} <= {bound} < {after}"]
    if rng.random() < 0.4:
        clauses = shuffled(rng, [f"{now} <= {bound}", f"{bound} < {after}"])
    required = [f"requires {bound} >= {offset}"] if offset else []
    return ask_invariants(
        f"{method}({bound}: nat) returns ({total}: int)",
        [*required, *(f"ensures {clause}" for clause in clauses)],
        [f"{total} := 0;", *write_while(guard, [f"{total} := {total} + 1;"])],
        f"0 <= {total}",
        f"{now} <= {bound}",
    )


def make_stride(rng: random.Random, names: Names) -> ProgramText:
    """A counter that moves by more than one, over a bound that it divides."""
    method, total, bound, counter = names.picks("method", "total", "bound", "counter")
    stride, slope = rng.randrange(2, 8), names.number("slope", 2, 24)
    equal, style = draw_equation(rng), rng.choice((0, 1, 3, 4))
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    line = draw_line(slope, offset, style)
    if rng.random() < 0.6:
        start, step, count = "0", f"{counter} := {counter} + {stride};", counter
        guard = rng.choice((f"{counter} < {bound}", f"{bound} > {counter}"))
    else:
        start, step, count = bound, f"{counter} := {counter} - {stride};", f"{bound} - {counter}"
        guard = rng.choice((f"{counter} > 0", f"0 < {counter}"))
    span = f"0 <= {counter} <= {bound} && {counter} % {stride} == 0"
    loop = Loop(counter, start, guard, step, span, count, bound)
    required = f"requires {bound} % {stride} == 0"
    steps = shuffled(rng, [f"{total} := {total} + {stride * slope};", step])
    return loop.ask(
        method, total, offset, steps, lambda x: equal(total, line(x)), requires=[required]
    )


def make_recurrence(rng: random.Random, names: Names) -> ProgramText:
    """A first-order recurrence, given as a function and run by a loop."""
    function, method, arg = names.picks("function", "method", "arg")
    total, bound, counter = names.picks("total", "bound", "counter")
    base, equal = names.number("base", 1, 20), draw_equation(rng)
    slope, offset = names.number("slope", 2, 12), names.number("offset", 1, 20)
    loop = draw_loop(rng, counter, bound)
    line = draw_line(slope, offset, rng.randrange(6))
    rule = line(f"{function}({arg} - 1)")
    steps = shuffled(rng, [f"{total} := {line(total)};", loop.step])
    recursion = _recurse(function, arg, base, rule)
    return loop.ask(
        method, total, base, steps, lambda x: equal(total, f"{function}({x})"), function=recursion
    )


def make_two_term(rng: random.Random, names: Names) -> ProgramText:
    """A recurrence on the last two values, as for Fibonacci's numbers."""
    function, method, arg = names.picks("function", "method", "arg")
    bound, counter, first, second = names.picks("bound", "counter", "total", "total")
    bases = [rng.randrange(0, 6), names.number("base", 1, 14)]
    low, high = rng.randrange(1, 4), names.number("slope", 1, 9)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    equal = draw_equation(rng)

    def combine(near: str, far: str) -> str:
        parts = [near if high == 1 else f"{high} * {near}", far if low == 1 else f"{low} * {far}"]
        return " + ".join(parts)

    rule = combine(f"{function}({arg} - 1)", f"{function}({arg} - 2)")
    step = f"{first}, {second} := {second}, {combine(second, first)};"
    recursion = (
        f"function {function}({arg}: nat): int {{ if {arg} == 0 then {bases[0]} "
        f"else if {arg} == 1 then {bases[1]} else {rule} }}"
    )
    return ask_invariants(
        f"{method}({bound}: nat) returns ({first}: int)",
        [f"ensures {equal(first, f'{function}({bound})')}"],
        [
            f"{first} := {bases[0]};",
            f"var {second} := {bases[1]};",
            *loop.write(shuffled(rng, [step, loop.step])),
        ],
        loop.span,
        equal(first, f"{function}({counter})"),
        equal(second, f"{function}({counter} + 1)"),
        before=[recursion],
    )


def make_sum(rng: random.Random, names: Names, *, is_product: bool = False) -> ProgramText:
    """A sum of linear terms, or a product as for the factorial: a function, run by a loop."""
    least, *most = (1, 12, 20) if is_product else (0, 20, 30)
    function, method, arg = names.picks("function", "method", "arg")
    total, bound, counter = names.picks("total", "bound", "counter")
    base, equal = names.number("base", least, 20), draw_equation(rng)
    slope, offset = names.number("slope", 2, most[0]), names.number("offset", 1, most[1])
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    line = draw_line(slope, offset if rng.random() < 0.7 else 0, rng.randrange(6))

    def step(value: str, x: str) -> str:
        return f"({line(x)}) * {value}" if is_product else f"{value} + {line(x)}"

    steps = [loop.step, f"{total} := {step(total, counter)};"]
    recursion = _recurse(function, arg, base, step(f"{function}({arg} - 1)", arg))
    return loop.ask(
        method, total, base, steps, lambda x: equal(total, f"{function}({x})"), function=recursion
    )


def _recurse(function: str, arg: str, base: int, rule: str) -> str:
    return f"function {function}({arg}: nat): int {{ if {arg} == 0 then {base} else {rule} }}"


FAMILIES: dict[str, Family] = {
    "l2_tri": make_triangle,
    "l2_odd": make_square,
    "l2_div": make_division,
    "l2_sqrt": make_root,
    "l2_step": make_stride,
    "l2_rec": make_recurrence,
    "l2_fib": make_two_term,
    "l2_prod": partial(make_sum, is_product=True),
    "l2_sum": make_sum,
}
