"""Sessions in /proc, and memory cgroups over a folder that looks like the kernel's tree."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proverrl.errors import WorkerError
from proverrl.verifier import memory_cgroup, process_group, process_table
from proverrl.verifier.memory_cgroup import MemoryCgroup, search_parent
from proverrl.verifier.process_group import ProcessGroup

PATIENCE_SECONDS = 60.0

# Its name holds what /proc/PID/stat uses to separate fields.
ODD = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(15, b") Z 1 1\\n1 (", 0, 0, 0)
child = subprocess.Popen(["sleep", "600"], process_group=0)
eaten = bytearray(b"x") * (150 * 2**20)
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_for_no(session: int) -> bool:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while process_table.list_sessions().get(session):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def test_a_session_is_found_measured_and_killed_whole() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ODD], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert sorted(process_table.list_sessions()[process.pid]) == sorted([process.pid, child])
        give_up = time.monotonic() + PATIENCE_SECONDS
        while process_table.measure_session(process.pid) < 150:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert 150 <= process_table.measure_session(process.pid) <= 250
        assert process_table.measure_session(child) == 0.0
    finally:
        process_table.kill_session(process.pid)
        process.communicate()
    assert wait_for_no(process.pid)
    process_table.kill_session(process.pid)


def make_tree(root: Path, *, handed_down: str) -> Path:
    """A mount with a/b/c, of which ``handed_down`` gives memory limits to its children."""
    place = root
    for name in ("", "a", "b", "c"):
        place = place / name
        place.mkdir(exist_ok=True)
        control = "cpu memory" if place.name == handed_down else "cpu"
        (place / "cgroup.subtree_control").write_text(control)
        (place / "cgroup.procs").write_text("")
    return root


def test_the_nearest_cgroup_that_hands_limits_down_is_found(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "mount", handed_down="a")
    assert search_parent(root, "/a/b/c") == root / "a"
    assert search_parent(root, "/") is None
    assert search_parent(root, "/a/gone") == root / "a"
    assert search_parent(make_tree(tmp_path / "other", handed_down="-"), "/a/b/c") is None


def test_a_read_only_cgroup_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tree(tmp_path / "mount", handed_down="b")
    # Not by chmod: a test that runs as root may write anything.
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "b" and real(path, mode)
    )
    assert search_parent(root, "/a/b/c") is None


def test_a_cgroup_gets_its_limit_and_tells_what_happened(tmp_path: Path) -> None:
    group = MemoryCgroup.create(tmp_path, 100)
    assert (group.folder / "memory.max").read_text() == str(100 * 2**20)
    assert not group.exceeded
    (group.folder / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
    assert not group.exceeded
    (group.folder / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    assert group.exceeded
    group.kill()
    assert (group.folder / "cgroup.kill").read_text() == "1"
    assert MemoryCgroup.create(tmp_path, 100).folder != group.folder


def test_a_worker_joins_its_cgroup_and_names_it_when_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "find_cgroup_parent", lambda: tmp_path)

    async def main() -> None:
        command = ("/bin/sh", "-c", 'echo "$$ [$CGROUP] [$LIFELINE]"; read -r line; exit 3')
        group = await ProcessGroup.start(command, memory_limit_mb=100)
        folder = tmp_path / os.listdir(tmp_path)[0]
        said = await group.read()
        assert said == f"{group.pid} [] []\n".encode()
        assert (folder / "cgroup.procs").read_text() == f"{group.pid}\n"
        (folder / "memory.events").write_text("oom_kill 1\n")
        await group.write(b"end\n")
        with pytest.raises(WorkerError, match="out of its memory limit") as caught:
            await group.read()
        assert caught.value.cause == "out-of-memory"
        group.kill()
        await group.join()

    asyncio.run(main())


def test_a_worker_without_a_limit_makes_no_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "find_cgroup_parent", lambda: tmp_path)

    async def main() -> None:
        group = await ProcessGroup.start(("/bin/true",))
        assert await group.read() == b""
        group.kill()
        await group.join()
        assert os.listdir(tmp_path) == []
        assert group.memory_mb == 0.0

    asyncio.run(main())


def test_the_guard_is_one_of_two() -> None:
    assert memory_cgroup.describe_guard() in (
        memory_cgroup.CGROUP_GUARD,
        memory_cgroup.WATCH_GUARD,
    )
