"""The small pieces of text that families of Dafny programs share.

Flows in: a random source and names. Flows out: ``ProgramText`` records, loops, terms.
Not handled here: which drafts are kept (``stream``), and whether Dafny agrees.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proverrl.generate.families import Names, ProgramText
from proverrl.types import HOLE

Term = Callable[[str], str]
"""Writes an expression of one argument, given the argument's text."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A counting loop: how it starts, runs, steps, and how far it has come.

    ``count`` is the number of finished turns, ``bound`` the number of all, as expressions.
    """

    counter: str
    start: str
    guard: str
    step: str
    span: str
    count: str
    bound: str

    @property
    def done(self) -> str:
        """``count`` as it may stand in a product."""
        return f"({self.count})" if " " in self.count else self.count

    def write(self, body: Sequence[str], clauses: Sequence[str] = (HOLE,)) -> list[str]:
        """The counter's declaration and the loop, with the hole unless ``clauses`` are given."""
        return [f"var {self.counter} := {self.start};", *write_while(self.guard, body, clauses)]

    def ask(
        self,
        method: str,
        total: str,
        start: int | str,
        steps: Sequence[str],
        claim: Term,
        *,
        parameters: str = "",
        requires: Sequence[str] = (),
        function: str = "",
    ) -> ProgramText:
        """A method that runs the loop, ``total`` set to ``start``, and claims something of all
        turns. ``function`` declares what the claim calls, if it is a call."""
        return ask_invariants(
            f"{method}({parameters or f'{self.bound}: nat'}) returns ({total}: int)",
            [*requires, f"ensures {claim(self.bound)}"],
            [f"{total} := {start};", *self.write(steps)],
            self.span,
            claim(self.count if function else self.done),
            before=[function] if function else [],
        )


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
        return Loop(counter, bound, guard, step, span, count, bound)
    if form == "one":
        span = f"1 <= {counter} <= {bound} + 1"
        return Loop(counter, "1", f"{counter} <= {bound}", up, span, f"{counter} - 1", bound)
    guard = list_below(counter, bound)[LOOP_FORMS_UP.index(form)]
    return Loop(counter, "0", guard, up, span, counter, bound)


def list_below(low: str, high: str) -> tuple[str, str, str]:
    """Ways to write that ``low``, which never passes ``high``, has not reached it."""
    return f"{low} < {high}", f"{low} != {high}", f"{high} > {low}"


def list_above(high: str, low: str) -> tuple[str, str, str]:
    """The same for ``high``, which falls to ``low``."""
    return f"{high} > {low}", f"{high} != {low}", f"{low} < {high}"


def draw_line(slope: int | str, offset: int | str, style: int) -> Term:
    """A line ``slope * x + offset`` in one of six orders of writing; offset 0 is left out."""

    def product(x: str) -> str:
        return f"{slope} * {x}" if style % 2 == 0 else f"{x} * {slope}"

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
    forms: list[Term] = [
        lambda x: f"{x} + {offset}",
        lambda x: f"{x} - {offset}",
        lambda x: f"{offset} - {x}",
        lambda x: f"{slope} * {x}",
    ]
    style = rng.randrange(6)
    return forms[style] if style < 4 else draw_line(slope, offset, rng.randrange(6))


def draw_test(rng: random.Random, names: Names) -> Term:
    """A condition on an element, such as ``x > 14`` or ``x % 5 == 2``."""
    limit = names.number("limit", 1, 60)
    style = rng.randrange(8)
    if style < 2:
        modulus, sign = names.number("slope", 2, 20), ("==", "!=")[style]
        return lambda x: f"{x} % {modulus} {sign} 0"
    if style == 2:
        slope = names.number("slope", 2, 20)
        return lambda x: f"{slope} * {x} > {limit}"
    if style == 3:
        offset = names.number("offset", 1, 30)
        return lambda x: f"{x} + {offset} < {limit}"
    operator = ("<", "<=", ">", ">=")[style - 4]
    return lambda x: f"{x} {operator} {limit}"


def draw_weight(rng: random.Random, names: Names) -> Term:
    """The weight of one element in a measure: a multiple, a shifted multiple, or a choice."""
    slope, offset = names.number("slope", 2, 24), names.number("offset", 1, 40)
    forms: list[Term] = [
        lambda x: f"{slope} * {x}",
        lambda x: f"({slope} * {x} + {offset})",
        lambda x: f"({x} + {offset})",
    ]
    style = rng.randrange(4)
    if style < 3:
        return forms[style]
    test = draw_test(rng, names)
    return lambda x: f"(if {test(x)} then {slope} else {offset})"


def draw_equation(rng: random.Random) -> Callable[[str, str], str]:
    """Writes ``left == right`` or ``right == left``, the same way throughout a program."""
    if rng.random() < 0.8:
        return lambda left, right: f"{left} == {right}"
    return lambda left, right: f"{right} == {left}"


def shuffled(rng: random.Random, items: Sequence[str]) -> list[str]:
    """The items in a random order."""
    return rng.sample(list(items), len(items))


def ask_invariants(
    head: str,
    clauses: Sequence[str],
    body: Sequence[str],
    *invariants: str,
    before: Sequence[str] = (),
) -> ProgramText:
    """A method, after the declarations ``before``, whose hole holds these loop invariants."""
    lines = [*before, *write_method(head, clauses, body)]
    reference = "\n".join(f"invariant {clause}" for clause in invariants)
    return ProgramText(lines, reference, "invariants")


def ask_lemma(
    before: Sequence[str], head: str, claim: str, reference: str, requires: Sequence[str] = ()
) -> ProgramText:
    """A lemma, after the declarations ``before``, whose hole holds its whole proof."""
    lines = [*before, *write_lemma(head, [*requires, f"ensures {claim}"])]
    return ProgramText(lines, reference)


def write_block(head: str, clauses: Sequence[str], body: Sequence[str]) -> list[str]:
    """A head, its specification and its body in braces."""
    inner = [f"  {line}" for line in body]
    return [head, *(f"  {clause}" for clause in clauses), "{", *inner, "}"]


def write_method(head: str, clauses: Sequence[str], body: Sequence[str]) -> list[str]:
    """A method; ``head`` is its name with parameters and results."""
    return write_block(f"method {head}", clauses, body)


def write_lemma(head: str, clauses: Sequence[str], body: Sequence[str] = (HOLE,)) -> list[str]:
    """A lemma with induction switched off, so that an empty body does not prove it."""
    return write_block(f"lemma {{:induction false}} {head}", clauses, body)


def write_while(guard: str, body: Sequence[str], clauses: Sequence[str] = (HOLE,)) -> list[str]:
    """A while loop with ``clauses`` (the hole, unless given) as its specification."""
    return write_block(f"while {guard}", clauses, body)
