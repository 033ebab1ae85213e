"""Level 5, second part: nested loops, and a measure of an array by a loop.

Flows in: a random source and names. Flows out: programs of two families.
Not handled here: search and sorting steps (``level5``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    LOOP_FORMS_UP,
    Family,
    Program,
    draw_line,
    draw_loop,
    list_below,
    shuffled,
    write_method,
    write_while,
)
from proverrl.lang.dafny.generate.level4_data import draw_weight
from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE


def make_nested(rng: random.Random, names: Names) -> Program:
    """A product by two nested loops; the hole is in one of them."""
    method, total, rows, columns = names.picks("method", "total", "bound", "bound")
    counters = names.picks("counter", "counter")
    outer = draw_loop(rng, counters[0], rows, LOOP_FORMS_UP)
    inner = draw_loop(rng, counters[1], columns, LOOP_FORMS_UP)
    slope = names.number("slope", 2, 30)
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    tail = f" + {offset}" if offset else ""
    product = draw_line(slope, 0, 0)
    before = f"{total} == {product(outer.done)} * {columns}"
    shown = [f"invariant {outer.span}", f"invariant {before}{tail}"]
    within = [f"invariant {inner.span}", f"invariant {before} + {product(inner.done)}{tail}"]
    hole_inside = rng.random() < 0.6
    steps = shuffled(rng, [f"{total} := {total} + {slope};", inner.step])
    body = [*inner.write(steps, [HOLE] if hole_inside else within), outer.step]
    lines = write_method(
        f"{method}({rows}: nat, {columns}: nat) returns ({total}: int)",
        [f"ensures {total} == {product(rows)} * {columns}{tail}"],
        [f"{total} := {offset};", *outer.write(body, shown if hole_inside else [HOLE])],
    )
    return Program(lines, "\n".join(within if hole_inside else shown), "invariants")


def make_fold(rng: random.Random, names: Names) -> Program:
    """A measure of an array by a loop; the hole holds what links its slices."""
    function, method, seq, array = names.picks("function", "method", "seq", "array")
    total, counter = names.picks("total", "counter")
    weight = draw_weight(rng, names)
    start = names.number("base", 1, 30) if rng.random() < 0.5 else 0
    last, rest = weight(f"{seq}[|{seq}| - 1]"), f"{function}({seq}[..|{seq}| - 1])"
    rule = " + ".join(shuffled(rng, [last, rest]))
    length, slice_ = f"{array}.Length", f"{array}[..{counter}]"
    guard = rng.choice(list_below(counter, length))
    add = f"{total} := {total} + {weight(f'{array}[{counter}]')};"
    step = f"{counter} := {counter} + 1;"
    before, after = f"{array}[..{counter} + 1]", f"{slice_}[..{counter} - 1]"
    early = rng.random() < 0.5
    if early:
        body, reference = [HOLE, add, step], f"assert {before}[..{counter}] == {slice_};"
    else:
        body, reference = [add, step, HOLE], f"assert {after} == {array}[..{counter} - 1];"
    shown = [
        f"invariant 0 <= {counter} <= {length}",
        f"invariant {total} == {function}({slice_})",
    ]
    lines = [
        f"function {function}({seq}: seq<int>): int {{ if |{seq}| == 0 then {start} else {rule} }}",
        *write_method(
            f"{method}({array}: array<int>) returns ({total}: int)",
            [f"ensures {total} == {function}({array}[..])"],
            [
                f"{total} := {start};",
                f"var {counter} := 0;",
                *write_while(guard, body, shown),
                f"assert {slice_} == {array}[..];",
            ],
        ),
    ]
    return Program(lines, reference, "assertions")


FAMILIES: dict[str, Family] = {
    "l5_nest": make_nested,
    "l5_sum": make_fold,
}
