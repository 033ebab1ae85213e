"""The pool as its callers see it: turns, choice of workers, retries, memory, closing."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from proverrl.errors import UsageError, VerifierError, WorkerError
from proverrl.types import Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, PoolStats, Worker, verify_all
from proverrl.verifier.pool import Upkeep, VerifierPool
from tests.fake_verifier import FakeVerifier
from tests.instant_worker import InstantPool, InstantWorker, ask

PATIENCE_SECONDS = 60.0


def run(
    work: Callable[[InstantPool], Awaitable[None]],
    workers: int = 1,
    upkeep: Upkeep | None = None,
) -> None:
    async def main() -> None:
        instant = InstantPool(workers, upkeep)
        try:
            await work(instant)
        finally:
            await instant.pool.aclose()
        assert all(worker.killed for worker in instant.workers)

    asyncio.run(main())


def start(
    pool: VerifierPool, name: str, words: str = "", header: str = "", lane: Lane = DEFAULT_LANE
) -> asyncio.Task[Verdict]:
    candidate = ask(name, words, header)
    judging = pool.verify(candidate, deadline_seconds=PATIENCE_SECONDS, lane=lane)
    return asyncio.ensure_future(judging)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_seams() -> None:
    async def work(instant: InstantPool) -> None:
        assert isinstance(instant.pool, LanedVerifier)
        assert isinstance(InstantWorker(instant.gate, []), Worker)
        assert isinstance(FakeVerifier(lambda _: Status.PROVED), LanedVerifier)

    run(work)


def test_a_full_lane_does_not_starve_another() -> None:
    async def work(instant: InstantPool) -> None:
        first = start(instant.pool, "gate", "wait")
        await settle()
        asks = [start(instant.pool, f"g{i}", lane=Lane("greedy")) for i in range(10_000)]
        await settle()
        asks += [start(instant.pool, f"m{i}", lane=Lane("modest")) for i in range(3)]
        await settle()
        assert instant.pool.stats().queued == 10_003
        instant.gate.set()
        verdicts = await asyncio.gather(first, *asks)
        assert instant.log[:8] == ["gate", "g0", "m0", "g1", "m1", "g2", "m2", "g3"]
        # Within the lane: first come, first served; and each verdict is that of its question.
        assert [name for name in instant.log if name[1:].isdigit() and name[0] == "g"] == [
            f"g{i}" for i in range(10_000)
        ]
        assert [v.checks for v in verdicts[1:]] == [(f"g{i}",) for i in range(10_000)] + [
            (f"m{i}",) for i in range(3)
        ]

    run(work)


def test_callers_that_give_up_leave_the_queue_in_order() -> None:
    async def work(instant: InstantPool) -> None:
        first = start(instant.pool, "gate", "wait")
        await settle()
        asks = [start(instant.pool, f"n{i}") for i in range(6)]
        await settle()
        for task in asks[0:6:2]:
            task.cancel()
        await settle()
        assert instant.pool.stats().queued == 3
        instant.gate.set()
        await asyncio.gather(first, *asks, return_exceptions=True)
        assert instant.log == ["gate", "n1", "n3", "n5"]
        assert (instant.pool.stats().running, instant.pool.stats().queued) == (0, 0)

    run(work)


def test_a_caller_that_gives_up_as_its_turn_comes_returns_the_worker() -> None:
    async def work(instant: InstantPool) -> None:
        first = start(instant.pool, "gate", "wait")
        await settle()
        second, third = start(instant.pool, "second"), start(instant.pool, "third")
        await settle()
        # The same moment hands the worker on and cancels who would get it.
        first.add_done_callback(lambda _: second.cancel())
        instant.gate.set()
        assert (await third).status is Status.PROVED
        assert second.cancelled() or (await second).status is Status.PROVED
        assert instant.pool.stats().running == 0

    run(work)


def test_all_who_are_cancelled_at_once_give_the_worker_back() -> None:
    """Whoever holds the worker passes it on before those who wait can say that they do not."""

    async def work(instant: InstantPool) -> None:
        asks = [start(instant.pool, f"n{i}", "hang") for i in range(4)]
        await settle()
        for task in asks:
            task.cancel()
        ended = await asyncio.gather(*asks, return_exceptions=True)
        assert [type(error) for error in ended] == [asyncio.CancelledError] * 4
        assert (instant.pool.stats().running, instant.pool.stats().queued) == (0, 0)
        assert (await start(instant.pool, "next")).status is Status.PROVED
        last = [start(instant.pool, f"m{i}", "hang") for i in range(3)]
        await settle()
        last[1].cancel()
        await instant.pool.aclose()
        ended = await asyncio.gather(*last, return_exceptions=True)
        assert [type(error).__name__ for error in ended][1] == "CancelledError"
        assert all(isinstance(error, VerifierError) for error in (ended[0], ended[2]))

    run(work)


def test_a_warm_worker_is_chosen_then_the_least_recently_used() -> None:
    async def work(instant: InstantPool) -> None:
        both = [start(instant.pool, "a", "wait", "H1"), start(instant.pool, "b", "wait", "H2")]
        await settle()
        instant.gate.set()
        await asyncio.gather(*both)
        one, two = instant.workers
        for _ in range(3):
            await start(instant.pool, "again", "", "H2")
        assert (one.num_judged, two.num_judged) == (1, 4)
        # Nobody is warm for H3: the worker that rested longest takes it.
        await start(instant.pool, "new", "", "H3")
        assert (one.num_judged, two.num_judged) == (2, 4)

    run(work, workers=2)


def test_one_caller_starts_one_worker() -> None:
    async def work(instant: InstantPool) -> None:
        for number in range(5):
            await start(instant.pool, f"n{number}")
        assert len(instant.workers) == 1

    run(work, workers=4)


def test_a_crash_on_two_fresh_workers_is_a_rejection_with_its_cause() -> None:
    async def work(instant: InstantPool) -> None:
        before, bad, after = await asyncio.gather(
            start(instant.pool, "a"), start(instant.pool, "b", "crash"), start(instant.pool, "c")
        )
        assert (before.status, after.status) == (Status.PROVED, Status.PROVED)
        assert (bad.status, bad.cause, bad.toolchain) == (Status.REJECTED, "died", "instant")
        assert bad.fatal
        # The worker of "a", which "b" may have found in a bad state, and two fresh ones.
        stats = instant.pool.stats()
        assert (stats.judged, stats.restarts, stats.retried) == (3, 3, 2)
        assert len(instant.workers) == 4

    run(work)


def test_a_worker_that_somebody_kills_says_nothing_of_its_candidate() -> None:
    async def work(instant: InstantPool) -> None:
        verdict = await start(instant.pool, "x", "killed")
        assert (verdict.status, verdict.cause, verdict.fatal) == (Status.CRASHED, "killed", False)
        assert instant.log == ["x"] * 5

    run(work)


def test_workers_that_do_not_start_say_nothing_of_their_candidate() -> None:
    started = []

    async def spawn() -> InstantWorker:
        started.append(0)
        raise WorkerError("it died at its start", "died")

    async def main() -> Verdict:
        pool = VerifierPool(spawn, workers=1, audit=lambda _: None, toolchain="instant")
        try:
            return await pool.verify(ask("x"), deadline_seconds=PATIENCE_SECONDS)
        finally:
            await pool.aclose()

    verdict = asyncio.run(main())
    assert (verdict.status, verdict.cause, len(started)) == (Status.CRASHED, "died", 3)
    assert verdict.diagnostics[0].message == "it died at its start"


def test_a_hang_has_twice_the_time_at_the_second_attempt() -> None:
    async def work(instant: InstantPool) -> None:
        verdict = await instant.pool.verify(ask("x", "hang"), deadline_seconds=0.05)
        assert (verdict.status, verdict.cause) == (Status.TIMEOUT, "deadline")
        assert verdict.diagnostics[0].message == "no answer within 0.1 seconds"
        assert instant.log == ["x", "x"]

    run(work)


def test_what_two_workers_work_on_without_end_is_rejected() -> None:
    async def work(instant: InstantPool) -> None:
        verdict = await instant.pool.verify(ask("x", "spin"), deadline_seconds=0.05)
        assert (verdict.status, verdict.cause) == (Status.REJECTED, "stalled")
        assert verdict.diagnostics[0].message == (
            "this text made 2 fresh workers fail: no answer within 0.1 seconds of work"
        )
        assert instant.log == ["x", "x"]

    run(work)


def test_the_wait_has_no_deadline_and_is_reported_apart() -> None:
    async def work(instant: InstantPool) -> None:
        first = start(instant.pool, "gate", "wait")
        await settle()
        late = asyncio.ensure_future(instant.pool.verify(ask("late"), deadline_seconds=0.05))
        await asyncio.sleep(0.2)
        instant.gate.set()
        verdict = await late
        assert verdict.status is Status.PROVED
        assert verdict.queue_seconds >= 0.15
        assert (await first).status is Status.PROVED

    run(work)


def test_cancelling_kills_the_worker_at_once() -> None:
    async def work(instant: InstantPool) -> None:
        hanging = start(instant.pool, "x", "hang")
        await settle()
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert [worker.killed for worker in instant.workers] == [True]
        assert (await start(instant.pool, "y")).status is Status.PROVED
        assert (instant.pool.stats().restarts, len(instant.workers)) == (1, 2)

    run(work)


def test_memory_decides_on_the_second_fresh_worker() -> None:
    async def work(instant: InstantPool) -> None:
        fresh = await start(instant.pool, "x", "grow")
        assert (fresh.status, fresh.cause) == (Status.REJECTED, "out-of-memory")
        assert instant.log == ["x", "x"]
        await start(instant.pool, "y")
        used = await start(instant.pool, "z", "grow")
        assert (used.status, used.cause) == (Status.REJECTED, "out-of-memory")
        assert instant.log == ["x", "x", "y", "z", "z", "z"]
        said = "this text made 2 fresh workers fail: the worker grew above 100 MB"
        assert used.diagnostics[0].message == said
        assert (instant.pool.stats().memory_kills, instant.pool.stats().retried) == (5, 3)

    run(work, upkeep=Upkeep(memory_mb=100, recycle_mb=50, watch_seconds=0.01))


@pytest.mark.parametrize(
    ("upkeep", "words", "num_workers"),
    [
        (Upkeep(max_candidates=2), "", 3),
        (Upkeep(max_seconds=0.0), "", 6),
        (Upkeep(), "spend", 6),
        (Upkeep(), "", 1),
    ],
)
def test_workers_are_replaced_on_schedule(upkeep: Upkeep, words: str, num_workers: int) -> None:
    async def work(instant: InstantPool) -> None:
        for number in range(6):
            await start(instant.pool, f"n{number}", words)
        assert len(instant.workers) == num_workers
        assert instant.pool.stats().recycled == num_workers - 1
        assert instant.pool.stats().restarts == 0

    run(work, upkeep=upkeep)


def test_a_grown_worker_is_replaced_before_its_next_candidate() -> None:
    async def work(instant: InstantPool) -> None:
        first = start(instant.pool, "a", "wait")
        await settle()
        instant.workers[0].memory = 60.0
        await asyncio.sleep(0.1)
        instant.gate.set()
        assert (await first).status is Status.PROVED
        await start(instant.pool, "b")
        assert [worker.killed for worker in instant.workers] == [True, False]
        assert (instant.pool.stats().recycled, instant.pool.stats().memory_kills) == (1, 0)

    run(work, upkeep=Upkeep(memory_mb=100, recycle_mb=50, watch_seconds=0.01))


def test_closing_ends_all_callers_even_those_whose_worker_does_not_notice() -> None:
    async def work(instant: InstantPool) -> None:
        asks = [start(instant.pool, f"n{i}", "hang") for i in range(4)]
        await settle()
        assert (instant.pool.stats().running, instant.pool.stats().queued) == (2, 2)
        await instant.pool.aclose()
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["this verifier was closed"] * 4
        with pytest.raises(VerifierError, match="closed"):
            await start(instant.pool, "late")

    run(work, workers=2)


def test_half_a_surrogate_pair_costs_no_worker() -> None:
    async def work(instant: InstantPool) -> None:
        verdict = await start(instant.pool, "x", "a\ud800")
        assert (verdict.status, verdict.rule) == (Status.REJECTED, "text")
        assert "at character 1" in verdict.diagnostics[0].message
        assert (instant.workers, instant.pool.stats().refused) == ([], 1)

    run(work)


def test_stats_of_two_pools_add_up() -> None:
    one = PoolStats(workers=2, judged=3, canaries=1)
    two = PoolStats(workers=1, judged=4, restarts=5)
    assert one + two == PoolStats(workers=3, judged=7, restarts=5, canaries=1)


def test_limits_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="must be positive"):
        Upkeep(memory_mb=0)


def test_a_problem_that_cannot_be_judged_costs_its_own_candidates_alone() -> None:
    async def work(instant: InstantPool) -> None:
        asked = [ask("one"), ask("two", "unusable"), ask("three")]
        verdicts = await verify_all(instant.pool, asked, deadline_seconds=PATIENCE_SECONDS)
        assert [(v.status, v.cause) for v in verdicts] == [
            (Status.PROVED, ""),
            (Status.CRASHED, "problem"),
            (Status.PROVED, ""),
        ]
        assert verdicts[1].diagnostics[0].message == ("problem 'two': no proof\ncan be held to it")

    run(work)
