"""Proof states of Lean over several REPLs: reached by their path, and reached again by replay.

Flows in: problems and paths of tactics. Flows out: the state after each tactic of a path. A state's
number is valid only in the process that gave it: what Lean said (goals, status) is kept for good,
the numbers per worker. A path goes to the free worker that holds the most of it, and what that one
lacks is replayed there. A worker that dies, owes an answer or answers in doubt (a replay that leads
to other goals) is killed and the path replayed by a fresh one: once, with twice the deadline; a
path that fails twice raises. "completed" is a hint and no verdict: tactic mode of the REPL has
accepted wrong proofs. A tactic that the audit calls a cheat fails and never reaches the REPL, so
that it cannot tamper with a process that judges others. Not handled here: bodies and verdicts
(``tactic_mode``); several holes in one statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from proverrl.errors import ProblemError, ToolchainError, UsageError, WorkerError
from proverrl.lang.lean.audit import audit_text
from proverrl.lang.lean.goals import canonical_goals
from proverrl.lang.lean.workers.protocol import ErrorAnswer, StepAnswer
from proverrl.lang.lean.workers.repl import Elaboration
from proverrl.lang.lean.workers.repl_worker import LeanReplWorker, split_candidate
from proverrl.types import Candidate, Problem
from proverrl.verify.base import end_worker

Path = tuple[str, ...]
SpawnLean = Callable[[], Awaitable[LeanReplWorker]]
Found = TypeVar("Found")
Work = Callable[[LeanReplWorker], Awaitable[Found]]

StateStatus = Literal["completed", "incomplete", "error", "not-verified"]
_STATUSES: dict[str, StateStatus] = {
    "Completed": "completed",
    "Incomplete": "incomplete",
    "Error": "error",
    "Not verified": "not-verified",
}
_NUM_ATTEMPTS = 2
_BUDGET_GROWTH = 2.0
_START_SECONDS = 120.0


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


class _Place:
    """The place of one worker, and the states that it holds by their paths."""

    def __init__(self) -> None:
        self.worker: LeanReplWorker | None = None
        self.states: dict[tuple[str, Path], ProofState] = {}

    def count_held(self, statement: str, path: Path) -> int:
        """How many states of the path this worker holds, from the root on."""
        count = 0
        while count <= len(path) and (statement, path[:count]) in self.states:
            count += 1
        return count


class LeanStates:
    """States of problems in up to ``workers`` REPLs, started when needed; of one event loop.

    ``deadline_seconds`` holds for one path, a worker's start not included. A worker with more than
    ``max_states`` proof states is replaced, since a REPL forgets none. ``num_steps`` counts new
    tactics, ``num_replayed`` those run again, ``num_texts`` whole texts, ``num_restarts`` the
    workers lost.
    """

    def __init__(
        self,
        spawn: SpawnLean,
        *,
        workers: int = 1,
        deadline_seconds: float = 300.0,
        max_states: int = 10_000,
    ) -> None:
        if workers < 1 or deadline_seconds <= 0 or max_states < 1:
            raise UsageError(
                "tactic mode needs at least 1 worker, a deadline above 0 and at least 1 state, got "
                f"{workers}, {deadline_seconds:g} and {max_states}"
            )
        self._spawn = spawn
        self._deadline = deadline_seconds
        self._max_states = max_states
        self._places = [_Place() for _ in range(workers)]
        self._free = list(self._places)
        self._turns = asyncio.Semaphore(workers)
        self._known: dict[tuple[str, Path], ProofState] = {}
        self._dying: set[asyncio.Task[None]] = set()
        self.num_steps = self.num_replayed = self.num_texts = self.num_restarts = 0

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that run now."""
        return tuple(p.worker.pid for p in self._places if p.worker is not None)

    async def walk(self, problem: Problem, path: Sequence[str]) -> tuple[ProofState, ...]:
        """The states before the first tactic and after each, up to the first failure. Raises
        ``ProblemError`` if the statement fails in Lean, or has not exactly one hole, and
        ``WorkerError`` if two workers in turn failed on this path."""
        tactics, statement = tuple(path), Candidate(problem, "").key
        known = self._recall(statement, tactics)
        if known is not None:
            return known
        async with self._borrow(statement, tactics) as place:
            return await self._use(
                place, lambda worker: self._walk(place, worker, problem, statement, tactics)
            )

    async def elaborate(self, candidate: Candidate) -> Elaboration:
        """What Lean says of a whole file, with places that count from the end of its imports.

        The text must have passed the audit. Raises what ``walk`` raises.
        """

        async def work(worker: LeanReplWorker) -> Elaboration:
            env = await worker.open_header(candidate.problem)
            text = worker.cap_heartbeats(candidate.problem, split_candidate(candidate))
            return await worker.repl.run(text, env)

        self.num_texts += 1
        async with self._borrow("", ()) as place:
            return await self._use(place, work)

    @asynccontextmanager
    async def _borrow(self, statement: str, path: Path) -> AsyncIterator[_Place]:
        """A free place, of several the one that holds most of the path."""
        async with self._turns:
            place = max(self._free, key=lambda one: one.count_held(statement, path))
            self._free.remove(place)
            try:
                yield place
            finally:
                self._free.append(place)

    async def aclose(self) -> None:
        """Kill every worker."""
        for place in self._places:
            self._discard(place)
        while self._dying:
            await asyncio.wait(set(self._dying))

    def _recall(self, statement: str, path: Path) -> tuple[ProofState, ...] | None:
        found: list[ProofState] = []
        for end in range(len(path) + 1):
            state = self._known.get((statement, path[:end]))
            if state is None:
                return None
            found.append(state)
            if state.is_failure:
                break
        return tuple(found)

    async def _use(self, place: _Place, work: Work[Found]) -> Found:
        """What the worker answers; a fresh one is asked where the first failed."""
        budget = self._deadline
        for _ in range(_NUM_ATTEMPTS):
            try:
                return await self._use_once(place, work, budget)
            except WorkerError as error:
                failure = error
            self.num_restarts += 1
            budget *= _BUDGET_GROWTH
        raise failure

    async def _use_once(self, place: _Place, work: Work[Found], budget: float) -> Found:
        worker = await self._ready_worker(place)
        try:
            async with asyncio.timeout(budget):
                return await work(worker)
        except ProblemError:
            raise
        except TimeoutError as error:
            self._discard(place)
            raise WorkerError(f"no answer within {budget:g} seconds", "deadline") from error
        except BaseException:
            # Cancelled too: whoever asks next would read the answer that is still owed.
            self._discard(place)
            raise

    async def _walk(
        self, place: _Place, worker: LeanReplWorker, problem: Problem, statement: str, path: Path
    ) -> tuple[ProofState, ...]:
        found: list[ProofState] = []
        for end in range(len(path) + 1):
            key = (statement, path[:end])
            state = place.states.get(key)
            if state is None:
                if end:
                    state = await apply_tactic(worker, found[-1], path[end - 1])
                else:
                    state = await _open(worker, problem)
                self._remember(place, key, state)
            found.append(state)
            if state.is_failure:
                break
        return tuple(found)

    def _remember(self, place: _Place, key: tuple[str, Path], state: ProofState) -> None:
        before = self._known.get(key)
        self.num_steps += bool(key[1]) and before is None
        self.num_replayed += bool(key[1]) and before is not None
        if before is not None and _meaning(before) != _meaning(state):
            raise WorkerError("a proof that was run again went another way than before")
        self._known[key] = place.states[key] = state

    async def _ready_worker(self, place: _Place) -> LeanReplWorker:
        worker = place.worker
        if worker is not None:
            if not worker.is_spent and worker.repl.num_proof_states < self._max_states:
                return worker
            self._discard(place)
        try:
            async with asyncio.timeout(_START_SECONDS):
                place.worker = await self._spawn()
        except TimeoutError as error:
            raise ToolchainError(
                f"a Lean REPL was not ready after {_START_SECONDS:g} seconds"
            ) from error
        return place.worker

    def _discard(self, place: _Place) -> None:
        worker, place.worker = place.worker, None
        place.states.clear()
        if worker is not None:
            end_worker(worker, self._dying)


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


async def _open(worker: LeanReplWorker, problem: Problem) -> ProofState:
    opened = await open_problem(worker, problem)
    if len(opened) != 1:
        raise ProblemError(f"problem {problem.id!r} has {len(opened)} holes; tactic mode takes one")
    return opened[0]


def _meaning(state: ProofState) -> tuple[bool, str]:
    """What a replay must come to again; the words of a failure may differ."""
    return state.is_failure, "" if state.is_failure else canonical_goals(state.goals)
