"""Deadlines in processor time, on a clock that moves only when nothing is left to do."""

import asyncio
from collections.abc import Callable

import pytest

from proverrl.concurrency import prolong


class VirtualLoop(asyncio.SelectorEventLoop):
    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        # A timer that was put off stands there still; the loop would wait for the one behind it.
        due = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if not self._ready and due:  # type: ignore[attr-defined]
            self.now = max(self.now, min(due))
        super()._run_once()  # type: ignore[misc]


def run_for(seconds: float, cpu_at: Callable[[float], float], budget: float = 10.0) -> float:
    """When work that takes so long was ended, by itself or by its deadline."""

    async def work() -> float:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(budget) as scope:
                clock = asyncio.create_task(prolong(scope, budget, lambda: cpu_at(loop.time())))
                try:
                    await asyncio.sleep(seconds)
                finally:
                    clock.cancel()
        except TimeoutError:
            return -loop.time()
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work())


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_work_that_others_keep_from_the_processor_has_its_time(share: float) -> None:
    need = 0.9 * 10.0 / share
    assert run_for(need, lambda now: share * now) == need
    # But for a tenth of it.
    assert 9.0 <= share * -run_for(1000.0, lambda now: share * now) <= 10.0


def test_what_runs_all_the_time_has_its_deadline() -> None:
    assert run_for(1000.0, lambda now: now) == -10.0
    assert run_for(1000.0, lambda now: 4.0 * now) == -10.0


def test_what_does_not_run_is_given_no_more() -> None:
    assert run_for(1000.0, lambda now: 0.0) == -10.0
    assert run_for(1000.0, lambda now: 0.019 * now) == -10.0
    # It hangs after a while.
    assert -run_for(1000.0, lambda now: min(0.5 * now, 6.0)) <= 20.0


def test_eight_deadlines_are_the_most() -> None:
    assert run_for(1000.0, lambda now: 0.03 * now) == -80.0
    assert run_for(79.0, lambda now: 0.03 * now) == 79.0


def test_a_scope_that_was_ended_stays_ended() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(10.0) as scope:
                clock = asyncio.create_task(prolong(scope, 10.0, lambda: 0.5 * loop.time()))
                loop.call_at(5.0, lambda: scope.reschedule(loop.time()))
                try:
                    await asyncio.sleep(1000.0)
                finally:
                    clock.cancel()
        except TimeoutError:
            return loop.time()
        return -1.0

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(work()) == 5.0
