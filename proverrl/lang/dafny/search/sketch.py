"""Sketches of Dafny proofs: bodies that failed, with holes where they fail.

Flows in: a refused body with its verdict. Flows out: a ``Sketch``, whose holes are marks in its
text. ``search.subgoals`` says what a hole is, and what is to be proved in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from proverrl.lang.dafny.search.branches import (
    Branch,
    ProofLine,
    are_disjoint,
    find_inmost,
    names_of,
    read_branches,
)
from proverrl.lang.dafny.search.declaration import read_declaration
from proverrl.lang.dafny.search.places import split_body
from proverrl.lang.dafny.search.states import DECREASES, POSTCONDITION, list_errors
from proverrl.lang.dafny.syntax.declarations import Declaration
from proverrl.lang.dafny.syntax.statements import CALC_OPERATORS
from proverrl.lang.dafny.syntax.text import scan_places
from proverrl.lang.records import Sketch, Subgoal
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict

MARK = re.compile(r"/\*\{([HR]\d+)\}\*/")
"""A hole in a sketch's text. It is called R where the lemma was called in what failed there."""

CLAUSE_KINDS = frozenset({"invariants", "assertions"})
"""Kinds whose bodies are clauses, of which those that hold are kept."""


@dataclass(frozen=True, slots=True)
class _HoleEdit:
    """The text of a body from ``start`` to ``end`` becomes ``before``, a mark, ``after``."""

    start: int
    end: int
    before: str
    after: str
    is_recursive: bool = False


def make_sketch(candidate: Candidate, verdict: Verdict) -> Sketch | None:
    """The body with holes where it fails; None when there is nothing to keep of it."""
    if verdict.status is not Status.REJECTED or not verdict.obligations:
        return None
    errors = list_errors(verdict)
    if not errors:
        return None
    body = candidate.body
    if candidate.problem.kind in CLAUSE_KINDS:
        return _keep_clauses(candidate, errors)
    is_calc = candidate.problem.kind == "calc"
    edits = (_open_steps if is_calc else _open_statements)(candidate, errors)
    # What is proved first may be given to what comes after; calls of the lemma need that most.
    order = sorted(edits, key=lambda edit: (edit.is_recursive, edit.start))
    names = [f"{'R' if edit.is_recursive else 'H'}{n}" for n, edit in enumerate(order, start=1)]
    for edit, name in sorted(zip(order, names, strict=True), key=lambda pair: -pair[0].start):
        body = f"{body[: edit.start]}{edit.before}/*{{{name}}}*/{edit.after}{body[edit.end :]}"
    subgoals = tuple(Subgoal(name, tuple(names[:at])) for at, name in enumerate(names))
    return Sketch(body, subgoals) if subgoals else None


def blank(sketch: Sketch) -> str:
    """The sketch with nothing in its holes; all else keeps its place."""
    return MARK.sub(lambda mark: " " * len(mark.group()), sketch.body)


def fill(sketch: Sketch, bodies: Mapping[str, str]) -> Sketch:
    """The sketch with some of its holes filled; those that are left keep their names."""
    left = tuple(
        Subgoal(one.name, tuple(need for need in one.needs if need not in bodies))
        for one in sketch.subgoals
        if one.name not in bodies
    )

    def put(mark: re.Match[str]) -> str:
        return bodies[mark[1]].strip() if mark[1] in bodies else mark.group()

    return Sketch(MARK.sub(put, sketch.body), left)


def read_inner(problem: Problem, found: Declaration, body: str) -> tuple[str, int]:
    """What stands in the declaration with a body in its hole, and where the body begins there."""
    hole = problem.statement.find(HOLE)
    before = problem.statement[found.opening + 1 : hole]
    return before + body + problem.statement[hole + len(HOLE) : found.end - 1], len(before)


def offset_in_body(candidate: Candidate, diagnostic: Diagnostic) -> int:
    """The place in the body, in characters; less than 0 or past its end for what is outside."""
    lines = candidate.source.split("\n")[: max(0, diagnostic.line - 1)]
    return sum(len(line) + 1 for line in lines) + diagnostic.column - len(candidate.head)


def _open_statements(candidate: Candidate, errors: Sequence[Diagnostic]) -> list[_HoleEdit]:
    """The holes of a body of statements, those that are marked included; none when there is
    anything wrong that they would not take away."""
    found = read_declaration(candidate.problem)
    if found is None:
        return []
    inner, first = read_inner(candidate.problem, found, candidate.body)
    branches, claims = read_branches(inner)
    branches = [b for b in branches if b.head >= first and b.end <= first + len(candidate.body)]
    broken: set[Branch] = set()
    said: dict[ProofLine, Branch | None] = {}
    for error in errors:
        place = offset_in_body(candidate, error) + first
        if error.message.startswith(POSTCONDITION):
            branch = next((b for b in branches if b.head == place), None)
            claim = None
        else:
            branch = find_inmost(branches, place)
            around = (c for c in claims if c.start <= place < c.end and not c.has_proof)
            claim = next(around, None)
        if claim is not None:
            said[claim] = branch
        elif branch is not None:
            broken.add(branch)
        else:
            return []
    marked = (find_inmost(branches, mark.start()) for mark in MARK.finditer(inner))
    broken.update(branch for branch in marked if branch is not None)
    if not broken:
        return [
            _HoleEdit(c.start - first, c.end - first, f"assert {c.text} by {{ ", " }") for c in said
        ]
    if None in said.values():
        return []
    broken.update(branch for branch in said.values() if branch is not None)
    outer = [b for b in broken if not any(o.start <= b.head < o.end for o in broken - {b})]
    if not all(are_disjoint(a.arms, b.arms) for a, b in combinations(outer, 2)):
        return []
    return [_open_branch(branch, inner, first, found.name) for branch in outer]


def _open_branch(branch: Branch, inner: str, first: int, name: str) -> _HoleEdit:
    text = inner[branch.start : branch.end]
    mark = MARK.search(text)
    is_recursive = mark[1].startswith("R") if mark else name in names_of(text)
    before, after = (" else { ", " }") if branch.is_missing else (" ", " ")
    return _HoleEdit(branch.start - first, branch.end - first, before, after, is_recursive)


@dataclass(frozen=True, slots=True)
class CalcStep:
    """A step of a calculation: its text from ``start`` to ``end``; the inside of its hint from
    ``hint`` to ``hint_end``, both after the operator where it has none."""

    start: int
    end: int
    operator: str
    term: str
    hint: int
    hint_end: int


def split_steps(body: str) -> list[CalcStep]:
    """The steps of a calculation's body; none when one does not begin with an operator."""
    steps = []
    for start, end in split_body(body):
        tokens = [(word, place + start) for _, word, place in scan_places(body[start:end])]
        if not tokens or tokens[0][0] not in CALC_OPERATORS or tokens[-1][0] != ";":
            return []
        hint = hint_end = tokens[0][1] + len(tokens[0][0])
        after = hint
        if len(tokens) > 1 and tokens[1][0] == "{":
            depth, at = 1, 1
            while depth and at + 1 < len(tokens):
                at += 1
                depth += (tokens[at][0] == "{") - (tokens[at][0] == "}")
            hint, hint_end, after = tokens[1][1] + 1, tokens[at][1], tokens[at][1] + 1
        term = body[after : tokens[-1][1]].strip()
        steps.append(CalcStep(start, end, tokens[0][0], term, hint, hint_end))
    return steps


def _open_steps(candidate: Candidate, errors: Sequence[Diagnostic]) -> list[_HoleEdit]:
    body = candidate.body
    steps = split_steps(body)
    found: dict[CalcStep, _HoleEdit] = {}
    tail: list[_HoleEdit] = []
    for error in errors:
        place = offset_in_body(candidate, error)
        step = next((s for s in steps if s.start <= place < s.end), None)
        if step is not None:
            before, after = (" ", " ") if step.hint < step.hint_end else (" { ", " }")
            found[step] = _HoleEdit(step.hint, step.hint_end, before, after)
        elif place >= len(body) and steps and {s.operator for s in steps} == {"=="}:
            # The step to the problem's last line fails: it is written once more, with a hint.
            after_hole = candidate.problem.statement.partition(HOLE)[2]
            last = after_hole.partition(";")[0].strip()
            tail = [_HoleEdit(len(body), len(body), "\n== { ", f" }} {last};")]
        else:
            return []
    return [*found.values(), *tail]


def read_term(text: str) -> str:
    """The last line of a calculation that ends with ``text``."""
    before = text.rstrip().removesuffix(";")
    return before[max(before.rfind(";"), before.rfind("{")) + 1 :].strip()


def _keep_clauses(candidate: Candidate, errors: Sequence[Diagnostic]) -> Sketch | None:
    """The clauses that hold, and a hole for others; None when none holds."""
    places = [offset_in_body(candidate, error) for error in errors]
    is_endless = any(word in error.message for error in errors for word in DECREASES)
    kept: dict[str, None] = {}
    for start, end in split_body(candidate.body):
        text = candidate.body[start:end].strip()
        fails = any(start <= place < end for place in places)
        if text and not fails and not (is_endless and text.startswith("decreases")):
            kept[text] = None
    return Sketch("\n".join([*kept, "/*{H1}*/"]), (Subgoal("H1"),)) if kept else None
