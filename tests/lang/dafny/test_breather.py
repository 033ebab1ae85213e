"""Work on an event loop that takes its time leaves turns to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from proverrl import concurrency
from proverrl.concurrency import Breather


def test_work_of_some_milliseconds_is_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(concurrency, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    turn = 0
    done = Counter[int]()

    async def count_turns() -> None:
        nonlocal turn
        while sum(done.values()) < 100:
            turn += 1
            await asyncio.sleep(0)

    async def work(breather: Breather) -> None:
        await breather.wait()
        clock[0] += 0.005
        done[turn] += 1

    async def run() -> None:
        breather = Breather(0.02)
        counting = asyncio.create_task(count_turns())
        await asyncio.gather(*(work(breather) for _ in range(100)))
        await counting

    asyncio.run(run())
    # Four pieces of 5 ms fill 20 ms, and a piece that has begun is finished.
    assert max(done.values()) <= 5
    assert len(done) >= 20
