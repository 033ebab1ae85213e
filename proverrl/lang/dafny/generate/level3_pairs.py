"""Level 3, second part: two arrays at once; the hole holds loop invariants with quantifiers.

Flows in: a random source and names. Flows out: drafts of three families.
Not handled here: a single array (``level3``).
"""

from __future__ import annotations

import random

from proverrl.lang.dafny.generate.draft import (
    Draft,
    Family,
    draw_term,
    draw_test,
    join_lines,
    write_invariants,
    write_while,
)
from proverrl.lang.dafny.generate.level3 import Walk, draw_walk
from proverrl.lang.dafny.generate.names import Names


def _draft(family: str, lines: list[str], reference: str) -> Draft:
    return Draft(3, family, "invariants", join_lines(*lines), reference)


def _new_array(names: Names, rng: random.Random) -> tuple[list[str], str, str, str, str, Walk]:
    method, array, result = names.pick("method"), names.pick("array"), names.pick("array")
    index, counter = names.pick("index"), names.pick("counter")
    walk = draw_walk(rng, counter, array, index)
    head = [
        f"method {method}({array}: array<int>) returns ({result}: array<int>)",
        f"  ensures {result}.Length == {array}.Length",
    ]
    return head, array, result, index, counter, walk


def make_copy(rng: random.Random, names: Names) -> Draft:
    """A new array whose elements are a linear function of the old ones."""
    head, array, result, index, counter, walk = _new_array(names, rng)
    term = draw_term(rng, names)
    held = f"{result}[{index}] == {term(f'{array}[{index}]')}"
    lines = [
        *head,
        f"  ensures forall {index} :: {walk.whole} ==> {held}",
        "{",
        f"  {result} := new int[{array}.Length];",
        f"  var {counter} := {walk.start};",
        *write_while(
            walk.guard,
            [
                *walk.before,
                f"{result}[{counter}] := {term(f'{array}[{counter}]')};",
                *walk.after,
            ],
        ),
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {held}"
    return _draft("l3_copy", lines, write_invariants(walk.span, last))


def make_choice(rng: random.Random, names: Names) -> Draft:
    """A new array whose elements are chosen by a test of the old ones."""
    head, array, result, index, counter, walk = _new_array(names, rng)
    test, other = draw_test(rng, names), str(names.number("offset", 0, 40))
    keep = rng.random() < 0.5
    place = f"{array}[{counter}]"

    def choose(element: str) -> tuple[str, str]:
        return (element, other) if keep else (other, element)

    chosen, rejected = choose(f"{array}[{index}]")
    held = f"(if {test(f'{array}[{index}]')} then {chosen} else {rejected})"
    now, otherwise = choose(place)
    lines = [
        *head,
        f"  ensures forall {index} :: {walk.whole} ==> {result}[{index}] == {held}",
        "{",
        f"  {result} := new int[{array}.Length];",
        f"  var {counter} := {walk.start};",
        *write_while(
            walk.guard,
            [
                *walk.before,
                f"{result}[{counter}] := if {test(place)} then {now} else {otherwise};",
                *walk.after,
            ],
        ),
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {result}[{index}] == {held}"
    return _draft("l3_clamp", lines, write_invariants(walk.span, last))


def make_compare(rng: random.Random, names: Names) -> Draft:
    """Whether one array is a linear function of another, place by place."""
    method, flag = names.pick("method"), names.pick("flag")
    array, other = names.pick("array"), names.pick("array")
    index, counter = names.pick("index"), names.pick("counter")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    operator, opposite = rng.choice((("==", "!="), ("<=", ">"), ("<", ">="), ("!=", "==")))
    held = f"{array}[{index}] {operator} {term(f'{other}[{index}]')}"
    fails = f"{array}[{counter}] {opposite} {term(f'{other}[{counter}]')}"
    lines = [
        f"method {method}({array}: array<int>, {other}: array<int>) returns ({flag}: bool)",
        f"  requires {array}.Length == {other}.Length",
        f"  ensures {flag} <==> forall {index} :: {walk.whole} ==> {held}",
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(walk.guard, [*walk.before, f"if {fails} {{ return false; }}", *walk.after]),
        "  return true;",
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {held}"
    return _draft("l3_eq", lines, write_invariants(walk.span, last))


FAMILIES: dict[str, Family] = {
    "l3_copy": make_copy,
    "l3_clamp": make_choice,
    "l3_eq": make_compare,
}
