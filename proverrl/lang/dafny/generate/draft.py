"""A generated problem before its check, and the small pieces of text that families share.

Flows in: a random source and names. Flows out: ``Program`` and ``Draft`` records, loops, terms.
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


@dataclass(frozen=True, slots=True)
class Program:
    """What a family writes: a statement line by line, and the body that should fill its hole."""

    lines: list[str]
    reference: str
    kind: str = "statements"


Family = Callable[[random.Random, Names], Program]


@dataclass(frozen=True, slots=True)
class Loop:
    """A counting loop over ``bound``: how it starts, runs, steps, and how far it has come.

    ``done`` is the number of finished turns as an expression that may stand in a product;
    ``count`` is the same expression to stand alone.
    """

    counter: str
    start: str
    guard: str
    step: str
    span: str
    done: str
    count: str

    def write(self, body: Sequence[str], clauses: Sequence[str] = (HOLE,)) -> list[str]:
        """The counter's declaration and the loop, with the hole unless ``clauses`` are given."""
        return [f"var {self.counter} := {self.start};", *write_while(self.guard, body, clauses)]


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
        guard = list_above(counter, "0")[LOOP_FORMS_DOWN.index(form)]
        count = f"{bound} - {counter}"
        step = f"{counter} := {counter} - 1;"
        return Loop(counter, bound, guard, step, span, f"({count})", count)
    if form == "one":
        count = f"{counter} - 1"
        span = f"1 <= {counter} <= {bound} + 1"
        return Loop(counter, "1", f"{counter} <= {bound}", up, span, f"({count})", count)
    guard = list_below(counter, bound)[LOOP_FORMS_UP.index(form)]
    return Loop(counter, "0", guard, up, span, counter, counter)


def list_below(low: str, high: str) -> tuple[str, str, str]:
    """Ways to write that ``low``, which never passes ``high``, has not reached it."""
    return f"{low} < {high}", f"{low} != {high}", f"{high} > {low}"


def list_above(high: str, low: str) -> tuple[str, str, str]:
    """The same for ``high``, which falls to ``low``."""
    return f"{high} > {low}", f"{high} != {low}", f"{low} < {high}"


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


def write_invariants(*clauses: str) -> str:
    """A body of invariant clauses, one a line."""
    return "\n".join(f"invariant {clause}" for clause in clauses)


def ask_invariants(lines: list[str], *clauses: str) -> Program:
    """A program whose hole holds these loop invariants."""
    return Program(lines, write_invariants(*clauses), "invariants")


def write_block(head: str, clauses: Sequence[str], body: Sequence[str]) -> list[str]:
    """A head, its specification and its body in braces."""
    return [
        head,
        *(f"  {clause}" for clause in clauses),
        "{",
        *(f"  {line}" for line in body),
        "}",
    ]


def write_method(head: str, clauses: Sequence[str], body: Sequence[str]) -> list[str]:
    """A method; ``head`` is its name with parameters and results."""
    return write_block(f"method {head}", clauses, body)


def write_lemma(head: str, clauses: Sequence[str], body: Sequence[str] = (HOLE,)) -> list[str]:
    """A lemma with induction switched off, so that an empty body does not prove it."""
    return write_block(f"lemma {{:induction false}} {head}", clauses, body)


def write_while(guard: str, body: Sequence[str], clauses: Sequence[str] = (HOLE,)) -> list[str]:
    """A while loop with ``clauses`` (the hole, unless given) as its specification."""
    return write_block(f"while {guard}", clauses, body)
