"""The verdict rule of Dafny 2.3, shared by the server and the command line.

Flows in: a way to ask Dafny about a program, and a candidate. Flows out: a ``Judgement``.
Dafny's own last line says "completed successfully" for failed, exhausted and empty programs
alike, so it counts for nothing: a program is proved when the entries that it had to verify, and
only those, all say ``verified``, nothing says error, and every line of the reply was understood.
Not handled here: the text of the body (``proverrl.verify.dafny_audit``), processes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from proverrl.errors import ProblemError, ToolchainError, WorkerError
from proverrl.types import Candidate, Diagnostic, Problem, Status
from proverrl.verify.base import Limits
from proverrl.verify.dafny_reply import Reply
from proverrl.verify.toolchain import DafnyToolchain

Ask = Callable[[str, int | None], Awaitable[Reply]]
"""Verifies a source under an rlimit (None: the usual one); raises ``WorkerError``."""

_NO_BODY = "has no body"
_LIMIT_OUTCOMES = ("timed out", "out of resource")
_MAX_DIAGNOSTICS = 20
_MAX_KNOWN_PROBLEMS = 100_000

_CANARY = """\
lemma CanaryTrue(x: int) ensures x * x >= 0 {}
lemma CanaryFalse(x: int) ensures x * x >= 1 {}
lemma CanaryAssume() ensures false { assume false; }
"""
_CANARY_OUTCOMES = {"CanaryTrue": "verified", "CanaryFalse": "error", "CanaryAssume": "error"}
_CANARY_HARD = """\
lemma CanaryHard(x: int, y: int, z: int)
  requires x > 2 && y > 2 && z > 2 ensures x * x * x + y * y * y != z * z * z {}
"""
_CANARY_RLIMIT = 3_000_000
_CANARY_TIGHT_RLIMIT = 50_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """The status of one reply; ``checks`` names what was looked at and found in order."""

    status: Status
    diagnostics: tuple[Diagnostic, ...]
    checks: tuple[str, ...]


class ExpectedEntries:
    """The entries that a proof of each problem must verify, found once per problem."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[str]] = OrderedDict()

    def find(self, problem: Problem) -> frozenset[str] | None:
        """The entries named by the problem itself, or found earlier; None when unknown."""
        if named := problem.metadata.get("expected_entries"):
            return frozenset(str(name) for name in named)
        return self._known.get(Candidate(problem, "").key)

    def record(self, problem: Problem, blank: Reply) -> frozenset[str]:
        """Take the entries from a reply about the problem with an empty body."""
        if not blank.resolved or not blank.entries:
            why = next((m.text for m in blank.messages if m.kind == "error"), "no entries")
            raise ProblemError(
                f"problem {problem.id!r}: with an empty body Dafny says {why!r}, so what a proof "
                "must verify is unknown; name it in the problem's metadata as expected_entries"
            )
        self._known[Candidate(problem, "").key] = blank.names
        while len(self._known) > _MAX_KNOWN_PROBLEMS:
            self._known.popitem(last=False)
        return blank.names


async def judge_candidate(
    ask: Ask, candidate: Candidate, expected_entries: ExpectedEntries
) -> Judgement:
    """Ask about a candidate, and about its problem with an empty body when that is still due.

    Raises ``WorkerError`` on doubt, ``ProblemError`` when the problem cannot hold a proof.
    """
    reply = await ask(candidate.source, None)
    if candidate.problem.kind == "file":
        return judge_reply(reply, candidate, None)
    expected = expected_entries.find(candidate.problem)
    if expected is None and reply.all_verified:
        blank = Candidate(candidate.problem, "", candidate.prelude)
        expected = expected_entries.record(candidate.problem, await ask(blank.source, None))
    return judge_reply(reply, candidate, expected or frozenset())


async def check_canaries(ask: Ask) -> None:
    """See that Dafny tells true from false under our options; raises ``ToolchainError`` if not.

    An option that Dafny does not know is taken for a file name without a word, so each one that
    guards a verdict is tried.
    """
    reply = await ask(_CANARY, _CANARY_RLIMIT)
    outcomes = {entry.name.rpartition(".")[2]: entry.outcome for entry in reply.entries}
    if outcomes != _CANARY_OUTCOMES:
        raise ToolchainError(
            f"Dafny misjudges known lemmas ({outcomes or reply.messages or reply.unknown}); "
            "reinstall it: sudo apt-get install --reinstall dafny"
        )
    hard = await ask(_CANARY_HARD, _CANARY_TIGHT_RLIMIT)
    if [entry.outcome for entry in hard.entries] not in [[limit] for limit in _LIMIT_OUTCOMES]:
        raise ToolchainError(
            "Dafny ignores /rlimit, so proofs could not be bounded: "
            f"{[entry.outcome for entry in hard.entries]}"
        )


def judge_reply(reply: Reply, candidate: Candidate, expected: frozenset[str] | None) -> Judgement:
    """Apply the verdict rule. ``expected`` is None for a bare file.

    Raises ``WorkerError`` when nothing can be concluded: an entry is inconclusive (its prover
    died) or a line that is not understood stands in an otherwise clean reply.
    """
    diagnostics = _make_diagnostics(reply, candidate)
    if any(_NO_BODY in m.text for m in reply.messages if m.kind == "warning"):
        return Judgement(Status.UNSOUND, diagnostics, ("audit", "resolve"))
    outcomes = {entry.outcome for entry in reply.entries}
    failed = any(m.kind == "error" for m in reply.messages) or outcomes & {"error", "errors"}
    if failed:
        checks = ("audit", "resolve", "obligations") if reply.resolved else ("audit", "resolve")
        return Judgement(Status.REJECTED, diagnostics, checks)
    if odd := outcomes - {"verified", *_LIMIT_OUTCOMES}:
        raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}")
    if outcomes & set(_LIMIT_OUTCOMES):
        return Judgement(Status.EXHAUSTED, diagnostics, ("audit", "resolve", "obligations"))
    if reply.unknown:
        raise WorkerError(f"Dafny said what is not understood: {reply.unknown[0][:200]!r}")
    return _judge_clean(reply, expected, diagnostics)


def _judge_clean(
    reply: Reply, expected: frozenset[str] | None, diagnostics: tuple[Diagnostic, ...]
) -> Judgement:
    done = ("audit", "resolve")
    if not reply.entries and not expected:
        nothing = Diagnostic("error", "nothing to verify: the program has no proof obligation")
        status = Status.REJECTED if expected is None else Status.UNSOUND
        return Judgement(status, (nothing, *diagnostics), done)
    if expected is not None and reply.names != expected:
        missing, extra = sorted(expected - reply.names), sorted(reply.names - expected)
        differ = Diagnostic(
            "error",
            "what was verified is not what the problem asks for: "
            f"missing {missing or 'nothing'}, unexpected {extra or 'nothing'}",
        )
        return Judgement(Status.UNSOUND, (differ, *diagnostics), done)
    num_obligations = sum(entry.num_obligations for entry in reply.entries)
    entries_check = "entries" if expected is not None else "some-entries"
    checks = (
        *done,
        f"{entries_check}:{len(reply.entries)}",
        f"obligations:{num_obligations}",
        "no-errors",
        "no-missing-body",
        "no-unknown-lines",
    )
    return Judgement(Status.PROVED, diagnostics, checks)


def _make_diagnostics(reply: Reply, candidate: Candidate) -> tuple[Diagnostic, ...]:
    """Errors first, without repeats and without ``Info`` lines; a note follows its message."""
    kept: dict[tuple[object, ...], Diagnostic] = {}
    for message in reply.messages:
        if message.kind == "info":
            continue
        severity: Literal["error", "warning", "info"] = "info"
        if message.kind in ("error", "limit"):
            severity = "error"
        elif message.kind == "warning":
            severity = "warning"
        key = (message.kind, message.line, message.column, message.text)
        if key not in kept:
            kept[key] = Diagnostic(
                severity=severity,
                message=message.text,
                line=message.line,
                column=message.column,
                body_line=find_body_line(candidate, message.line, message.column),
            )
    return tuple(list(kept.values())[:_MAX_DIAGNOSTICS])


def find_body_line(candidate: Candidate, line: int, column: int) -> int | None:
    """The line within the body of a position in the file, from 1; None outside the body."""
    head, body = candidate.head, candidate.body
    first_line = head.count("\n") + 1
    first_column = len(head) - (head.rfind("\n") + 1)
    num_breaks = body.count("\n")
    last_line = first_line + num_breaks
    last_column = len(body) - (body.rfind("\n") + 1) + (0 if num_breaks else first_column)
    if (line, column) < (first_line, first_column) or (line, column) > (last_line, last_column):
        return None
    return line - first_line + 1


def make_options(toolchain: DafnyToolchain, limits: Limits, rlimit: int | None = None) -> list[str]:
    """The options of every question, to the server and to the command line alike."""
    return [
        "/noCheating:1",
        f"/rlimit:{rlimit or limits.rlimit}",
        f"/timeLimit:{limits.time_limit_seconds}",
        f"/z3exe:{toolchain.z3}",
    ]
