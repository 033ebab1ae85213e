"""Level 4: lemmas by induction on numbers, and calculations; the hole holds proof statements.

Flows in: a random source and names. Flows out: programs of nine families.
Not handled here: data types (``level4_data``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Family,
    Program,
    Term,
    draw_equation,
    draw_line,
    shuffled,
    write_lemma,
)
from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE


def write_recursion(
    rng: random.Random, function: str, parameters: str, arg: str, base: str, rule: str
) -> tuple[str, Term]:
    """A function on a natural number, and the matching test that an argument is not the base."""
    head = f"function {function}({parameters}): int"
    style = rng.randrange(4)
    if style == 0:
        return f"{head} {{ if {arg} == 0 then {base} else {rule} }}", lambda x: f"{x} != 0"
    if style == 1:
        return f"{head} {{ if {arg} > 0 then {rule} else {base} }}", lambda x: f"{x} > 0"
    if style == 2:
        return f"{head} {{ if 0 < {arg} then {rule} else {base} }}", lambda x: f"0 < {x}"
    return f"{head} {{ if {arg} < 1 then {base} else {rule} }}", lambda x: f"{x} >= 1"


def add_term(rng: random.Random, call: str, amount: str | int) -> str:
    """A sum of a call and an amount, in either order."""
    return f"{call} + {amount}" if rng.random() < 0.6 else f"{amount} + {call}"


def _ask_induction(text: str, lemma: str, bound: str, claim: str, test: Term) -> Program:
    """A claim on a function at ``bound``, proved from the same claim one below."""
    lines = [text, *write_lemma(f"{lemma}({bound}: nat)", [f"ensures {claim}"])]
    return Program(lines, f"if {test(bound)} {{ {lemma}({bound} - 1); }}")


def make_closed(rng: random.Random, names: Names) -> Program:
    """The closed form of a linear or quadratic recurrence."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    slope, base = names.number("slope", 2, 30), names.number("base", 1, 30)
    call, equal = f"{function}({arg} - 1)", draw_equation(rng)
    if rng.random() < 0.5:
        rule = add_term(rng, call, slope)
        line = draw_line(slope, base, rng.choice((0, 1, 3, 4)))
        claim = equal(f"{function}({bound})", line(bound))
    else:
        rule = add_term(rng, call, f"{slope} * {arg}")
        closed = f"{slope} * {bound} * ({bound} + 1) + {2 * base}"
        claim = equal(f"2 * {function}({bound})", closed)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    return _ask_induction(text, lemma, bound, claim, test)


def make_scaled(rng: random.Random, names: Names) -> Program:
    """The closed form of a recurrence that adds a parameter of the function."""
    function, lemma, arg, step = names.picks("function", "lemma", "arg", "param")
    bound, factor = names.picks("bound", "param")
    base, equal = names.number("base", 1, 40), draw_equation(rng)
    first = rng.random() < 0.5

    def order(number: str, other: str) -> str:
        return f"{number}, {other}" if first else f"{other}, {number}"

    slope = names.number("slope", 2, 20) if rng.random() < 0.4 else 1
    amount = step if slope == 1 else f"{slope} * {step}"
    rule = add_term(rng, f"{function}({order(f'{arg} - 1', step)})", amount)
    parameters = order(f"{arg}: nat", f"{step}: int")
    text, test = write_recursion(rng, function, parameters, arg, str(base), rule)
    product = f"{factor} * {bound}" if slope == 1 else f"{slope} * {factor} * {bound}"
    claim = equal(f"{function}({order(bound, factor)})", f"{product} + {base}")
    head = f"{lemma}({order(f'{bound}: nat', f'{factor}: int')})"
    lines = [text, *write_lemma(head, [f"ensures {claim}"])]
    call = f"{lemma}({order(f'{bound} - 1', factor)});"
    return Program(lines, f"if {test(bound)} {{ {call} }}")


def make_bound(rng: random.Random, names: Names) -> Program:
    """A linear bound on a recurrence that grows or falls at least as fast."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    base, slope = names.number("base", 4, 30), names.number("slope", 2, 24)
    call, value = f"{function}({arg} - 1)", f"{function}({bound})"
    limit = rng.randrange(0, base + 1)
    style = rng.randrange(3)
    turned = ("<=", ">=") if style == 2 else (">=", "<=")
    if style == 0:
        rule, limit_text = f"{slope} * {call}", f"{bound} + {limit}"
    elif style == 1:
        low = rng.randrange(1, slope + 1)
        rule, limit_text = add_term(rng, call, slope), f"{low} * {bound} + {limit}"
    else:
        low = rng.randrange(1, slope + 1)
        rule, limit_text = f"{call} - {slope}", f"{base + limit} - {low} * {bound}"
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    claim = f"{value} {turned[0]} {limit_text}"
    if rng.random() < 0.4:
        claim = f"{limit_text} {turned[1]} {value}"
    return _ask_induction(text, lemma, bound, claim, test)


def make_remainder(rng: random.Random, names: Names) -> Program:
    """A remainder that a recurrence keeps."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    modulus = names.number("slope", 2, 20)
    rest = rng.randrange(0, modulus)
    base = modulus * rng.randrange(0, 4) + rest
    call, amount = f"{function}({arg} - 1)", modulus * rng.randrange(1, 6)
    rule = f"{call} - {amount}" if rng.random() < 0.3 else add_term(rng, call, amount)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    claim = draw_equation(rng)(f"{function}({bound}) % {modulus}", str(rest))
    return _ask_induction(text, lemma, bound, claim, test)


def make_skip(rng: random.Random, names: Names) -> Program:
    """The closed form of a recurrence that goes down by more than one."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    stride, slope = rng.randrange(2, 8), names.number("slope", 2, 20)
    offset, equal = names.number("offset", 1, 40), draw_equation(rng)
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    rule = add_term(rng, f"{function}({arg} - {stride})", stride * slope)
    if rng.random() < 0.5:
        text = f"if {arg} < {stride} then {line(arg)} else {rule}"
    else:
        text = f"if {arg} >= {stride} then {rule} else {line(arg)}"
    claim = equal(f"{function}({bound})", line(bound))
    lines = [
        f"function {function}({arg}: nat): int {{ {text} }}",
        *write_lemma(f"{lemma}({bound}: nat)", [f"ensures {claim}"]),
    ]
    return Program(lines, f"if {bound} >= {stride} {{ {lemma}({bound} - {stride}); }}")


def make_tail(rng: random.Random, names: Names) -> Program:
    """What a function with an accumulator adds to it."""
    function, lemma, arg, held = names.picks("function", "lemma", "arg", "total")
    bound, start = names.picks("bound", "total")
    slope, offset = names.number("slope", 2, 40), names.number("offset", 1, 40)
    sign, equal = rng.choice("+-"), draw_equation(rng)
    result = held if rng.random() < 0.5 else f"{held} + {offset}"
    rule = f"{function}({arg} - 1, {held} {sign} {slope})"
    parameters = f"{arg}: nat, {held}: int"
    text, test = write_recursion(rng, function, parameters, arg, result, rule)
    closed = f"{start} {sign} {slope} * {bound}" + (f" + {offset}" if result != held else "")
    claim = equal(f"{function}({bound}, {start})", closed)
    lines = [text, *write_lemma(f"{lemma}({bound}: nat, {start}: int)", [f"ensures {claim}"])]
    call = f"{lemma}({bound} - 1, {start} {sign} {slope});"
    return Program(lines, f"if {test(bound)} {{ {call} }}")


def make_monotone(rng: random.Random, names: Names) -> Program:
    """A recurrence that grows or falls keeps the order of its arguments."""
    function, lemma, arg, low, high = names.picks("function", "lemma", "arg", "low", "high")
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
    lines = [text, *write_lemma(f"{lemma}({low}: nat, {high}: nat)", clauses)]
    return Program(lines, f"if {test} {{ {lemma}({low}, {high} - 1); }}")


def make_related(rng: random.Random, names: Names) -> Program:
    """Two recurrences of one shape, one a linear function of the other."""
    first, second = names.picks("function", "function")
    lemma, arg, bound = names.picks("lemma", "arg", "bound")
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
    claim = equal(f"{second}({bound})", line(f"{first}({bound})"))
    both = "\n".join(shuffled(rng, [text, twin]))
    return _ask_induction(both, lemma, bound, claim, test)


def make_calculation(rng: random.Random, names: Names) -> Program:
    """The steps between both ends of a calculation, with the induction hypothesis as a hint."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
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
    steps = ["  calc {", f"    {left};", f"    {HOLE}", f"    {right};", "  }"]
    body = [f"if {test(bound)} {{", *steps, "}"]
    lines = [text, *write_lemma(f"{lemma}({bound}: nat)", [f"ensures {left} == {right}"], body)]
    reference = f"== {unfolded};\n== {{ {lemma}({bound} - 1); }} {hinted};"
    return Program(lines, reference, "calc")


FAMILIES: dict[str, Family] = {
    "l4_closed": make_closed,
    "l4_scaled": make_scaled,
    "l4_bound": make_bound,
    "l4_mod": make_remainder,
    "l4_skip": make_skip,
    "l4_tail": make_tail,
    "l4_mono": make_monotone,
    "l4_rel": make_related,
    "l4_calc": make_calculation,
}
