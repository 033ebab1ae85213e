"""N worker processes behind one queue.

Flows in: candidates from many callers. Flows out: a verdict for each, in any order.
A body is audited before it queues, so that garbage never costs a worker. A worker whose answer
was not read, or is in doubt, is killed and never asked again; the candidate is then tried once
more on a fresh worker. The second wall-clock overrun gives TIMEOUT, the second crash CRASHED:
neither is a judgement of the proof.
Not handled here: repeated candidates (``proverrl.verify.cache``), what a worker does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from proverrl.errors import ToolchainError, UsageError, VerifierError, WorkerError
from proverrl.types import Candidate, Diagnostic, Status, Verdict
from proverrl.verify.base import SpawnWorker, Worker

RECYCLE_AFTER = 300
RECYCLE_ABOVE_MB = 1500.0
_NUM_ATTEMPTS = 2
_START_SECONDS = 120.0

Audit = Callable[[Candidate], Verdict | None]
"""Refuses a candidate without running it, or returns None."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """A moment of the pool: ``judged`` counts verdicts, ``refused`` those given by the audit.

    ``restarts`` counts workers that were replaced after a crash, an overrun or a cancellation;
    ``recycled`` those replaced on schedule.
    """

    workers: int
    queued: int
    running: int
    judged: int
    refused: int
    restarts: int
    recycled: int


class _Slot:
    """The place of one worker; holds None until the first candidate, and after a kill."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.num_requests = 0


class VerifierPool:
    """A ``Verifier`` over worker processes. Belongs to one event loop."""

    def __init__(
        self,
        spawn: SpawnWorker,
        *,
        workers: int,
        audit: Audit,
        toolchain: str,
        languages: frozenset[str] = frozenset({"dafny"}),
    ) -> None:
        if workers < 1:
            raise UsageError(f"a pool needs at least 1 worker, got {workers}")
        self.toolchain = toolchain
        self._spawn = spawn
        self._audit = audit
        self._languages = languages
        self._slots = [_Slot() for _ in range(workers)]
        self._free: asyncio.Queue[_Slot] = asyncio.Queue()
        for slot in self._slots:
            self._free.put_nowait(slot)
        self._dying: set[asyncio.Task[None]] = set()
        self._closed = False
        self._queued = self._running = self._judged = 0
        self._refused = self._restarts = self._recycled = 0

    def stats(self) -> PoolStats:
        """The counters of this moment, for a display."""
        return PoolStats(
            workers=len(self._slots),
            queued=self._queued,
            running=self._running,
            judged=self._judged,
            refused=self._refused,
            restarts=self._restarts,
            recycled=self._recycled,
        )

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """See ``Verifier.verify``. The deadline holds for each of at most two attempts."""
        self._check_open()
        if candidate.problem.language not in self._languages:
            raise ToolchainError(
                f"problem {candidate.problem.id!r} is in {candidate.problem.language}, and there "
                f"is no such back end in this version; it has: {', '.join(self._languages)}"
            )
        refused = self._audit(candidate)
        if refused is not None:
            self._judged += 1
            self._refused += 1
            return replace(refused, toolchain=self.toolchain)
        asked = time.monotonic()
        slot = await self._take_slot()
        queue_seconds = time.monotonic() - asked
        try:
            verdict = await self._judge(slot, candidate, deadline_seconds)
        finally:
            self._give_slot(slot)
        self._judged += 1
        return replace(verdict, queue_seconds=queue_seconds)

    async def warm(self) -> None:
        """Start one worker now, so that a missing back end shows before the first candidate."""
        slot = await self._take_slot()
        try:
            await self._ready_worker(slot)
        finally:
            self._give_slot(slot)

    async def aclose(self) -> None:
        """Kill every worker; candidates at work or in the queue raise ``VerifierError``."""
        if self._closed:
            return
        self._closed = True
        for slot in self._slots:
            self._discard(slot)
        # Whoever still holds a slot, even one whose worker is just starting, gives it back.
        for _ in self._slots:
            await self._free.get()
        while self._dying:
            await asyncio.wait(set(self._dying))

    def _check_open(self) -> None:
        if self._closed:
            raise VerifierError("this verifier was closed")

    async def _take_slot(self) -> _Slot:
        self._queued += 1
        try:
            slot = await self._free.get()
        finally:
            self._queued -= 1
        self._running += 1
        return slot

    def _give_slot(self, slot: _Slot) -> None:
        self._running -= 1
        self._free.put_nowait(slot)

    async def _judge(self, slot: _Slot, candidate: Candidate, deadline_seconds: float) -> Verdict:
        status, reason = Status.CRASHED, ""
        started = time.monotonic()
        for _ in range(_NUM_ATTEMPTS):
            try:
                worker = await self._ready_worker(slot)
                return await self._judge_once(slot, worker, candidate, deadline_seconds)
            except TimeoutError:
                status, reason = Status.TIMEOUT, f"no answer within {deadline_seconds:g} seconds"
            except WorkerError as error:
                status, reason = Status.CRASHED, str(error)
        return Verdict(
            status,
            diagnostics=(Diagnostic("error", reason),),
            seconds=time.monotonic() - started,
            toolchain=self.toolchain,
        )

    async def _judge_once(
        self, slot: _Slot, worker: Worker, candidate: Candidate, deadline_seconds: float
    ) -> Verdict:
        try:
            verdict = await asyncio.wait_for(worker.judge(candidate), deadline_seconds)
        except BaseException:
            self._discard(slot)
            self._restarts += 1
            raise
        slot.num_requests += 1
        return verdict

    async def _ready_worker(self, slot: _Slot) -> Worker:
        self._check_open()
        old = slot.worker
        if old is not None:
            if slot.num_requests < RECYCLE_AFTER and old.memory_mb < RECYCLE_ABOVE_MB:
                return old
            self._discard(slot)
            self._recycled += 1
        try:
            worker = await asyncio.wait_for(self._spawn(), _START_SECONDS)
        except TimeoutError:
            raise ToolchainError(
                f"a verifier process was not ready after {_START_SECONDS:g} seconds"
            ) from None
        slot.worker = worker
        slot.num_requests = 0
        if self._closed:
            self._discard(slot)
            self._check_open()
        return worker

    def _discard(self, slot: _Slot) -> None:
        worker, slot.worker = slot.worker, None
        if worker is None:
            return
        worker.kill()
        task = asyncio.get_running_loop().create_task(worker.join())
        self._dying.add(task)
        task.add_done_callback(self._dying.discard)
