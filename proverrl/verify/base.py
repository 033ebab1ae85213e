"""The seam of the verifier: a candidate flows in, a verdict flows out.

Flows in: a ``Candidate`` and a deadline. Flows out: a ``Verdict``; a broken machine is a
``VerifierError`` instead. Not handled here: any back end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from proverrl.errors import UsageError
from proverrl.types import Candidate, Verdict

DEFAULT_DEADLINE_SECONDS = 30.0

MIN_RLIMIT = 300_000
"""Dafny 2.3's own axioms cost z3 4.8.5 nearly 200 000 before a lemma is looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a proof may cost.

    ``rlimit`` is z3's resource count per entry: the same on every machine and under any load, so
    that running out of it counts against the proof. ``time_limit_seconds`` is only a back-stop
    per entry. It must lie far above the deadline of any candidate, because the server reports
    both limits with the same words.
    """

    rlimit: int = 3_000_000
    time_limit_seconds: int = 3600

    def __post_init__(self) -> None:
        if self.rlimit < MIN_RLIMIT:
            raise UsageError(
                f"rlimit {self.rlimit} is too small even for what Dafny tells the prover first; "
                f"use at least {MIN_RLIMIT}"
            )
        if self.time_limit_seconds < 1:
            raise UsageError(f"time_limit_seconds must be positive, got {self.time_limit_seconds}")


@runtime_checkable
class Verifier(Protocol):
    """Judges candidates. Safe for many concurrent callers on one event loop."""

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """Judge one candidate; the deadline is wall time counted from the start of work.

        Cancelling the caller cancels the work. Raises ``ToolchainError`` when no back end can
        be started, ``ProblemError`` when the problem itself cannot be judged.
        """
        ...

    async def aclose(self) -> None:
        """Kill all that runs; later calls to ``verify`` raise ``VerifierError``."""
        ...


@runtime_checkable
class Worker(Protocol):
    """One process that judges one candidate at a time."""

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer."""
        ...

    def kill(self) -> None:
        """Kill the whole process group at once, without waiting; never raises."""
        ...

    async def join(self) -> None:
        """Wait until a killed worker is gone and its folder removed."""
        ...

    @property
    def memory_mb(self) -> float:
        """Resident memory of the main process, 0 when unknown."""
        ...


SpawnWorker = Callable[[], Awaitable[Worker]]
