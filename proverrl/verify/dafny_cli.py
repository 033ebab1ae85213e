"""Dafny's command line, one process per candidate: for machines without DafnyServer.

Flows in: audited candidates. Flows out: verdicts by the same rule as the server's, and with the
exit code as a second witness. The exit code alone would accept an exhausted ``/rlimit``.
Not handled here: speed (about a second per candidate is the start of the process).
"""

from __future__ import annotations

import re
import time

from proverrl.errors import WorkerError
from proverrl.types import Candidate, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.dafny_canaries import check_canaries
from proverrl.verify.dafny_judge import (
    ExpectedEntries,
    judge_candidate,
    make_options,
)
from proverrl.verify.dafny_reply import FILE_NAME, Reply, parse_own_failure, parse_reply
from proverrl.verify.process_group import ProcessGroup, make_folder
from proverrl.verify.toolchain import DafnyToolchain

# Not /verifySnapshots:0: here it means "look for p.v0.dfy", and then nothing is verified.
_CLI_OPTIONS = ("/compile:0", "/nologo", "/trace")
_MAX_REPLY_BYTES = 64 * 2**20
_EXIT_CODES = (0, 2, 4)
_EXCEPTION = re.compile(r"UNHANDLED EXCEPTION: [\w.]+Exception: (.*)$", re.MULTILINE)


class DafnyCliWorker:
    """Runs ``dafny`` once per question; holds no process between questions."""

    def __init__(
        self, toolchain: DafnyToolchain, limits: Limits, expected: ExpectedEntries
    ) -> None:
        self._toolchain = toolchain
        self._limits = limits
        self._expected = expected
        self._group: ProcessGroup | None = None

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, expected: ExpectedEntries
    ) -> DafnyCliWorker:
        """See that the command tells true from false; raises ``ToolchainError`` if not."""
        worker = cls(toolchain, limits, expected)
        await check_canaries(worker.ask, toolchain.z3)
        return worker

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
        started = time.monotonic()
        judgement = await judge_candidate(self.ask, candidate, self._expected)
        return Verdict(
            status=judgement.status,
            diagnostics=judgement.diagnostics,
            obligations=judgement.obligations,
            seconds=time.monotonic() - started,
            toolchain=self._toolchain.name,
            checks=judgement.checks,
        )

    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        """Verify one program in a folder and a process of its own."""
        folder = make_folder()
        (folder / FILE_NAME).write_text(source, encoding="utf-8", newline="")
        options = make_options(self._toolchain, self._limits, rlimit)
        group = await ProcessGroup.start(
            (self._toolchain.dafny, *_CLI_OPTIONS, *options, FILE_NAME),
            folder,
            memory_limit_mb=self._limits.memory_mb,
        )
        self._group = group
        try:
            received = bytearray()
            while chunk := await group.read():
                received += chunk
                if len(received) > _MAX_REPLY_BYTES:
                    raise WorkerError(f"dafny printed over {_MAX_REPLY_BYTES} bytes")
            exit_code = await group.wait()
        finally:
            group.kill()
        await group.join()
        text = received.decode("utf-8", "replace")
        if exit_code not in _EXIT_CODES and (died := _EXCEPTION.search(group.stderr_tail)):
            rejected = parse_own_failure(text, died.group(1))
            if rejected is not None:
                return rejected
        reply = parse_reply(text)
        _check_exit_code(exit_code, reply, group.stderr_tail)
        return reply


def _check_exit_code(exit_code: int, reply: Reply, stderr_tail: str) -> None:
    if exit_code not in _EXIT_CODES:
        raise WorkerError(f"dafny exited with {exit_code}: {stderr_tail[-300:]}")
    clean = reply.all_verified and not any(m.kind == "error" for m in reply.messages)
    if clean and exit_code != 0:
        raise WorkerError(f"dafny printed a clean reply but exited with {exit_code}")
