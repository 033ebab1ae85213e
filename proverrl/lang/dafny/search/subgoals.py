"""The holes of a Dafny sketch as problems of their own.

Flows in: a problem and a sketch of its proof (``search.sketch``). Flows out: a problem for each
hole, and whether the sketch lacks anything but what is in its holes. Nothing rests on what is
assumed here: a spliced body is verified as a whole, against the problem as it was.

What a hole is depends on the kind of the problem:

- ``statements`` of a lemma: a branch of ``if`` or ``match`` (a missing ``else`` too) that does not
  reach the postcondition or in which something fails; or the proof of an assertion, where nothing
  else fails in its branch. The other branches stay. A body without branches in which anything but
  an assertion fails has no sketch: its hole would be the whole problem.
- ``calc``: the hint of a step that fails. The other steps stay.
- ``invariants`` and ``assertions``: one hole for what is missing beside the clauses that hold.

A hole's problem keeps the declaration with ``HOLE`` in its place, so that the lemma may be called
there only on smaller arguments. Statements of other holes are added as ``requires``, for all values
of the parameters; of a hole that is not given, the hole's own path is asked for instead, so that
the other branches are dead. Proofs of several assertions become lemmas of their own that cannot
call the one that they come from. (DeepSeek-Prover-V2, Ren et al. 2025, arXiv 2504.21801, lifts
Lean's ``have``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.search.branches import find_inmost, read_branches
from proverrl.lang.dafny.search.declaration import (
    generalise,
    imply,
    read_declaration,
    read_goal,
    replace_declaration,
    require,
    restate,
)
from proverrl.lang.dafny.search.sketch import (
    CLAUSE_KINDS,
    MARK,
    blank,
    fill,
    make_sketch,
    read_inner,
    read_term,
    split_steps,
)
from proverrl.lang.dafny.search.states import KINDS
from proverrl.lang.dafny.syntax.declarations import Declaration
from proverrl.lang.dafny.syntax.text import fill_hole, normalise, scan_tokens
from proverrl.lang.records import Sketch, Subgoal
from proverrl.types import HOLE, Candidate, Problem, Verdict

# What ``Sketching`` promises.
__all__ = ["close", "fill", "has_holes", "kinds", "lift", "make_sketch", "refine"]

kinds = KINDS


@dataclass(frozen=True, slots=True)
class _Sequent:
    """What is to be proved in a hole: ``claim``, "" the postcondition, where ``path`` holds; the
    path is None when it cannot be said in the names of the declaration."""

    path: tuple[str, ...] | None
    claim: str = ""


def lift(
    problem: Problem, sketch: Sketch, subgoal: Subgoal, given: tuple[str, ...]
) -> Problem | None:
    """The hole as a problem, with the statements of the holes ``given``.

    None when that cannot be said in the names of the declaration, or when it would be the problem
    itself again.
    """
    inner = sketch.body.replace(f"/*{{{subgoal.name}}}*/", HOLE)
    statement = fill_hole(problem.statement, MARK.sub("", inner))
    found, holes = read_declaration(problem), _read_holes(problem, sketch)
    if len(sketch.subgoals) > 1:
        if found is None or holes is None or len(set(holes.values())) < len(holes):
            return None
        written = _ask_more(problem, found, holes, subgoal.name, given)
        if written is None:
            return None
        clauses, goal = written
        name = f"{found.name}{subgoal.name}"
        statement = (
            replace_declaration(problem, found, name, clauses, goal)
            if goal
            else require(statement, found, clauses)
        )
    elif problem.kind == "statements" and found is not None and holes is not None:
        # An assertion of the postcondition, first thing in the body, is the problem again.
        promised = _words(read_goal(found))
        if any(not hole.path and _words(hole.claim) == promised for hole in holes.values()):
            return None
    if statement.count(HOLE) != 1:
        return None
    kind = problem.kind if problem.kind in CLAUSE_KINDS else "statements"
    lifted = restate(problem, f".{'+'.join((subgoal.name, *given))}", statement, kind)
    return None if is_circular(problem, lifted) else lifted


def is_circular(problem: Problem, lifted: Problem) -> bool:
    """Whether a lifted problem says nothing new: it is the problem again, names aside; it promises
    what the problem promises and asks for nothing more; or it asks for what it promises."""
    if _plain(problem.statement) == _plain(lifted.statement):
        return True
    was, now = read_declaration(problem), read_declaration(lifted)
    if was is None or now is None:
        return False
    asked = {_words(clause) for clause in now.list_clauses("requires")}
    goal = _words(read_goal(now))
    if goal in asked:
        return True
    is_same_goal = was.name != now.name and goal == _words(read_goal(was))
    return is_same_goal and asked <= {_words(clause) for clause in was.list_clauses("requires")}


def has_holes(body: str) -> bool:
    """No: holes are empty in what is verified."""
    return False


def close(problem: Problem, sketch: Sketch) -> Candidate | None:
    """The sketch with empty holes, for a problem in which what they are to prove is given: when
    that is proved, the holes are all that is missing. None when it cannot be said.

    For clauses it is what was kept, for the problem as it is.
    """
    if problem.kind in CLAUSE_KINDS:
        return Candidate(problem, blank(sketch))
    found = read_declaration(problem)
    holes = _read_holes(problem, sketch)
    if found is None or holes is None:
        return None
    clauses = _generalise(found, holes.values())
    if clauses is None:
        return None
    statement = require(problem.statement, found, clauses)
    return Candidate(restate(problem, ".sketch", statement), blank(sketch))


def refine(problem: Problem, sketch: Sketch, closed: Candidate, verdict: Verdict) -> Sketch | None:
    """The sketch itself when its closed form holds; else one with more holes (or fewer clauses);
    None when the sketch is of no use."""
    if problem.kind in CLAUSE_KINDS:
        found = make_sketch(closed, verdict)
        return sketch if found and _words(blank(found)) == _words(blank(sketch)) else found
    if verdict.proved:
        return sketch
    if problem.kind == "calc":
        return None
    found = make_sketch(replace(closed, body=sketch.body), verdict)
    return found if found and len(found.subgoals) > len(sketch.subgoals) else None


# What is to be proved in the holes --------------------------------------------------------------


def _ask_more(
    problem: Problem,
    found: Declaration,
    holes: Mapping[str, _Sequent],
    name: str,
    given: tuple[str, ...],
) -> tuple[list[str], str] | None:
    """What a hole's problem asks for, and its goal where it is not the postcondition."""
    own = holes[name]
    if problem.kind == "calc":
        # All of a calculation stands in one lemma: its other steps must be given for it to hold.
        clauses = _generalise(found, [hole for key, hole in holes.items() if key != name])
        return None if clauses is None else (clauses, "")
    known = [holes[key] for key in given]
    if own.path is None or any(hole.path is None for hole in known):
        return None
    if own.claim:
        before = [imply(hole.path or (), hole.claim) for hole in known]
        return [*found.list_clauses("requires"), *own.path, *before], own.claim
    clauses = _generalise(found, known) or []
    if len(known) + 1 < len(holes):
        clauses += own.path
    return clauses, ""


def _generalise(found: Declaration, holes: Iterable[_Sequent]) -> list[str] | None:
    goal = read_goal(found)
    said = [(hole.path, hole.claim or goal) for hole in holes]
    clauses = [generalise(found, path, claim) for path, claim in said if path is not None]
    return clauses if len(clauses) == len(said) else None


def _read_holes(problem: Problem, sketch: Sketch) -> dict[str, _Sequent] | None:
    """What each hole of a sketch is to prove; None outside of lemmas."""
    found = read_declaration(problem)
    if found is None or found.word != "lemma":
        return None
    if problem.kind == "calc":
        return _read_steps(problem, found, sketch)
    inner, _ = read_inner(problem, found, sketch.body)
    branches, claims = read_branches(inner)
    holes = {}
    for mark in MARK.finditer(inner):
        at = mark.start()
        said = [c for c in claims if c.has_proof and c.start <= at < c.end]
        around = find_inmost(branches, at)
        if said:
            holes[mark[1]] = _Sequent(said[-1].path, said[-1].text)
        elif around is not None:
            holes[mark[1]] = _Sequent(around.path)
        else:
            return None
    return holes


def _read_steps(problem: Problem, found: Declaration, sketch: Sketch) -> dict[str, _Sequent]:
    before, _ = read_inner(problem, found, "")
    hole = problem.statement.find(HOLE) - found.opening - 1
    around = [b for b in read_branches(before)[0] if b.start <= hole <= b.end]
    path = max(around, key=lambda b: b.start).path if around else ()
    term = read_term(before[:hole])
    holes = {}
    for step in split_steps(sketch.body):
        mark = MARK.search(sketch.body, step.start, step.end)
        if mark is not None:
            holes[mark[1]] = _Sequent(path, f"({term}) {step.operator} ({step.term})")
        term = step.term
    return holes


def _plain(text: str) -> str:
    try:
        return normalise(text)
    except ProblemError:
        return text


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(word for _, word in scan_tokens(text))
    except ProblemError:
        return (text,)
