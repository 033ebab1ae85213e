"""N worker processes, shared by many callers.

Flows in: candidates from many callers, each in a lane. Flows out: a verdict for each, in any order.
A body is audited before it queues, so that garbage never costs a worker. A worker whose answer was
not read, or is in doubt, is killed and never asked again; the candidate is tried once more on a
fresh worker with twice the deadline, and up to four times where somebody else killed the worker. If
that fails too, the verdict is TIMEOUT or CRASHED with a
cause, which judges nothing; but a candidate that makes two unused workers fail, or on which two
workers spend all of their time, is REJECTED, so that no policy can leave its group this way.
Covered: back-pressure (a waiting caller costs one future), cancelled callers, workers that grow,
age, die or hang. Not covered: repeated candidates (``proverrl.verifier.cache``), what a worker
does.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from proverrl.concurrency import Breather, prolong
from proverrl.errors import ToolchainError, UsageError, VerifierError, WorkerError
from proverrl.types import Candidate, Diagnostic, Status, Verdict
from proverrl.verifier.base import (
    CANARY_LANE,
    DEFAULT_LANE,
    DEFAULT_MEMORY_MB,
    Lane,
    PoolStats,
    SpawnWorker,
    Worker,
    end_worker,
    refuse_broken_text,
)

# A failure on so many fresh workers is the candidate's own, unless a busy machine or somebody else
# caused it. The first attempt may have met a used worker.
_NUM_FRESH = 2
_NUM_OWN_ATTEMPTS = _NUM_FRESH + 1
_FOREIGN_ATTEMPTS = {"deadline": 2, "killed": 5}
"""Attempts where a busy machine or somebody else is the cause. A worker killed from outside says
nothing of the candidate, and trying again costs no deadline."""
_BUDGET_GROWTH = 2.0
_BUSY_SHARE = 0.5
"""A worker that had a processor for this share of its time: at the second attempt, with twice the
deadline, it worked for the whole of the first one."""
_START_SECONDS = 120.0
_RECYCLE_SHARE = 0.4
"""A worker above this share of its memory limit is replaced before its next candidate."""

Audit = Callable[[Candidate], Verdict | None]
"""Refuses a candidate without running it, or returns None."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """When a worker is replaced: between two candidates after ``max_candidates``, at an age of
    ``max_seconds``, above ``recycle_mb`` or when it is spent; while one runs above ``memory_mb``,
    which is checked every ``watch_seconds``."""

    max_candidates: int = 300
    max_seconds: float = 3600.0
    recycle_mb: float = 1500.0
    memory_mb: float = DEFAULT_MEMORY_MB
    watch_seconds: float = 0.5

    def __post_init__(self) -> None:
        if min(self.max_candidates, self.recycle_mb, self.memory_mb, self.watch_seconds) <= 0:
            raise UsageError(f"the limits of a worker must be positive, got {self}")


def make_upkeep(memory_mb: float, max_candidates: int) -> Upkeep:
    """The upkeep of workers with this limit on memory."""
    return Upkeep(
        memory_mb=memory_mb,
        recycle_mb=_RECYCLE_SHARE * memory_mb,
        max_candidates=max_candidates,
    )


Served = TypeVar("Served")


@dataclass(frozen=True, slots=True, eq=False)
class Ticket(Generic[Served]):
    """A waiting caller; ``turn`` is resolved with what it was waiting for."""

    candidate: Candidate
    turn: asyncio.Future[Served]


class Turns(Generic[Served]):
    """One queue for each lane with waiting callers; empty lanes cost nothing.

    The highest priority is served first, lanes of the same priority in turn, and within a lane the
    first who came. Ten thousand candidates in one lane delay another lane by only one at a time.
    """

    def __init__(self) -> None:
        # A dictionary keeps the order, and whoever gives up leaves it at once.
        self._lanes: dict[Lane, dict[Ticket[Served], None]] = {}
        self._orders: dict[int, deque[Lane]] = {}

    def add(self, lane: Lane, ticket: Ticket[Served]) -> None:
        """Put a caller at the end of its lane."""
        if lane not in self._lanes:
            self._lanes[lane] = {}
            self._orders.setdefault(lane.priority, deque()).append(lane)
        self._lanes[lane][ticket] = None

    def remove(self, lane: Lane, ticket: Ticket[Served]) -> None:
        """Forget a caller that gave up; one that was served, or is not there, is left alone."""
        waiting = self._lanes.get(lane, {})
        waiting.pop(ticket, None)
        if lane in self._lanes and not waiting:
            self._drop(lane)

    def take(self) -> Ticket[Served] | None:
        """The next caller, or None. Callers that were cancelled in this very moment, and could not
        yet say so, are passed over."""
        while self._orders:
            order = self._orders[max(self._orders)]
            lane = order[0]
            waiting = self._lanes[lane]
            ticket = next(iter(waiting))
            del waiting[ticket]
            if waiting:
                order.rotate(-1)
            else:
                self._drop(lane)
            if not ticket.turn.done():
                return ticket
        return None

    def _drop(self, lane: Lane) -> None:
        del self._lanes[lane]
        order = self._orders[lane.priority]
        order.remove(lane)
        if not order:
            del self._orders[lane.priority]

    def __bool__(self) -> bool:
        """True if anyone is waiting."""
        return bool(self._lanes)


class _Slot:
    """The place of one worker; empty until the first candidate, and after a kill."""

    __slots__ = ("doomed", "memory_mb", "num_candidates", "scope", "started", "worker")

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.num_candidates = 0
        self.started = 0.0
        self.memory_mb = 0.0
        self.scope: asyncio.Timeout | None = None
        self.doomed = False

    def stop_judging(self) -> None:
        """End the judging, or the start of a worker, now, as if its deadline had passed."""
        if self.scope is not None and not self.scope.expired():
            self.scope.reschedule(asyncio.get_running_loop().time())


class VerifierPool:
    """A ``LanedVerifier`` over worker processes. Belongs to one event loop."""

    def __init__(
        self,
        spawn: SpawnWorker,
        *,
        workers: int,
        audit: Audit,
        toolchain: str,
        languages: frozenset[str] = frozenset({"dafny"}),
        upkeep: Upkeep | None = None,
    ) -> None:
        if workers < 1:
            raise UsageError(f"a pool needs at least 1 worker, got {workers}")
        self.toolchain = toolchain
        self._spawn = spawn
        self._audit = audit
        self._languages = languages
        self._upkeep = upkeep or Upkeep()
        self._slots = [_Slot() for _ in range(workers)]
        # The least recently used first.
        self._free = list(self._slots)
        self._turns: Turns[_Slot] = Turns()
        self._all_free = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._dying: set[asyncio.Task[None]] = set()
        self._closed = False
        self._breather = Breather()
        self._counts: Counter[str] = Counter()

    def stats(self) -> PoolStats:
        """The current counters, for a display."""
        return PoolStats(
            workers=len(self._slots),
            running=len(self._slots) - len(self._free),
            **self._counts,
        )

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``; lanes are served in turn. The second of at most two
        attempts has twice the deadline."""
        self._check_open()
        if candidate.problem.language not in self._languages:
            raise ToolchainError(
                f"problem {candidate.problem.id!r} is in {candidate.problem.language}, and this "
                f"pool judges: {', '.join(sorted(self._languages))}"
            )
        await self._breather.wait()
        refused = refuse_broken_text(candidate) or self._audit(candidate)
        if refused is not None:
            self._count(lane)
            self._counts["refused"] += lane != CANARY_LANE
            return replace(refused, toolchain=self.toolchain)
        asked = time.monotonic()
        slot = await self._take_slot(lane, candidate)
        try:
            verdict = await self._judge(slot, candidate, deadline_seconds, asked)
        finally:
            self._give_slot(slot)
        self._count(lane)
        return verdict

    async def aclose(self) -> None:
        """Kill every worker; candidates in progress or in the queue raise ``VerifierError``."""
        if self._closed:
            return
        self._closed = True
        while (ticket := self._turns.take()) is not None:
            ticket.turn.set_exception(VerifierError("this verifier was closed"))
        for slot in self._slots:
            self._discard(slot)
            slot.stop_judging()
        # Whoever still holds a slot, even one whose worker is just starting, gives it back.
        if len(self._free) < len(self._slots):
            await self._all_free.wait()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        while self._dying:
            await asyncio.wait(set(self._dying))

    def _check_open(self) -> None:
        if self._closed:
            raise VerifierError("this verifier was closed")

    def _count(self, lane: Lane) -> None:
        self._counts["canaries" if lane == CANARY_LANE else "judged"] += 1

    async def _take_slot(self, lane: Lane, candidate: Candidate) -> _Slot:
        if self._free and not self._turns:
            slot = self._choose_slot(candidate)
        else:
            turn: asyncio.Future[_Slot] = asyncio.get_running_loop().create_future()
            ticket = Ticket(candidate, turn)
            self._turns.add(lane, ticket)
            self._serve_next()
            self._counts["queued"] += 1
            try:
                slot = await turn
            except asyncio.CancelledError:
                self._turns.remove(lane, ticket)
                # The turn may have come in the very moment in which the caller gave up.
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._give_slot(turn.result())
                raise
            finally:
                self._counts["queued"] -= 1
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._watch_memory())
        return slot

    def _choose_slot(self, candidate: Candidate) -> _Slot:
        """A worker that is warm for the candidate, else any running one, else an empty place; the
        least recently used of several."""

        def rank(slot: _Slot) -> int:
            return 2 if slot.worker is None else int(not slot.worker.is_warm_for(candidate))

        chosen = min(self._free, key=rank)
        self._free.remove(chosen)
        return chosen

    def _give_slot(self, slot: _Slot) -> None:
        self._free.append(slot)
        if self._closed:
            if len(self._free) == len(self._slots):
                self._all_free.set()
        elif self._turns:
            self._serve_next()

    def _serve_next(self) -> None:
        while self._free and (ticket := self._turns.take()) is not None:
            ticket.turn.set_result(self._choose_slot(ticket.candidate))

    async def _judge(
        self, slot: _Slot, candidate: Candidate, deadline_seconds: float, asked: float
    ) -> Verdict:
        started = asked
        budget = deadline_seconds
        num_attempts = num_fresh = 0
        while True:
            unused = False
            try:
                worker = await self._ready_worker(slot)
                unused = slot.num_candidates == 0
                if not num_attempts:
                    started = time.monotonic()
                verdict = await self._judge_once(slot, worker, candidate, budget)
                return replace(verdict, queue_seconds=started - asked)
            except WorkerError as error:
                failure = error
            num_attempts += 1
            may_be_own = failure.cause not in _FOREIGN_ATTEMPTS
            # A worker that works for all of its time works on the candidate that it was given last.
            num_fresh += may_be_own and (unused or failure.cause == "stalled")
            is_own = num_fresh == _NUM_FRESH
            if is_own or num_attempts >= _FOREIGN_ATTEMPTS.get(failure.cause, _NUM_OWN_ATTEMPTS):
                break
            self._counts["retried"] += 1
            if failure.cause != "killed":
                budget *= _BUDGET_GROWTH
        status = Status.TIMEOUT if failure.cause == "deadline" else Status.CRASHED
        said = str(failure)
        if is_own:
            status = Status.REJECTED
            said = f"this text made {_NUM_FRESH} fresh workers fail: {said}"
        return Verdict(
            status,
            diagnostics=(Diagnostic("error", said),),
            seconds=time.monotonic() - started,
            queue_seconds=started - asked,
            toolchain=self.toolchain,
            checks=("audit",) if is_own else (),
            cause=failure.cause or "protocol",
        )

    async def _judge_once(
        self, slot: _Slot, worker: Worker, candidate: Candidate, budget: float
    ) -> Verdict:
        used = -worker.cpu_seconds
        try:
            async with asyncio.timeout(budget) as slot.scope:
                clock = asyncio.create_task(prolong(slot.scope, budget, lambda: worker.cpu_seconds))
                try:
                    verdict = await worker.judge(candidate)
                finally:
                    clock.cancel()
        except BaseException as error:
            doomed = slot.doomed
            self._discard(slot)
            used += worker.cpu_seconds
            self._counts["restarts"] += 1
            if doomed and isinstance(error, TimeoutError | WorkerError):
                limit = f"the worker grew above {self._upkeep.memory_mb:g} MB"
                raise WorkerError(limit, "out-of-memory") from error
            if isinstance(error, TimeoutError) and used >= _BUSY_SHARE * budget:
                said = f"no answer within {budget:g} seconds of work"
                raise WorkerError(said, "stalled") from error
            if isinstance(error, TimeoutError):
                raise WorkerError(f"no answer within {budget:g} seconds", "deadline") from error
            raise
        finally:
            slot.scope = None
        slot.num_candidates += 1
        if slot.doomed:
            self._discard(slot)
            self._counts["recycled"] += 1
        return verdict

    async def _ready_worker(self, slot: _Slot) -> Worker:
        self._check_open()
        if slot.worker is not None:
            if not self._is_due(slot, slot.worker):
                return slot.worker
            self._discard(slot)
            self._counts["recycled"] += 1
        try:
            async with asyncio.timeout(_START_SECONDS) as slot.scope:
                worker = await self._spawn()
        except TimeoutError:
            self._check_open()
            raise ToolchainError(
                f"a verifier process was not ready after {_START_SECONDS:g} seconds"
            ) from None
        finally:
            slot.scope = None
        slot.worker = worker
        slot.num_candidates = 0
        slot.started = time.monotonic()
        if self._closed:
            self._discard(slot)
            self._check_open()
        return worker

    def _is_due(self, slot: _Slot, worker: Worker) -> bool:
        upkeep = self._upkeep
        return (
            worker.is_spent
            or slot.num_candidates >= upkeep.max_candidates
            or slot.memory_mb >= upkeep.recycle_mb
            or time.monotonic() - slot.started >= upkeep.max_seconds
        )

    def _discard(self, slot: _Slot) -> None:
        worker, slot.worker = slot.worker, None
        slot.memory_mb, slot.doomed = 0.0, False
        if worker is not None:
            end_worker(worker, self._dying)

    async def _watch_memory(self) -> None:
        """While anything runs, measure every worker and kill those above the limit."""
        while len(self._free) < len(self._slots):
            await asyncio.sleep(self._upkeep.watch_seconds)
            for slot in self._slots:
                if slot.worker is None or slot.doomed:
                    continue
                slot.memory_mb = slot.worker.memory_mb
                if slot.memory_mb > self._upkeep.memory_mb and slot.scope is not None:
                    slot.doomed = True
                    self._counts["memory_kills"] += 1
                    slot.worker.kill()
                    slot.stop_judging()
