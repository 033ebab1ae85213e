"""The holes of a Lean sketch as theorems of their own.

Flows in: a body that failed, and what Lean said of it. Flows out: a sketch, a theorem for each of
its holes, and whole bodies again. Nothing rests on what is assumed here: a spliced body is verified
as a whole, against the problem as it was.

A hole is the inside of the innermost block (``by``, a bullet, an alternative) in which an error
stands; in the theorem's own block it is the tactic that fails and all after it. In the text a hole
is ``fail "hole H1"``: a sketch is itself a body, and Lean answers each hole with its goals. (With
``sorry`` the audit would refuse it.) A hole with several goals becomes one for each.

The theorem of a hole has what is known there, without what other holes state, unless these are
``given``: the two forms of DeepSeek-Prover-V2 (Ren et al. 2025, arXiv 2504.21801). What Lean prints
it does not always read back; then the theorem has no proof. Not handled here: terms without ``by``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.lean.search.blocks import Block, find_blocks, find_inmost, find_tactic
from proverrl.lang.lean.search.extract import (
    Goal,
    drop_hypotheses,
    mentions,
    parse_goal,
    write_theorem,
)
from proverrl.lang.lean.search.states import is_unsolved, offset_in
from proverrl.lang.lean.syntax.declarations import read_theorem
from proverrl.lang.lean.syntax.tokens import shift_line
from proverrl.lang.records import Sketch, Subgoal
from proverrl.types import HOLE, Candidate, Problem, Stage, Status, Verdict
from proverrl.verifier.body_place import end_column, hole_column

# What ``Sketching`` promises.
__all__ = ["close", "fill", "has_holes", "kinds", "lift", "make_sketch", "refine"]

kinds = frozenset({"tactics", "term"})

_MARK = re.compile(r'fail "hole (H\d+)"')
_LINE = re.compile(rf"(\s*)({_MARK.pattern})")
_BODY_COLUMN = 2
"""Where ``write_theorem`` has its hole."""


@dataclass(frozen=True, slots=True)
class LeanSketch(Sketch):
    """A sketch with the goals of its holes, in their order, as Lean told them. Its first line
    begins in ``column`` of the file."""

    goals: tuple[Goal, ...]
    column: int


def make_sketch(candidate: Candidate, verdict: Verdict) -> Sketch | None:
    """The body with holes where it fails; None when it fails nowhere in its text, or everywhere."""
    if verdict.status is not Status.REJECTED or verdict.stage is not Stage.PROVER:
        return None
    problem, body = candidate.problem, candidate.body
    blocks = find_blocks(problem, body)
    holes = set[tuple[int, int, int]]()
    for error in verdict.diagnostics:
        if error.severity != "error" or _MARK.match(f'fail "{_first_line(error.message)}"'):
            continue
        if error.body_line is None:
            if not is_unsolved(error):
                return None
            # What the theorem's own block leaves open is open at its end.
            length = len(body.rstrip())
            holes.add((length, length, hole_column(problem)))
            continue
        place = offset_in(body, error)
        block = find_inmost(blocks, place)
        if block is None:
            return None
        holes.add(_find_hole(problem, body, block, place))
    outer = [a for a in holes if not any(b[0] <= a[0] <= a[1] <= b[1] and a != b for b in holes)]
    made = body.rstrip()
    for start, end, indent in sorted(outer, reverse=True):
        made = _put_mark(made, start, end, indent)
    is_all = any(start == 0 for start, _, _ in outer)
    return _number(made) if outer and not is_all else None


def has_holes(body: str) -> bool:
    """Whether the marks of holes stand in a body."""
    return _MARK.search(body) is not None


def close(problem: Problem, sketch: Sketch) -> Candidate:
    """The sketch itself: Lean says of each hole what is to be proved there, and of all else
    whether it holds."""
    return Candidate(problem, sketch.body)


def refine(problem: Problem, sketch: Sketch, closed: Candidate, verdict: Verdict) -> Sketch | None:
    """The sketch with its goals when only its holes fail; else one with more holes."""
    told = {
        match[1]: [goal for goal in error.message.partition("\n")[2].split("\n\n") if goal]
        for error in verdict.diagnostics
        if (match := _MARK.match(f'fail "{_first_line(error.message)}"')) is not None
    }
    if any(len(goals) != 1 for goals in told.values()):
        column = hole_column(problem)
        body = _LINE.sub(lambda mark: _split(mark, told, sketch.body, column), sketch.body)
        return _number(body) if _MARK.search(body) else None
    if verdict.status is not Status.REJECTED or len(told) < len(sketch.subgoals):
        # A hole that Lean did not come to stands behind another error.
        return _worse(sketch, make_sketch(closed, verdict))
    others = [d for d in verdict.diagnostics if d.severity == "error"]
    if len(others) > len(told):
        return _worse(sketch, make_sketch(closed, verdict))
    try:
        goals = tuple(parse_goal(told[subgoal.name][0]) for subgoal in sketch.subgoals)
    except ProblemError:
        return None
    named = [(subgoal.name, goal) for subgoal, goal in zip(sketch.subgoals, goals, strict=True)]
    needs = (
        tuple(name for name, before in named[:place] if _find_statement(goal, before))
        for place, goal in enumerate(goals)
    )
    subgoals = (Subgoal(name, need) for (name, _), need in zip(named, needs, strict=True))
    return LeanSketch(sketch.body, tuple(subgoals), goals, hole_column(problem))


def lift(
    problem: Problem, sketch: Sketch, subgoal: Subgoal, given: tuple[str, ...]
) -> Problem | None:
    """A hole as a theorem with a hole for tactics; None when it would be the problem again."""
    assert isinstance(sketch, LeanSketch)
    goals = dict(zip((one.name for one in sketch.subgoals), sketch.goals, strict=True))
    goal, parts = goals[subgoal.name], read_theorem(problem)
    stated = {name: _find_statement(goal, goals[name]) for name in subgoal.needs if name in goals}
    unwanted = {known for name, known in stated.items() if name not in given}
    name = f"{parts.name.rpartition('.')[2]}_{subgoal.name}"
    text = write_theorem(name, drop_hypotheses(goal, unwanted))
    ours = f"{parts.binders} : {parts.target}".split()
    if text.partition(f"theorem {name}")[2].partition(":= by")[0].split() == ours:
        return None
    return replace(
        problem,
        id=f"{problem.id}.{'+'.join((subgoal.name, *given))}",
        kind="tactics",
        statement=parts.before + text + parts.ending.partition(HOLE)[2].removeprefix("\n"),
    )


def fill(sketch: Sketch, bodies: Mapping[str, str]) -> Sketch:
    """The sketch with some of its holes filled; those that are left keep their names."""
    assert isinstance(sketch, LeanSketch)
    goals = dict(zip((one.name for one in sketch.subgoals), sketch.goals, strict=True))

    def put(mark: re.Match[str]) -> str:
        if mark[1] not in bodies:
            return mark.group()
        lines = _lines_of(goals[mark[1]], bodies[mark[1]])
        before = sketch.body[: mark.start()]
        column = end_column(before) + (0 if "\n" in before else sketch.column)
        return "\n".join([lines[0], *(shift_line(line, column) for line in lines[1:])])

    left = [one for one in sketch.subgoals if one.name not in bodies]
    subgoals = (
        Subgoal(one.name, tuple(need for need in one.needs if need not in bodies)) for one in left
    )
    body = _MARK.sub(put, sketch.body)
    return LeanSketch(body, tuple(subgoals), tuple(goals[o.name] for o in left), sketch.column)


# Texts ------------------------------------------------------------------------------------------


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def _find_hole(problem: Problem, body: str, block: Block, place: int) -> tuple[int, int, int]:
    """From where to where a body is hidden that fails at ``place``, and the column for a hole that
    needs a line of its own."""
    if block.opener >= 0:
        return block.start, block.end, block.indent + 2
    return find_tactic(problem, body, block, place), block.end, block.column


def _put_mark(body: str, start: int, end: int, indent: int) -> str:
    """A hole in place of a part of a body: behind a bullet, or else at the beginning of a line."""
    before = body[:start]
    line = before.rpartition("\n")[2].strip()
    if line.endswith(("·", ".")):
        before = f"{before.rstrip()} "
    elif line:
        before = f"{before.rstrip()}\n{' ' * indent}"
    return f'{before}fail "hole H0"{body[end:]}'


def _number(body: str) -> Sketch:
    """A sketch whose holes are numbered from 1 in their order; each may need those before it."""
    parts = re.split(r'fail "hole H\d+"', body)
    text = parts[0] + "".join(f'fail "hole H{n}"{part}' for n, part in enumerate(parts[1:], 1))
    names = [mark[1] for mark in _MARK.finditer(text)]
    return Sketch(text, tuple(Subgoal(name, tuple(names[:at])) for at, name in enumerate(names)))


def _split(mark: re.Match[str], told: Mapping[str, list[str]], body: str, column: int) -> str:
    """A bullet with a hole for each goal of a hole; nothing where there is none."""
    blanks, hole, name = mark.groups()
    count = len(told.get(name, [""]))
    if count == 1:
        return mark.group()
    before = body[: mark.start(2)]
    column = end_column(before) + (0 if "\n" in before else column)
    return blanks + f"\n{' ' * column}".join([f"· {hole}"] * count) if count else ""


def _worse(sketch: Sketch, found: Sketch | None) -> Sketch | None:
    """Another sketch, which hides more of the text than this one."""
    return found if found is not None and found.body != sketch.body else None


def _find_statement(goal: Goal, other: Goal) -> str:
    """The name under which a goal knows what another hole states; "" where it does not."""
    wanted = other.target.split()
    own = {name for known in other.hypotheses for name in known.names}
    names = (
        name
        for known in goal.hypotheses
        if known.type.split() == wanted
        for name in known.names
        if name not in own
    )
    return next(names, "")


def _lines_of(goal: Goal, proof: str) -> list[str]:
    """The lines of a proof from column 0, after names for the hypotheses that have none."""
    first, *rest = proof.rstrip().split("\n")
    lines = [first.strip(), *(line.removeprefix(" " * _BODY_COLUMN) for line in rest)]
    if goal.renamed and mentions(proof, goal.renamed):
        lines.insert(0, f"rename_i {' '.join(goal.renamed)}")
    return lines
