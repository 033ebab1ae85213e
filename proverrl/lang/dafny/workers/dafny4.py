"""Dafny 4: ``dafny verify``, one process per question.

Flows in: audited candidates. Flows out: verdicts by the rule of ``lang.dafny.judge``, from the exit
code and the JSON log of each procedure; the printed text only gives messages to show. A log that is
missing, cut short or contradicts the exit code gives no verdict. Warnings count as failures:
``--allow-warnings`` and ``--allow-axioms`` are given only where the user has things believed.
Not covered: **this has not run against a real Dafny 4**, only against ``tests/fake_dafny4.py``,
which answers as Dafny's documentation and source say.
"""

from __future__ import annotations

import json
import re
from typing import Any

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.command_line import DafnyProcessWorker
from proverrl.lang.dafny.workers.reply import (
    FILE_NAME,
    MESSAGE_KINDS,
    EntryResult,
    Reply,
    ReplyMessage,
)
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.verifier.base import Limits
from proverrl.verifier.process_group import find_cause

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
VERIFIED_CODE, REFUSED_CODE, FAILED_CODE = 0, 2, 4

_MESSAGE = re.compile(
    rf"(?:.*/)?{re.escape(FILE_NAME)}\((\d+),(\d+)\): "
    r"(Error|Warning|Info|Related location)\b: ?(.*)"
)
_OUTCOMES = {
    "Correct": "verified",
    "Errors": "error",
    "TimedOut": "timed out",
    "OutOfResource": "out of resource",
}
_UNJUDGED = ("OutOfMemory", "Inconclusive", "SolverException")


class Dafny4Worker(DafnyProcessWorker):
    """Runs ``dafny verify`` once per question."""

    _scale = _SCALES[0]

    @classmethod
    async def start(
        cls, toolchain: DafnyToolchain, limits: Limits, known: KnownProblems
    ) -> Dafny4Worker:
        worker = cls(toolchain.plain, limits, known)
        await worker._check_canaries()
        worker._toolchain = toolchain
        return worker

    async def ask(self, source: str, rlimit: int | None = None) -> Reply:
        return await self._ask(source, rlimit or self._limits.rlimit)

    async def ask_failures(self, source: str) -> Reply:
        return await self._ask(
            source, self._limits.rlimit, "--allow-warnings", "--error-limit", "100"
        )

    async def _ask(self, source: str, rlimit: int, *more: str) -> Reply:
        done = await self._run((*self._make_command(rlimit), *more), source, LOG_NAME)
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
            *(["--allow-axioms", "--allow-warnings"] if self._toolchain.believes else []),
            *self._toolchain.arguments,
        )

    async def _check_canaries(self) -> None:
        plain = await self.ask(_CANARY, _CANARY_RLIMIT)
        outcomes = {entry.name.rpartition(".")[2]: entry.outcome for entry in plain.entries}
        if outcomes != _CANARY_OUTCOMES:
            raise ToolchainError(f"Dafny misjudges known lemmas ({outcomes or plain.messages})")
        assumed = await self.ask(_CANARY_ASSUME, _CANARY_RLIMIT)
        if not assumed.errors:
            raise ToolchainError("Dafny accepts an assumption, so no verdict could be believed")
        for scale in _SCALES:
            self._scale = scale
            hard = await self.ask(_CANARY_HARD, _TIGHT_RLIMIT)
            if [entry.outcome for entry in hard.entries] == ["out of resource"]:
                return
        raise ToolchainError("Dafny ignores --resource-limit, so proofs could not be bounded")


def read_reply(exit_code: int, output: str, log: str) -> Reply:
    """Put the witnesses together; raises ``WorkerError`` when they contradict each other."""
    messages = _read_messages(output)
    if exit_code not in (VERIFIED_CODE, REFUSED_CODE, FAILED_CODE):
        said = f"dafny exited with {exit_code}: {output[-300:]!r}"
        raise WorkerError(said, find_cause(exit_code))
    entries = _read_log(log, messages) if log.strip() else ()
    errors = any(message.kind == "error" for message in messages)
    clean = all(entry.outcome == "verified" for entry in entries)
    if exit_code == VERIFIED_CODE and (errors or not clean):
        raise WorkerError("dafny exited with 0 although its log or its messages tell of failures")
    if exit_code == FAILED_CODE and clean and not errors:
        raise WorkerError("dafny exited with 4 although its log tells of no failure")
    if exit_code == REFUSED_CODE and not errors:
        # Warnings alone give this code too: an assumption, a body that is missing.
        first = messages[0] if messages else ReplyMessage("warning", 0, 0, "no message")
        text = f"Dafny did not accept the program: {first.text}"
        messages = (ReplyMessage("error", first.line, first.column, text), *messages)
    return Reply(entries, messages, ())


def _read_messages(output: str) -> tuple[ReplyMessage, ...]:
    found = (_MESSAGE.match(line) for line in output.splitlines())
    return tuple(ReplyMessage(MESSAGE_KINDS[m[3]], int(m[1]), int(m[2]), m[4]) for m in found if m)


def _read_log(log: str, messages: tuple[ReplyMessage, ...]) -> tuple[EntryResult, ...]:
    """One entry for each procedure, its obligations those that its parts list."""
    errors = {(m.line, m.column) for m in messages if m.kind == "error"}
    try:
        entries = [_read_entry(raw, errors) for raw in json.loads(log)["verificationResults"]]
    except (ValueError, KeyError, TypeError) as error:
        raise WorkerError(f"dafny's log is not what was expected: {error!r}") from error
    return tuple(entries)


def _read_entry(raw: dict[str, Any], errors: set[tuple[int, int]]) -> EntryResult:
    places = [
        (int(assertion["line"]), int(assertion["col"]))
        for part in raw["vcResults"]
        for assertion in part["assertions"]
    ]
    outcome = str(raw["outcome"])
    if outcome not in _OUTCOMES and outcome not in _UNJUDGED:
        raise WorkerError(f"dafny's log names an outcome that is not known: {outcome!r}")
    return EntryResult(
        name=str(raw["name"]),
        num_obligations=len(places),
        outcome=_OUTCOMES.get(outcome, outcome),
        num_failures=len(errors & set(places)),
    )
