"""Dafny 4: ``dafny verify``, one process per question.

Flows in: audited candidates. Flows out: verdicts by the rule of ``dafny_judge``, from the exit
code and the JSON log of each procedure.
Covered: a program that is refused, fails, runs out of its limit; a log that is missing, cut short
or contradicts the exit code (no verdict); a resource limit that counts in thousands, as some
versions do (found at the start). Warnings count as failures: neither ``--allow-warnings`` nor
``--allow-axioms`` is ever given. Not covered: **this has not run against a real Dafny 4**, only
against ``tests/fake_dafny4.py``, which answers as Dafny's documentation and source say.
"""

from __future__ import annotations

import time

from proverrl.errors import ToolchainError, WorkerError
from proverrl.types import Candidate, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.dafny4_reply import read_reply
from proverrl.verify.dafny_judge import ExpectedEntries, judge_candidate
from proverrl.verify.dafny_reply import FILE_NAME, Reply
from proverrl.verify.process_group import ProcessGroup, make_folder
from proverrl.verify.toolchain import DafnyToolchain

LOG_NAME = "log.json"
_MAX_REPLY_BYTES = 64 * 2**20
_CANARY = """\
lemma CanaryTrue(x: int) ensures x * x >= 0 {}
lemma CanaryFalse(x: int) ensures x * x >= 1 {}
"""
_CANARY_OUTCOMES = {"CanaryTrue": "verified", "CanaryFalse": "error"}
_CANARY_ASSUME = "lemma CanaryAssume() ensures false { assume false; }\n"
_CANARY_HARD = "lemma CanaryHard(x: int) ensures x * x >= 0 {}\n"
_CANARY_RLIMIT = 3_000_000
_TIGHT_RLIMIT = 50_000
_SCALES = (1, 1000)


class Dafny4Worker:
    """Runs ``dafny verify`` once per question; holds no process between questions."""

    def __init__(
        self, toolchain: DafnyToolchain, limits: Limits, expected: ExpectedEntries
    ) -> None:
        self._toolchain = toolchain
        self._limits = limits
        self._expected = expected
        self._group: ProcessGroup | None = None
        self._scale = _SCALES[0]

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, expected: ExpectedEntries
    ) -> Dafny4Worker:
        """See that the command tells true from false; raises ``ToolchainError`` if not."""
        worker = cls(toolchain, limits, expected)
        await worker._check_canaries()
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
        group = await ProcessGroup.start(
            self._make_command(rlimit or self._limits.rlimit),
            folder,
            memory_limit_mb=self._limits.memory_mb,
        )
        self._group = group
        received = bytearray()
        log = ""
        try:
            while chunk := await group.read():
                received += chunk
                if len(received) > _MAX_REPLY_BYTES:
                    raise WorkerError(f"dafny printed over {_MAX_REPLY_BYTES} bytes")
            exit_code = await group.wait()
            if (folder / LOG_NAME).is_file():
                log = (folder / LOG_NAME).read_text(encoding="utf-8-sig")
        finally:
            group.kill()
        await group.join()
        output = received.decode("utf-8", "replace") + group.stderr_tail
        return read_reply(exit_code, output, log)

    def _make_command(self, rlimit: int) -> tuple[str, ...]:
        return (
            self._toolchain.dafny,
            "verify",
            FILE_NAME,
            "--cores",
            "1",
            "--verification-time-limit",
            str(self._limits.time_limit_seconds),
            "--resource-limit",
            str(max(1, rlimit // self._scale)),
            "--solver-path",
            self._toolchain.z3,
            "--log-format",
            f"json;LogFileName={LOG_NAME}",
        )

    async def _check_canaries(self) -> None:
        plain = await self.ask(_CANARY, _CANARY_RLIMIT)
        outcomes = {entry.name.rpartition(".")[2]: entry.outcome for entry in plain.entries}
        if outcomes != _CANARY_OUTCOMES:
            raise ToolchainError(f"Dafny misjudges known lemmas ({outcomes or plain.messages})")
        assumed = await self.ask(_CANARY_ASSUME, _CANARY_RLIMIT)
        if not any(message.kind == "error" for message in assumed.messages):
            raise ToolchainError("Dafny accepts an assumption, so no verdict could be believed")
        for scale in _SCALES:
            self._scale = scale
            hard = await self.ask(_CANARY_HARD, _TIGHT_RLIMIT)
            if [entry.outcome for entry in hard.entries] == ["out of resource"]:
                return
        raise ToolchainError("Dafny ignores --resource-limit, so proofs could not be bounded")
