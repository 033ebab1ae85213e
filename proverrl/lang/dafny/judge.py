"""The verdict rule of Dafny 2.3, shared by the server and the command line.

Flows in: a Dafny process, and a candidate. Flows out: a ``Judgement``.
Dafny's own last line says "completed successfully" for failed, exhausted and empty programs
alike, so it counts for nothing: a program is proved when the entries that it had to verify, and
only those, all say ``verified``, nothing says error, and every line of the reply was understood.
Not handled here: the text of the body (``proverrl.lang.dafny.audit``), processes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

from proverrl.errors import WorkerError
from proverrl.lang.dafny.annotate import list_entry_names
from proverrl.lang.dafny.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.syntax.plain import make_plain, write_plain
from proverrl.lang.dafny.workers.reply import Reply
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.lang.dafny.written_types import name_calc_line
from proverrl.types import ANNOTATE, Candidate, Diagnostic, Obligations, Status, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.body_place import find_body_place

_NO_BODY = "has no body"
_LIMIT_OUTCOMES = ("timed out", "out of resource")
_MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Judgement:
    """The status of one reply; ``checks`` names what was looked at and found in order."""

    status: Status
    diagnostics: tuple[Diagnostic, ...]
    checks: tuple[str, ...]
    obligations: tuple[Obligations, ...] = ()


async def judge_candidate(
    process: DafnyProcess, candidate: Candidate, known: KnownProblems
) -> Judgement:
    """Ask about a candidate, and about its problem with an empty body when that is still due.

    Raises ``WorkerError`` on doubt, ``ProblemError`` when the problem cannot hold a proof.
    """
    plain, given = make_plain(candidate)
    named, lines = name_calc_line(plain)
    problem = named.problem
    written = await known.write_types(process, named)
    reply = await process.ask(written.text)
    reply = given.restore(lines.restore(written.restore(reply)))
    if problem.kind == "file":
        return judge_reply(reply, candidate, None)
    if not reply.resolved:
        await known.check_types(process, problem)
    expected = known.find_entries(problem)
    if expected is None and reply.all_verified:
        expected = await known.ask_entries(process, problem)
    return judge_reply(reply, candidate, expected or frozenset())


async def judge_to_verdict(
    process: DafnyProcess, candidate: Candidate, known: KnownProblems, toolchain: str
) -> Verdict:
    """``judge_candidate``, timed, as the verdict of a toolchain."""
    started = time.monotonic()
    judgement = await judge_candidate(process, candidate, known)
    return Verdict(
        status=judgement.status,
        diagnostics=judgement.diagnostics,
        obligations=judgement.obligations,
        seconds=time.monotonic() - started,
        toolchain=toolchain,
        checks=judgement.checks,
    )


def judge_reply(reply: Reply, candidate: Candidate, expected: frozenset[str] | None) -> Judgement:
    """Apply the verdict rule. ``expected`` is None for a bare file.

    An annotated program may have entries beyond the expected ones, for what it declares itself;
    they too must be verified. Raises ``WorkerError`` when nothing can be concluded: an entry is
    inconclusive (its prover died) or a line that is not understood stands in an otherwise clean
    reply.
    """
    judgement = _judge_reply(reply, candidate, expected)
    return replace(judgement, obligations=count_obligations(reply))


def count_obligations(reply: Reply) -> tuple[Obligations, ...]:
    """What each entry had to prove and how much of it was; the errors named are the failures.

    An entry that failed proved at least one obligation less than it has, one that ran out of its
    limit counts as having proved none.
    """
    counted = []
    for entry in reply.entries:
        total = entry.num_obligations
        proved = 0
        if entry.outcome == "verified":
            proved = total
        elif entry.outcome in ("error", "errors"):
            proved = max(0, total - max(1, entry.num_failures))
        counted.append(Obligations(entry.name, total, proved))
    return tuple(counted)


def _judge_reply(reply: Reply, candidate: Candidate, expected: frozenset[str] | None) -> Judgement:
    diagnostics = _make_diagnostics(reply, candidate)
    if any(_NO_BODY in m.text for m in reply.messages if m.kind == "warning"):
        return Judgement(Status.UNSOUND, diagnostics, ("audit", "resolve"))
    outcomes = {entry.outcome for entry in reply.entries}
    failed = any(m.kind == "error" for m in reply.messages) or outcomes & {"error", "errors"}
    if failed:
        checks = ("audit", "resolve", "obligations") if reply.resolved else ("audit", "resolve")
        return Judgement(Status.REJECTED, diagnostics, checks)
    if odd := outcomes - {"verified", *_LIMIT_OUTCOMES}:
        raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}", "no-result")
    if outcomes & set(_LIMIT_OUTCOMES):
        return Judgement(Status.EXHAUSTED, diagnostics, ("audit", "resolve", "obligations"))
    if reply.unknown:
        raise WorkerError(f"Dafny said what is not understood: {reply.unknown[0][:200]!r}")
    return _judge_clean(reply, candidate, expected, diagnostics)


def _judge_clean(
    reply: Reply,
    candidate: Candidate,
    expected: frozenset[str] | None,
    diagnostics: tuple[Diagnostic, ...],
) -> Judgement:
    done = ("audit", "resolve")
    if not reply.entries and not expected:
        nothing = Diagnostic("error", "nothing to verify: the program has no proof obligation")
        status = Status.REJECTED if expected is None else Status.UNSOUND
        return Judgement(status, (nothing, *diagnostics), done)
    if unchecked := _list_unchecked_iterators(reply, candidate):
        skipped = Diagnostic("error", f"Dafny skipped these iterators: {', '.join(unchecked)}")
        return Judgement(Status.UNSOUND, (skipped, *diagnostics), done)
    missing, extra = _compare_entries(reply, candidate, expected)
    if missing or extra:
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


def _compare_entries(
    reply: Reply, candidate: Candidate, expected: frozenset[str] | None
) -> tuple[list[str], list[str]]:
    """The entries that are missing, and those that nothing accounts for."""
    if expected is None:
        return [], []
    extra = reply.names - expected
    if candidate.problem.kind == ANNOTATE and extra:
        declared = list_entry_names(write_plain(candidate.source).text)
        extra = frozenset(name for name in extra if name.rpartition(".")[2] not in declared)
    return sorted(expected - reply.names), sorted(extra)


def _list_unchecked_iterators(reply: Reply, candidate: Candidate) -> list[str]:
    """Iterators without an entry of their own in a program that claims anything.

    Dafny 2.3 skips what has no proof obligation, and forgets to count what an iterator ensures.
    """
    if "iterator" not in candidate.source or "ensures" not in candidate.source:
        return []
    checked = {
        name.rpartition(".")[2].partition(" ")[0]
        for name in reply.names
        if not name.startswith("CheckWellformed") and "(well-formedness)" not in name
    }
    return sorted(list_entry_names(write_plain(candidate.source).text, "iterator") - checked)


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
            place = find_body_place(candidate, message.line, message.column)
            kept[key] = Diagnostic(
                severity=severity,
                message=message.text,
                line=message.line,
                column=message.column,
                body_line=place[0] if place else None,
                body_column=place[1] if place else None,
            )
    return tuple(list(kept.values())[:_MAX_DIAGNOSTICS])


def make_options(toolchain: DafnyToolchain, limits: Limits, rlimit: int | None = None) -> list[str]:
    """The options of every question, to the server and to the command line alike."""
    return [
        "/noCheating:1",
        f"/rlimit:{rlimit or limits.rlimit}",
        f"/timeLimit:{limits.time_limit_seconds}",
        f"/z3exe:{toolchain.z3}",
    ]
