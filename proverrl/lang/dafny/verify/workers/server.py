"""One DafnyServer process.

Flows in: candidates that passed the audit, one at a time. Flows out: verdicts.
Covered: a reply that is late, forged, cut short or of any length; a server that dies or floods
stderr. Every request is followed by a verb that no server knows, with a fresh random name; the
server's complaint about that name ends the reply, so that a reply cannot belong to another
question and cannot be ended by printed text.
"""

from __future__ import annotations

import base64
import json
import re
import secrets

from proverrl.errors import ToolchainError, WorkerError
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
from proverrl.verifier.process_group import GroupWorker, ProcessGroup

_REQUEST_END = "[[DAFNY-CLIENT: EOM]]"
_SUCCESS = "[SUCCESS] [[DAFNY-SERVER: EOM]]"
_FAILURE = "[FAILURE] [[DAFNY-SERVER: EOM]]"
_MAX_REPLY_BYTES = 64 * 2**20
_INCLUDED = "q.dfy"
_INCLUDED_INFO = re.compile(rf"^{re.escape(_INCLUDED)}\(\d+,-?\d+\): Info: .*\n", re.MULTILINE)


class DafnyServerWorker(GroupWorker, DafnyProcess):
    """A started and tested DafnyServer. After any ``WorkerError`` it must be killed."""

    def __init__(
        self,
        group: ProcessGroup,
        toolchain: DafnyToolchain,
        limits: Limits,
        known: KnownProblems,
    ) -> None:
        self._group = group
        self._toolchain = toolchain
        self._limits = limits
        self._known = known
        self._busy = False

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return (self._group,)

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> DafnyServerWorker:
        if toolchain.server is None:
            raise ToolchainError("DafnyServer is not installed; run: sudo apt-get install dafny")
        group = await ProcessGroup.start(toolchain.server)
        worker = cls(group, toolchain.plain, limits, known)
        try:
            await check_canaries(worker, toolchain.z3)
        except BaseException:
            worker.kill()
            await worker.join()
            raise
        worker._toolchain = toolchain
        return worker

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge one audited candidate; raises ``WorkerError`` on any doubt about the answer."""
        return await judge_candidate(self, candidate, self._known, self._toolchain)

    async def ask_traced(self, source: str, rlimit: int) -> Reply:
        """As ``ask``, and the reply names the prover that was used."""
        return parse_reply(await self._ask(source, rlimit, "/trace"))

    async def ask_resolved(self, source: str) -> Reply:
        return parse_reply(split_trace(await self._ask(source, None, *TYPE_OPTIONS))[0])

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, list[str]]:
        text, trace = split_trace(await self._ask(program.text, None, *TYPE_OPTIONS))
        return parse_reply(text), read_types(trace, len(program.bindings))

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        return parse_reply(await self._ask(source, rlimit, *map(PROCEDURE_OPTION.format, only)))

    async def ask_failures(self, source: str) -> Reply:
        return parse_reply(await self._ask(source, None, *FAILURE_OPTIONS))

    async def ask_part(self, source: str, included: str) -> Reply | None:
        """The directive takes the place of blanks, where the program had its own."""
        source, is_placed = re.subn(" {14}", f'include"{_INCLUDED}"', source, count=1)
        if not is_placed:
            return None
        place = self._group.folder / _INCLUDED
        place.write_text(included, encoding="utf-8", newline="")
        return parse_reply(_INCLUDED_INFO.sub("", await self._ask(source, None)))

    async def _ask(self, source: str, rlimit: int | None, *more: str) -> str:
        """Dafny's output for one program; ``more`` are options for this one question."""
        if self._busy:
            raise WorkerError("this server still owes an answer to an earlier question")
        self._busy = True
        options = make_options(self._toolchain, self._limits, rlimit)
        nonce = f"nonce-{secrets.token_hex(12)}"
        request = {
            # Cached verdicts (snapshots) of 2.3 can be stale.
            "args": ["/verifySnapshots:0", *options, *more],
            "filename": FILE_NAME,
            "source": source,
            "sourceIsFile": False,
        }
        payload = base64.b64encode(json.dumps(request).encode("ascii")).decode("ascii")
        try:
            await self._group.write(f"verify\n{payload}\n{_REQUEST_END}\n{nonce}\n".encode("ascii"))
        except OSError as error:
            raise await self._group.explain_end(f"the Dafny server is gone: {error}") from error
        mark = f"Unknown verb '{nonce}'\n{_FAILURE}\n"
        text, found = await self._read_until(mark.encode("ascii"))
        if not found:
            said = f"{text[-300:]} {self._group.stderr_tail[-300:]}"
            raise await self._group.explain_end("the Dafny server died", said)
        self._busy = False
        return _take_answer(text)

    async def _read_until(self, mark: bytes) -> tuple[str, bool]:
        """All that came before the mark, and whether the mark came before the end."""
        received = bytearray()
        searched = 0
        while True:
            place = received.find(mark, searched)
            if place >= 0:
                break
            searched = max(0, len(received) - len(mark))
            chunk = await self._group.read()
            if not chunk:
                return received.decode("utf-8", "replace"), False
            received += chunk
            if len(received) > _MAX_REPLY_BYTES:
                raise WorkerError(f"the Dafny server printed over {_MAX_REPLY_BYTES} bytes")
        if len(received) != place + len(mark):
            raise WorkerError("the Dafny server went on talking after its answer")
        return received[:place].decode("utf-8", "replace"), True


def _take_answer(text: str) -> str:
    """Strip the one end mark; a second one means that something else ended an answer."""
    lines = text.split("\n")
    marks = [i for i, line in enumerate(lines) if line in (_SUCCESS, _FAILURE)]
    if len(marks) != 1 or marks[0] != len(lines) - 2 or lines[-1]:
        raise WorkerError(f"the Dafny server's reply has {len(marks)} end marks: {text[-200:]!r}")
    if lines[marks[0]] == _FAILURE:
        raise WorkerError(f"the Dafny server failed: {text[-300:]!r}")
    return "\n".join(lines[: marks[0]])
