"""Other forms of one Dafny problem: an instance, a generalisation, a corollary, the negation.

Flows in: a parent. Flows out: a program with one hole, with a reference body where the parent's
carries over.
Not handled here: the negation of a method's contract: it says something of every run, and Dafny
has no formula for that (``filters.refuted`` runs such methods on small inputs).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from proverrl.lang.dafny.compose.declarations import (
    OPEN_BODY,
    FreshNames,
    Program,
    conjoin,
    edit_calls,
    list_names,
    map_tokens,
    read_problem,
    substitute,
)
from proverrl.lang.dafny.compose.mutate import list_constants
from proverrl.lang.dafny.syntax.declarations import Declaration, write_formals
from proverrl.lang.dafny.syntax.text import fill_hole, scan_places
from proverrl.lang.records import Made, Parent

_NUMBERS = ("nat", "int")


def instantiate(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A whole-number parameter becomes a number; a lemma's own calls lose that argument.

    A parameter on which a lemma's reference recurses is left alone.
    """
    parent = parents[0]
    program = read_problem(parent.problem)
    target, reference = program.target, parent.reference
    places = [i for i, (_, kind) in enumerate(target.formals) if kind in _NUMBERS]
    if target.word == "lemma":
        places = [] if reference is None else _list_steady(target, reference, places)
    elif any(target.name in list_names(d.text) for d in program.others):
        places = []
    if not places:
        return None
    place = rng.choice(places)
    value = {target.formals[place][0]: str(rng.randint(2, 12))}

    def drop(arguments: list[str]) -> list[str]:
        return arguments[:place] + arguments[place + 1 :]

    made = target.rewrite(
        formals=target.formals[:place] + target.formals[place + 1 :],
        clauses=tuple((word, substitute(text, value)) for word, text in target.clauses),
        body=substitute(target.body, value),
    )
    if reference is not None:
        reference = substitute(edit_calls(reference, target.name, drop), value)
    return Made(parent.problem.kind, program.with_target(made).text, reference)


def _list_steady(target: Declaration, reference: str, places: list[int]) -> list[int]:
    """The parameters that every recursive call in the reference passes on as they are."""
    calls: list[list[str]] = []

    def note(arguments: list[str]) -> list[str]:
        calls.append(arguments)
        return arguments

    edit_calls(reference, target.name, note)
    return [
        place
        for place in places
        if all(len(c) > place and c[place] == target.formals[place][0] for c in calls)
    ]


def generalise(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A number of the program becomes a parameter, handed on through all functions that use it."""
    parent = parents[0]
    program = read_problem(parent.problem)
    constants = list_constants(program.text)
    if not constants:
        return None
    old = rng.choice(constants)
    reference = parent.reference
    used = list_names(program.text + (reference or ""))
    new = FreshNames(rng, used).pick("param")
    carriers = _find_carriers(program, old)
    if program.target.name not in carriers:
        return None

    def lift(text: str) -> str:
        return map_tokens(text, lambda p, i: new if p[i][:2] == ("number", old) else None)

    def hand_on(text: str) -> str:
        for name in carriers:
            text = edit_calls(text, name, lambda arguments: [*arguments, new])
        return text

    made = [
        declaration.rewrite(
            formals=(*declaration.formals, (new, "int")),
            clauses=tuple((w, hand_on(lift(text))) for w, text in declaration.clauses),
            body=hand_on(lift(declaration.body)),
        )
        if declaration.name in carriers
        else declaration
        for declaration in program.declarations
    ]
    if reference is not None:
        reference = hand_on(lift(reference))
    return Made(parent.problem.kind, Program(tuple(made)).text, reference)


def _find_carriers(program: Program, number: str) -> list[str]:
    """The declarations that hold the number, and those that use one that does."""

    def holds(text: str) -> bool:
        return any(token[:2] == ("number", number) for token in scan_places(text))

    found = {d.name for d in program.declarations if d.name and holds(d.text)}
    while True:
        more = {d.name for d in program.declarations if d.name and found & list_names(d.text)}
        if more <= found:
            return sorted(found)
        found |= more


def apply_lemma(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """The parent's lemma, proved, and below it a lemma that is an instance of it at an expression.

    Needs the parent's reference; the reference of the result is one call.
    """
    parent = parents[0]
    program = read_problem(parent.problem)
    target, reference = program.target, parent.reference
    numbers = [(name, kind) for name, kind in target.formals if kind in _NUMBERS]
    if target.word != "lemma" or reference is None or not numbers:
        return None
    name, _ = rng.choice(numbers)
    value = rng.choice(
        (
            f"{name} + {rng.randint(2, 9)}",
            f"{rng.randint(2, 5)} * {name}",
            f"{rng.randint(2, 5)} * {name} + {rng.randint(1, 9)}",
        )
    )
    used = list_names(program.text + reference)
    proved = target.rewrite(body=fill_hole(target.body, reference))
    instance = target.rewrite(
        name=FreshNames(rng, used).pick("lemma"),
        clauses=tuple(
            (word, substitute(text, {name: value}))
            for word, text in target.clauses
            if word in ("requires", "ensures")
        ),
        body=OPEN_BODY,
    )
    call = ", ".join(value if other == name else other for other, _ in target.formals)
    text = program.with_target(proved, instance).text
    return Made("statements", text, f"{target.name}({call});")


def negate(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """The negation of a lemma, closed: some arguments satisfy ``requires`` and not ``ensures``.

    Not of a lemma with a known proof: what is false teaches nothing.
    """
    parent = parents[0]
    if parent.reference is not None:
        return None
    program = read_problem(parent.problem)
    target = program.target
    if target.word != "lemma" or any("array" in kind for _, kind in target.formals):
        return None
    used = list_names(program.text)
    requires = [f"({text})" for text in target.list_clauses("requires")]
    claim = conjoin(target.list_clauses("ensures"))
    opposite = " && ".join([*requires, f"!({claim})" if " && " in claim else f"!{claim}"])
    if target.formals:
        opposite = f"exists {write_formals(target.formals)} :: {opposite}"
    negation = target.rewrite(
        name=FreshNames(rng, used).pick("lemma"),
        formals=(),
        clauses=(("ensures", opposite),),
        body=OPEN_BODY,
    )
    return Made("statements", program.with_target(negation).text)
