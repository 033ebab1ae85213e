"""Subgoals of Lean proofs: sketches with ``sorry``, holes as theorems of their own, and splicing.

Flows in: a body with ``have h : T := by sorry`` in it and the goals that Lean gives for each
``sorry``, or a body that failed, whose failing parts then become ``sorry``. Flows out: a
``LeanSketch``, a problem for each hole in the two forms of DeepSeek-Prover-V2 (Ren et al. 2025,
arXiv 2504.21801), and a whole body again. ``alone`` has what is known at the hole but for other
holes, ``given`` also what these state. A lifted statement is the policy's own text: what is proved
of it counts for nothing until the spliced body was verified as a whole. Not handled here: one
``sorry`` for several goals (such a body is no sketch), a ``have`` that does not begin its line,
errors that Lean tells of no place in the body.
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
    write_theorem,
)
from proverrl.lang.lean.search.tactic_mode import split_tactics
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.lean.syntax.declarations import find_mark, read_theorem
from proverrl.lang.lean.syntax.tokens import IDENTIFIER, Token, scan_code, scan_tokens
from proverrl.lang.lean.workers.protocol import Sorry
from proverrl.lang.lean.workers.repl_worker import split_candidate
from proverrl.lang.records import Sketch, Subgoal, Verify
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verify.body_place import find_body_place, hole_column

_HAVE_SORRY = re.compile(rf"have ({IDENTIFIER})\s*:\s+(.+?)\s*:=\s*(?:by\s+)?sorry", re.DOTALL)
_BEFORE_TERMS = frozenset(":= ( ⟨ , from exact <| =>".split())
_BODY_COLUMN = 2
"""Where ``write_theorem`` has its hole."""


@dataclass(frozen=True, slots=True)
class SorryHole:
    """One ``sorry``: its place in the body, in characters, and what it is to prove. ``goal`` is
    None where Lean was not asked; then ``statement`` is the text of its ``have``."""

    name: str
    start: int
    end: int
    goal: Goal | None
    statement: str


@dataclass(frozen=True, slots=True)
class Have:
    """A ``have`` of a body, in characters: where it begins, its ``:=``, and where it ends."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class LeanSketch(Sketch):
    """A sketch that knows its holes, in the order of ``subgoals`` and of the body."""

    holes: tuple[SorryHole, ...]


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
        SorryHole(
            name, token.offset, token.end, goal := goals[token.line, token.column], goal.target
        )
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
    holes: list[SorryHole] = []
    for tactic in split_tactics(problem, body):
        if len(holes) == len(tokens):
            break
        found = _HAVE_SORRY.fullmatch(tactic.text)
        if found is not None:
            token = tokens[len(holes)]
            holes.append(SorryHole(found[1], token.offset, token.end, None, found[2].strip()))
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
    Raises ``RecordError`` if the sketch is not one of Lean, or has no such hole.
    """
    holes = {hole.name: hole for hole in _holes_of(sketch)}
    for name in (subgoal.name, *given):
        if name not in holes:
            raise RecordError(f"the sketch has no hole {name!r}, only {', '.join(holes)}")
    hole, parts = holes[subgoal.name], read_theorem(problem)
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
        statement=parts.before + text + parts.ending.partition(HOLE)[2].removeprefix("\n"),
        split=problem.split,
        origin=problem.origin,
        metadata={"parent": problem.id, "subgoal": subgoal.name, "given": list(given)},
    )


def splice(problem: Problem, sketch: Sketch, bodies: Mapping[str, str]) -> str:
    """The sketch with the proof of each hole in place of its ``sorry``. Raises ``RecordError`` if
    the sketch is not one of Lean, or a hole has no proof."""
    whole = sketch.body
    for hole in reversed(_holes_of(sketch)):
        if hole.name not in bodies:
            raise RecordError(f"no proof for the hole {hole.name!r}")
        whole = _fill(problem, whole, hole, bodies[hole.name])
    return whole


def _holes_of(sketch: Sketch) -> tuple[SorryHole, ...]:
    if not isinstance(sketch, LeanSketch):
        raise RecordError("this sketch was not read from Lean text")
    return sketch.holes


def _fill(problem: Problem, body: str, hole: SorryHole, proof: str) -> str:
    """The body with a proof for one ``sorry``, on lines of its own after a ``by``."""
    before, after = body[: hole.start], body[hole.end :]
    line = before[before.rfind("\n") + 1 :]
    column = (0 if "\n" in before else hole_column(problem)) + len(line)
    lines = _lines_of(hole, proof)
    code = scan_code(before)
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


def _lines_of(hole: SorryHole, proof: str) -> list[str]:
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
    code = scan_code(body)
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


def _find_needs(hole: SorryHole, earlier: list[SorryHole]) -> tuple[str, ...]:
    """The holes before this one whose statements are known at it."""
    assert hole.goal is not None
    return tuple(other.name for other in earlier if _is_stated(hole.goal, other))


def _is_stated(goal: Goal, other: SorryHole) -> bool:
    """Whether a hole is among the hypotheses, by name and by what it states."""
    return any(
        other.name in known.names and known.type.split() == other.statement.split()
        for known in goal.hypotheses
    )


def find_haves(problem: Problem, body: str) -> list[Have]:
    """The ``have`` tactics that begin a line, in order; each goes on in all deeper lines."""
    code = scan_code(body)
    base = hole_column(problem)

    def column(token: Token) -> int:
        return token.column + (base if token.line == 1 else 0)

    found = []
    for place, token in enumerate(code):
        if token.text != "have" or (place and code[place - 1].line == token.line):
            continue
        inside = [token]
        for later in code[place + 1 :]:
            if later.line > token.line and column(later) <= column(token):
                break
            inside.append(later)
        value = find_mark(body[token.offset : inside[-1].end], ":=")
        if value is not None:
            found.append(Have(token.offset, token.offset + value.offset, inside[-1].end))
    return found


def hide_failing(problem: Problem, body: str, verdict: Verdict) -> str | None:
    """The body with ``:= by sorry`` for the proof of each ``have`` in which an error stands.

    Where an error stands in none, the tactic of the theorem's own block that failed and all after
    it become one ``sorry``. None when no error has a place in the body.
    """
    haves = find_haves(problem, body)
    lines = body.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    hidden: set[Have] = set()
    loose: list[int] = []
    for error in verdict.diagnostics:
        if error.severity != "error" or error.body_line is None:
            continue
        place = starts[min(error.body_line, len(lines)) - 1] + (error.body_column or 0)
        around = [have for have in haves if _fails_in(have, place, error.message)]
        if around:
            hidden.add(around[-1])
        else:
            loose.append(place)
    cut = _find_tactic(problem, body, starts, min(loose)) if loose else len(body)
    outer = [h for h in hidden if not any(o.start < h.start and h.end <= o.end for o in hidden)]
    kept = body if cut == len(body) else body[:cut] + "sorry"
    for have in sorted(outer, key=lambda one: -one.start):
        if have.end <= cut:
            kept = f"{kept[: have.value]}:= by sorry{kept[have.end :]}"
    return None if kept == body else kept


def _fails_in(have: Have, place: int, message: str) -> bool:
    """Whether an error stands in the proof, or says of the whole ``have`` what it leaves open."""
    first = have.start if message.startswith("unsolved goals") else have.value
    return first <= place < have.end


def _find_tactic(problem: Problem, body: str, starts: list[int], place: int) -> int:
    """Where the tactic of the outermost block begins in which the place lies."""
    begins = [starts[t.line - 1] + t.column for t in split_tactics(problem, body)]
    return max((begin for begin in begins if begin <= place), default=0)
