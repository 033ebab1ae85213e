"""Tasks that run at once: results in order, and nothing left running after an error."""

from __future__ import annotations

import asyncio

import pytest

from proverrl.concurrency import finish_all


async def give(value: int, waits: int) -> int:
    for _ in range(waits):
        await asyncio.sleep(0)
    return value


def test_results_come_in_the_order_of_the_works() -> None:
    assert asyncio.run(finish_all([give(1, 3), give(2, 0), give(3, 1)])) == [1, 2, 3]
    assert asyncio.run(finish_all([])) == []


def test_an_error_ends_the_others_before_it_is_raised() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # It is given time to clean up, also in a turn of its own.
            await asyncio.sleep(0)
            ended.append("waiter")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("first")

    async def run() -> list[str]:
        with pytest.raises(ValueError, match="first"):
            await finish_all([wait(), fail()])
        return list(ended)

    assert asyncio.run(run()) == ["waiter"]
