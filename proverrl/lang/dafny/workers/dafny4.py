"""Dafny 4: ``dafny verify``, one process per question.

Flows in: audited candidates. Flows out: verdicts by the rule of ``lang.dafny.judge``, from the exit
code and the JSON log of each procedure.
Covered: a program that is refused, fails, runs out of its limit; a log that is missing, cut short
or contradicts the exit code (no verdict); a resource limit that counts in thousands, as some
versions do (found at the start). Warnings count as failures: neither ``--allow-warnings`` nor
``--allow-axioms`` is ever given. Not covered: **this has not run against a real Dafny 4**, only
against ``tests/fake_dafny4.py``, which answers as Dafny's documentation and source say.
"""

from __future__ import annotations

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.dafny4_reply import read_reply
from proverrl.lang.dafny.workers.process import DafnyProcessWorker
from proverrl.lang.dafny.workers.reply import FILE_NAME, Reply
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.verify.base import Limits

LOG_NAME = "log.json"
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


class Dafny4Worker(DafnyProcessWorker):
    """Runs ``dafny verify`` once per question."""

    _scale = _SCALES[0]

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> Dafny4Worker:
        """See that the command tells true from false; raises ``ToolchainError`` if not."""
        worker = cls(toolchain, limits, known)
        await worker._check_canaries()
        return worker

    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        """Verify one program in a folder and a process of its own."""
        command = self._make_command(rlimit or self._limits.rlimit)
        done = await self._run(command, source, LOG_NAME)
        return read_reply(done.exit_code, done.stdout + done.stderr, done.log)

    async def ask_types(self, source: str) -> tuple[Reply, tuple[str, ...]]:
        """Nothing: how Dafny 4 tells its types was never seen, so problems must write them out."""
        return Reply((), (), ()), ()

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
