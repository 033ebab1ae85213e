"""Level 3: arrays; the hole holds loop invariants with quantifiers.

Flows in: a random source and names. Flows out: programs of nine families.
Not handled here: order, permutation and nested loops (level 5).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from proverrl.generate.dafny.draft import (
    Term,
    ask_invariants,
    draw_line,
    draw_term,
    draw_test,
    list_above,
    list_below,
    write_while,
)
from proverrl.generate.families import Family, Names, ProgramText


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop over all places of an array. ``before`` and ``after`` are steps around the body;
    ``seen`` and ``unseen`` are the ranges that a bound variable takes at the loop head."""

    counter: str
    start: str
    guard: str
    before: list[str]
    after: list[str]
    span: str
    seen: str
    unseen: str
    whole: str
    index: str

    def write(self, step: str) -> list[str]:
        """The counter's declaration and the loop with the hole."""
        body = [*self.before, step, *self.after]
        return [f"var {self.counter} := {self.start};", *write_while(self.guard, body)]

    def claim(self, held: str) -> str:
        """The postcondition that ``held`` is so at all places."""
        return f"forall {self.index} :: {self.whole} ==> {held}"

    def ask(
        self, head: str, clauses: Sequence[str], body: Sequence[str], held: str, rest: str = ""
    ) -> ProgramText:
        """A method whose loop keeps ``held`` at the places that it saw and ``rest`` at others."""
        return ask_invariants(
            head,
            clauses,
            body,
            self.span,
            f"forall {self.index} :: {self.seen} ==> {held}",
            *([f"forall {self.index} :: {self.unseen} ==> {rest}"] if rest else []),
        )


def draw_walk(rng: random.Random, counter: str, array: str, index: str) -> Walk:
    """A walk over ``array``, upwards or downwards."""
    length = f"{array}.Length"
    span, whole = f"0 <= {counter} <= {length}", f"0 <= {index} < {length}"
    low, high = f"0 <= {index} < {counter}", f"{counter} <= {index} < {length}"
    if rng.random() < 0.65:
        guard = rng.choice(list_below(counter, length))
        after = [f"{counter} := {counter} + 1;"]
        return Walk(counter, "0", guard, [], after, span, low, high, whole, index)
    guard = rng.choice(list_above(counter, "0"))
    before = [f"{counter} := {counter} - 1;"]
    return Walk(counter, length, guard, before, [], span, high, low, whole, index)


def make_fill(rng: random.Random, names: Names) -> ProgramText:
    """Every place gets a linear function of its index."""
    method, array, index, counter = names.picks("method", "array", "index", "counter")
    walk = draw_walk(rng, counter, array, index)
    line = draw_line(names.number("slope", 2, 24), names.number("offset", 1, 40), rng.randrange(6))
    held = f"{array}[{index}] == {line(index)}"
    return walk.ask(
        f"{method}({array}: array<int>)",
        [f"modifies {array}", f"ensures {walk.claim(held)}"],
        walk.write(f"{array}[{counter}] := {line(counter)};"),
        held,
    )


def make_map(rng: random.Random, names: Names) -> ProgramText:
    """Every element is replaced by a linear function of itself."""
    method, array, index, counter = names.picks("method", "array", "index", "counter")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    element, place = f"{array}[{index}]", f"{array}[{counter}]"
    held = f"{element} == {term(f'old({element})')}"
    return walk.ask(
        f"{method}({array}: array<int>)",
        [f"modifies {array}", f"ensures {walk.claim(held)}"],
        walk.write(f"{place} := {term(place)};"),
        held,
        rest=f"{element} == old({element})",
    )


def make_decision(rng: random.Random, names: Names, *, is_all: bool) -> ProgramText:
    """A test of all elements, or a search for one that passes; it stops at the first that tells."""
    method, array, flag, index, counter = names.picks("method", "array", "flag", "index", "counter")
    walk, test = draw_walk(rng, counter, array, index), draw_test(rng, names)
    held, found = test(f"{array}[{index}]"), test(f"{array}[{counter}]")
    if is_all:
        claim, leave = walk.claim(held), f"!({found})"
        early, late, so_far = "false", "true", held
    else:
        claim, leave = f"exists {index} :: {walk.whole} && {held}", found
        early, late, so_far = "true", "false", f"!({held})"
    return walk.ask(
        f"{method}({array}: array<int>) returns ({flag}: bool)",
        [f"ensures {flag} <==> {claim}"],
        [*walk.write(f"if {leave} {{ return {early}; }}"), f"return {late};"],
        so_far,
    )


def make_find(rng: random.Random, names: Names) -> ProgramText:
    """A place whose element equals a linear function of a key, or a negative number."""
    method, array, key = names.picks("method", "array", "param")
    index, counter, place = names.picks("index", "counter", "total")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    wanted = term(key)
    miss = names.number("limit", 1, 30)
    fails = f"{array}[{index}] != {wanted}"
    ensured = [
        f"ensures 0 <= {place} ==> {place} < {array}.Length && {array}[{place}] == {wanted}",
        f"ensures {place} < 0 ==> {walk.claim(fails)}",
    ]
    step = f"if {array}[{counter}] == {wanted} {{ return {counter}; }}"
    return walk.ask(
        f"{method}({array}: array<int>, {key}: int) returns ({place}: int)",
        rng.sample(ensured, 2),
        [*walk.write(step), f"return -{miss};"],
        fails,
    )


def make_extreme(rng: random.Random, names: Names) -> ProgramText:
    """The greatest or least element, or the greatest of a linear function of the elements."""
    method, array, total = names.picks("method", "array", "total")
    index, counter = names.picks("index", "counter")
    line = draw_line(
        names.number("slope", 2, 24),
        names.number("offset", 1, 40) if rng.random() < 0.6 else 0,
        rng.randrange(6),
    )
    term = line if rng.random() < 0.75 else str
    element, place = term(f"{array}[{index}]"), term(f"{array}[{counter}]")
    operator = rng.choice(("<=", ">="))
    test = f"{total} {operator[0]} {place}"
    if rng.random() < 0.5:
        test = f"{place} {'>' if operator == '<=' else '<'} {total}"
    guard = rng.choice(list_below(counter, f"{array}.Length"))
    order = rng.sample((0, 1), 2)

    def clauses(limit: str) -> list[str]:
        written = [
            f"forall {index} :: 0 <= {index} < {limit} ==> {element} {operator} {total}",
            f"exists {index} :: 0 <= {index} < {limit} && {element} == {total}",
        ]
        return [written[place] for place in order]

    required = f"requires {array}.Length > 0"
    steps = [f"if {test} {{ {total} := {place}; }}", f"{counter} := {counter} + 1;"]
    setup = [f"{total} := {term(f'{array}[0]')};", f"var {counter} := 1;"]
    return ask_invariants(
        f"{method}({array}: array<int>) returns ({total}: int)",
        [required, *(f"ensures {clause}" for clause in clauses(f"{array}.Length"))],
        [*setup, *write_while(guard, steps)],
        f"1 <= {counter} <= {array}.Length",
        *clauses(counter),
    )


def draw_choice(rng: random.Random, names: Names) -> Term:
    """An element or a number, chosen by a test of the element."""
    test, other = draw_test(rng, names), names.number("offset", 0, 40)
    if rng.random() < 0.5:
        return lambda x: f"if {test(x)} then {x} else {other}"
    return lambda x: f"if {test(x)} then {other} else {x}"


def make_copy(
    rng: random.Random, names: Names, draw: Callable[[random.Random, Names], Term]
) -> ProgramText:
    """A new array whose elements are made of the old ones by what ``draw`` gives."""
    method, array, result = names.picks("method", "array", "array")
    index, counter = names.picks("index", "counter")
    walk, term = draw_walk(rng, counter, array, index), draw(rng, names)
    element = term(f"{array}[{index}]")
    if element.startswith("if "):
        element = f"({element})"
    held = f"{result}[{index}] == {element}"
    step = f"{result}[{counter}] := {term(f'{array}[{counter}]')};"
    return walk.ask(
        f"{method}({array}: array<int>) returns ({result}: array<int>)",
        [f"ensures {result}.Length == {array}.Length", f"ensures {walk.claim(held)}"],
        [f"{result} := new int[{array}.Length];", *walk.write(step)],
        held,
    )


def make_compare(rng: random.Random, names: Names) -> ProgramText:
    """A test that one array is a linear function of another, place by place."""
    method, flag, array, other = names.picks("method", "flag", "array", "array")
    index, counter = names.picks("index", "counter")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    operator, opposite = rng.choice((("==", "!="), ("<=", ">"), ("<", ">="), ("!=", "==")))
    held = f"{array}[{index}] {operator} {term(f'{other}[{index}]')}"
    fails = f"{array}[{counter}] {opposite} {term(f'{other}[{counter}]')}"
    return walk.ask(
        f"{method}({array}: array<int>, {other}: array<int>) returns ({flag}: bool)",
        [f"requires {array}.Length == {other}.Length", f"ensures {flag} <==> {walk.claim(held)}"],
        [*walk.write(f"if {fails} {{ return false; }}"), "return true;"],
        held,
    )


FAMILIES: dict[str, Family] = {
    "l3_fill": make_fill,
    "l3_inc": make_map,
    "l3_all": partial(make_decision, is_all=True),
    "l3_any": partial(make_decision, is_all=False),
    "l3_find": make_find,
    "l3_max": make_extreme,
    "l3_copy": partial(make_copy, draw=draw_term),
    "l3_clamp": partial(make_copy, draw=draw_choice),
    "l3_eq": make_compare,
}
