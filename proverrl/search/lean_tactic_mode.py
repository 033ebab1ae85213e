"""Lean searched one tactic at a time, behind the same functions as whole proofs.

Flows in: a worker of Lean's REPL, and what judges whole files. Flows out: ``step`` (a path of
tactics and one more, to the state after it) and ``verify``, which walks a body's tactics and gives
a verdict with the states on the way, so that ``segment_lean`` and every search can read it. A state
that was reached before is not computed again.
A path that says it is complete is nothing but a reason to have the whole file judged: no verdict of
this module is PROVED unless ``judge`` said so. Not handled here: several holes in one statement,
pools (a state belongs to its worker), tactics that share a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.search.base import Verify
from proverrl.types import HOLE, BodyState, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verify.lean import LeanReplWorker
from proverrl.verify.lean_goals import canonical_goals
from proverrl.verify.lean_tactics import ProofState, apply_tactic, open_problem

Path = tuple[str, ...]

_CONTINUES = ("|", "<;>", ")", "⟩")
"""Begin a line of the tactic before, also at its own column."""


@dataclass(frozen=True, slots=True)
class PlacedTactic:
    """A tactic with the line (from 1) and column (from 0) of the body at which it begins."""

    text: str
    line: int
    column: int


def split_tactics(problem: Problem, body: str) -> list[PlacedTactic]:
    """The tactics of a body: lines at the hole's column begin one, deeper lines and alternatives
    go on with it, at their indentation beside it. Undoes ``assemble_body``, but for blank lines.
    """
    before = problem.statement.partition(HOLE)[0]
    base = len(before) - (before.rfind("\n") + 1)
    tactics: list[PlacedTactic] = []
    for number, line in enumerate(body.split("\n"), 1):
        text = line.strip()
        # Where a body's first line begins is the hole's column, whatever blanks it has.
        column = base if number == 1 else len(line) - len(line.lstrip())
        if not text or text.startswith("--"):
            continue
        if tactics and (column > base or text.startswith(_CONTINUES)):
            last = tactics[-1]
            more = f"{last.text}\n{' ' * max(0, column - base)}{text}"
            tactics[-1] = PlacedTactic(more, last.line, last.column)
        else:
            shown = len(line) - len(line.lstrip())
            tactics.append(PlacedTactic(text, number, shown))
    return tactics


class TacticMode:
    """States of problems in one worker; ``judge`` gives verdicts on whole files."""

    def __init__(self, worker: LeanReplWorker, judge: Verify) -> None:
        self._worker = worker
        self._judge = judge
        self._states: dict[tuple[str, Path], ProofState] = {}
        # A REPL answers one request after the other.
        self._lock = asyncio.Lock()
        self.num_steps = 0

    async def step(
        self, problem: Problem, path: Sequence[str], tactics: Sequence[str]
    ) -> list[ProofState]:
        """The state after each of the tactics, tried at the end of a path; a failed one says so.

        Raises:
            ProblemError: the statement fails in Lean, or has not exactly one hole.
        """
        return [await self._reach(problem, (*path, tactic)) for tactic in tactics]

    async def verify(self, candidate: Candidate) -> Verdict:
        """The verdict on a body: where its first failing tactic stands, or what it leaves open, or
        what ``judge`` says of the whole file when no goal is left."""
        problem = candidate.problem
        tactics = split_tactics(problem, candidate.body)
        state = await self._reach(problem, ())
        states: list[BodyState] = []
        path: Path = ()
        for tactic in tactics:
            states.append((tactic.line, tactic.column, canonical_goals(state.goals)))
            path = (*path, tactic.text)
            state = await self._reach(problem, path)
            if state.is_failure:
                return _reject(tactic, state, states)
        if state.status == "incomplete":
            return _leave_open(state, states)
        verdict = await self._judge(candidate)
        return replace(verdict, states=verdict.states or tuple(states))

    async def _reach(self, problem: Problem, path: Path) -> ProofState:
        key = (Candidate(problem, "").key, path)
        known = self._states.get(key)
        if known is not None:
            return known
        if path:
            before = await self._reach(problem, path[:-1])
            if before.is_failure:
                return before
        async with self._lock:
            if path:
                found = await apply_tactic(self._worker, before, path[-1])
                self.num_steps += 1
            else:
                opened = await open_problem(self._worker, problem)
                if len(opened) != 1:
                    raise ProblemError(
                        f"problem {problem.id!r} has {len(opened)} holes; tactic mode takes one"
                    )
                (found,) = opened
        self._states[key] = found
        return found


def _reject(tactic: PlacedTactic, state: ProofState, states: list[BodyState]) -> Verdict:
    said = "\n".join(state.messages) or "the tactic failed"
    error = Diagnostic("error", said, body_line=tactic.line, body_column=tactic.column)
    return Verdict(Status.REJECTED, (error,), states=tuple(states), checks=("tactic-mode",))


def _leave_open(state: ProofState, states: list[BodyState]) -> Verdict:
    """Open goals at the end, told as Lean tells it for a whole file; a ``sorry`` leaves none."""
    if not state.goals:
        return Verdict(Status.INCOMPLETE, states=tuple(states), checks=("tactic-mode",))
    text = "\n\n".join(state.goals)
    error = Diagnostic("error", f"unsolved goals\n{text}")
    return Verdict(
        Status.REJECTED, (error,), goals=state.goals, states=tuple(states), checks=("tactic-mode",)
    )
