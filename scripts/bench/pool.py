"""``bench pool``: the pool's own cost, what faults cost, warm Dafny against cold.

Flows in: sizes. Flows out: one JSON object and a table with the target beside each figure. The
pool's own cost is measured inside this process, with workers that answer at once or only sleep.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Worker
from proverrl.verifier.pool import Upkeep, VerifierPool
from scripts.bench.faults import measure_faults
from scripts.bench.warm_speed import load_dafnybench, load_generated, measure_dafny

Say = Callable[[str], None]
PARTS = ("overhead", "faults", "dafny")
_GENERATED = Path("dafny/curriculum/heldout.jsonl")
_SERVICE_MS = (5.0, 50.0)
_PROBLEM = Problem("bench", "dafny", "statements", "", HOLE)
_VERDICT = Verdict(Status.PROVED, checks=("bench",))
_DEADLINE_SECONDS = 60.0
_LIBC = ctypes.CDLL(None, use_errno=True)


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

    ``share_busy`` divides by the time that the workers really took: a sleep ends late on a busy
    machine, and that is not the pool's doing.
    """

    service_ms: float
    workers: int
    calls: int
    calls_per_second: float
    share_of_nominal: float
    share_busy: float


class SleepingWorker:
    """Takes ``seconds`` for each candidate; ``busy`` holds what it took.

    It is a timer of Linux that the event loop reads as it reads a process's pipe. A thread that
    sleeps would want the interpreter's lock from the loop before it could say that it is done, as
    no verifier does, and the loop's own clock counts in milliseconds.
    """

    def __init__(self, seconds: float, busy: list[float] | None = None) -> None:
        self._seconds = seconds
        self._busy = [] if busy is None else busy
        # ``os`` has timers from Python 3.13 on.
        self._timer = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "no timer for a stand-in")

    @property
    def memory_mb(self) -> float:
        return 0.0

    @property
    def cpu_seconds(self) -> float:
        return 0.0

    @property
    def is_spent(self) -> bool:
        return False

    def is_warm_for(self, candidate: Candidate) -> bool:
        return True

    async def judge(self, candidate: Candidate) -> Verdict:
        started = time.perf_counter()
        if self._seconds:
            await self._sleep()
        else:
            # Even with no time at all the others have their turn, so that callers do queue.
            await asyncio.sleep(0)
        self._busy.append(time.perf_counter() - started)
        return _VERDICT

    async def _sleep(self) -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        whole, part = divmod(round(1e9 * self._seconds), 10**9)
        # No interval, then the time of the one end.
        _LIBC.timerfd_settime(self._timer, 0, struct.pack("4l", 0, 0, whole, part), None)
        loop.add_reader(self._timer, ended.set_result, None)
        try:
            await ended
        finally:
            loop.remove_reader(self._timer)
        os.read(self._timer, 8)

    def kill(self) -> None:
        """Nothing runs."""

    async def join(self) -> None:
        """Give the timer back."""
        os.close(self._timer)


async def measure_overhead(*, workers: int = 8, callers: int = 32, calls: int = 20_000) -> Overhead:
    """Processor time per call with workers that answer at once."""
    await _call_pool(0.0, workers, callers, max(callers, calls // 20))
    cpu, wall = time.process_time(), time.perf_counter()
    await _call_pool(0.0, workers, callers, calls)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Overhead(workers, callers, calls, 1000 * cpu / calls, calls / wall)


async def measure_utilisation(
    service_ms: float, *, workers: int = 8, callers: int = 32, calls: int = 1600
) -> Utilisation:
    """How much of the workers' time is used, with a service time that is a plain sleep."""
    wall = time.perf_counter()
    busy = await _call_pool(service_ms / 1000, workers, callers, calls)
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


async def _call_pool(seconds: float, workers: int, callers: int, calls: int) -> list[float]:
    """Make the calls, and return how long each kept its worker."""
    busy: list[float] = []

    async def spawn() -> Worker:
        return SleepingWorker(seconds, busy)

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


async def measure_pool(
    *,
    parts: tuple[str, ...],
    calls: int,
    num: int,
    workers: int,
    dafnybench: Path | None,
    say: Say,
    generated: Path = _GENERATED,
) -> dict[str, Any]:
    """All figures of the named parts. ``calls`` sizes the parts without a prover, ``num`` counts
    Dafny programs of each kind, ``workers`` the Dafny processes. ``say`` hears of each step."""
    results: dict[str, Any] = {
        "machine": {
            "processors": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "load_before": os.getloadavg(),
        }
    }
    if "overhead" in parts:
        say(f"overhead: {calls} calls")
        results["overhead"] = asdict(await measure_overhead(calls=calls))
        results["utilisation"] = []
        for service_ms in _SERVICE_MS:
            say(f"utilisation: {service_ms:g} ms of service")
            some = max(64, calls // 12)
            measured = await measure_utilisation(service_ms, calls=some)
            results["utilisation"].append(asdict(measured))
    if "faults" in parts:
        results["faults"] = []
        for fault in ("crash", "hang"):
            say(f"faults: 1 % {fault}")
            results["faults"].append(
                asdict(await measure_faults(fault, candidates=max(100, calls // 10)))
            )
    if "dafny" in parts:
        results["dafny"] = []
        sets = {"generated": load_generated(generated, num)}
        if dafnybench is not None:
            sets["dafnybench"] = load_dafnybench(dafnybench, num)
        for name, candidates in sets.items():
            say(f"dafny: {len(candidates)} {name} programs, twice")
            results["dafny"].append(asdict(await measure_dafny(name, candidates, workers=workers)))
    results["machine"]["load_after"] = os.getloadavg()
    return results


def make_table(results: dict[str, Any]) -> Table:
    """One row per figure that has a target."""
    table = Table(title="bench pool")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    if overhead := results.get("overhead"):
        table.add_row("CPU per call", f"{overhead['cpu_ms_per_call']:.3f} ms", "<= 1 ms")
        table.add_row("calls per second", f"{overhead['calls_per_second']:.0f}", ">= 3000")
    for row in results.get("utilisation", ()):
        name = f"utilisation at {row['service_ms']:g} ms"
        table.add_row(name, f"{row['share_of_nominal']:.1%}", ">= 97 %")
        table.add_row(f"{name}, of the time really taken", f"{row['share_busy']:.1%}", "")
    for row in results.get("faults", ()):
        name = f"{row['faults']} of {row['candidates']} {row['fault']}"
        table.add_row(f"{name}: verdicts lost", str(row["lost"]), "0")
        table.add_row(f"{name}: neighbours changed", str(row["changed"]), "0")
        table.add_row(f"{name}: of the bound", f"{row['bound_share']:.1%}", ">= 90 %")
    for row in results.get("dafny", ()):
        target = ">= 4" if row["name"] == "generated" else ">= 3.5"
        name = f"{row['programs']} {row['name']} programs"
        table.add_row(f"{name}: warm over cold", f"{row['ratio']:.2f}", target)
        speeds = f"{row['warm_per_second']:.2f}, {row['cold_per_second']:.2f}"
        table.add_row(f"{name}: per second, warm and cold", speeds, "")
        table.add_row(f"{name}: verdicts that differ", str(row["disagreements"]), "0")
    return table
