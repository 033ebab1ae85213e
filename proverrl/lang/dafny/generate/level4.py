"""Level 4: lemmas by induction on numbers; the hole holds proof statements.

Flows in: a random source and names. Flows out: drafts of five families, and the recursion and
lemma text that ``level4_relations`` uses too. Every lemma carries ``{:induction false}``, so that
an empty body does not prove it.
Not handled here: claims on two values (``level4_relations``), data types (``level4_data``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Draft,
    Family,
    Term,
    draw_equation,
    draw_line,
    join_lines,
)
from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE


def _draft(family: str, lines: list[str], reference: str, kind: str = "statements") -> Draft:
    return Draft(4, family, kind, join_lines(*lines), reference)


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


def write_lemma(lemma: str, parameters: str, clauses: list[str]) -> list[str]:
    """A lemma with the hole for its body and induction switched off."""
    return [
        f"lemma {{:induction false}} {lemma}({parameters})",
        *(f"  {clause}" for clause in clauses),
        "{",
        f"  {HOLE}",
        "}",
    ]


def make_closed(rng: random.Random, names: Names) -> Draft:
    """The closed form of a linear or quadratic recurrence."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, bound = names.pick("arg"), names.pick("bound")
    slope, base = names.number("slope", 2, 30), names.number("base", 1, 30)
    call, equal = f"{function}({arg} - 1)", draw_equation(rng)
    if rng.random() < 0.5:
        rule = add_term(rng, call, slope)
        line = draw_line(slope, base, rng.choice((0, 1, 3, 4)))
        ensured = equal(f"{function}({bound})", line(bound))
    else:
        rule = add_term(rng, call, f"{slope} * {arg}")
        closed = f"{slope} * {bound} * ({bound} + 1) + {2 * base}"
        ensured = equal(f"2 * {function}({bound})", closed)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    lines = [text, *write_lemma(lemma, f"{bound}: nat", [f"ensures {ensured}"])]
    return _draft("l4_closed", lines, f"if {test(bound)} {{ {lemma}({bound} - 1); }}")


def make_scaled(rng: random.Random, names: Names) -> Draft:
    """The closed form of a recurrence that adds a parameter of the function."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, step = names.pick("arg"), names.pick("param")
    bound, factor = names.pick("bound"), names.pick("param")
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
    ensured = equal(f"{function}({order(bound, factor)})", f"{product} + {base}")
    parameters = order(f"{bound}: nat", f"{factor}: int")
    lines = [text, *write_lemma(lemma, parameters, [f"ensures {ensured}"])]
    call = f"{lemma}({order(f'{bound} - 1', factor)});"
    return _draft("l4_scaled", lines, f"if {test(bound)} {{ {call} }}")


def make_bound(rng: random.Random, names: Names) -> Draft:
    """A linear bound on a recurrence that grows or falls at least as fast."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, bound = names.pick("arg"), names.pick("bound")
    base, slope = names.number("base", 4, 30), names.number("slope", 2, 24)
    call, value = f"{function}({arg} - 1)", f"{function}({bound})"
    limit = rng.randrange(0, base + 1)
    style = rng.randrange(3)
    if style == 0:
        rule, claim, turned = f"{slope} * {call}", f"{bound} + {limit}", (">=", "<=")
    elif style == 1:
        low = rng.randrange(1, slope + 1)
        rule, claim, turned = add_term(rng, call, slope), f"{low} * {bound} + {limit}", (">=", "<=")
    else:
        low = rng.randrange(1, slope + 1)
        rule, turned = f"{call} - {slope}", ("<=", ">=")
        claim = f"{base + limit} - {low} * {bound}"
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    ensured = f"{value} {turned[0]} {claim}"
    if rng.random() < 0.4:
        ensured = f"{claim} {turned[1]} {value}"
    lines = [text, *write_lemma(lemma, f"{bound}: nat", [f"ensures {ensured}"])]
    return _draft("l4_bound", lines, f"if {test(bound)} {{ {lemma}({bound} - 1); }}")


def make_remainder(rng: random.Random, names: Names) -> Draft:
    """A remainder that a recurrence keeps."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, bound = names.pick("arg"), names.pick("bound")
    modulus = names.number("slope", 2, 20)
    rest = rng.randrange(0, modulus)
    base = modulus * rng.randrange(0, 4) + rest
    call, amount = f"{function}({arg} - 1)", modulus * rng.randrange(1, 6)
    rule = f"{call} - {amount}" if rng.random() < 0.3 else add_term(rng, call, amount)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    ensured = draw_equation(rng)(f"{function}({bound}) % {modulus}", str(rest))
    lines = [text, *write_lemma(lemma, f"{bound}: nat", [f"ensures {ensured}"])]
    return _draft("l4_mod", lines, f"if {test(bound)} {{ {lemma}({bound} - 1); }}")


def make_skip(rng: random.Random, names: Names) -> Draft:
    """The closed form of a recurrence that goes down by more than one."""
    function, lemma = names.pick("function"), names.pick("lemma")
    arg, bound = names.pick("arg"), names.pick("bound")
    stride, slope = rng.randrange(2, 8), names.number("slope", 2, 20)
    offset, equal = names.number("offset", 1, 40), draw_equation(rng)
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    rule = add_term(rng, f"{function}({arg} - {stride})", stride * slope)
    if rng.random() < 0.5:
        text = f"if {arg} < {stride} then {line(arg)} else {rule}"
    else:
        text = f"if {arg} >= {stride} then {rule} else {line(arg)}"
    lines = [
        f"function {function}({arg}: nat): int {{ {text} }}",
        *write_lemma(
            lemma, f"{bound}: nat", [f"ensures {equal(f'{function}({bound})', line(bound))}"]
        ),
    ]
    return _draft("l4_skip", lines, f"if {bound} >= {stride} {{ {lemma}({bound} - {stride}); }}")


FAMILIES: dict[str, Family] = {
    "l4_closed": make_closed,
    "l4_scaled": make_scaled,
    "l4_bound": make_bound,
    "l4_mod": make_remainder,
    "l4_skip": make_skip,
}
