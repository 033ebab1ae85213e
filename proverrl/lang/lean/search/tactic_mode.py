"""Lean searched one tactic at a time, behind the same functions as whole proofs.

Flows in: states in a pool of REPLs (``tactic_states``), and what judges whole files. Flows out: the
states after a path and one more tactic, and verdicts that carry the states on the way, so that
every search can read them. Nothing of it is saved: a search that is resumed replays what it needs.
A path that says it is complete is only a reason to have the whole file judged: no verdict here is
PROVED unless ``judge`` said so. Not handled here: several holes in one statement, tactics that
share a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.errors import WorkerError
from proverrl.lang.lean.goals import canonical_goals
from proverrl.lang.lean.search.tactic_states import LeanStates, ProofState
from proverrl.lang.lean.workers.repl_worker import refuse_encoding
from proverrl.lang.records import Verify
from proverrl.types import BodyState, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verify.body_place import hole_column

_CONTINUES = ("|", "<;>", ")", "⟩")
"""Begin a line of the tactic before, also at its own column."""


@dataclass(frozen=True, slots=True)
class PlacedTactic:
    """A tactic with the line (from 1) and column (from 0) of the body at which it begins."""

    text: str
    line: int
    column: int


def split_tactics(problem: Problem, body: str) -> list[PlacedTactic]:
    """The tactics of a body: a line at the hole's column begins one, deeper lines and alternatives
    go on with it, at their indentation beside it."""
    base = hole_column(problem)
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
    """Verdicts by states; ``judge`` gives those on whole files."""

    def __init__(self, states: LeanStates, judge: Verify) -> None:
        self.states = states
        self._judge = judge

    async def step(
        self, problem: Problem, path: Sequence[str], tactics: Sequence[str]
    ) -> list[ProofState]:
        """The state after each of the tactics, tried at the end of a path; a failed one says so.

        Raises what ``LeanStates.walk`` raises.
        """
        return [(await self.states.walk(problem, (*path, tactic)))[-1] for tactic in tactics]

    async def verify(self, candidate: Candidate) -> Verdict:
        """The verdict on a body: where its first failing tactic stands, or what it leaves open, or
        what ``judge`` says of the whole file when no goal is left. TIMEOUT and CRASHED when two
        workers in turn failed on it. Raises ``ProblemError`` if the statement fails in Lean, or has
        not exactly one hole."""
        if (broken := refuse_encoding(candidate.body, "tactic-mode")) is not None:
            return broken
        tactics = split_tactics(candidate.problem, candidate.body)
        try:
            reached = await self.states.walk(candidate.problem, [t.text for t in tactics])
        except WorkerError as failure:
            status = Status.TIMEOUT if failure.cause == "deadline" else Status.CRASHED
            said = Diagnostic("error", str(failure))
            return Verdict(status, (said,), cause=failure.cause or "protocol")
        last = reached[-1]
        states = tuple(
            (tactic.line, tactic.column, canonical_goals(state.goals))
            for tactic, state in zip(tactics, reached, strict=False)
        )
        if last.is_failure:
            # The states before the tactics up to the failing one, whose own has no successor.
            place = len(reached) - 1
            failed = tactics[place - 1]
            why = "\n".join(last.messages) or "the tactic failed"
            error = Diagnostic("error", why, body_line=failed.line, body_column=failed.column)
            return _refuse(error, states[:place])
        if last.status != "incomplete":
            verdict = await self._judge(candidate)
            return replace(verdict, states=verdict.states or states)
        if not last.goals:
            # A ``sorry`` leaves none.
            return Verdict(Status.INCOMPLETE, states=states, checks=("tactic-mode",))
        # Open goals at the end are told as Lean tells them for a whole file.
        error = Diagnostic("error", "unsolved goals\n" + "\n\n".join(last.goals))
        return _refuse(error, states, last.goals)


def _refuse(
    error: Diagnostic, states: tuple[BodyState, ...], goals: tuple[str, ...] = ()
) -> Verdict:
    return Verdict(Status.REJECTED, (error,), goals, states=states, checks=("tactic-mode",))
