"""Level 5, third part: lemmas that use another lemma, and loops over lists.

Flows in: a random source and names. Flows out: programs of three families.
Not handled here: arrays (``level5``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Family,
    Program,
    draw_line,
    write_invariants,
    write_lemma,
    write_method,
    write_while,
)
from proverrl.lang.dafny.generate.level4_data import draw_list, draw_weight, write_match
from proverrl.lang.dafny.generate.names import Names


def make_reverse(rng: random.Random, names: Names) -> Program:
    """A measure of a reversed list, by way of the measure of joined lists."""
    words = draw_list(names)
    append, measure, reverse = names.picks("function", "function", "function")
    helper, lemma, field, rest = names.picks("lemma", "lemma", "head", "tail")
    weight, ahead = draw_weight(rng, names), rng.random() < 0.5
    left, right, head, tail = words.arg, words.other, words.head, words.tail
    single = f"{words.joined}({head}, {words.empty})"
    rule = f"{append}({reverse}({tail}), {single})"
    lists = f"{left}: {words.name}, {right}: {words.name}"
    both = f"{measure}({left}) + {measure}({right})"
    lines = [
        words.declare(field, rest),
        words.append(append),
        words.measure(measure, "0", weight(head), ahead),
        f"function {reverse}({left}: {words.name}): {words.name} "
        f"{{ {words.match(words.empty, rule)} }}",
        *write_lemma(
            f"{helper}({lists})",
            [f"ensures {measure}({append}({left}, {right})) == {both}"],
            write_match(words, f"{helper}({tail}, {right});").split("\n"),
        ),
        *write_lemma(
            f"{lemma}({left}: {words.name})",
            [f"ensures {measure}({reverse}({left})) == {measure}({left})"],
        ),
    ]
    calls = f"{lemma}({tail}); {helper}({reverse}({tail}), {single});"
    return Program(lines, write_match(words, calls))


def make_reuse(rng: random.Random, names: Names) -> Program:
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
    lines = [
        f"function {function}({arg}: nat): int "
        f"{{ if {arg} == 0 then {base} else {function}({arg} - 1) + {slope} }}",
        *write_lemma(
            f"{helper}({bound}: nat)",
            [f"ensures {function}({bound}) == {line(bound)}"],
            [f"if {bound} > 0 {{ {helper}({bound} - 1); }}"],
        ),
        *write_lemma(f"{lemma}({parameters})", [f"ensures {claim}"]),
    ]
    return Program(lines, "\n".join(order))


def make_walk(rng: random.Random, names: Names) -> Program:
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
    reference = f"{write_invariants(clause)}\ndecreases {current}"
    return Program(lines, reference, "invariants")


FAMILIES: dict[str, Family] = {"l5_rev": make_reverse, "l5_use": make_reuse, "l5_walk": make_walk}
