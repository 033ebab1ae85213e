"""A generated problem before its check, and the small pieces of text that families share.

Flows in: a random source and names. Flows out: ``Draft`` records, loop forms and terms.
Not handled here: which drafts are kept (``stream``), and whether Dafny agrees.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.generate.names import Names
from proverrl.types import HOLE

Term = Callable[[str], str]
"""Writes an expression of one argument, given the argument's text."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement with a hole, and the body that should fill it."""

    level: int
    family: str
    kind: str
    statement: str
    reference: str


Family = Callable[[random.Random, Names], Draft]


@dataclass(frozen=True, slots=True)
class Loop:
    """A counting loop over ``bound``: how it starts, runs, steps, and how far it has come.

    ``done`` is the number of finished turns as an expression that may stand in a product;
    ``count`` is the same expression to stand alone.
    """

    start: str
    guard: str
    step: str
    span: str
    done: str
    count: str


LOOP_FORMS_UP = ("less", "unequal", "greater")
LOOP_FORMS_DOWN = ("down", "down_unequal", "down_less")
LOOP_FORMS = (*LOOP_FORMS_UP, *LOOP_FORMS_DOWN, "one")


def draw_loop(
    rng: random.Random, counter: str, bound: str, forms: Sequence[str] = LOOP_FORMS
) -> Loop:
    """A loop of ``bound`` turns, counted by ``counter``, in one of ``forms``."""
    form = rng.choice(forms)
    span = f"0 <= {counter} <= {bound}"
    up = f"{counter} := {counter} + 1;"
    if form in LOOP_FORMS_DOWN:
        guard = {
            "down": f"{counter} > 0",
            "down_unequal": f"{counter} != 0",
            "down_less": f"0 < {counter}",
        }[form]
        count = f"{bound} - {counter}"
        return Loop(bound, guard, f"{counter} := {counter} - 1;", span, f"({count})", count)
    if form == "one":
        count = f"{counter} - 1"
        span = f"1 <= {counter} <= {bound} + 1"
        return Loop("1", f"{counter} <= {bound}", up, span, f"({count})", count)
    guard = {
        "less": f"{counter} < {bound}",
        "unequal": f"{counter} != {bound}",
        "greater": f"{bound} > {counter}",
    }[form]
    return Loop("0", guard, up, span, counter, counter)


def draw_line(slope: int | str, offset: int | str, style: int) -> Term:
    """A line ``slope * x + offset`` in one of six orders of writing; offset 0 is left out."""
    product: Term
    if style % 2 == 0:

        def product(x: str) -> str:
            return f"{slope} * {x}"
    else:

        def product(x: str) -> str:
            return f"{x} * {slope}"

    if offset == 0:
        return product
    if style % 3 == 0:
        return lambda x: f"{product(x)} + {offset}"
    if style % 3 == 1:
        return lambda x: f"{offset} + {product(x)}"
    return lambda x: f"{product(x)} - {offset}"


def draw_term(rng: random.Random, names: Names) -> Term:
    """A linear expression of an element, such as ``3 * x + 4``."""
    slope = names.number("slope", 2, 24)
    offset = names.number("offset", 1, 40)
    style = rng.randrange(6)
    if style == 0:
        return lambda x: f"{x} + {offset}"
    if style == 1:
        return lambda x: f"{x} - {offset}"
    if style == 2:
        return lambda x: f"{offset} - {x}"
    if style == 3:
        return lambda x: f"{slope} * {x}"
    return draw_line(slope, offset, rng.randrange(6))


def draw_test(rng: random.Random, names: Names) -> Term:
    """A condition on an element, such as ``x > 14`` or ``x % 5 == 2``."""
    limit = names.number("limit", 1, 60)
    style = rng.randrange(8)
    if style == 0:
        modulus = names.number("slope", 2, 20)
        return lambda x: f"{x} % {modulus} == 0"
    if style == 1:
        modulus = names.number("slope", 2, 20)
        return lambda x: f"{x} % {modulus} != 0"
    if style == 2:
        slope = names.number("slope", 2, 20)
        return lambda x: f"{slope} * {x} > {limit}"
    if style == 3:
        offset = names.number("offset", 1, 30)
        return lambda x: f"{x} + {offset} < {limit}"
    operator = ("<", "<=", ">", ">=")[style - 4]
    return lambda x: f"{x} {operator} {limit}"


def draw_equation(rng: random.Random) -> Callable[[str, str], str]:
    """Writes ``left == right`` or ``right == left``, the same way throughout a program."""
    if rng.random() < 0.8:
        return lambda left, right: f"{left} == {right}"
    return lambda left, right: f"{right} == {left}"


def shuffled(rng: random.Random, items: Sequence[str]) -> list[str]:
    """The items in a random order."""
    return rng.sample(list(items), len(items))


def join_lines(*lines: str) -> str:
    """The lines as text that ends with a line break."""
    return "\n".join(lines) + "\n"


def write_invariants(*clauses: str) -> str:
    """A body of invariant clauses, one a line."""
    return "\n".join(f"invariant {clause}" for clause in clauses)


def write_while(
    guard: str, body: Sequence[str], indent: int = 2, clauses: Sequence[str] = (HOLE,)
) -> list[str]:
    """A while loop with ``clauses`` (the hole, unless given) as its specification."""
    pad = " " * indent
    return [
        f"{pad}while {guard}",
        *(f"{pad}  {clause}" for clause in clauses),
        f"{pad}{{",
        *(f"{pad}  {line}" for line in body),
        f"{pad}}}",
    ]
