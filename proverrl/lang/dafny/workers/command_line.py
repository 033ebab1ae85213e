"""Dafny's command line, one process per candidate: for machines without DafnyServer.

Flows in: audited candidates. Flows out: verdicts by the same rule as the server's, and with the
exit code as a second witness. The exit code alone would accept an exhausted ``/rlimit``.
Not handled here: speed (about a second per candidate is the start of the process).
"""

from __future__ import annotations

from proverrl.errors import WorkerError
from proverrl.lang.dafny.judge import make_options
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.process import DafnyProcessWorker, Output
from proverrl.lang.dafny.workers.reply import (
    FILE_NAME,
    TYPE_OPTIONS,
    Reply,
    parse_reply,
    split_trace,
)
from proverrl.lang.dafny.workers.selfcheck import check_canaries
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.verify.base import Limits
from proverrl.verify.process_group import find_cause

# Not /verifySnapshots:0: here it means "look for p.v0.dfy", and then nothing is verified.
_CLI_OPTIONS = ("/compile:0", "/nologo", "/trace")
_EXIT_CODES = (0, 2, 4)


class DafnyCliWorker(DafnyProcessWorker):
    """Runs ``dafny`` once per question."""

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> DafnyCliWorker:
        """See that the command tells true from false; raises ``ToolchainError`` if not."""
        worker = cls(toolchain, limits, known)
        await check_canaries(worker, toolchain.z3)
        return worker

    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        """Verify one program in a folder and a process of its own."""
        return self._read(*await self._ask(source, rlimit))

    async def ask_traced(self, source: str, rlimit: int) -> Reply:
        """As ``ask``: the command line always names its prover."""
        return await self.ask(source, rlimit)

    async def ask_types(self, source: str) -> tuple[Reply, tuple[str, ...]]:
        """Verify nothing, and tell what types are inferred."""
        done, text = await self._ask(source, None, *TYPE_OPTIONS)
        text, trace = split_trace(text)
        return self._read(done, text), trace

    async def _ask(self, source: str, rlimit: int | None, *more: str) -> tuple[Output, str]:
        options = (*make_options(self._toolchain, self._limits, rlimit), *more)
        done = await self._run((self._toolchain.dafny, *_CLI_OPTIONS, *options, FILE_NAME), source)
        return done, done.stdout

    def _read(self, done: Output, text: str) -> Reply:
        reply = parse_reply(text)
        _check_exit_code(done.exit_code, reply, done.stderr)
        return reply


def _check_exit_code(exit_code: int, reply: Reply, stderr_tail: str) -> None:
    if exit_code not in _EXIT_CODES:
        said = f"dafny exited with {exit_code}: {stderr_tail[-300:]}"
        raise WorkerError(said, find_cause(exit_code))
    clean = reply.all_verified and not any(m.kind == "error" for m in reply.messages)
    if clean and exit_code != 0:
        raise WorkerError(f"dafny printed a clean reply but exited with {exit_code}")
