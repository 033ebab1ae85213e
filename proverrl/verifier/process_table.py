"""The system's table of processes, by session: who lives, what they hold and use, and their end.

A worker is a session of its own; its members are read from /proc. Without /proc nothing is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PROC = Path("/proc")
_SNAPSHOT_SECONDS = 0.2
_MAX_KILL_ROUNDS = 20

_snapshot: dict[int, list[int]] = {}
_snapshot_time = -1.0


def list_sessions() -> dict[int, list[int]]:
    """Session id (the pid of its first process) to the pids of its live members, from one scan of
    /proc."""
    sessions: dict[int, list[int]] = {}
    try:
        names = os.listdir(_PROC)
    except OSError:
        return sessions
    for name in names:
        if not name.isdigit():
            continue
        fields = _read_stat(int(name))
        if not fields:
            continue
        state, _parent, _group, session = fields[:4]
        if state not in (b"Z", b"X"):
            sessions.setdefault(int(session), []).append(int(name))
    return sessions


def measure_session(session: int) -> float:
    """Megabytes (2**20) that the members hold and the system cannot reclaim; 0 when unknown.

    Pages of mapped files, such as compiled Lean libraries, do not count: all workers share them.
    Membership is at most ``_SNAPSHOT_SECONDS`` old: one scan of /proc measures many workers.
    """
    return sum(_measure_process(pid) for pid in _list_members(session))


def measure_cpu(session: int) -> float:
    """Seconds of processor time that the members and their ended children used; 0 when unknown."""
    return sum(_read_cpu(pid) for pid in _list_members(session))


def _list_members(session: int) -> list[int]:
    global _snapshot, _snapshot_time
    now = time.monotonic()
    if not 0 <= now - _snapshot_time < _SNAPSHOT_SECONDS:
        _snapshot, _snapshot_time = list_sessions(), now
    return _snapshot.get(session, [])


def kill_session(session: int) -> None:
    """Send SIGKILL to every member, repeatedly until no new one appears; never raises."""
    seen: set[int] = set()
    for _ in range(_MAX_KILL_ROUNDS):
        new = set(list_sessions().get(session, ())) - seen
        if not new:
            return
        for pid in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        seen |= new


def _measure_process(pid: int) -> float:
    kilobytes = 0
    try:
        with open(f"{_PROC}/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    kilobytes += int(line.split()[1])
    except (OSError, ValueError):
        return 0.0
    return kilobytes / 1024


def _read_cpu(pid: int) -> float:
    # User and system time, the process's own and that of children that it waited for.
    return sum(map(int, _read_stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int) -> list[bytes]:
    """The fields behind the name in a process's ``stat``; none when it is gone."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return []
    # The name stands in brackets and may hold anything, brackets too.
    return line[line.rfind(b")") + 2 :].split()
