"""One Dafny process per question, for the command lines that have no server.

Flows in: audited candidates, and commands. Flows out: verdicts, and what a command printed. Not
handled here: the options, and what the output means (``command_line``, ``dafny4``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proverrl.errors import WorkerError
from proverrl.lang.dafny.judge import judge_to_verdict
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.reply import FILE_NAME, Reply
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.types import Candidate, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.process_group import ProcessGroup, make_folder

_MAX_REPLY_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Output:
    """What a process left: ``stderr`` is its tail, ``log`` the file that was asked for."""

    exit_code: int
    stdout: str
    stderr: str
    log: str = ""


class DafnyProcessWorker(ABC):
    """Starts a process for each question and holds none between questions."""

    def __init__(self, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems) -> None:
        self._toolchain = toolchain
        self._limits = limits
        self._known = known
        self._group: ProcessGroup | None = None

    @property
    def memory_mb(self) -> float:
        return self._group.memory_mb if self._group is not None else 0.0

    def is_warm_for(self, candidate: Candidate) -> bool:
        """Always: Dafny prepares nothing that another candidate could use."""
        return True

    @property
    def is_spent(self) -> bool:
        return False

    def kill(self) -> None:
        if self._group is not None:
            self._group.kill()

    async def join(self) -> None:
        if self._group is not None:
            await self._group.join()

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer."""
        return await judge_to_verdict(self, candidate, self._known, self._toolchain.name)

    @abstractmethod
    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        """Verify one program in a folder and a process of its own."""

    @abstractmethod
    async def ask_types(self, source: str) -> tuple[Reply, tuple[str, ...]]:
        """Read one program and verify nothing; what Dafny says of the types that it infers."""

    async def _run(self, command: Sequence[str], source: str, log_name: str = "") -> Output:
        """Run a command in a folder that holds the program, and read all that it leaves."""
        folder = make_folder()
        (folder / FILE_NAME).write_text(source, encoding="utf-8", newline="")
        group = await ProcessGroup.start(command, folder, memory_limit_mb=self._limits.memory_mb)
        self._group = group
        received = bytearray()
        try:
            while chunk := await group.read():
                received += chunk
                if len(received) > _MAX_REPLY_BYTES:
                    raise WorkerError(f"dafny printed over {_MAX_REPLY_BYTES} bytes")
            exit_code = await group.wait()
            log = _read_log(folder / log_name) if log_name else ""
        finally:
            group.kill()
        await group.join()
        return Output(exit_code, received.decode("utf-8", "replace"), group.stderr_tail, log)


def _read_log(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig") if path.is_file() else ""
