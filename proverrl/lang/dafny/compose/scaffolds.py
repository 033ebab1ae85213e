"""Dafny problems around those that were solved: with more or less help, easier, harder.

Flows in: problems with the bodies that prove them. Flows out: new texts, most with a reference
body. Not handled here: lemmas out of loops. Dafny proves the facts about one turn of a loop, or
about its end, by itself: the filter against trivial problems would stop them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from proverrl.config.compose import ScaffoldName
from proverrl.errors import ProblemError
from proverrl.lang.dafny.compose import forms, fuse, mutate
from proverrl.lang.dafny.compose.declarations import OPEN_BODY, FreshNames, list_names, read_problem
from proverrl.lang.dafny.syntax.declarations import parse_text
from proverrl.lang.dafny.syntax.program import Element
from proverrl.lang.dafny.syntax.text import fill_hole, scan_places
from proverrl.lang.records import Compose, Made, Parent, Scaffold
from proverrl.types import HOLE

_LOOP_CLAUSES = ("invariant", "decreases", "modifies")


def split_clauses(reference: str) -> list[str]:
    """The clauses of a loop, one by one."""
    starts = [place for _, piece, place in scan_places(reference) if piece in _LOOP_CLAUSES]
    ends = [*starts[1:], len(reference)]
    return [reference[a:b].strip() for a, b in zip(starts, ends, strict=True)]


def show_hints(rng: random.Random, parents: Sequence[Parent]) -> list[Made]:
    """The problem with part of its proof shown: every run of hints hidden that is not the whole.

    What is hidden stands together, so that the order of the proof is kept and the hidden part
    proves the variant. Loops only: of a proof's statements the order says too much.
    """
    parent = parents[0]
    if parent.problem.kind != "invariants" or parent.reference is None:
        return []
    hints = split_clauses(parent.reference)
    text = parent.problem.preamble + parent.problem.statement
    made = []
    for size in range(1, len(hints)):
        for start in range(len(hints) - size + 1):
            hidden = hints[start : start + size]
            lines = [*hints[:start], HOLE, *hints[start + size :]]
            made.append(Made("invariants", fill_hole(text, "\n".join(lines)), "\n".join(hidden)))
    return made


def mask_hint(rng: random.Random, parents: Sequence[Parent]) -> list[Made]:
    """A problem that shows hints beside its hole, with one of them hidden too."""
    parent = parents[0]
    if parent.problem.kind != "invariants":
        return []
    lines = (parent.problem.preamble + parent.problem.statement).split("\n")
    at = next(number for number, line in enumerate(lines) if HOLE in line)
    made = []
    for place in (at - 1, at + 1):
        hint = lines[place].strip() if 0 <= place < len(lines) else ""
        if not hint.startswith(_LOOP_CLAUSES) or lines[at].strip() != HOLE:
            continue
        reference = parent.reference
        if reference is not None:
            reference = "\n".join([hint, reference] if place < at else [reference, hint])
        kept = [line for number, line in enumerate(lines) if number != place]
        made.append(Made("invariants", "\n".join(kept), reference))
    return made


def _choose(functions: Sequence[Compose]) -> Scaffold:
    """The first of the functions, in random order, that has a hold on the parent."""

    def draw(rng: random.Random, parents: Sequence[Parent]) -> list[Made]:
        for function in rng.sample(list(functions), len(functions)):
            made = function(rng, parents)
            if made is not None:
                return [made]
        return []

    return draw


def extract_lemma(rng: random.Random, parents: Sequence[Parent]) -> list[Made]:
    """Each assertion in the proof of a lemma as a lemma of its own, which assumes the lemma's
    preconditions and the tests that the assertion stands under."""
    parent = parents[0]
    program = read_problem(parent.problem)
    target = program.target
    if target.word != "lemma" or parent.reference is None or parent.problem.kind != "statements":
        return []
    known = {name for name, _ in target.formals}
    known |= set().union(*(list_names(d.text) for d in program.others)) if program.others else set()
    fresh = FreshNames(rng, list_names(program.text + parent.reference))
    made = []
    for text, tests in _list_statements(parent.reference):
        claim = text.removeprefix("assert ").removesuffix(";").strip()
        if not text.startswith("assert ") or not list_names(claim) <= known or " by " in claim:
            continue
        lemma = target.rewrite(
            name=fresh.pick("lemma"),
            clauses=(
                *((w, clause) for w, clause in target.clauses if w == "requires"),
                *(("requires", test) for test in tests),
                ("ensures", claim),
            ),
            body=OPEN_BODY,
        )
        made.append(Made("statements", program.with_target(lemma).text))
    return made


def _list_statements(body: str) -> list[tuple[str, tuple[str, ...]]]:
    """The statements of a proof, those under ``if`` too, with the tests that lead to each."""
    try:
        parsed = parse_text(f"lemma L() {{ {body} }}")
    except ProblemError as error:
        _, _, message = str(error).partition(": ")
        raise ProblemError(f"a reference cannot be read: {message}") from error
    found: list[tuple[str, tuple[str, ...]]] = []

    def walk(elements: Sequence[Element], tests: tuple[str, ...]) -> None:
        for element in elements:
            found.append((parsed.cut(element.start, element.end), tests))
            if element.word != "if" or parsed.tokens[element.start + 1].text in ("*", "{"):
                continue
            test = parsed.cut(element.start + 1, element.slots[0].start - 1)
            walk(element.slots[0].elements, (*tests, test))
            for slot in element.slots[1:2]:
                walk(slot.elements, (*tests, f"!({test})"))

    walk(parsed.root.slots[0].elements[0].slots[-1].elements, ())
    return found


def chain_solved(rng: random.Random, parents: Sequence[Parent]) -> list[Made]:
    """All parents as one problem: lemmas fused, loops fed into each other or run in sequence (h1,
    which raises the number of problems in a chain by stages)."""
    if len(parents) < 2:
        return []
    return _choose((fuse.conjoin_lemmas, fuse.chain_calls, fuse.sequence_loops))(rng, parents)


SCAFFOLDS: Mapping[ScaffoldName, Scaffold] = {
    "show_hints": show_hints,
    "mask_hint": mask_hint,
    "easier": _choose(
        (forms.instantiate, mutate.drop_ensures, mutate.weaken_ensures, mutate.add_requires)
    ),
    "harder": _choose(
        (forms.generalise, mutate.drop_requires, mutate.strengthen_ensures, fuse.nest_loop)
    ),
    "extract_lemma": extract_lemma,
    "chain_solved": chain_solved,
}
