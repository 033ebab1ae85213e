"""Level 2, second part: loops that run a recursive function; the hole holds loop invariants.

Flows in: a random source and names. Flows out: drafts of four families.
Not handled here: closed forms (``level2``).
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


def make_recurrence(rng: random.Random, names: Names) -> Draft:
    """A first-order recurrence, given as a function and run by a loop."""
    function, method, arg = names.pick("function"), names.pick("method"), names.pick("arg")
    total, bound, counter = names.pick("total"), names.pick("bound"), names.pick("counter")
    base, equal = names.number("base", 1, 20), draw_equation(rng)
    slope, offset = names.number("slope", 2, 12), names.number("offset", 1, 20)
    loop = draw_loop(rng, counter, bound)
    line = draw_line(slope, offset, rng.randrange(6))
    call = f"{function}({arg} - 1)"
    lines = [
        f"function {function}({arg}: nat): int {{ if {arg} == 0 then {base} else {line(call)} }}",
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(total, f'{function}({bound})')}",
        "{",
        f"  {total} := {base};",
        f"  var {counter} := {loop.start};",
        *write_while(loop.guard, shuffled(rng, [f"{total} := {line(total)};", loop.step])),
        "}",
    ]
    last = equal(total, f"{function}({loop.count})")
    return _draft("l2_rec", lines, write_invariants(loop.span, last))


def make_two_term(rng: random.Random, names: Names) -> Draft:
    """A recurrence on the last two values, as for Fibonacci's numbers."""
    function, method, arg = names.pick("function"), names.pick("method"), names.pick("arg")
    bound, counter = names.pick("bound"), names.pick("counter")
    first, second = names.pick("total"), names.pick("total")
    bases = [rng.randrange(0, 6), names.number("base", 1, 14)]
    low, high = rng.randrange(1, 4), names.number("slope", 1, 9)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    equal = draw_equation(rng)

    def combine(near: str, far: str) -> str:
        parts = [near if high == 1 else f"{high} * {near}", far if low == 1 else f"{low} * {far}"]
        return " + ".join(parts)

    rule = combine(f"{function}({arg} - 1)", f"{function}({arg} - 2)")
    lines = [
        f"function {function}({arg}: nat): int {{ if {arg} == 0 then {bases[0]} "
        f"else if {arg} == 1 then {bases[1]} else {rule} }}",
        f"method {method}({bound}: nat) returns ({first}: int)",
        f"  ensures {equal(first, f'{function}({bound})')}",
        "{",
        f"  {first} := {bases[0]};",
        f"  var {second} := {bases[1]};",
        f"  var {counter} := 0;",
        *write_while(
            loop.guard,
            shuffled(rng, [f"{first}, {second} := {second}, {combine(second, first)};", loop.step]),
        ),
        "}",
    ]
    now = equal(first, f"{function}({counter})")
    after = equal(second, f"{function}({counter} + 1)")
    return _draft("l2_fib", lines, write_invariants(loop.span, now, after))


def make_product(rng: random.Random, names: Names) -> Draft:
    """A product of linear factors, as for the factorial."""
    function, method, arg = names.pick("function"), names.pick("method"), names.pick("arg")
    total, bound, counter = names.pick("total"), names.pick("bound"), names.pick("counter")
    base, equal = names.number("base", 1, 20), draw_equation(rng)
    slope, offset = names.number("slope", 2, 12), names.number("offset", 1, 20)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    line = draw_line(slope, offset if rng.random() < 0.7 else 0, rng.randrange(6))
    lines = [
        f"function {function}({arg}: nat): int {{ "
        f"if {arg} == 0 then {base} else ({line(arg)}) * {function}({arg} - 1) }}",
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(total, f'{function}({bound})')}",
        "{",
        f"  {total} := {base};",
        f"  var {counter} := 0;",
        *write_while(loop.guard, [loop.step, f"{total} := ({line(counter)}) * {total};"]),
        "}",
    ]
    last = equal(total, f"{function}({counter})")
    return _draft("l2_prod", lines, write_invariants(loop.span, last))


def make_sum(rng: random.Random, names: Names) -> Draft:
    """A sum of linear terms, given as a function and run by a loop."""
    function, method, arg = names.pick("function"), names.pick("method"), names.pick("arg")
    total, bound, counter = names.pick("total"), names.pick("bound"), names.pick("counter")
    base, equal = names.number("base", 0, 20), draw_equation(rng)
    slope, offset = names.number("slope", 2, 20), names.number("offset", 1, 30)
    loop = draw_loop(rng, counter, bound, LOOP_FORMS_UP)
    line = draw_line(slope, offset if rng.random() < 0.7 else 0, rng.randrange(6))
    lines = [
        f"function {function}({arg}: nat): int {{ "
        f"if {arg} == 0 then {base} else {function}({arg} - 1) + {line(arg)} }}",
        f"method {method}({bound}: nat) returns ({total}: int)",
        f"  ensures {equal(total, f'{function}({bound})')}",
        "{",
        f"  {total} := {base};",
        f"  var {counter} := 0;",
        *write_while(loop.guard, [loop.step, f"{total} := {total} + {line(counter)};"]),
        "}",
    ]
    last = equal(total, f"{function}({counter})")
    return _draft("l2_sum", lines, write_invariants(loop.span, last))


FAMILIES: dict[str, Family] = {
    "l2_rec": make_recurrence,
    "l2_fib": make_two_term,
    "l2_prod": make_product,
    "l2_sum": make_sum,
}
