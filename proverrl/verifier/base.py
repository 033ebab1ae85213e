"""The interface of a verifier.

Flows in: a ``Candidate`` and a deadline. Flows out: a ``Verdict``; a broken machine raises
``VerifierError`` instead. Not handled here: any back end.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import astuple, dataclass
from operator import add
from typing import NamedTuple, Protocol, runtime_checkable

from proverrl.errors import ProblemError, UsageError
from proverrl.files.lines import find_text_fault
from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict

NOTHING = "nothing to verify: "
"""The beginning of the message on a text without a proof obligation, or without a theorem."""

AT_LIMIT = "at the limit"
"""The remark on a verdict that hangs on a resource limit."""

DEFAULT_MEMORY_MB = 4096.0
"""The memory limit of one worker. A Dafny server with its prover needs 200 to 400."""

FRESH_GROWTH = 2.0
"""The factor on the deadline of a process that judges a proof once more: it starts from nothing."""


class Lane(NamedTuple):
    """A queue of candidates. Lanes with the highest ``priority`` are served first, those with the
    same in turn."""

    name: str = ""
    priority: int = 0


DEFAULT_LANE = Lane()
CANARY_LANE = Lane("canaries")

MIN_RLIMIT = 300_000
"""Dafny 2.3's own axioms cost z3 4.8.5 nearly 200 000 before it looks at a lemma."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a proof may use.

    ``rlimit`` is z3's resource count per entry, not the clock's: running out of it counts against
    the proof. ``time_limit_seconds`` is only a back-stop per entry, far above any deadline,
    because the server reports both limits in the same words. ``memory_mb`` is for all processes of
    a worker together; running out of it judges nothing.
    """

    rlimit: int = 3_000_000
    time_limit_seconds: int = 3600
    memory_mb: float = DEFAULT_MEMORY_MB

    def __post_init__(self) -> None:
        if self.rlimit < MIN_RLIMIT:
            raise UsageError(
                f"rlimit {self.rlimit} is too small even for what Dafny tells the prover first; "
                f"use at least {MIN_RLIMIT}"
            )
        if self.time_limit_seconds < 1:
            raise UsageError(f"time_limit_seconds must be positive, got {self.time_limit_seconds}")
        if not 0 < self.memory_mb < math.inf:
            raise UsageError(f"memory_mb must be positive and finite, got {self.memory_mb}")


@runtime_checkable
class Verifier(Protocol):
    """Judges candidates. Safe for many concurrent callers on one event loop."""

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """Judge one candidate; the deadline counts from the moment a worker takes it, in processor
        time where its processes tell that and others keep them from running (``prolong``).

        It covers imports and body, but not the wait for a worker: a bad candidate must not change
        its neighbours' verdicts by being ahead of them in the queue. Cancelling the call cancels
        the work. Raises ``ToolchainError`` when no back end can be started, ``ProblemError`` when
        the problem cannot be judged.
        """

    async def aclose(self) -> None:
        """Kill everything that runs; later calls to ``verify`` raise ``VerifierError``."""


async def verify_all(
    verifier: Verifier, candidates: Iterable[Candidate], *, deadline_seconds: float
) -> list[Verdict]:
    """Verdicts in order. A problem that cannot be judged (its imports are missing, its statement
    does not elaborate) costs its own candidates alone: their verdict is CRASHED with the cause
    ``problem`` and says why."""

    async def ask(candidate: Candidate) -> Verdict:
        try:
            return await verifier.verify(candidate, deadline_seconds=deadline_seconds)
        except ProblemError as error:
            said = Diagnostic("error", str(error))
            return Verdict(Status.CRASHED, (said,), cause="problem")

    return list(await asyncio.gather(*map(ask, candidates)))


@runtime_checkable
class LanedVerifier(Verifier, Protocol):
    """A verifier that serves its callers in turn, each from its own queue."""

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``Verifier.verify``; ``lane`` names the queue to wait in."""

    def stats(self) -> PoolStats | None:
        """The current counters; None when nothing has been started yet."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The state of a pool. All but the first three count over the whole run.

    ``judged`` counts verdicts given to callers, ``refused`` those of the audit among them.
    ``restarts`` counts workers replaced after a crash, an overrun or a cancellation, ``recycled``
    those replaced on schedule, ``retried`` second attempts, ``memory_kills`` workers above their
    memory limit. ``canaries`` are in no other count of verdicts. ``confirmed`` are proofs that
    a fresh process accepted too, ``unconfirmed`` those that it refused.
    """

    workers: int = 0
    queued: int = 0
    running: int = 0
    judged: int = 0
    refused: int = 0
    restarts: int = 0
    recycled: int = 0
    retried: int = 0
    memory_kills: int = 0
    canaries: int = 0
    confirmed: int = 0
    unconfirmed: int = 0

    def __add__(self, other: PoolStats) -> PoolStats:
        """The sums of both."""
        return PoolStats(*map(add, astuple(self), astuple(other)))


@runtime_checkable
class Worker(Protocol):
    """One process that judges one candidate at a time."""

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer."""

    def is_warm_for(self, candidate: Candidate) -> bool:
        """True if this worker would save this candidate a start-up cost, such as imports."""

    @property
    def is_spent(self) -> bool:
        """True if the worker itself asks to be replaced."""

    def kill(self) -> None:
        """Kill the whole session of processes at once, without waiting; never raises."""

    async def join(self) -> None:
        """Wait until a killed worker is gone and its folder removed."""

    @property
    def memory_mb(self) -> float:
        """Memory of all processes of the worker together; 0 when unknown."""

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all processes of the worker so far, also after their end; 0 when
        unknown."""


SpawnWorker = Callable[[], Awaitable[Worker]]


def end_worker(worker: Worker, dying: set[asyncio.Task[None]]) -> None:
    """Kill a worker, without waiting; ``dying`` holds what waits for its end until that comes."""
    worker.kill()
    task = asyncio.get_running_loop().create_task(worker.join())
    dying.add(task)
    task.add_done_callback(dying.discard)


def refuse_broken_text(candidate: Candidate) -> Verdict | None:
    """A text that no file could hold cannot be sent to any checker."""
    fault = find_text_fault(candidate.prelude + candidate.body)
    if not fault:
        return None
    said = Diagnostic("error", f"the text {fault}")
    return refuse_text(Status.REJECTED, "text", (said,))


def refuse_text(status: Status, rule: str, diagnostics: Iterable[Diagnostic]) -> Verdict:
    """The audit's verdict on a text that breaks one of its rules."""
    checks = (f"{Stage.AUDIT}:{rule}",)
    return Verdict(status, tuple(diagnostics), stage=Stage.AUDIT, rule=rule, checks=checks)
