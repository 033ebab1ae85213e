"""``bench lean``: Lean's own server against one process a candidate, and what faults cost.

Flows in: a file of problems with references, and sizes. Flows out: one JSON object and a table with
the target beside each figure. All figures are taken one after the other on the Lean at hand, with
the audit switched off (for the faults) and without confirmation. Not handled here: whether the
verdicts are right (the tests).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from rich.table import Table

from proverrl.config.base import LeanBackend
from proverrl.lang.lean.verify.confirm import FreshProcess
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.file import LeanFile
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Worker
from proverrl.verifier.confirm import ConfirmingVerifier
from proverrl.verifier.pool import Upkeep, VerifierPool, make_upkeep

Say = Callable[[str], None]
PARTS = ("speed", "steps", "faults", "memory")
_DEADLINE_SECONDS = 60.0
_STALL_SECONDS = 2.0
_KILL_GAP = 10
"""Candidates between two killed workers, so that none loses its worker twice."""
_FAULT_SHARE = 0.01
_STALL = "have : " + "1 + " * 14_000 + "1 = 0 := rfl\n  trivial"
_FLOOD = "trace_state\n  " * 3000 + "trivial"
_TRIVIAL = Problem("fault", "lean", "tactics", "", f"theorem fault : True := by\n  {HOLE}\n")
_NUM_STEPS = 12
_STEPS = Problem(
    "steps",
    "lean",
    "tactics",
    "",
    f"theorem steps (a b c : Nat) (h : a = b) : a + b + c = c + (a + b) := by\n  {HOLE}\n",
)


@dataclass(frozen=True, slots=True)
class LeanSpeed:
    """Candidates per second, and for how many."""

    backend: LeanBackend
    workers: int
    candidates: int
    per_second: float
    proved: int


class _MeasuredPool:
    """A pool of workers of one back end, of which this module knows the processes."""

    def __init__(
        self,
        backend: LeanBackend,
        workers: int,
        upkeep: Upkeep | None = None,
        *,
        trace_states: bool = False,
    ) -> None:
        toolchain = find_lean_toolchain(backend)
        limits, known = LeanLimits(trace_states=trace_states), KnownStatements()
        self.workers: list[LeanWorker] = []
        self.starts: list[float] = []

        async def spawn() -> Worker:
            started = time.perf_counter()
            self.workers.append(await LeanWorker.start(toolchain, limits, known))
            self.starts.append(time.perf_counter() - started)
            return self.workers[-1]

        self.pool = VerifierPool(
            spawn,
            workers=workers,
            audit=lambda _: None,
            toolchain=toolchain.name,
            languages=frozenset({"lean"}),
            upkeep=upkeep or make_upkeep(limits.memory_mb, 300),
        )

    async def judge(
        self, candidates: Sequence[Candidate], deadline_seconds: float = _DEADLINE_SECONDS
    ) -> tuple[list[Verdict], float]:
        """The verdicts in order, and the wall time."""
        started = time.perf_counter()
        asks = (self.pool.verify(c, deadline_seconds=deadline_seconds) for c in candidates)
        verdicts = await asyncio.gather(*asks)
        return list(verdicts), time.perf_counter() - started


def load_candidates(path: Path, num: int) -> list[Candidate]:
    """``num`` problems with their references in random order, some of them again if there are
    fewer."""
    references = load_references(path)
    known = [Candidate(p, references[p.id]) for p in load_problems(path) if p.id in references]
    random, candidates = Random(0), list[Candidate]()
    while len(candidates) < num:
        candidates += random.sample(known, len(known))
    return candidates[:num]


async def measure_speed(
    backend: LeanBackend, candidates: Sequence[Candidate], workers: int
) -> LeanSpeed:
    """The start of the workers is outside of the time, that of their documents inside."""
    lean = _MeasuredPool(backend, workers)
    try:
        warm = [Candidate(_TRIVIAL, "trivial")] * workers
        await lean.judge(warm)
        verdicts, seconds = await lean.judge(candidates)
    finally:
        await lean.pool.aclose()
    num_proved = sum(verdict.proved for verdict in verdicts)
    return LeanSpeed(backend, workers, len(candidates), len(candidates) / seconds, num_proved)


async def measure_plain(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """One plain process a candidate that reads the whole file and is asked nothing, one at a
    time: what a script around ``lean --json`` costs."""
    session = LeanFile(find_lean_toolchain("lean-file"))
    started, num_clean = time.perf_counter(), 0
    for candidate in candidates:
        done = await session.load_header(candidate.source, "")
        num_clean += not done.errors
        session.kill()
    seconds = time.perf_counter() - started
    await session.join()
    return {
        "candidates": len(candidates),
        "per_second": len(candidates) / seconds,
        "clean": num_clean,
    }


async def measure_confirmed(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """``lean-server`` with every proof confirmed by a fresh process, one at a time."""
    fast, fresh = _MeasuredPool("lean-server", 1), _MeasuredPool("lean-file", 1)
    verifier = ConfirmingVerifier(fast.pool, [FreshProcess(fresh.pool)], 1.0)
    started = time.perf_counter()
    try:
        verdicts = [
            await verifier.verify(candidate, deadline_seconds=_DEADLINE_SECONDS)
            for candidate in candidates
        ]
    finally:
        await verifier.aclose()
    seconds = time.perf_counter() - started
    return {
        "candidates": len(candidates),
        "per_second": len(candidates) / seconds,
        "proved": sum(verdict.proved for verdict in verdicts),
        "replayed": sum("replay" in verdict.checks for verdict in verdicts),
    }


async def measure_steps(num: int) -> dict[str, Any]:
    """Milliseconds for a proof of 12 tactics of which only the last one changed, and for one of
    which the first one did; and for both with the states that a search asks for."""
    times: dict[str, list[float]] = {}
    for name, trace_states in (("", False), ("traced_", True)):
        lean = _MeasuredPool("lean-server", 1, trace_states=trace_states)
        try:
            for changed in ("last", "first"):
                own = times[f"{name}{changed}_ms"] = []
                for number in range(num):
                    first, last = (number if changed == word else 0 for word in ("first", "last"))
                    steps = [
                        f"have h{i} : a + {i + first} = b + {i + first} := by rw [h]"
                        for i in range(_NUM_STEPS - 1)
                    ]
                    steps.append(f"exact Nat.add_comm (a + b) c -- {last}")
                    (verdict,), seconds = await lean.judge([Candidate(_STEPS, "\n  ".join(steps))])
                    assert verdict.proved, verdict.diagnostics
                    own.append(1000 * seconds)
        finally:
            await lean.pool.aclose()
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    return {"tactics": _NUM_STEPS, "changes": num, **medians}


async def measure_lean_faults(candidates: Sequence[Candidate], workers: int) -> dict[str, Any]:
    """One candidate in a hundred stalls, floods or has its worker killed from outside."""
    num_faults = max(3, round(_FAULT_SHARE * len(candidates)))
    places = sorted(Random(0).sample(range(len(candidates) * 9 // 10), num_faults))
    kinds = dict(zip(places, ("stall", "flood", "kill") * num_faults, strict=False))
    counts = Counter(kinds.values())
    bodies = {"stall": _STALL, "flood": _FLOOD}
    asked = [
        Candidate(_TRIVIAL, bodies[kinds[i]]) if kinds.get(i) in bodies else candidate
        for i, candidate in enumerate(candidates)
    ]
    good = [i for i in range(len(asked)) if kinds.get(i) not in bodies]
    clean = _MeasuredPool("lean-server", workers)
    try:
        expected, clean_seconds = await clean.judge([asked[i] for i in good])
    finally:
        await clean.pool.aclose()
    lean = _MeasuredPool("lean-server", workers)
    killer = asyncio.create_task(_kill_some(lean, counts["kill"]))
    try:
        verdicts, seconds = await lean.judge(asked, _STALL_SECONDS)
        stats = lean.pool.stats()
    finally:
        killer.cancel()
        await lean.pool.aclose()
    found = [verdicts[i] for i in good]
    num_stalls = counts["stall"]
    # As in ``bench.faults``: a stall has the deadline twice, the second time doubled, and a worker
    # that was replaced had to start.
    start_seconds = statistics.mean(clean.starts)
    waits = 3 * _STALL_SECONDS * num_stalls + start_seconds * stats.restarts
    bound = clean_seconds + waits / workers
    return {
        "candidates": len(asked),
        "faults": dict(counts),
        "lost": sum(not verdict.status.judged for verdict in found),
        "lost_causes": dict(Counter(v.cause for v in found if not v.status.judged)),
        "changed": sum(
            verdict.status.judged and verdict.status is not before.status
            for verdict, before in zip(found, expected, strict=True)
        ),
        "stalls_rejected": sum(
            verdicts[i].status is Status.REJECTED and verdicts[i].cause == "stalled"
            for i, kind in kinds.items()
            if kind == "stall"
        ),
        "restarts": stats.restarts,
        "start_seconds": start_seconds,
        "bound_share": bound / seconds,
    }


async def _kill_some(lean: _MeasuredPool, num: int) -> None:
    due = _KILL_GAP
    while num:
        await asyncio.sleep(0.1)
        if lean.pool.stats().judged >= due:
            with contextlib.suppress(ProcessLookupError):
                os.kill(lean.workers[-1].pid, signal.SIGKILL)
            num -= 1
            due = lean.pool.stats().judged + _KILL_GAP


async def measure_memory(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Megabytes of one worker that is never replaced, in twenty parts of the way."""
    upkeep = Upkeep(max_candidates=len(candidates) + 10, recycle_mb=1e6, memory_mb=1e6)
    lean, megabytes = _MeasuredPool("lean-server", 1, upkeep), []
    try:
        size = max(1, len(candidates) // 20)
        for start in range(0, len(candidates), size):
            await lean.judge(candidates[start : start + size])
            megabytes.append(round(lean.workers[-1].memory_mb, 1))
    finally:
        await lean.pool.aclose()
    return {"candidates": len(candidates), "megabytes": megabytes, "starts": len(lean.workers)}


async def measure_lean(
    *, parts: Sequence[str], problems: Path, num: int, checks: int, say: Say
) -> dict[str, Any]:
    """All figures of the named parts: ``num`` candidates for speeds, ``checks`` for the others."""
    results: dict[str, Any] = {
        "toolchain": find_lean_toolchain().name,
        "processors": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg(),
    }
    if "speed" in parts:
        runs: tuple[tuple[LeanBackend, int], ...] = (
            *(("lean-file", 1), ("lean-server", 1), ("lean-server", 2)),
        )
        results["speed"] = []
        for backend, workers in runs:
            say(f"speed: {backend}, {workers} at a time")
            some = load_candidates(problems, num if backend == "lean-server" else max(1, num // 4))
            results["speed"].append(asdict(await measure_speed(backend, some, workers)))
        some = load_candidates(problems, max(1, num // 4))
        say(f"speed: a plain process for each of {len(some)} candidates")
        results["plain"] = await measure_plain(some)
        say(f"speed: {len(some)} candidates, each proof confirmed")
        results["confirmed"] = await measure_confirmed(some)
    if "steps" in parts:
        say("steps: a proof whose last tactic changes")
        results["steps"] = await measure_steps(max(10, num // 10))
    if "faults" in parts:
        say(f"faults: 1 % of {checks} candidates")
        results["faults"] = await measure_lean_faults(load_candidates(problems, checks), 2)
    if "memory" in parts:
        say(f"memory: {checks} candidates")
        results["memory"] = await measure_memory(load_candidates(problems, checks))
    results["load_after"] = os.getloadavg()
    return results


def make_table(results: dict[str, Any]) -> Table:
    """One row per figure that has a target."""
    table = Table(title=f"bench lean: {results['toolchain']}")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    speeds = {(row["backend"], row["workers"]): row for row in results.get("speed", ())}
    for (backend, workers), row in speeds.items():
        name = f"{row['candidates']} candidates, {backend}, {workers} at a time"
        table.add_row(f"{name}: per second", f"{row['per_second']:.1f}", "")
        table.add_row(f"{name}: proved", str(row["proved"]), str(row["candidates"]))
    if speeds:
        rates = {key: row["per_second"] for key, row in speeds.items()}
        one = rates["lean-server", 1]
        plain, confirmed = results["plain"], results["confirmed"]
        table.add_row("a plain process a candidate: per second", f"{plain['per_second']:.1f}", "")
        name = f"each proof confirmed ({confirmed['replayed']} replayed): per second"
        table.add_row(name, f"{confirmed['per_second']:.1f}", "")
        table.add_row("lean-server over lean-file", f"{one / rates['lean-file', 1]:.2f}", ">= 6")
        table.add_row("lean-server over plain processes", f"{one / plain['per_second']:.2f}", "")
        table.add_row("2 workers over 1", f"{rates['lean-server', 2] / one:.2f}", ">= 1.5")
    if steps := results.get("steps"):
        table.add_row(
            "last of 12 tactics changed, median", f"{steps['last_ms']:.1f} ms", "<= 25 ms"
        )
        table.add_row("first of them changed, median", f"{steps['first_ms']:.1f} ms", "")
        both = f"{steps['traced_last_ms']:.1f} and {steps['traced_first_ms']:.1f} ms"
        table.add_row("last and first, with states, medians", both, "")
    if faults := results.get("faults"):
        name = ", ".join(f"{count} {kind}" for kind, count in faults["faults"].items())
        lost = " ".join(map(str, [faults["lost"], *faults["lost_causes"]]))
        table.add_row(f"{name} of {faults['candidates']}: verdicts lost", lost, "0")
        table.add_row("neighbours changed", str(faults["changed"]), "0")
        stalls = faults["faults"].get("stall", 0)
        table.add_row("stalls rejected", str(faults["stalls_rejected"]), str(stalls))
        table.add_row("of the bound", f"{faults['bound_share']:.1%}", ">= 90 %")
    if memory := results.get("memory"):
        first, *_, last = memory["megabytes"]
        name = f"memory after 5 % and 100 % of {memory['candidates']}"
        table.add_row(name, f"{first:.0f}, {last:.0f} MB", "flat")
        table.add_row("starts of the worker", str(memory["starts"]), "1")
    return table
