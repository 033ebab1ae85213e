"""A process group that is cancelled while it starts or ends: nothing of it outlives its loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proverrl.verifier.process_group import ProcessGroup

SLEEP = ("/bin/sleep", "100")


def list_children() -> set[str]:
    """Process ids of this process's children, dead ones that nobody reaped among them."""
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


async def cancel_twice(task: asyncio.Task[object], num_turns: int) -> None:
    for _ in range(num_turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("num_turns", range(1, 12))
def test_a_start_that_is_cancelled_twice_leaves_nothing(num_turns: int, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    before = list_children()

    async def main() -> None:
        task = asyncio.ensure_future(ProcessGroup.start(SLEEP, folder))
        await cancel_twice(task, num_turns)
        assert list_children() == before

    asyncio.run(main())
    assert not folder.exists()


def test_an_end_that_is_cancelled_twice_is_waited_for() -> None:
    before = list_children()

    async def main() -> None:
        group = await ProcessGroup.start(SLEEP)
        group.kill()
        # After one turn, in which the waiting begins: a task that never began waits for nothing.
        await cancel_twice(asyncio.ensure_future(group.join()), 1)
        assert list_children() == before

    asyncio.run(main())
