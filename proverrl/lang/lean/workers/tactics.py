"""Tactic mode: proof states for search, tried one tactic at a time.

Flows in: a problem, tactics. Flows out: ``ProofState`` records, valid in the REPL that gave them.
"completed" is a hint and no verdict: tactic mode of the REPL has accepted wrong proofs, so that the
whole file has to be judged. A tactic that the audit calls a cheat fails and never reaches the REPL,
so that it cannot tamper with a process that judges others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.lean.audit import audit_text
from proverrl.lang.lean.workers.protocol import ErrorAnswer, StepAnswer
from proverrl.lang.lean.workers.repl_worker import LeanReplWorker
from proverrl.types import Problem

StateStatus = Literal["completed", "incomplete", "error", "not-verified"]
_STATUSES: dict[str, StateStatus] = {
    "Completed": "completed",
    "Incomplete": "incomplete",
    "Error": "error",
    "Not verified": "not-verified",
}


@dataclass(frozen=True, slots=True)
class ProofState:
    """A moment of a proof. ``id`` is the REPL's number, None when there is no state to go on from
    because the tactic could not be run. ``status`` is "not-verified" for a finished proof of a
    REPL that is too old to check it."""

    id: int | None
    goals: tuple[str, ...]
    status: StateStatus
    messages: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """True when the tactic failed; the state before it can still be used."""
        return self.id is None or self.status == "error"


async def open_problem(worker: LeanReplWorker, problem: Problem) -> tuple[ProofState, ...]:
    """The proof state of each ``sorry`` when the hole is filled by one, in order.

    Raises ``ProblemError`` when the statement does not elaborate or has nothing to prove.
    """
    done = await worker.run_statement(problem, await worker.open_header(problem))
    states = tuple(
        ProofState(sorry.proof_state, (sorry.goal,), "incomplete")
        for sorry in done.sorries
        if sorry.proof_state is not None
    )
    if not states:
        raise ProblemError(f"problem {problem.id!r}: Lean gives no proof state for its hole")
    return states


async def apply_tactic(worker: LeanReplWorker, state: ProofState, tactic: str) -> ProofState:
    """Try a tactic; a tactic that cannot be run gives a failed state, not an exception."""
    if state.id is None:
        raise WorkerError("a failed proof state has nothing to continue from")
    cheats = [f for f in audit_text(tactic, "body") if f.category == "cheat"]
    if cheats:
        return ProofState(None, (), "error", (f"{cheats[0].rule}: {cheats[0].message}",))
    answer = await worker.repl.apply_tactic(state.id, tactic)
    if isinstance(answer, ErrorAnswer):
        return ProofState(None, (), "error", (answer.message,))
    return read_state(answer)


def read_state(answer: StepAnswer) -> ProofState:
    """What a tactic led to. An error among the messages makes it a failure whatever else is said:
    Lean recovers from some errors by closing the goal with a hidden ``sorry``."""
    messages = tuple(message.text for message in answer.messages)
    return ProofState(answer.proof_state, answer.goals, _read_status(answer), messages)


def _read_status(answer: StepAnswer) -> StateStatus:
    if any(message.severity == "error" for message in answer.messages):
        return "error"
    if answer.status is None:
        return "not-verified" if not answer.goals else "incomplete"
    status = _STATUSES.get(answer.status.partition(":")[0])
    if status is None:
        raise WorkerError(
            f"the Lean REPL's proof status is not understood: {answer.status[:200]!r}"
        )
    if status == "completed" and (answer.goals or answer.sorries):
        raise WorkerError("the Lean REPL calls a proof complete that has open goals")
    return status
