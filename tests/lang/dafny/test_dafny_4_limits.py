"""The real Dafny 4 at its limits, behind a pool: what runs out, hangs or dies is never proved."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from proverrl.lang.dafny.verify.backend import make_spawn
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Limits, Worker
from proverrl.verifier.pool import Upkeep, VerifierPool

T = TypeVar("T")
PATIENCE_SECONDS = 240.0
ENDLESS = 2_000_000_000
"""More than any prover uses within these tests."""
HARD = (
    "lemma L(a: nat, b: nat, c: nat, d: nat, e: nat) requires a * b * c * d * e > 0\n"
    "  ensures a*a*a*a*a + b*b*b*b*b + c*c*c*c*c + d*d*d*d*d != e*e*e*e*e {}\n"
)
EASY = "lemma L(x: int) ensures x * x >= 0 {}\n"
FALSE = "lemma L(x: int) ensures x * x >= 1 {}\n"


def make(text: str) -> Candidate:
    return Candidate(Problem("p", "dafny", "file", "", HOLE), text)


def run(
    toolchain: DafnyToolchain,
    work: Callable[[VerifierPool, asyncio.Queue[Worker]], Awaitable[T]],
    limits: Limits | None = None,
    upkeep: Upkeep | None = None,
) -> T:
    """``work`` is given the pool, and the workers that it started."""
    started: asyncio.Queue[Worker] = asyncio.Queue()
    start = make_spawn(toolchain, limits or Limits())

    async def spawn() -> Worker:
        worker = await start()
        started.put_nowait(worker)
        return worker

    async def main() -> T:
        pool = VerifierPool(
            spawn, workers=1, audit=lambda _: None, toolchain=toolchain.name, upkeep=upkeep
        )
        try:
            return await work(pool, started)
        finally:
            await pool.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize(
    "limits",
    [Limits(rlimit=300_000), Limits(rlimit=ENDLESS, time_limit_seconds=10)],
    ids=["resource", "time"],
)
def test_a_proof_that_runs_out_is_exhausted(real: DafnyToolchain, limits: Limits) -> None:
    async def work(pool: VerifierPool, _: asyncio.Queue[Worker]) -> list[Verdict]:
        texts = (HARD, EASY, FALSE)
        return [await pool.verify(make(t), deadline_seconds=PATIENCE_SECONDS) for t in texts]

    verdicts = run(real, work, limits)
    assert [v.status for v in verdicts] == [Status.EXHAUSTED, Status.PROVED, Status.REJECTED]
    assert {v.cause for v in verdicts} == {""}


def test_a_proof_that_takes_all_its_time_judges_nothing(real: DafnyToolchain) -> None:
    async def work(pool: VerifierPool, _: asyncio.Queue[Worker]) -> list[Verdict]:
        late = await pool.verify(make(HARD), deadline_seconds=2.0)
        return [late, await pool.verify(make(EASY), deadline_seconds=PATIENCE_SECONDS)]

    late, next_one = run(real, work, Limits(rlimit=ENDLESS))
    # On a busy machine the prover may not have had its share.
    assert (late.status, late.cause) in [
        (Status.REJECTED, "stalled"),
        (Status.TIMEOUT, "deadline"),
    ]
    assert next_one.proved


def test_a_proof_that_takes_too_much_memory_judges_nothing(real: DafnyToolchain) -> None:
    async def work(pool: VerifierPool, _: asyncio.Queue[Worker]) -> Verdict:
        return await pool.verify(make(HARD), deadline_seconds=PATIENCE_SECONDS)

    upkeep = Upkeep(memory_mb=60, recycle_mb=1e6, watch_seconds=0.1)
    verdict = run(real, work, Limits(rlimit=ENDLESS), upkeep)
    assert (verdict.status, verdict.cause) == (Status.REJECTED, "out-of-memory")


def test_who_is_cancelled_or_killed_harms_nobody(real: DafnyToolchain) -> None:
    async def work(pool: VerifierPool, started: asyncio.Queue[Worker]) -> Verdict:
        gone = asyncio.create_task(pool.verify(make(HARD), deadline_seconds=PATIENCE_SECONDS))
        await asyncio.wait_for(started.get(), PATIENCE_SECONDS)
        await asyncio.sleep(2.0)
        gone.cancel()
        await asyncio.wait([gone])
        assert gone.cancelled()
        assert (await pool.verify(make(EASY), deadline_seconds=PATIENCE_SECONDS)).proved
        # Killed between two texts: the next is tried again.
        worker = await asyncio.wait_for(started.get(), PATIENCE_SECONDS)
        assert isinstance(worker, DafnyLanguageServer)
        os.kill(worker.groups[0].pid, signal.SIGKILL)
        verdict = await pool.verify(make(FALSE), deadline_seconds=PATIENCE_SECONDS)
        assert pool.stats().retried == 1
        return verdict

    verdict = run(real, work, Limits(rlimit=ENDLESS))
    assert (verdict.status, verdict.cause) == (Status.REJECTED, "")
