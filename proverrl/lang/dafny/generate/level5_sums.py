"""Level 5, second part: nested loops, and a measure of an array by a loop.

Flows in: a random source and names. Flows out: drafts of two families.
Not handled here: search and sorting steps (``level5``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    LOOP_FORMS_UP,
    Draft,
    Family,
    draw_line,
    draw_loop,
    join_lines,
    shuffled,
    write_while,
)
from proverrl.lang.dafny.generate.level4_data import draw_weight
from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE


def _draft(family: str, lines: list[str], reference: str, kind: str = "invariants") -> Draft:
    return Draft(5, family, kind, join_lines(*lines), reference)


def make_nested(rng: random.Random, names: Names) -> Draft:
    """A product by two nested loops; the hole is in one of them."""
    method, total = names.pick("method"), names.pick("total")
    bounds = [names.pick("bound"), names.pick("bound")]
    counters = [names.pick("counter"), names.pick("counter")]
    outer = draw_loop(rng, counters[0], bounds[0], LOOP_FORMS_UP)
    inner = draw_loop(rng, counters[1], bounds[1], LOOP_FORMS_UP)
    slope = names.number("slope", 2, 30)
    offset = names.number("offset", 1, 40) if rng.random() < 0.5 else 0
    tail = f" + {offset}" if offset else ""
    product = draw_line(slope, 0, 0)
    left, right = outer.done, inner.done
    outer_clauses = [outer.span, f"{total} == {product(left)} * {bounds[1]}{tail}"]
    inner_clauses = [
        inner.span,
        f"{total} == {product(left)} * {bounds[1]} + {product(right)}{tail}",
    ]
    hole_inside = rng.random() < 0.6
    shown = [f"invariant {clause}" for clause in outer_clauses]
    within = [f"invariant {clause}" for clause in inner_clauses]
    add = f"{total} := {total} + {slope};"
    body = [
        f"var {counters[1]} := {inner.start};",
        *write_while(
            inner.guard,
            shuffled(rng, [add, inner.step]),
            0,
            [HOLE] if hole_inside else within,
        ),
        outer.step,
    ]
    lines = [
        f"method {method}({bounds[0]}: nat, {bounds[1]}: nat) returns ({total}: int)",
        f"  ensures {total} == {product(bounds[0])} * {bounds[1]}{tail}",
        "{",
        f"  {total} := {offset};",
        f"  var {counters[0]} := {outer.start};",
        *write_while(outer.guard, body, 2, shown if hole_inside else [HOLE]),
        "}",
    ]
    return _draft("l5_nest", lines, "\n".join(within if hole_inside else shown))


def make_fold(rng: random.Random, names: Names) -> Draft:
    """A measure of an array by a loop; the hole holds what links its slices."""
    function, method = names.pick("function"), names.pick("method")
    seq, array = names.pick("seq"), names.pick("array")
    total, counter = names.pick("total"), names.pick("counter")
    weight = draw_weight(rng, names)
    start = names.number("base", 1, 30) if rng.random() < 0.5 else 0
    last, rest = weight(f"{seq}[|{seq}| - 1]"), f"{function}({seq}[..|{seq}| - 1])"
    rule = " + ".join(shuffled(rng, [last, rest]))
    length, slice_ = f"{array}.Length", f"{array}[..{counter}]"
    guard = rng.choice((f"{counter} < {length}", f"{counter} != {length}", f"{length} > {counter}"))
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
        f"method {method}({array}: array<int>) returns ({total}: int)",
        f"  ensures {total} == {function}({array}[..])",
        "{",
        f"  {total} := {start};",
        f"  var {counter} := 0;",
        *write_while(guard, body, 2, shown),
        f"  assert {slice_} == {array}[..];",
        "}",
    ]
    return _draft("l5_sum", lines, reference, "assertions")


FAMILIES: dict[str, Family] = {
    "l5_nest": make_nested,
    "l5_sum": make_fold,
}
