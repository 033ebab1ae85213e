"""Faults of a worker process: every verdict belongs to its question, neighbours are unharmed.

The processes are ``fake_dafny_server.py``, so these tests need no Dafny.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import ToolchainError, UsageError, VerifierError
from proverrl.lang.dafny.verify.backend import make_spawn
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.pool import Upkeep, VerifierPool
from tests import ROOT

SERVER = ROOT / "tests" / "fake_dafny_server.py"
TOOLCHAIN = DafnyToolchain("dafny", "2.3.0", (sys.executable, str(SERVER)), "z3", "4.8.5")
PATIENCE_SECONDS = 60.0
FAILURES = {"CRASH", "FORGE", "GARBAGE PROVE", "INCONCLUSIVE", "LATE"}


@pytest.fixture(autouse=True)
def no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of the stand-in are no Dafny, so no program in them could be forgotten."""

    async def pass_walls(*given: Any) -> Verdict:
        verdict: Verdict = given[-1]
        return verdict

    monkeypatch.setattr("proverrl.lang.dafny.verify.judge.ask_walls", pass_walls)


def ask(name: str, words: str) -> Candidate:
    problem = Problem(name, "dafny", "statements", "", HOLE, metadata={"expected_entries": [name]})
    return Candidate(problem, words)


def prove(name: str) -> Candidate:
    return ask(name, f"PROVE {name}")


def open_pool(
    workers: int = 1, toolchain: DafnyToolchain = TOOLCHAIN, upkeep: Upkeep | None = None
) -> VerifierPool:
    return VerifierPool(
        make_spawn(toolchain, Limits()),
        workers=workers,
        audit=lambda _: None,
        toolchain=toolchain.name,
        upkeep=upkeep,
    )


def run(
    work: Callable[[VerifierPool], Awaitable[None]],
    workers: int = 1,
    upkeep: Upkeep | None = None,
) -> VerifierPool:
    async def main() -> VerifierPool:
        pool = open_pool(workers, upkeep=upkeep)
        try:
            await work(pool)
        finally:
            await pool.aclose()
        return pool

    return asyncio.run(main())


async def judge(pool: VerifierPool, *candidates: Candidate) -> list[Verdict]:
    return await asyncio.gather(
        *(pool.verify(c, deadline_seconds=PATIENCE_SECONDS) for c in candidates)
    )


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_end(*pids: int) -> bool:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def test_each_verdict_belongs_to_its_question() -> None:
    async def work(pool: VerifierPool) -> None:
        names = [f"Impl$$n{i}" for i in range(40)]
        verdicts = await judge(pool, *(prove(n) for n in names))
        assert {(v.status, v.diagnostics) for v in verdicts} == {(Status.PROVED, ())}
        assert pool.stats().judged == 40
        assert pool.stats().restarts == 0

    run(work, workers=2)


def test_an_answer_about_another_entry_is_not_a_proof() -> None:
    async def work(pool: VerifierPool) -> None:
        (verdict,) = await judge(pool, ask("Impl$$mine", "PROVE Impl$$other"))
        assert verdict.status is Status.UNSOUND
        assert "missing ['Impl$$mine']" in verdict.diagnostics[0].message

    run(work)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("CRASH", Status.REJECTED),
        ("FORGE REFUTE Impl$$x", Status.REJECTED),
        ("FORGE PROVE Impl$$x", Status.REJECTED),
        ("GARBAGE PROVE Impl$$x", Status.REJECTED),
        ("GARBAGE REFUTE Impl$$x", Status.REJECTED),
        ("INCONCLUSIVE PROVE Impl$$x", Status.REJECTED),
        ("LATE PROVE Impl$$x", Status.REJECTED),
        ("HUGE PROVE Impl$$x", Status.PROVED),
        ("FLOOD PROVE Impl$$x", Status.PROVED),
        ("REFUTE Impl$$x", Status.REJECTED),
        ("SILENCE", Status.UNSOUND),
    ],
)
def test_a_fault_stays_with_its_candidate(words: str, status: Status) -> None:
    async def work(pool: VerifierPool) -> None:
        before, bad, after = await judge(
            pool, prove("Impl$$a"), ask("Impl$$x", words), prove("Impl$$b")
        )
        assert bad.status is status
        assert (before.status, after.status) == (Status.PROVED, Status.PROVED)
        assert bad.fatal == any(words.startswith(failure) for failure in FAILURES)
        # The first failure is on a used worker, which says nothing of the candidate.
        assert pool.stats().restarts == (3 if bad.fatal else 0)

    run(work)


def test_a_crash_is_tried_once_more(tmp_path: Path) -> None:
    async def work(pool: VerifierPool) -> None:
        words = f"CRASH_ONCE {tmp_path / 'marker'} PROVE Impl$$x"
        (verdict,) = await judge(pool, ask("Impl$$x", words))
        assert verdict.status is Status.PROVED
        assert pool.stats().restarts == 1

    run(work)


@pytest.mark.slow
def test_a_hang_is_tried_once_more_and_then_judges_nothing(tmp_path: Path) -> None:
    async def work(pool: VerifierPool) -> None:
        words = f"HANG_ONCE {tmp_path / 'marker'} PROVE Impl$$x"
        once = await pool.verify(ask("Impl$$x", words), deadline_seconds=5.0)
        assert once.status is Status.PROVED
        assert pool.stats().restarts == 1
        always = await pool.verify(ask("Impl$$y", "HANG"), deadline_seconds=0.3)
        assert always.status is Status.TIMEOUT
        assert always.cause == "deadline"
        assert always.diagnostics[0].message == "no answer within 0.6 seconds"
        assert pool.stats().restarts == 3
        (after,) = await judge(pool, prove("Impl$$z"))
        assert after.status is Status.PROVED

    run(work)


def test_cancelling_a_caller_discards_its_worker() -> None:
    async def work(pool: VerifierPool) -> None:
        await judge(pool, prove("Impl$$w"))
        hanging = asyncio.create_task(judge(pool, ask("Impl$$x", "HANG")))
        await asyncio.sleep(0.1)
        assert pool.stats().running == 1
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert pool.stats().restarts == 1
        (after,) = await judge(pool, prove("Impl$$z"))
        assert after.status is Status.PROVED

    run(work)


def test_cancelling_a_queued_caller_costs_nothing() -> None:
    async def work(pool: VerifierPool) -> None:
        await judge(pool, prove("Impl$$w"))
        first = asyncio.create_task(judge(pool, prove("Impl$$a")))
        second = asyncio.create_task(judge(pool, prove("Impl$$b")))
        third = asyncio.create_task(judge(pool, prove("Impl$$c")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.stats().queued == 2
        second.cancel()
        assert [v.status for v in await first + await third] == [Status.PROVED] * 2
        assert pool.stats().restarts == 0
        assert pool.stats().judged == 3

    run(work)


def test_closing_stops_running_and_queued_callers() -> None:
    async def main() -> None:
        pool = open_pool()
        await judge(pool, prove("Impl$$w"))
        tasks = [asyncio.create_task(judge(pool, ask(f"Impl$$n{i}", "HANG"))) for i in range(3)]
        await asyncio.sleep(0.1)
        assert (pool.stats().running, pool.stats().queued) == (1, 2)
        await pool.aclose()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [VerifierError] * 3
        with pytest.raises(VerifierError, match="closed"):
            await judge(pool, prove("Impl$$z"))

    asyncio.run(main())


def test_workers_are_recycled() -> None:
    async def work(pool: VerifierPool) -> None:
        verdicts = await judge(pool, *(prove(f"Impl$$n{i}") for i in range(10)))
        assert all(v.status is Status.PROVED for v in verdicts)
        assert pool.stats().recycled == 3
        assert pool.stats().restarts == 0

    run(work, upkeep=Upkeep(max_candidates=3))


def test_a_server_that_cannot_tell_true_from_false_is_refused(tmp_path: Path) -> None:
    liar = tmp_path / "liar.py"
    text = SERVER.read_text(encoding="utf-8")
    liar.write_text(text.replace('"CanaryFalse": "error"', '"CanaryFalse": "verified"'))
    toolchain = DafnyToolchain("dafny", "2.3.0", (sys.executable, str(liar)), "z3", "4.8.5")

    async def main() -> None:
        pool = open_pool(toolchain=toolchain)
        with pytest.raises(ToolchainError, match="misjudges known lemmas"):
            await judge(pool, prove("Impl$$a"))
        await pool.aclose()

    asyncio.run(main())


def test_a_server_that_ignores_rlimit_is_refused(tmp_path: Path) -> None:
    liar = tmp_path / "liar.py"
    text = SERVER.read_text(encoding="utf-8")
    liar.write_text(text.replace('"timed out"', '"verified"'))
    toolchain = DafnyToolchain("dafny", "2.3.0", (sys.executable, str(liar)), "z3", "4.8.5")

    async def main() -> None:
        with pytest.raises(ToolchainError, match="ignores /rlimit"):
            await DafnyServerWorker.start(toolchain, Limits(), KnownProblems())

    asyncio.run(main())


def test_a_missing_program_is_a_toolchain_error() -> None:
    toolchain = DafnyToolchain("dafny", "2.3.0", ("/nowhere/mono", "x.exe"), "z3", "4.8.5")

    async def main() -> None:
        pool = open_pool(toolchain=toolchain)
        verdict = (await judge(pool, prove("Impl$$a")))[0]
        assert verdict.status is Status.CRASHED
        assert "died" in verdict.diagnostics[0].message or "gone" in verdict.diagnostics[0].message
        await pool.aclose()

    asyncio.run(main())


def test_lean_is_refused_and_a_pool_needs_a_worker() -> None:
    async def work(pool: VerifierPool) -> None:
        lean = Candidate(Problem("t", "lean", "statements", "", HOLE), "trivial")
        with pytest.raises(ToolchainError, match="is in lean"):
            await judge(pool, lean)

    run(work)
    with pytest.raises(UsageError, match="at least 1 worker"):
        open_pool(workers=0)


PARENT = """
import asyncio, sys
from tests.verifier.test_verify_faults import ask, open_pool
async def main():
    pool = open_pool()
    await pool.verify(ask("Impl$$x", " ".join(sys.argv[1:])), deadline_seconds=600)
asyncio.run(main())
"""


@pytest.mark.parametrize("word", ["GRANDCHILD", "STRAY"])
def test_workers_and_their_children_die_with_a_killed_parent(tmp_path: Path, word: str) -> None:
    pids_file = tmp_path / "pids"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, word, str(pids_file)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (pids_file.exists() and pids_file.read_text()):
            assert time.monotonic() < give_up
            assert parent.poll() is None
            time.sleep(0.02)
        server, grandchild = (int(pid) for pid in pids_file.read_text().split())
        assert is_alive(server)
        assert is_alive(grandchild)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert wait_for_end(server, grandchild)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["GRANDCHILD", "STRAY"])
def test_killing_a_worker_takes_its_children_along(tmp_path: Path, word: str) -> None:
    pids_file = tmp_path / "pids"

    async def work(pool: VerifierPool) -> None:
        candidate = ask("Impl$$x", f"{word} {pids_file}")
        # Time enough for a busy machine to start the children, twice.
        verdict = await pool.verify(candidate, deadline_seconds=4.0)
        assert verdict.status is Status.TIMEOUT

    run(work)
    assert wait_for_end(*(int(pid) for pid in pids_file.read_text().split()))


def test_memory_above_the_limit_ends_the_candidate_and_nothing_else(tmp_path: Path) -> None:
    async def work(pool: VerifierPool) -> None:
        (before,) = await judge(pool, prove("Impl$$a"))
        (fat,) = await judge(pool, ask("Impl$$x", "EAT 400"))
        (after,) = await judge(pool, prove("Impl$$b"))
        assert (before.status, after.status) == (Status.PROVED, Status.PROVED)
        assert (fat.status, fat.cause) == (Status.REJECTED, "out-of-memory")
        said = "this text made 2 fresh workers fail: the worker grew above 200 MB"
        assert fat.diagnostics[0].message == said
        # The first attempt ran on a used worker, so that two more had to decide.
        assert (pool.stats().memory_kills, pool.stats().retried) == (3, 2)
        (again,) = await judge(pool, ask("Impl$$y", "CRASH"))
        assert (again.status, again.cause) == (Status.REJECTED, "died")

    run(work, upkeep=Upkeep(memory_mb=200, recycle_mb=150, watch_seconds=0.05))


def test_memory_above_the_limit_on_unused_workers_is_tried_twice() -> None:
    async def work(pool: VerifierPool) -> None:
        (fat,) = await judge(pool, ask("Impl$$x", "EAT 400"))
        assert (fat.status, fat.cause) == (Status.REJECTED, "out-of-memory")
        assert (pool.stats().memory_kills, pool.stats().retried) == (2, 1)

    run(work, upkeep=Upkeep(memory_mb=200, recycle_mb=150, watch_seconds=0.05))


def test_the_memory_of_children_counts() -> None:
    async def work(pool: VerifierPool) -> None:
        (fat,) = await judge(pool, ask("Impl$$x", "CHILD_EATS 400"))
        assert (fat.status, fat.cause) == (Status.REJECTED, "out-of-memory")

    run(work, upkeep=Upkeep(memory_mb=200, recycle_mb=150, watch_seconds=0.05))
