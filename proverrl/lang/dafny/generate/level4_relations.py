"""Level 4, second part: lemmas that relate two values of recurrences, and calculations.

Flows in: a random source and names. Flows out: drafts of four families.
Not handled here: claims on one value (``level4``), data types (``level4_data``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Draft,
    Family,
    draw_equation,
    draw_line,
    join_lines,
    shuffled,
)
from proverrl.lang.dafny.generate.level4 import add_term, write_lemma, write_recursion
from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE


def _draft(family: str, lines: list[str], reference: str, kind: str = "statements") -> Draft:
    return Draft(4, family, kind, join_lines(*lines), reference)


def make_tail(rng: random.Random, names: Names) -> Draft:
    """What a function with an accumulator adds to it."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, held = names.pick("arg"), names.pick("total")
    bound, start = names.pick("bound"), names.pick("total")
    slope, offset = names.number("slope", 2, 40), names.number("offset", 1, 40)
    sign, equal = rng.choice("+-"), draw_equation(rng)
    result = held if rng.random() < 0.5 else f"{held} + {offset}"
    rule = f"{function}({arg} - 1, {held} {sign} {slope})"
    parameters = f"{arg}: nat, {held}: int"
    text, test = write_recursion(rng, function, parameters, arg, result, rule)
    closed = f"{start} {sign} {slope} * {bound}" + (f" + {offset}" if result != held else "")
    ensured = equal(f"{function}({bound}, {start})", closed)
    lines = [text, *write_lemma(lemma, f"{bound}: nat, {start}: int", [f"ensures {ensured}"])]
    call = f"{lemma}({bound} - 1, {start} {sign} {slope});"
    return _draft("l4_tail", lines, f"if {test(bound)} {{ {call} }}")


def make_monotone(rng: random.Random, names: Names) -> Draft:
    """A recurrence that grows or falls keeps the order of its arguments."""
    function, lemma, arg = names.pick("function"), names.pick("lemma"), names.pick("arg")
    low, high = names.pick("low"), names.pick("high")
    slope, base = names.number("slope", 1, 30), names.number("base", 0, 30)
    call, falls = f"{function}({arg} - 1)", rng.random() < 0.4
    amount = rng.choice((str(slope), f"{slope} * {arg}"))
    rule = f"{call} - {amount}" if falls else add_term(rng, call, amount)
    text, _ = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    operator = ">=" if falls else "<="
    test, required = rng.choice(
        (
            (f"{low} < {high}", f"{low} <= {high}"),
            (f"{low} != {high}", f"{low} <= {high}"),
            (f"{high} > {low}", f"{high} >= {low}"),
        )
    )
    clauses = [
        f"requires {required}",
        f"ensures {function}({low}) {operator} {function}({high})",
    ]
    lines = [text, *write_lemma(lemma, f"{low}: nat, {high}: nat", clauses)]
    return _draft("l4_mono", lines, f"if {test} {{ {lemma}({low}, {high} - 1); }}")


def make_related(rng: random.Random, names: Names) -> Draft:
    """Two recurrences of one shape, one a linear function of the other."""
    first, second = names.pick("function"), names.pick("function")
    lemma, arg, bound = names.pick("lemma"), names.pick("arg"), names.pick("bound")
    slope, base = names.number("slope", 2, 12), names.number("base", 1, 12)
    amount, equal = rng.randrange(1, 10), draw_equation(rng)
    offset = names.number("offset", 1, 30) if rng.random() < 0.5 else 0
    rule = f"{first}({arg} - 1) + {amount}"
    other = f"{second}({arg} - 1) + {amount * slope}"
    if rng.random() < 0.5:
        rule, other = f"{rule} * {arg}", f"{other} * {arg}"
    text, test = write_recursion(rng, first, f"{arg}: nat", arg, str(base), rule)
    start = str(base * slope + offset)
    twin, _ = write_recursion(rng, second, f"{arg}: nat", arg, start, other)
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    ensured = equal(f"{second}({bound})", line(f"{first}({bound})"))
    lines = [
        *shuffled(rng, [text, twin]),
        *write_lemma(lemma, f"{bound}: nat", [f"ensures {ensured}"]),
    ]
    return _draft("l4_rel", lines, f"if {test(bound)} {{ {lemma}({bound} - 1); }}")


def make_calculation(rng: random.Random, names: Names) -> Draft:
    """The steps between both ends of a calculation, with the induction hypothesis as a hint."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, bound = names.pick("arg"), names.pick("bound")
    slope, base = names.number("slope", 2, 24), names.number("base", 1, 24)
    linear, call = rng.random() < 0.5, f"{function}({bound} - 1)"
    if linear:
        amount = str(slope)
        left, right = f"{function}({bound})", f"{slope} * {bound} + {base}"
        unfolded = f"{call} + {slope}"
        hinted = f"{slope} * ({bound} - 1) + {base} + {slope}"
    else:
        amount = f"{slope} * {arg}"
        left = f"2 * {function}({bound})"
        right = f"{slope} * {bound} * ({bound} + 1) + {2 * base}"
        unfolded = f"2 * {call} + {2 * slope} * {bound}"
        hinted = f"{slope} * ({bound} - 1) * {bound} + {2 * base} + {2 * slope} * {bound}"
    rule = f"{function}({arg} - 1) + {amount}"
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    lines = [
        text,
        f"lemma {{:induction false}} {lemma}({bound}: nat)",
        f"  ensures {left} == {right}",
        "{",
        f"  if {test(bound)} {{",
        "    calc {",
        f"      {left};",
        f"      {HOLE}",
        f"      {right};",
        "    }",
        "  }",
        "}",
    ]
    reference = f"== {unfolded};\n== {{ {lemma}({bound} - 1); }} {hinted};"
    return _draft("l4_calc", lines, reference, "calc")


FAMILIES: dict[str, Family] = {
    "l4_tail": make_tail,
    "l4_mono": make_monotone,
    "l4_rel": make_related,
    "l4_calc": make_calculation,
}
