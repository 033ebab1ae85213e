"""Dafny's command line, one process per candidate: for machines without DafnyServer.

Flows in: audited candidates. Flows out: verdicts by the same rule as the server's, and with the
exit code as a second witness. The exit code alone would accept an exhausted ``/rlimit``.
Not handled here: speed (about a second per candidate is the start of the process).
"""

from __future__ import annotations

import re

from proverrl.errors import WorkerError
from proverrl.verify.base import Limits
from proverrl.verify.dafny_canaries import check_canaries
from proverrl.verify.dafny_judge import (
    ExpectedEntries,
    make_options,
)
from proverrl.verify.dafny_process import DafnyProcessWorker
from proverrl.verify.dafny_reply import FILE_NAME, Reply, parse_own_failure, parse_reply
from proverrl.verify.toolchain import DafnyToolchain

# Not /verifySnapshots:0: here it means "look for p.v0.dfy", and then nothing is verified.
_CLI_OPTIONS = ("/compile:0", "/nologo", "/trace")
_EXIT_CODES = (0, 2, 4)
_EXCEPTION = re.compile(r"UNHANDLED EXCEPTION: [\w.]+Exception: (.*)$", re.MULTILINE)


class DafnyCliWorker(DafnyProcessWorker):
    """Runs ``dafny`` once per question."""

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, expected: ExpectedEntries
    ) -> DafnyCliWorker:
        """See that the command tells true from false; raises ``ToolchainError`` if not."""
        worker = cls(toolchain, limits, expected)
        await check_canaries(worker.ask, toolchain.z3)
        return worker

    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        """Verify one program in a folder and a process of its own."""
        options = make_options(self._toolchain, self._limits, rlimit)
        done = await self._run((self._toolchain.dafny, *_CLI_OPTIONS, *options, FILE_NAME), source)
        exit_code = done.exit_code
        if exit_code not in _EXIT_CODES and (died := _EXCEPTION.search(done.stderr)):
            rejected = parse_own_failure(done.stdout, died.group(1))
            if rejected is not None:
                return rejected
        reply = parse_reply(done.stdout)
        _check_exit_code(exit_code, reply, done.stderr)
        return reply


def _check_exit_code(exit_code: int, reply: Reply, stderr_tail: str) -> None:
    if exit_code not in _EXIT_CODES:
        raise WorkerError(f"dafny exited with {exit_code}: {stderr_tail[-300:]}")
    clean = reply.all_verified and not any(m.kind == "error" for m in reply.messages)
    if clean and exit_code != 0:
        raise WorkerError(f"dafny printed a clean reply but exited with {exit_code}")
