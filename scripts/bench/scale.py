"""``bench scale``: at how many servers the process that asks them becomes the limit.

Flows in: sizes of a cluster. Flows out: verdicts a second, and the processor time that one costs
the driver. The servers are stand-ins in one process (``scale_side``), which answer after the time
that a worker would take; so this says nothing of networks and of verifiers, only of the driver.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from proverrl.types import Candidate, Problem
from proverrl.verifier.remote import RemoteVerifier

SIZES = ((1, 8, 0.1), (4, 16, 0.5), (16, 32, 0.5), (64, 32, 1.0), (64, 32, 0.25))
"""Servers, workers of each, and the seconds that a candidate takes one of them."""
_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Scaled:
    """``ideal`` and ``per_second`` are verdicts; ``cpu_ms`` is the driver's for each of them."""

    servers: int
    workers: int
    work_seconds: float
    ideal: float
    per_second: float
    cpu_ms: float

    @property
    def limit(self) -> float:
        """Verdicts a second that one core of a driver could take in."""
        return 1000.0 / self.cpu_ms


def measure_scale(*, say: Callable[[str], None]) -> list[Scaled]:
    """All sizes, one after the other."""
    rows = []
    for size in SIZES:
        say(f"{size[0]} servers with {size[1]} workers, {size[2]:g} s of work")
        rows.append(_measure(*size))
    return rows


def _measure(servers: int, workers: int, seconds: float) -> Scaled:
    side = subprocess.Popen(
        [sys.executable, "-m", "scripts.bench.scale_side", *map(str, (servers, workers, seconds))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert side.stdout is not None
    ports = json.loads(side.stdout.readline())
    verifier = RemoteVerifier([f"http://127.0.0.1:{port}" for port in ports])
    ideal = servers * workers / seconds
    try:
        num = int(max(_SECONDS, 3 * seconds) * ideal)
        wall, cpu = asyncio.run(_ask(verifier, num, 2 * servers * workers))
    finally:
        side.communicate()
    return Scaled(servers, workers, seconds, ideal, num / wall, 1000 * cpu / num)


async def _ask(verifier: RemoteVerifier, num: int, in_flight: int) -> tuple[float, float]:
    """Wall and processor seconds for so many candidates; some of those at once wait for a worker,
    as in a run."""
    free = asyncio.Semaphore(in_flight)
    statement = "lemma L(x: int)\n  ensures x + 1 > x\n{\n  /*{HOLE}*/\n}\n"
    problem = Problem("p", "dafny", "statements", "", statement)

    async def ask(number: int) -> None:
        async with free:
            candidate = Candidate(problem, f"assert {number} >= 0;")
            verdict = await verifier.verify(candidate, deadline_seconds=60.0)
            assert verdict.proved

    started = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(ask, range(num)))
    spent = time.perf_counter() - started[0], time.process_time() - started[1]
    await verifier.aclose()
    return spent


def make_table(rows: list[Scaled]) -> Table:
    """What is printed."""
    table = Table("servers", "workers", "work", "per s", "of the ideal", "driver ms", "limit per s")
    for row in rows:
        share = f"{100 * row.per_second / row.ideal:.0f} %"
        cells = [f"{row.servers}", f"{row.workers}", f"{row.work_seconds:g} s"]
        cells += [f"{row.per_second:,.0f}", share, f"{row.cpu_ms:.3f}", f"{row.limit:,.0f}"]
        table.add_row(*cells)
    return table


def to_json(rows: list[Scaled]) -> list[dict[str, Any]]:
    """For ``--out``."""
    return [asdict(row) for row in rows]
