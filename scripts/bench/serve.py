"""``bench serve``: what the HTTP interface costs, and what faults cost behind it.

Flows in: how many checks. Flows out: rates, waiting times and lost verdicts, one row for each load.
The server is a process of its own over stand-in workers (``serve_side``); the clients speak the
dialect of kimina-lean-server over plain sockets, so that they cost little. The loads are those of
the measurement of kimina-lean-server 2.0.0 whose figures stand beside: two cores, 1,000 checks.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from scripts.bench.faults import Fault, price_fault

_FAULT_EVERY = 100
_PADDING = "-- " + 320 * "x" + "\n"


@dataclass(frozen=True, slots=True)
class Load:
    """``in_flight`` requests of ``batch`` snippets at once, over workers that take ``work_ms``;
    with ``fault`` one snippet in a hundred makes its worker crash or hang. It is ``times`` as many
    checks as the others. ``kimina`` is what the other server did, in checks a second."""

    name: str
    workers: int
    work_ms: float
    batch: int
    in_flight: int
    kimina: float | None = None
    fault: Fault | None = None
    deadline_seconds: int = 60
    times: int = 1


LOADS = (
    Load("one at a time, 5 in flight", 2, 0, 1, 5, kimina=46),
    Load("batches of 8, 5 in flight", 2, 0, 8, 5, kimina=371),
    Load("batches of 8, 32 in flight", 2, 0, 8, 32, kimina=1636),
    Load("the same, 200 times as many", 2, 0, 8, 32, times=200),
    Load("1,000 clients at once", 2, 0, 1, 1000),
    Load("5 ms, 8 workers", 8, 5, 8, 32, kimina=886),
    Load("50 ms, 8 workers", 8, 50, 8, 32, kimina=152),
    Load("1 % crash", 2, 5, 8, 5, kimina=29, fault="crash"),
    Load("1 % hang", 2, 5, 8, 5, kimina=32, fault="hang", deadline_seconds=2),
)


@dataclass(frozen=True, slots=True)
class Served:
    """``lost`` counts good snippets without a valid answer, ``accepted`` bad ones with one.
    ``bound`` is what could be had at most, in checks a second: of workers that never wait, or, with
    faults, of the same load without them and the time that deadlines and new workers take.
    ``memory_mb`` is the server's resident memory after a tenth of the checks, and after all."""

    load: Load
    checks: int
    per_second: float
    p50_ms: float
    p99_ms: float
    lost: int
    accepted: int
    bound: float | None = None
    memory_mb: tuple[float, float] = (0.0, 0.0)


async def measure_serve(
    *, checks: int, say: Callable[[str], None], loads: Sequence[Load] = LOADS
) -> list[Served]:
    """All loads, one after the other, each on a server of its own."""
    rows = []
    for load in loads:
        say(load.name)
        # Clients that wait for one answer each need more checks than there are of them.
        num = max(load.times * checks, 4 * load.in_flight * load.batch)
        rows.append(await _measure(load, num))
    return rows


async def _measure(load: Load, num: int) -> Served:
    kind = "echo" if load.fault else "sleep"
    words = kind, str(load.work_ms / 1000), str(load.workers)
    side: Process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts.bench.serve_side", *words, stdin=PIPE, stdout=PIPE
    )
    assert side.stdin is not None
    assert side.stdout is not None
    try:
        port = int(await side.stdout.readline())
        sound = replace(load, fault=None)
        await _run(sound, port, num // 10, "warm")
        memory = _read_memory(side.pid)
        clean = await _run(sound, port, num, "clean") if load.fault else None
        served = await _run(load, port, num, "")
        memory_mb = memory, _read_memory(side.pid)
    finally:
        side.stdin.close()
        restart_seconds = float(await side.stdout.readline())
        await side.wait()
    bound = 1000 * load.workers / load.work_ms if load.work_ms else None
    if load.fault and clean is not None:
        lost = price_fault(load.fault, load.deadline_seconds, restart_seconds)
        bound = num / (num / clean.per_second + num // _FAULT_EVERY * lost / load.workers)
    return replace(served, bound=bound, memory_mb=memory_mb)


def _read_memory(pid: int) -> float:
    """Resident memory of a process, in MB."""
    num_pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return num_pages * resource.getpagesize() / 1e6


def _write_snippets(load: Load, num: int, prefix: str) -> Iterator[tuple[str, bool]]:
    """Code that is unlike any other, and whether it is good. An echo worker reads two words."""
    for number in range(num):
        bad = load.fault is not None and number % _FAULT_EVERY == _FAULT_EVERY // 2
        word = load.fault if bad else "answer"
        yield f"{word} {load.work_ms / 1000} {prefix}{number}\n{_PADDING}", not bad


async def _run(load: Load, port: int, num: int, prefix: str) -> Served:
    snippets = _write_snippets(load, num, prefix)
    waits: list[float] = []
    counts = {"lost": 0, "accepted": 0}

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        while batch := [item for _, item in zip(range(load.batch), snippets, strict=False)]:
            began = time.perf_counter()
            answer = await _post(reader, writer, load, [code for code, _ in batch])
            waits.append(time.perf_counter() - began)
            for (_, good), row in zip(batch, answer["results"], strict=True):
                valid = "response" in row and "messages" not in row["response"]
                counts["lost"] += good and not valid
                counts["accepted"] += valid and not good
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(load.in_flight)))
    seconds = time.perf_counter() - began
    p50, p99 = 1000 * np.percentile(waits, (50, 99))
    return Served(
        load, num, num / seconds, float(p50), float(p99), counts["lost"], counts["accepted"]
    )


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, load: Load, codes: list[str]
) -> dict[str, Any]:
    snippets = [{"id": str(n), "code": code} for n, code in enumerate(codes)]
    body = json.dumps({"snippets": snippets, "timeout": load.deadline_seconds}).encode()
    head = f"POST /api/check HTTP/1.1\r\nHost: s\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    said = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in said.split(b"\r\n")
        if line.startswith(b"content-length")
    )
    answer: dict[str, Any] = json.loads(await reader.readexactly(length))
    return answer


def make_table(rows: list[Served]) -> Table:
    """One line for each load."""
    table = Table(title="bench serve")
    table.add_column("load")
    for name in ("checks/s", "p50 ms", "p99 ms", "lost", "MB", "kimina 2.0.0", "of the bound"):
        table.add_column(name, justify="right")
    for row in rows:
        kimina, bound = row.load.kimina, row.bound
        table.add_row(
            row.load.name,
            f"{row.per_second:.0f}",
            f"{row.p50_ms:.1f}",
            f"{row.p99_ms:.1f}",
            str(row.lost + row.accepted),
            f"{row.memory_mb[0]:.0f} to {row.memory_mb[1]:.0f}",
            f"{kimina:.0f}" if kimina else "",
            f"{row.per_second / bound:.1%}" if bound else "",
        )
    return table


def to_json(rows: list[Served]) -> list[dict[str, Any]]:
    """All figures."""
    return [asdict(row) for row in rows]
