"""A worker inside the process, whose candidates say what it does; for tests of the pool alone."""

from __future__ import annotations

import asyncio

from proverrl.errors import ProblemError, WorkerError
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.pool import Upkeep, VerifierPool


def ask(name: str, words: str = "", header: str = "") -> Candidate:
    return Candidate(Problem(name, "dafny", "statements", header, HOLE), words)


class InstantWorker:
    """Proves at once, but for the words ``crash``, ``killed``, ``hang``, ``spin``, ``wait``,
    ``grow`` and ``unusable``.

    ``wait`` lasts until the test sets ``gate``; ``unusable`` is a problem that no proof can be held
    to.
    """

    def __init__(self, gate: asyncio.Event, log: list[str]) -> None:
        self.gate = gate
        self.log = log
        self.headers: set[str] = set()
        self.num_judged = 0
        self.killed = False
        self.memory = 10.0
        self.spent = False
        self.cpu = 0.0

    @property
    def memory_mb(self) -> float:
        return self.memory

    @property
    def cpu_seconds(self) -> float:
        """Much for each ``spin``."""
        return self.cpu

    @property
    def is_spent(self) -> bool:
        return self.spent

    def is_warm_for(self, candidate: Candidate) -> bool:
        return candidate.problem.preamble in self.headers

    async def judge(self, candidate: Candidate) -> Verdict:
        self.log.append(candidate.problem.id)
        self.headers.add(candidate.problem.preamble)
        self.num_judged += 1
        words = candidate.body.split()
        if "unusable" in words:
            raise ProblemError(f"problem {candidate.problem.id!r}: no proof\ncan be held to it")
        if "crash" in words:
            raise WorkerError("it died", "died")
        if "killed" in words:
            raise WorkerError("somebody killed it", "killed")
        if "grow" in words:
            self.memory = 999.0
        if "spin" in words:
            self.cpu += 1000.0
        if {"hang", "spin", "grow"} & set(words):
            await asyncio.Event().wait()
        if "wait" in words:
            await self.gate.wait()
        if "spend" in words:
            self.spent = True
        return Verdict(Status.PROVED, checks=(candidate.problem.id,))

    def kill(self) -> None:
        self.killed = True

    async def join(self) -> None:
        assert self.killed


class InstantPool:
    """A pool of instant workers, all of which are kept for the test to look at."""

    def __init__(self, workers: int = 1, upkeep: Upkeep | None = None) -> None:
        self.gate = asyncio.Event()
        self.log: list[str] = []
        self.workers: list[InstantWorker] = []
        self.pool = VerifierPool(
            self._spawn,
            workers=workers,
            audit=lambda _: None,
            toolchain="instant",
            upkeep=upkeep,
        )

    async def _spawn(self) -> InstantWorker:
        self.workers.append(InstantWorker(self.gate, self.log))
        return self.workers[-1]
