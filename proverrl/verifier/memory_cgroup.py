"""A memory limit that the kernel enforces: one cgroup (version 2) per worker.

Flows in: a limit in megabytes. Flows out: a cgroup that a starting process can join, or None if
this process may not make one; then only the pool watches over resident memory.
Covered: a worker that allocates faster than the pool looks; processes that open their own session.
Not covered: version 1; machines where the cgroup tree is read-only or not delegated to this user
(most containers).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

WATCH_GUARD = "resident memory, looked at by the pool"
CGROUP_GUARD = "cgroup, enforced by the kernel"

_MOUNTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_PROBE_SECONDS = 10
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class MemoryCgroup:
    """A cgroup of one worker. A process joins by writing its pid into ``members``."""

    folder: Path

    @classmethod
    def create(cls, parent: Path, limit_mb: float) -> MemoryCgroup:
        """Make it under ``parent``; raises ``OSError`` if that is not permitted."""
        group = cls(parent / f"proverrl-{os.getpid()}-{next(_numbers)}")
        group.folder.mkdir()
        try:
            (group.folder / "memory.max").write_text(str(int(limit_mb * 2**20)), "ascii")
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                # Kernels without swap accounting, or before 4.19, lack these two.
                if (group.folder / name).exists():
                    (group.folder / name).write_text(value, "ascii")
        except OSError:
            group.remove()
            raise
        return group

    @property
    def members(self) -> Path:
        return self.folder / "cgroup.procs"

    @property
    def exceeded(self) -> bool:
        """True if the kernel killed a member for its memory."""
        try:
            text = (self.folder / "memory.events").read_text("ascii")
        except OSError:
            return False
        counts = dict(line.split() for line in text.splitlines())
        return int(counts.get("oom_kill", 0)) > 0

    def kill(self) -> None:
        """Send SIGKILL to every member at once (kernel 5.14 and later; otherwise do nothing)."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1", "ascii")

    def remove(self) -> None:
        """Remove the cgroup; it stays as long as a member lives."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


@functools.cache
def find_cgroup_parent() -> Path | None:
    """The cgroup in which this process may make others with a memory limit; tried once, then
    remembered."""
    for mount in _MOUNTS:
        if (mount / "cgroup.controllers").is_file():
            parent = search_parent(mount, _read_own_path())
            return parent if parent is not None and _can_join(parent) else None
    return None


def describe_guard() -> str:
    """The guard of the memory limit on this machine."""
    return WATCH_GUARD if find_cgroup_parent() is None else CGROUP_GUARD


def search_parent(mount: Path, own: str) -> Path | None:
    """The nearest writable cgroup at or above ours that passes memory limits down."""
    place = mount / own.lstrip("/")
    for folder in (place, *place.parents):
        if folder != mount and mount not in folder.parents:
            return None
        try:
            controllers = (folder / "cgroup.subtree_control").read_text("ascii").split()
        except OSError:
            continue
        writable = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
        if "memory" in controllers and writable:
            return folder
    return None


def _read_own_path() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    except OSError:
        return "/"
    return next((line[3:] for line in lines if line.startswith("0::")), "/")


def _can_join(parent: Path) -> bool:
    try:
        group = MemoryCgroup.create(parent, 64)
    except OSError:
        return False
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", 'echo $$ >"$0"', str(group.members)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        group.remove()
    return done.returncode == 0
