"""Level 5: search, sorting steps and partition; the hole holds loop invariants.

Flows in: a random source and names. Flows out: programs of four families.
Not handled here: sums (``level5_sums``), lists and lemmas (``level5_lemmas``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Family,
    Program,
    ask_invariants,
    draw_test,
    list_above,
    list_below,
    shuffled,
    write_method,
    write_while,
)
from proverrl.lang.dafny.generate.names import Names

_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _permutation(array: str) -> str:
    return f"multiset({array}[..]) == multiset(old({array}[..]))"


def make_search(rng: random.Random, names: Names) -> Program:
    """Binary search for the place where a sorted array passes a limit."""
    method, array, place = names.picks("method", "array", "total")
    low, high, middle = names.picks("low", "high", "mid")
    first, index = names.picks("index", "index")
    operator = rng.choice(("<", "<=", ">", ">="))
    order = "<=" if operator in ("<", "<=") else ">="
    style, parameters = rng.randrange(3), f"{array}: array<int>"
    if style == 0:
        limit = str(names.number("limit", 1, 60))
    else:
        key = names.pick("param")
        limit = key if style == 1 else f"{key} + {names.number('offset', 1, 40)}"
        parameters = ", ".join(shuffled(rng, [parameters, f"{key}: int"]))
    half = rng.choice((f"({low} + {high}) / 2", f"{low} + ({high} - {low}) / 2"))
    test, other = f"{array}[{middle}] {operator} {limit}", _NEGATED[operator]
    picks = rng.sample((0, 1), 2)

    def clauses(left: str, right: str) -> list[str]:
        written = [
            f"forall {index} :: 0 <= {index} < {left} ==> {array}[{index}] {operator} {limit}",
            f"forall {index} :: {right} <= {index} < {array}.Length ==> "
            f"{array}[{index}] {other} {limit}",
        ]
        return [written[pick] for pick in picks]

    guard = rng.choice(list_below(low, high))
    steps = [
        f"var {middle} := {half};",
        f"if {test} {{ {low} := {middle} + 1; }} else {{ {high} := {middle}; }}",
    ]
    lines = write_method(
        f"{method}({parameters}) returns ({place}: int)",
        [
            f"requires forall {first}, {index} :: 0 <= {first} < {index} < {array}.Length ==> "
            f"{array}[{first}] {order} {array}[{index}]",
            f"ensures 0 <= {place} <= {array}.Length",
            *(f"ensures {clause}" for clause in clauses(place, place)),
        ],
        [
            f"var {low}, {high} := 0, {array}.Length;",
            *write_while(guard, steps),
            f"{place} := {rng.choice((low, high))};",
        ],
    )
    return ask_invariants(lines, f"0 <= {low} <= {high} <= {array}.Length", *clauses(low, high))


def make_insertion(rng: random.Random, names: Names) -> Program:
    """One element sinks to its place in the sorted part before it."""
    method, array, counter = names.picks("method", "array", "counter")
    first, index = names.picks("index", "index")
    order = rng.choice(("<=", ">="))
    number = rng.random() < 0.5
    bound = str(names.number("base", 2, 40)) if number else names.pick("bound")
    parameters = f"{array}: array<int>" + ("" if number else f", {bound}: int")
    here, before = f"{array}[{counter}]", f"{array}[{counter} - 1]"
    strict = {"<=": ">", ">=": "<"}[order]
    wrong = f"{before} {strict} {here}"
    if rng.random() < 0.4:
        wrong = f"{here} {_REVERSED[strict]} {before}"
    guard = rng.choice(list_above(counter, "0"))
    swap = rng.choice(
        (f"{before}, {here} := {here}, {before};", f"{here}, {before} := {before}, {here};")
    )
    pair = f"forall {first}, {index} :: 0 <= {first} < {index}"
    sorted_pair = f"{array}[{first}] {order} {array}[{index}]"
    permuted = rng.random() < 0.6
    kept = [_permutation(array)] if permuted else []
    clauses = rng.sample((0, 1), 2) if permuted else [0]
    ensured = [f"{pair} <= {bound} ==> {sorted_pair}", *kept]
    held = [f"{pair} <= {bound} && {index} != {counter} ==> {sorted_pair}", *kept]
    lines = write_method(
        f"{method}({parameters})",
        [
            f"requires {'' if number else '0 <= '}{bound} < {array}.Length",
            f"requires {pair} < {bound} ==> {sorted_pair}",
            f"modifies {array}",
            *(f"ensures {ensured[clause]}" for clause in clauses),
        ],
        [
            f"var {counter} := {bound};",
            *write_while(f"{guard} && {wrong}", [swap, f"{counter} := {counter} - 1;"]),
        ],
    )
    return ask_invariants(
        lines, f"0 <= {counter} <= {bound}", *(held[clause] for clause in clauses)
    )


def make_selection(rng: random.Random, names: Names) -> Program:
    """The least or greatest element of the rest of an array moves to its front."""
    method, array, counter = names.picks("method", "array", "counter")
    index, best = names.picks("index", "total")
    order = rng.choice(("<=", ">="))
    number = rng.random() < 0.5
    low = str(names.number("base", 2, 40)) if number else names.pick("low")
    parameters = f"{array}: array<int>" + ("" if number else f", {low}: int")
    start = str(int(low) + 1) if number else f"{low} + 1"
    here, held = f"{array}[{counter}]", f"{array}[{best}]"
    strict = {"<=": "<", ">=": ">"}[order]
    test = f"{here} {strict} {held}"
    if rng.random() < 0.4:
        test = f"{held} {_REVERSED[strict]} {here}"
    length = f"{array}.Length"
    guard = rng.choice(list_below(counter, length))
    ensured = [
        f"forall {index} :: {low} <= {index} < {length} ==> {array}[{low}] {order} {array}[{index}]"
    ]
    if rng.random() < 0.6:
        ensured = shuffled(rng, [*ensured, _permutation(array)])
    required = f"{low} < {length}" if number else f"0 <= {low} < {length}"
    swap = f"{array}[{low}], {held} := {held}, {array}[{low}];"
    if rng.random() < 0.5:
        swap = f"{held}, {array}[{low}] := {array}[{low}], {held};"
    steps = [f"if {test} {{ {best} := {counter}; }}", f"{counter} := {counter} + 1;"]
    lines = write_method(
        f"{method}({parameters})",
        [
            f"requires {required}",
            f"modifies {array}",
            *(f"ensures {clause}" for clause in ensured),
        ],
        [
            f"var {best} := {low};",
            f"var {counter} := {start};",
            *write_while(guard, steps),
            swap,
        ],
    )
    return ask_invariants(
        lines,
        f"{low} < {counter} <= {length}",
        f"{low} <= {best} < {counter}",
        f"forall {index} :: {low} <= {index} < {counter} ==> {held} {order} {array}[{index}]",
    )


def make_partition(rng: random.Random, names: Names) -> Program:
    """The elements that pass a test move before the others."""
    method, array, index, low, high = names.picks("method", "array", "index", "low", "high")
    test = draw_test(rng, names)
    good = test(f"{array}[{index}]")
    places = f"{array}[{low}], {array}[{high}]"
    other = f"{array}[{high}], {array}[{low}]"
    swap = rng.choice((f"{places} := {other};", f"{other} := {places};"))
    guard = rng.choice(list_below(low, high))
    permuted = rng.random() < 0.4
    picks = rng.sample(range(2 + permuted), 2 + permuted)

    def clauses(left: str, right: str) -> list[str]:
        written = [
            f"forall {index} :: 0 <= {index} < {left} ==> {good}",
            f"forall {index} :: {right} <= {index} < {array}.Length ==> !({good})",
            _permutation(array),
        ]
        return [written[pick] for pick in picks]

    steps = [
        f"if {test(f'{array}[{low}]')} {{",
        f"  {low} := {low} + 1;",
        "} else {",
        f"  {high} := {high} - 1;",
        f"  {swap}",
        "}",
    ]
    lines = write_method(
        f"{method}({array}: array<int>) returns ({low}: int)",
        [
            f"modifies {array}",
            f"ensures 0 <= {low} <= {array}.Length",
            *(f"ensures {clause}" for clause in clauses(low, low)),
        ],
        [f"{low} := 0;", f"var {high} := {array}.Length;", *write_while(guard, steps)],
    )
    return ask_invariants(lines, f"0 <= {low} <= {high} <= {array}.Length", *clauses(low, high))


FAMILIES: dict[str, Family] = {
    "l5_bin": make_search,
    "l5_ins": make_insertion,
    "l5_minstep": make_selection,
    "l5_part": make_partition,
}
