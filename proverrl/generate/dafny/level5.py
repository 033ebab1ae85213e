"""Level 5: search, sorting steps, nested loops, sums, and lemmas that use another lemma.

Flows in: a random source and names. Flows out: programs of nine families. Not handled here:
whole sorts.
"""

from __future__ import annotations

import random

from proverrl.generate.dafny.draft import (
    LOOP_FORMS_UP,
    ask_invariants,
    ask_lemma,
    draw_line,
    draw_loop,
    draw_test,
    draw_weight,
    list_above,
    list_below,
    shuffled,
    write_lemma,
    write_method,
    write_while,
)
from proverrl.generate.dafny.level4 import draw_list
from proverrl.generate.families import Family, Names, ProgramText
from proverrl.types import HOLE

_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _permutation(array: str) -> str:
    return f"multiset({array}[..]) == multiset(old({array}[..]))"


def make_search(rng: random.Random, names: Names) -> ProgramText:
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
    return ask_invariants(
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
        f"0 <= {low} <= {high} <= {array}.Length",
        *clauses(low, high),
    )


def make_insertion(rng: random.Random, names: Names) -> ProgramText:
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
    return ask_invariants(
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
        f"0 <= {counter} <= {bound}",
        *(held[clause] for clause in clauses),
    )


def make_selection(rng: random.Random, names: Names) -> ProgramText:
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
    return ask_invariants(
        f"{method}({parameters})",
        [f"requires {required}", f"modifies {array}", *(f"ensures {claim}" for claim in ensured)],
        [f"var {best} := {low};", f"var {counter} := {start};", *write_while(guard, steps), swap],
        f"{low} < {counter} <= {length}",
        f"{low} <= {best} < {counter}",
        f"forall {index} :: {low} <= {index} < {counter} ==> {held} {order} {array}[{index}]",
    )


def make_partition(rng: random.Random, names: Names) -> ProgramText:
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
    return ask_invariants(
        f"{method}({array}: array<int>) returns ({low}: int)",
        [
            f"modifies {array}",
            f"ensures 0 <= {low} <= {array}.Length",
            *(f"ensures {clause}" for clause in clauses(low, low)),
        ],
        [f"{low} := 0;", f"var {high} := {array}.Length;", *write_while(guard, steps)],
        f"0 <= {low} <= {high} <= {array}.Length",
        *clauses(low, high),
    )


def make_nested(rng: random.Random, names: Names) -> ProgramText:
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
    return ProgramText(lines, "\n".join(within if hole_inside else shown), "invariants")


def make_fold(rng: random.Random, names: Names) -> ProgramText:
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
    shown = [f"invariant 0 <= {counter} <= {length}", f"invariant {total} == {function}({slice_})"]
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
    return ProgramText(lines, reference, "assertions")


def make_reverse(rng: random.Random, names: Names) -> ProgramText:
    """A measure of a reversed list, by way of the measure of joined lists."""
    words = draw_list(names)
    append, measure, reverse = names.picks("function", "function", "function")
    helper, lemma, field, rest = names.picks("lemma", "lemma", "head", "tail")
    weight, ahead = draw_weight(rng, names), rng.random() < 0.5
    left, right, head, tail = words.arg, words.other, words.head, words.tail
    single = f"{words.joined}({head}, {words.empty})"
    rule = words.match(words.empty, f"{append}({reverse}({tail}), {single})")
    lists = f"{left}: {words.name}, {right}: {words.name}"
    both = f"{measure}({left}) + {measure}({right})"
    declared = [
        words.declare(field, rest),
        words.append(append),
        words.measure(measure, "0", weight(head), ahead),
        f"function {reverse}({left}: {words.name}): {words.name} {{ {rule} }}",
        *write_lemma(
            f"{helper}({lists})",
            [f"ensures {measure}({append}({left}, {right})) == {both}"],
            words.prove(f"{helper}({tail}, {right});").split("\n"),
        ),
    ]
    return ask_lemma(
        declared,
        f"{lemma}({left}: {words.name})",
        f"{measure}({reverse}({left})) == {measure}({left})",
        words.prove(f"{lemma}({tail}); {helper}({reverse}({tail}), {single});"),
    )


def make_reuse(rng: random.Random, names: Names) -> ProgramText:
    """A claim on two values of a recurrence, from a proved claim on each."""
    function, helper, lemma = names.picks("function", "lemma", "lemma")
    arg, bound, number = names.picks("arg", "bound", "counter")
    slope, base = names.number("slope", 2, 30), names.number("base", 1, 30)
    line = draw_line(slope, base, rng.choice((0, 1, 3, 4)))
    product = draw_line(slope, 0, rng.randrange(2))
    style = rng.randrange(4)
    if style == 1:
        factor = rng.randrange(2, 10)
        other, added = f"{factor} * {bound}", f"{slope * (factor - 1)} * {bound}"
    elif style == 2:
        shift = names.number("offset", 2, 40)
        other, added = f"{bound} + {shift}", str(slope * shift)
    else:
        other, added = f"{bound} + {number}", product(number)
    left, right = f"{function}({other})", f"{function}({bound})"
    order = [f"{helper}({other});", f"{helper}({bound});"]
    sides = [left, ">=", right] if style == 3 else [left, "==", f"{right} + {added}"]
    if rng.random() < 0.4:
        order.reverse()
        sides = [sides[2], "<=" if style == 3 else "==", sides[0]]
    claim = " ".join(sides)
    parameters = f"{bound}: nat" + (f", {number}: nat" if style in (0, 3) else "")
    rule = f"if {arg} == 0 then {base} else {function}({arg} - 1) + {slope}"
    declared = [
        f"function {function}({arg}: nat): int {{ {rule} }}",
        *write_lemma(
            f"{helper}({bound}: nat)",
            [f"ensures {function}({bound}) == {line(bound)}"],
            [f"if {bound} > 0 {{ {helper}({bound} - 1); }}"],
        ),
    ]
    return ask_lemma(declared, f"{lemma}({parameters})", claim, "\n".join(order))


def make_walk(rng: random.Random, names: Names) -> ProgramText:
    """A measure of a list by a loop that walks along it."""
    words = draw_list(names)
    measure, method, field, rest = names.picks("function", "method", "head", "tail")
    total, start, current = names.picks("total", "list", "list")
    weight, base = draw_weight(rng, names), names.number("base", 1, 30)
    offset = base if rng.random() < 0.5 else 0
    guard = rng.choice((f"{current}.{words.joined}?", f"{current} != {words.empty}"))
    parts = rng.sample((total, f"{measure}({current})"), 2)
    tail = f" + {offset}" if offset else ""
    steps = [
        f"{total} := {total} + {weight(f'{current}.{field}')};",
        f"{current} := {current}.{rest};",
    ]
    lines = [
        words.declare(field, rest),
        words.measure(measure, "0", weight(words.head), rng.random() < 0.5),
        *write_method(
            f"{method}({start}: {words.name}) returns ({total}: int)",
            [f"ensures {total} == {measure}({start}){tail}"],
            [f"{total} := {offset};", f"var {current} := {start};", *write_while(guard, steps)],
        ),
    ]
    clause = f"{' + '.join(parts)} == {measure}({start}){tail}"
    return ProgramText(lines, f"invariant {clause}\ndecreases {current}", "invariants")


FAMILIES: dict[str, Family] = {
    "l5_bin": make_search,
    "l5_ins": make_insertion,
    "l5_minstep": make_selection,
    "l5_part": make_partition,
    "l5_nest": make_nested,
    "l5_sum": make_fold,
    "l5_rev": make_reverse,
    "l5_use": make_reuse,
    "l5_walk": make_walk,
}
