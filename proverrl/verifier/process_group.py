"""A child process that owns a session and a folder, and dies as a whole.

Flows in: a command. Flows out: its pipes, and a ``kill`` that leaves nothing behind. A small shell
in the same session waits on a pipe whose other end only this process holds. It kills the session
when that end closes, so the session dies even when this process is killed with SIGKILL.
Covered: grandchildren, including those that left the process group. Not covered: a grandchild that
opens its own session; memory, which the pool looks at (``memory_mb``); systems without /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from proverrl.concurrency import outlast
from proverrl.errors import Cause, ToolchainError, WorkerError
from proverrl.types import Candidate
from proverrl.verifier.process_table import kill_session, measure_cpu, measure_session

LAST_WORDS = "; it said: "
"""Stands before the last output of a process, which may name places of this machine."""

# Descriptors are named by path: a POSIX shell need not know <&N above 9. In a subshell $$ is still
# the session's leader, so its own pid is read from /proc.
_LAUNCH = """
(read -r line <"/dev/fd/$LIFELINE"
read -r own rest </proc/self/stat
for place in /proc/[0-9]*; do
  line=$(cat "$place/stat") || continue
  set -- ${line##*) }
  [ "$4" = "$$" ] && [ "${place#/proc/}" != "$own" ] && kill -KILL "${place#/proc/}"
done
rm -rf "$PWD"; kill -KILL 0) </dev/null >/dev/null 2>&1 &
unset LIFELINE; exec "$@"
"""
_PREFIX, _NEW_PREFIX = "proverrl-worker-", "proverrl-new-"
_locks: dict[Path, int] = {}
"""The descriptors that lock this process's folders."""
_STDERR_TAIL_BYTES = 65536
_CHUNK_BYTES = 65536
_LAST_WORDS_SECONDS = 10.0
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT")


class ProcessGroup:
    """One running command in its own session and its own temporary working folder."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        lifeline: int,
        folder: Path,
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self.folder = folder
        self._tail = bytearray()
        self._drain = asyncio.create_task(self._drain_stderr())
        self._killed = False
        self._cpu_seconds = 0.0

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> ProcessGroup:
        """Start a command with a few of our variables and those of ``environment``. Raises
        ``ToolchainError`` when the system cannot start it."""
        folder = folder or make_folder()
        read_end, write_end = os.pipe()
        variables = {k: os.environ[k] for k in _KEPT_VARIABLES if k in os.environ}
        variables |= {"HOME": str(folder)} | dict(environment or {}) | {"LIFELINE": str(read_end)}
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _LAUNCH,
                "proverrl-worker",
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=variables,
                start_new_session=True,
                pass_fds=(read_end,),
            )
        )
        try:
            await outlast(starting.done, lambda: asyncio.wait([starting]))
            process = starting.result()
        except BaseException as error:
            os.close(write_end)
            try:
                if starting.exception() is None:
                    starting.result().kill()
                    await _reap(starting.result())
            finally:
                remove_folder(folder)
            if isinstance(error, OSError):
                raise ToolchainError(f"cannot start {command[0]}: {error}") from error
            raise
        finally:
            os.close(read_end)
        return cls(process, write_end, folder)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        return self._tail.decode("utf-8", "replace")

    async def write(self, payload: bytes) -> None:
        """Write to standard input. Raises ``OSError`` when the process is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(payload)
        await self._process.stdin.drain()

    async def read(self) -> bytes:
        """The next bytes of standard output, empty at its end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(_CHUNK_BYTES)

    async def read_all(self, limit: int, name: str) -> bytes:
        """Standard output up to its end; ``WorkerError`` when that has over ``limit`` bytes."""
        said = bytearray()
        while chunk := await self.read():
            said += chunk
            if len(said) > limit:
                raise WorkerError(f"{name} printed over {limit} bytes")
        return bytes(said)

    async def wait(self) -> int:
        """Wait for the end of the main process and return its exit code."""
        return await self._process.wait()

    async def explain_end(self, message: str, said: str = "") -> WorkerError:
        """The error for a process that ended while an answer was due; ``said`` are its last
        words."""
        text = f"{message}{LAST_WORDS}{said}" if said else message
        return WorkerError(text, find_cause(await self.wait()))

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the whole session so far, or until it was killed; 0 where /proc does
        not report it."""
        return self._cpu_seconds if self._killed else measure_cpu(self.pid)

    @property
    def memory_mb(self) -> float:
        """Memory of the whole session (``measure_session``); 0 where /proc does not report it."""
        return 0.0 if self._killed else measure_session(self.pid)

    def kill(self) -> None:
        """Kill every process of the session, without waiting. Safe to call twice."""
        if self._killed:
            return
        self._cpu_seconds = measure_cpu(self.pid)
        self._killed = True
        # The waiting shell keeps the session's id in use even after the main process was reaped.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        kill_session(self.pid)
        os.close(self._lifeline)
        remove_folder(self.folder)

    async def join(self) -> None:
        """After ``kill``: wait until the main process is reaped, and remove the folder."""
        await _reap(self._process)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drain_stdout(), _LAST_WORDS_SECONDS)
            await asyncio.wait_for(self._drain, _LAST_WORDS_SECONDS)
        remove_folder(self.folder)

    async def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK_BYTES):
            self._tail += chunk
            del self._tail[:-_STDERR_TAIL_BYTES]

    async def _drain_stdout(self) -> None:
        """Read to the end, so that the pipe closes with the process and not at a random time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        while await self._process.stdout.read(_CHUNK_BYTES):
            pass


class GroupOwner(ABC):
    """Owns groups of processes, whose figures and end are its own."""

    @property
    @abstractmethod
    def groups(self) -> Sequence[ProcessGroup]:
        """The groups that it has now, the one used last at the end."""

    @property
    def pid(self) -> int:
        """The process used last; 0 when there is none."""
        return self.groups[-1].pid if self.groups else 0

    @property
    def memory_mb(self) -> float:
        return sum(group.memory_mb for group in self.groups)

    @property
    def cpu_seconds(self) -> float:
        return sum(group.cpu_seconds for group in self.groups)

    def kill(self) -> None:
        """Kill all processes, without waiting; never raises."""
        for group in self.groups:
            group.kill()

    async def join(self) -> None:
        """After ``kill``: wait for their end."""
        await asyncio.gather(*(group.join() for group in self.groups))


class GroupWorker(GroupOwner):
    """A worker that owns groups of processes. Unless a subclass says otherwise, it is warm for
    every candidate and never asks to be replaced."""

    @property
    def is_spent(self) -> bool:
        return False

    def is_warm_for(self, candidate: Candidate) -> bool:
        return True


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a killed process; a cancellation is raised afterwards. asyncio complains
    about a process that ends after its event loop."""
    await outlast(lambda: process.returncode is not None, process.wait)


def ask_version(
    command: Sequence[str],
    seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    remedy: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program that only tells its version; raises ``ToolchainError`` if it cannot."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            # Ctrl-C in a terminal is for us: a version cut short looks like no version.
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"cannot run {command[0]}: {error}{remedy}") from error


def find_cause(exit_code: int) -> Cause:
    """The cause of a process's end: one that was killed says nothing about its question."""
    foreign = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return "killed" if -exit_code in foreign else "died"


def make_folder() -> Path:
    """A new private temporary folder, for ``remove_folder``. What processes that were killed left
    is removed by the next one: a folder is locked while its process lives."""
    _remove_left()
    new = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX))
    lock = os.open(new, os.O_RDONLY)
    # On a file system without locks nobody can lock the folder to remove it either.
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # It is locked before it has the name by which others find it.
    folder = new.rename(new.with_name(_PREFIX + new.name.removeprefix(_NEW_PREFIX)))
    _locks[folder] = lock
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder, as far as nobody writes into it. Safe to call twice."""
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _locks.pop(folder, None)) is not None:
        os.close(lock)


@cache
def _remove_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Locked, somebody else's, or gone by now: let it be.
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid == os.getuid():
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
