"""Level 3: arrays; the hole holds loop invariants with quantifiers.

Flows in: a random source and names. Flows out: drafts of six families.
Not handled here: two arrays (``level3_pairs``); order, permutation and nested loops (level 5).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from proverrl.lang.dafny.generate.draft import (
    Draft,
    Family,
    draw_line,
    draw_term,
    draw_test,
    join_lines,
    write_invariants,
    write_while,
)
from proverrl.lang.dafny.generate.names import Names


def _draft(family: str, lines: list[str], reference: str) -> Draft:
    return Draft(3, family, "invariants", join_lines(*lines), reference)


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop over all places of an array. ``before`` and ``after`` are steps around the body;
    ``seen`` and ``unseen`` are the ranges that a bound variable takes at the loop head."""

    start: str
    guard: str
    before: list[str]
    after: list[str]
    span: str
    seen: str
    unseen: str
    whole: str


def draw_walk(rng: random.Random, counter: str, array: str, index: str) -> Walk:
    """A walk over ``array``, upwards or downwards."""
    length = f"{array}.Length"
    span, whole = f"0 <= {counter} <= {length}", f"0 <= {index} < {length}"
    low, high = f"0 <= {index} < {counter}", f"{counter} <= {index} < {length}"
    if rng.random() < 0.65:
        guard = rng.choice(
            (f"{counter} < {length}", f"{counter} != {length}", f"{length} > {counter}")
        )
        after = [f"{counter} := {counter} + 1;"]
        return Walk("0", guard, [], after, span, low, high, whole)
    guard = rng.choice((f"{counter} > 0", f"{counter} != 0", f"0 < {counter}"))
    before = [f"{counter} := {counter} - 1;"]
    return Walk(length, guard, before, [], span, high, low, whole)


def make_fill(rng: random.Random, names: Names) -> Draft:
    """Every place gets a linear function of its index."""
    method, array = names.pick("method"), names.pick("array")
    index, counter = names.pick("index"), names.pick("counter")
    walk = draw_walk(rng, counter, array, index)
    line = draw_line(names.number("slope", 2, 24), names.number("offset", 1, 40), rng.randrange(6))
    lines = [
        f"method {method}({array}: array<int>)",
        f"  modifies {array}",
        f"  ensures forall {index} :: {walk.whole} ==> {array}[{index}] == {line(index)}",
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(
            walk.guard, [*walk.before, f"{array}[{counter}] := {line(counter)};", *walk.after]
        ),
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {array}[{index}] == {line(index)}"
    return _draft("l3_fill", lines, write_invariants(walk.span, last))


def make_map(rng: random.Random, names: Names) -> Draft:
    """Every element is replaced by a linear function of itself."""
    method, array = names.pick("method"), names.pick("array")
    index, counter = names.pick("index"), names.pick("counter")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    element, place = f"{array}[{index}]", f"{array}[{counter}]"
    lines = [
        f"method {method}({array}: array<int>)",
        f"  modifies {array}",
        f"  ensures forall {index} :: {walk.whole} ==> {element} == {term(f'old({element})')}",
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(walk.guard, [*walk.before, f"{place} := {term(place)};", *walk.after]),
        "}",
    ]
    clauses = (
        walk.span,
        f"forall {index} :: {walk.seen} ==> {element} == {term(f'old({element})')}",
        f"forall {index} :: {walk.unseen} ==> {element} == old({element})",
    )
    return _draft("l3_inc", lines, write_invariants(*clauses))


def make_all(rng: random.Random, names: Names) -> Draft:
    """Whether all elements pass a test, leaving at the first that fails."""
    method, array, flag = names.pick("method"), names.pick("array"), names.pick("flag")
    index, counter = names.pick("index"), names.pick("counter")
    walk, test = draw_walk(rng, counter, array, index), draw_test(rng, names)
    held = test(f"{array}[{index}]")
    leave = f"if !({test(f'{array}[{counter}]')}) {{ return false; }}"
    lines = [
        f"method {method}({array}: array<int>) returns ({flag}: bool)",
        f"  ensures {flag} <==> forall {index} :: {walk.whole} ==> {held}",
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(walk.guard, [*walk.before, leave, *walk.after]),
        "  return true;",
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {held}"
    return _draft("l3_all", lines, write_invariants(walk.span, last))


def make_any(rng: random.Random, names: Names) -> Draft:
    """Whether some element passes a test, leaving at the first that does."""
    method, array, flag = names.pick("method"), names.pick("array"), names.pick("flag")
    index, counter = names.pick("index"), names.pick("counter")
    walk, test = draw_walk(rng, counter, array, index), draw_test(rng, names)
    held = test(f"{array}[{index}]")
    leave = f"if {test(f'{array}[{counter}]')} {{ return true; }}"
    lines = [
        f"method {method}({array}: array<int>) returns ({flag}: bool)",
        f"  ensures {flag} <==> exists {index} :: {walk.whole} && {held}",
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(walk.guard, [*walk.before, leave, *walk.after]),
        "  return false;",
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> !({held})"
    return _draft("l3_any", lines, write_invariants(walk.span, last))


def make_find(rng: random.Random, names: Names) -> Draft:
    """A place whose element equals a linear function of a key, or a negative number."""
    method, array, key = names.pick("method"), names.pick("array"), names.pick("param")
    index, counter, place = names.pick("index"), names.pick("counter"), names.pick("total")
    walk, term = draw_walk(rng, counter, array, index), draw_term(rng, names)
    wanted = term(key)
    miss = names.number("limit", 1, 30)
    ensured = [
        f"  ensures 0 <= {place} ==> {place} < {array}.Length && {array}[{place}] == {wanted}",
        f"  ensures {place} < 0 ==> "
        f"forall {index} :: {walk.whole} ==> {array}[{index}] != {wanted}",
    ]
    lines = [
        f"method {method}({array}: array<int>, {key}: int) returns ({place}: int)",
        *rng.sample(ensured, 2),
        "{",
        f"  var {counter} := {walk.start};",
        *write_while(
            walk.guard,
            [
                *walk.before,
                f"if {array}[{counter}] == {wanted} {{ return {counter}; }}",
                *walk.after,
            ],
        ),
        f"  return -{miss};",
        "}",
    ]
    last = f"forall {index} :: {walk.seen} ==> {array}[{index}] != {wanted}"
    return _draft("l3_find", lines, write_invariants(walk.span, last))


def make_extreme(rng: random.Random, names: Names) -> Draft:
    """The greatest or least element, or the greatest of a linear function of the elements."""
    method, array, total = names.pick("method"), names.pick("array"), names.pick("total")
    index, counter = names.pick("index"), names.pick("counter")
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
    guard = rng.choice(
        (
            f"{counter} < {array}.Length",
            f"{counter} != {array}.Length",
            f"{array}.Length > {counter}",
        )
    )

    def clauses(limit: str) -> list[str]:
        return [
            f"forall {index} :: 0 <= {index} < {limit} ==> {element} {operator} {total}",
            f"exists {index} :: 0 <= {index} < {limit} && {element} == {total}",
        ]

    order = rng.sample((0, 1), 2)
    lines = [
        f"method {method}({array}: array<int>) returns ({total}: int)",
        f"  requires {array}.Length > 0",
        *(f"  ensures {clauses(f'{array}.Length')[place_]}" for place_ in order),
        "{",
        f"  {total} := {term(f'{array}[0]')};",
        f"  var {counter} := 1;",
        *write_while(
            guard, [f"if {test} {{ {total} := {place}; }}", f"{counter} := {counter} + 1;"]
        ),
        "}",
    ]
    held = [clauses(counter)[place_] for place_ in order]
    return _draft("l3_max", lines, write_invariants(f"1 <= {counter} <= {array}.Length", *held))


FAMILIES: dict[str, Family] = {
    "l3_fill": make_fill,
    "l3_inc": make_map,
    "l3_all": make_all,
    "l3_any": make_any,
    "l3_find": make_find,
    "l3_max": make_extreme,
}
