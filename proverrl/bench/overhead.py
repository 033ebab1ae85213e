"""What the pool itself costs: workers that answer at once, and workers that only sleep.

Flows in: numbers of workers, callers and calls. Flows out: figures. Everything runs inside this
process, so processor time is the pool's own. Not handled here: real processes
(``proverrl.bench.faults``), real provers (``proverrl.bench.warm_speed``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verify.base import Worker
from proverrl.verify.pool import Upkeep, VerifierPool

_PROBLEM = Problem("bench", "dafny", "statements", "", HOLE)
_VERDICT = Verdict(Status.PROVED, checks=("bench",))
_DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Overhead:
    """``cpu_ms_per_call`` is processor time of this process; the rest is wall time."""

    workers: int
    callers: int
    calls: int
    cpu_ms_per_call: float
    calls_per_second: float


@dataclass(frozen=True, slots=True)
class Utilisation:
    """``share_of_nominal`` is calls per second over workers ÷ service time.

    ``share_busy`` divides by the time that the workers really took: a sleep of this process ends
    late on a busy machine, and that is not the pool's doing.
    """

    service_ms: float
    workers: int
    calls: int
    calls_per_second: float
    share_of_nominal: float
    share_busy: float


class _SleepingWorker:
    """Takes ``seconds`` for each candidate."""

    def __init__(self, seconds: float, busy: list[float]) -> None:
        self._seconds = seconds
        self._busy = busy

    @property
    def memory_mb(self) -> float:
        return 0.0

    @property
    def is_spent(self) -> bool:
        return False

    def is_warm_for(self, candidate: Candidate) -> bool:
        return True

    async def judge(self, candidate: Candidate) -> Verdict:
        started = time.perf_counter()
        # Even with no time at all the others have their turn, so that callers do queue.
        await asyncio.sleep(self._seconds)
        self._busy.append(time.perf_counter() - started)
        return _VERDICT

    def kill(self) -> None:
        """Nothing runs."""

    async def join(self) -> None:
        """Nothing runs."""


async def measure_overhead(*, workers: int = 8, callers: int = 32, calls: int = 20_000) -> Overhead:
    """Processor time per call with workers that answer at once."""
    await _run(0.0, workers, callers, max(callers, calls // 20))
    cpu, wall = time.process_time(), time.perf_counter()
    await _run(0.0, workers, callers, calls)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Overhead(workers, callers, calls, 1000 * cpu / calls, calls / wall)


async def measure_utilisation(
    service_ms: float, *, workers: int = 8, callers: int = 32, calls: int = 1600
) -> Utilisation:
    """How much of the workers' time is used, with a service time that is a plain sleep."""
    wall = time.perf_counter()
    busy = await _run(service_ms / 1000, workers, callers, calls)
    wall = time.perf_counter() - wall
    rate = calls / wall
    return Utilisation(
        service_ms=service_ms,
        workers=workers,
        calls=calls,
        calls_per_second=rate,
        share_of_nominal=rate * service_ms / 1000 / workers,
        share_busy=sum(busy) / (workers * wall),
    )


async def _run(seconds: float, workers: int, callers: int, calls: int) -> list[float]:
    """Make the calls, and return how long each kept its worker."""
    busy: list[float] = []

    async def spawn() -> Worker:
        return _SleepingWorker(seconds, busy)

    pool = VerifierPool(
        spawn,
        workers=workers,
        audit=lambda _: None,
        toolchain="bench",
        upkeep=Upkeep(max_candidates=calls + 1),
    )
    bodies = iter(range(calls))
    await asyncio.gather(*(_call(pool, bodies) for _ in range(callers)))
    await pool.aclose()
    return busy


async def _call(pool: VerifierPool, bodies: Iterator[int]) -> None:
    for number in bodies:
        candidate = Candidate(_PROBLEM, str(number))
        await pool.verify(candidate, deadline_seconds=_DEADLINE_SECONDS)
