"""A process group that is cancelled while it starts or ends: nothing of it outlives its loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proverrl.verifier.process_group import ProcessGroup, make_folder, remove_folder

SLEEP = ("/bin/sleep", "100")


def list_children() -> set[str]:
    """Process ids of this process's children, dead ones that nobody reaped among them."""
    tasks = Path("/proc/self/task").iterdir()
    try:
        return {pid for task in tasks for pid in (task / "children").read_text().split()}
    except FileNotFoundError:
        # A thread, of another test even, ended meanwhile; its children are another's now.
        return list_children()


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


MAKE = """
import os, sys
from proverrl.verifier.process_group import make_folder
folder = make_folder()
(folder / "text").write_text("x")
print(folder, flush=True)
if sys.argv[1] == "wait":
    sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def test_folders_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    def start(how: str) -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", MAKE, how],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    def list_folders() -> set[Path]:
        return set(tmp_path.iterdir())

    living, kept = start("wait")
    killed, left = start("die")
    assert killed.wait() == -signal.SIGKILL
    foreign = tmp_path / "proverrl-worker-a-link"
    foreign.symlink_to(tmp_path)
    assert list_folders() == {kept, left, foreign}
    killed, next_left = start("die")
    killed.wait()
    assert list_folders() == {kept, next_left, foreign}
    assert (kept / "text").read_text() == "x"
    living.communicate("")
    killed, last_left = start("die")
    killed.wait()
    assert list_folders() == {last_left, foreign}


def test_a_folder_that_was_removed_is_locked_no_longer() -> None:
    before = len(os.listdir("/proc/self/fd"))
    folder = make_folder()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    for _ in range(2):
        remove_folder(folder)
    assert (folder.exists(), len(os.listdir("/proc/self/fd"))) == (False, before)
