"""Dafny's command line, one process per question: for machines without DafnyServer.

Flows in: audited candidates. Flows out: verdicts by the same rule as the server's, and with the
exit code as a second witness. The exit code alone would accept an exhausted ``/rlimit``.
Not handled here: speed (about a second per candidate is the start of the process).
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.errors import WorkerError
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.reply import (
    FAILURE_OPTIONS,
    FILE_NAME,
    PROCEDURE_OPTION,
    TYPE_OPTIONS,
    Reply,
    parse_reply,
    read_types,
    split_trace,
)
from proverrl.lang.dafny.verify.judge import judge_candidate, make_options
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.selfcheck import check_canaries
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.process_group import (
    GroupWorker,
    ProcessGroup,
    find_cause,
    make_folder,
)

# Not /verifySnapshots:0: here it means "look for p.v0.dfy", and then nothing is verified.
_CLI_OPTIONS = ("/compile:0", "/nologo", "/trace")
_EXIT_CODES = (0, 2, 4)
_MAX_REPLY_BYTES = 64 * 2**20


class DafnyCliWorker(GroupWorker, DafnyProcess):
    """Runs ``dafny`` once per question and holds no process between questions."""

    def __init__(self, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems) -> None:
        self._toolchain = toolchain
        self._limits = limits
        self._known = known
        self._group: ProcessGroup | None = None

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return () if self._group is None else (self._group,)

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer."""
        return await judge_candidate(self, candidate, self._known, self._toolchain)

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> DafnyCliWorker:
        worker = cls(toolchain.plain, limits, known)
        await check_canaries(worker, toolchain.z3)
        worker._toolchain = toolchain
        return worker

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        return (await self._ask(source, rlimit, *map(PROCEDURE_OPTION.format, only)))[0]

    async def ask_traced(self, source: str, rlimit: int) -> Reply:
        """As ``ask``: the command line always names its prover."""
        return await self.ask(source, rlimit)

    async def ask_resolved(self, source: str) -> Reply:
        return (await self._ask(source, None, *TYPE_OPTIONS))[0]

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, list[str]]:
        reply, trace = await self._ask(program.text, None, *TYPE_OPTIONS)
        return reply, read_types(trace, len(program.bindings))

    async def ask_failures(self, source: str) -> Reply:
        return (await self._ask(source, None, *FAILURE_OPTIONS))[0]

    async def _ask(
        self, source: str, rlimit: int | None, *more: str
    ) -> tuple[Reply, tuple[str, ...]]:
        options = (*make_options(self._toolchain, self._limits, rlimit), *more)
        command = (self._toolchain.dafny, *_CLI_OPTIONS, *options, FILE_NAME)
        exit_code, stdout, stderr = await self._run(command, source)
        text, trace = split_trace(stdout) if more else (stdout, ())
        reply = parse_reply(text)
        if exit_code not in _EXIT_CODES:
            said = f"dafny exited with {exit_code}: {stderr[-300:]}"
            raise WorkerError(said, find_cause(exit_code))
        if reply.all_verified and not reply.errors and exit_code != 0:
            raise WorkerError(f"dafny printed a clean reply but exited with {exit_code}")
        return reply, trace

    async def _run(self, command: Sequence[str], source: str) -> tuple[int, str, str]:
        """Run a command in a folder that holds the program: its exit code, what it printed, and the
        tail of its errors."""
        folder = make_folder()
        (folder / FILE_NAME).write_text(source, encoding="utf-8", newline="")
        group = await ProcessGroup.start(command, folder)
        self._group = group
        try:
            received = await group.read_all(_MAX_REPLY_BYTES, "dafny")
            exit_code = await group.wait()
        finally:
            group.kill()
        await group.join()
        return exit_code, received.decode("utf-8", "replace"), group.stderr_tail
