"""Subgoals of Lean proofs: sketches with ``sorry``, holes as theorems of their own, and splicing.

Flows in: a body with ``have h : T := by sorry`` in it, and the goals that Lean gives for each
``sorry``. Flows out: a ``LeanSketch``, a problem for each hole in the two forms of
DeepSeek-Prover-V2 (Ren et al. 2025, arXiv 2504.21801), and a whole body again. The functions have
the types in ``search.subgoal_search``. ``alone`` has what is known at the hole but for other
holes, ``given`` also what these state, as far as they are known there.
A lifted statement is made of the policy's own text: what is proved of it counts for nothing until
the spliced body was verified as a whole. Not handled here: one ``sorry`` for several goals (such a
body is no sketch), the writing of sketches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from proverrl.errors import ProblemError, RecordError
from proverrl.lang.lean.audit import audit_lean_candidate
from proverrl.lang.lean.search.extract import (
    Goal,
    drop_hypotheses,
    mentions,
    parse_goal,
    read_signature,
    write_theorem,
)
from proverrl.lang.lean.search.haves import hide_failing
from proverrl.lang.lean.search.tactic_mode import split_tactics
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.lean.syntax.tokens import IDENTIFIER, Token, scan_tokens
from proverrl.lang.lean.workers.protocol import Sorry
from proverrl.lang.lean.workers.repl_worker import split_candidate
from proverrl.lang.records import Sketch, Subgoal, Verify
from proverrl.types import HOLE, Candidate, Problem, Status
from proverrl.verify.body_place import find_body_place, hole_column

_HAVE_SORRY = re.compile(rf"have ({IDENTIFIER})\s*:\s+(.+?)\s*:=\s*(?:by\s+)?sorry", re.DOTALL)
_BEFORE_TERMS = frozenset(":= ( ⟨ , from exact <| =>".split())
_BODY_COLUMN = 2
"""Where ``write_theorem`` has its hole."""


@dataclass(frozen=True, slots=True)
class Hole:
    """One ``sorry``: its place in the body, in characters, and what it is to prove. ``goal`` is
    None where Lean was not asked; then ``statement`` is the text of its ``have``."""

    name: str
    start: int
    end: int
    goal: Goal | None
    statement: str


@dataclass(frozen=True, slots=True)
class LeanSketch(Sketch):
    """A sketch that knows its holes, in the order of ``subgoals`` and of the body."""

    holes: tuple[Hole, ...]


async def read_sketch(states: LeanStates, problem: Problem, body: str) -> LeanSketch | None:
    """The sketch that a body is, by the goals that Lean gives.

    None when the body has no ``sorry``, is not admitted by the audit, has errors, or holds a
    ``sorry`` that stands for no goal or for several, or for one that cannot be stated.
    """
    candidate = Candidate(problem, body)
    refusal = audit_lean_candidate(candidate)
    if refusal is None or refusal.status is not Status.INCOMPLETE:
        return None
    done = await states.elaborate(candidate)
    if done.errors or not done.reached_end:
        return None
    return sketch_from_sorries(problem, body, done.sorries)


async def sketch_from_failure(
    states: LeanStates, verify: Verify, problem: Problem, body: str, *, rounds: int = 4
) -> LeanSketch | None:
    """The sketch that is left of a body when what fails in it is hidden, again and again.

    ``verify`` is called up to ``rounds`` times (its verdicts need places of errors). A body that
    fails nowhere is read as it is. None when there is no sketch in it.
    """
    for _ in range(rounds):
        hidden = hide_failing(problem, body, await verify(Candidate(problem, body)))
        if hidden is None:
            return await read_sketch(states, problem, body)
        body = hidden
    return None


def sketch_from_sorries(
    problem: Problem, body: str, sorries: tuple[Sorry, ...]
) -> LeanSketch | None:
    """As ``read_sketch``, from what Lean said of the text after the imports."""
    candidate = Candidate(problem, body)
    first_line = split_candidate(candidate).first_line
    tokens = _find_sorries(body)
    goals: dict[tuple[int, int], Goal] = {}
    for told in sorries:
        if told.start is None:
            return None
        place = find_body_place(candidate, told.start.line + first_line, told.start.column)
        if place is None or place in goals:
            return None
        try:
            goals[place] = parse_goal(told.goal)
        except ProblemError:
            return None
    if not tokens or {(token.line, token.column) for token in tokens} != set(goals):
        return None
    names = _name_holes(body, tokens)
    holes = [
        Hole(name, token.offset, token.end, goal := goals[token.line, token.column], goal.target)
        for name, token in zip(names, tokens, strict=True)
    ]
    needs = {hole.name: _find_needs(hole, holes[:place]) for place, hole in enumerate(holes)}
    return LeanSketch(body, tuple(Subgoal(h.name, needs[h.name]) for h in holes), tuple(holes))


def sketch_from_text(problem: Problem, body: str) -> LeanSketch | None:
    """The sketch that a body is, by its text alone.

    Without Lean what is known at a hole is known only where nothing but ``have h : T`` stands
    before it; any other body gives None. Each hole needs all before it.
    """
    tokens = _find_sorries(body)
    holes: list[Hole] = []
    for tactic in split_tactics(problem, body):
        if len(holes) == len(tokens):
            break
        found = _HAVE_SORRY.fullmatch(tactic.text)
        if found is not None:
            token = tokens[len(holes)]
            holes.append(Hole(found[1], token.offset, token.end, None, found[2].strip()))
        elif not re.match(rf"have {IDENTIFIER}\s*:\s", tactic.text) or "sorry" in tactic.text:
            return None
    names = [hole.name for hole in holes]
    if not holes or len(holes) != len(tokens) or len(set(names)) != len(names):
        return None
    subgoals = [Subgoal(name, tuple(names[:place])) for place, name in enumerate(names)]
    return LeanSketch(body, tuple(subgoals), tuple(holes))


def lift(problem: Problem, sketch: Sketch, subgoal: Subgoal, given: tuple[str, ...]) -> Problem:
    """A hole as a theorem with a hole for tactics, with the statements of the ``given`` holes.

    Statements of other holes are left out, but for those that the theorem's own text speaks of.

    Raises:
        RecordError: the sketch is not one of Lean, or has no such hole.
    """
    holes = {hole.name: hole for hole in _holes_of(sketch)}
    for name in (subgoal.name, *given):
        if name not in holes:
            raise RecordError(f"the sketch has no hole {name!r}, only {', '.join(holes)}")
    hole, parts = holes[subgoal.name], read_signature(problem)
    name = f"{parts.name}_{subgoal.name}"
    if hole.goal is None:
        known = "".join(f" ({one} : {holes[one].statement})" for one in given)
        binders = f" {parts.binders}" if parts.binders else ""
        text = f"theorem {name}{binders}{known} :\n    {hole.statement} := by\n  {HOLE}\n"
    else:
        own = {one for known in hole.goal.hypotheses for one in known.names}
        others = [o for o in holes.values() if o.name in own and _is_stated(hole.goal, o)]
        unwanted = {other.name for other in others if other.name not in given}
        text = write_theorem(name, drop_hypotheses(hole.goal, unwanted))
    return Problem(
        id=f"{problem.id}/{subgoal.name}" + ("+" + "+".join(given) if given else ""),
        language="lean",
        kind="tactics",
        preamble=problem.preamble,
        statement=parts.before + text + parts.after.removeprefix("\n"),
        split=problem.split,
        origin=problem.origin,
        metadata={"parent": problem.id, "subgoal": subgoal.name, "given": list(given)},
    )


def splice(problem: Problem, sketch: Sketch, bodies: Mapping[str, str]) -> str:
    """The sketch with the proof of each hole in place of its ``sorry``.

    Raises:
        RecordError: the sketch is not one of Lean, or a hole has no proof.
    """
    whole = sketch.body
    for hole in reversed(_holes_of(sketch)):
        if hole.name not in bodies:
            raise RecordError(f"no proof for the hole {hole.name!r}")
        whole = _fill(problem, whole, hole, bodies[hole.name])
    return whole


def _holes_of(sketch: Sketch) -> tuple[Hole, ...]:
    if not isinstance(sketch, LeanSketch):
        raise RecordError("this sketch was not read from Lean text")
    return sketch.holes


def _fill(problem: Problem, body: str, hole: Hole, proof: str) -> str:
    """The body with a proof for one ``sorry``, on lines of its own after a ``by``."""
    before, after = body[: hole.start], body[hole.end :]
    line = before[before.rfind("\n") + 1 :]
    column = (0 if "\n" in before else hole_column(problem)) + len(line)
    lines = _lines_of(hole, proof)
    code = [token for token in scan_tokens(before) if token.is_code]
    mark = code[-1].text if code else ""
    # After an alternative of ``induction`` or ``cases`` tactics stand without ``by``.
    is_alternative = mark == "=>" and line.lstrip().startswith("|")
    if mark in _BEFORE_TERMS and not is_alternative:
        opening = before + "by"
    elif line.strip() and (mark == "by" or is_alternative):
        opening = before.rstrip()
    else:
        return before + f"\n{' ' * column}".join(lines) + after
    tactic = re.match(r" *(?:· *)*", line)
    deeper = column - len(line) + (tactic.end() if tactic else 0) + 2
    return "".join([opening, *(f"\n{' ' * deeper}{one}" for one in lines), after])


def _lines_of(hole: Hole, proof: str) -> list[str]:
    """The lines of a proof from column 0, after names for the hypotheses that have none."""
    first, *rest = proof.rstrip().split("\n")
    blank = " " * _BODY_COLUMN
    lines = [first.strip(), *(one.removeprefix(blank) for one in rest)]
    renamed = hole.goal.renamed if hole.goal is not None else ()
    if renamed and mentions(proof, renamed):
        lines.insert(0, f"rename_i {' '.join(renamed)}")
    return lines


def _find_sorries(body: str) -> list[Token]:
    return [token for token in scan_tokens(body) if token.is_code and token.text == "sorry"]


def _name_holes(body: str, sorries: list[Token]) -> list[str]:
    """The name of each hole's ``have``, or ``goal_2`` for the second hole when that has none."""
    code = [token for token in scan_tokens(body) if token.is_code]
    names: list[str] = []
    for number, token in enumerate(sorries, 1):
        place = code.index(token) - 1
        place -= place >= 0 and code[place].text == "by"
        name = f"goal_{number}"
        if place >= 0 and code[place].text == ":=":
            while place > 0 and code[place].text != "have":
                place -= 1
            word = code[place + 1]
            if code[place].text == "have" and word.kind == "word" and word.text not in names:
                name = word.text
        names.append(name)
    return names


def _find_needs(hole: Hole, earlier: list[Hole]) -> tuple[str, ...]:
    """The holes before this one whose statements are known at it."""
    assert hole.goal is not None
    return tuple(other.name for other in earlier if _is_stated(hole.goal, other))


def _is_stated(goal: Goal, other: Hole) -> bool:
    """Whether a hole is among the hypotheses, by name and by what it states."""
    return any(
        other.name in known.names and known.type.split() == other.statement.split()
        for known in goal.hypotheses
    )
