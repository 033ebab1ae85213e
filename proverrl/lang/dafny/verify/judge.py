"""The verdict rule of all Dafny workers.

Flows in: a Dafny process, and a candidate. Flows out: a verdict.
Dafny's own last line says "completed successfully" for failed, exhausted and empty programs
alike, so it counts for nothing: a program is proved when the entries that it had to verify, and
only those, all say ``verified``, nothing says error, and every line of the reply was understood.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.dafny.audit.annotated import list_entry_names
from proverrl.lang.dafny.audit.bodies import CONTRACT, PROGRAM, list_trusted, refuse
from proverrl.lang.dafny.audit.methods import move_to_body
from proverrl.lang.dafny.audit.strip import explain_dafny_4, is_dafny_4
from proverrl.lang.dafny.audit.written_types import name_calc_line
from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.known_bugs.untyped_calls import limit_induction, tell_limited
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.plain import WrittenText, make_plain, write_ghost, write_plain
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.reply import LIMIT_OUTCOMES, Reply, ReplyMessage
from proverrl.lang.dafny.syntax.text import find_own_entries
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.walls.asked import ask_walls
from proverrl.lang.dafny.verify.walls.edited import own_program
from proverrl.lang.dafny.verify.walls.mixed_types import Mixes, find_mixed_types
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.lang.records import Finding
from proverrl.types import (
    ANNOTATE,
    FILE,
    Candidate,
    Diagnostic,
    Obligations,
    Stage,
    Status,
    Verdict,
)
from proverrl.verifier.base import NOTHING, Limits
from proverrl.verifier.body_place import find_body_place

_SPELLED = (
    "Dafny 4 takes the type of what is selected here for known too early, and with the types that "
    "it infers written out this is not proved"
)
_NO_BODY = "has no body"
_MAX_DIAGNOSTICS = 20
_MAX_OF_WHOLE = 200
"""Of a whole program: who adds hints to it drops all that fail."""
_SEVERITIES: Mapping[str, Literal["error", "warning", "info"]] = {
    "error": "error",
    "limit": "error",
    "warning": "warning",
}


async def judge_candidate(
    process: DafnyProcess, candidate: Candidate, known: KnownProblems, toolchain: DafnyToolchain
) -> Verdict:
    """Ask about a candidate, and about its problem with an empty body when that is still due.

    Raises ``WorkerError`` on doubt, ``ProblemError`` when the problem cannot hold a proof.
    """
    started = time.monotonic()
    is_file = candidate.problem.kind == FILE
    plain, given = make_plain(candidate)
    named, lines = name_calc_line(plain)
    problem = named.problem
    written = await known.write_types(process, named)
    # Functions of Dafny 4 are code, those of Dafny 2.3 are not.
    is_ghost = toolchain.is_4 and problem.kind == PROGRAM and not is_dafny_4(problem)
    prove = partial(_prove, process, candidate, by_4=toolchain.is_4, as_ghost=is_ghost)
    try:
        reply, judged = await prove(written.text)
    except GrammarError as error:
        raise ProblemError(
            f"problem {problem.id!r}: line {error.finding.line}: with the types that Dafny infers "
            f"written out it cannot be read ({error.finding.message}); write them out in it"
        ) from error
    for text in (written, lines, given):
        reply = text.restore(reply)
    expected = None
    if not is_file:
        if not reply.resolved:
            await known.check_types(process, problem)
        expected = known.find_entries(problem, by_4=toolchain.is_4)
        if expected is None and reply.all_verified:
            expected = await known.ask_entries(process, problem)
        expected = expected or frozenset()
    allowed = toolchain.allowed if is_file else ()
    trusted = list_trusted(candidate.body, allowed) if allowed else []
    verdict = judge_reply(reply, judged, expected, trusted)
    is_newer = is_file and not reply.resolved and not toolchain.is_4
    if is_newer and (newer := explain_dafny_4(candidate.body)):
        said = (Diagnostic("error", newer), *verdict.diagnostics)
        verdict = replace(verdict, diagnostics=said)
    if verdict.proved and not is_file:
        verdict = await ask_walls(process, known, named, written, verdict)
    if verdict.proved and toolchain.is_4:
        mixes = await _ask_mixes(process, named, written, judged.own_lines, as_ghost=is_ghost)
        found = [*mixes.findings, *await _find_unproved(prove, mixes)]
        for text in (written, lines, given):
            found = [replace(f, column=text.find_column(f.line, f.column)) for f in found]
        found = [move_to_body(candidate, finding) for finding in found]
        verdict = refuse(candidate, found) if found else verdict
    return replace(verdict, seconds=time.monotonic() - started, toolchain=toolchain.name)


async def _prove(
    process: DafnyProcess, candidate: Candidate, text: str, *, by_4: bool, as_ghost: bool
) -> tuple[Reply, Candidate]:
    """Dafny's reply to a text, and to what of its candidate. Raises ``GrammarError``."""
    is_file = candidate.problem.kind == FILE
    joined = join_invariants(text, admitted=True, trusts=is_file)
    unchanged = WrittenText(joined.text, {})
    limited = limit_induction(joined.text, trusts=is_file) if by_4 else unchanged
    sent = write_ghost(limited.text) if as_ghost else WrittenText(limited.text, {})
    reply, judged = await _ask(process, sent.text, candidate)
    reply = sent.restore(reply)
    if reply.errors:
        reply = replace(reply, messages=(*reply.messages, *tell_limited(limited)))
    return joined.restore(limited.restore(reply)), judged


async def _ask_mixes(
    process: DafnyProcess,
    candidate: Candidate,
    written: WrittenText,
    own_lines: int,
    *,
    as_ghost: bool,
) -> Mixes:
    """Where types may be mixed in a file, in its own lines if these are all that counts, or in what
    was written into a problem."""
    is_file = candidate.problem.kind == FILE
    program = read_text(written.text, admitted=True, trusts=is_file)
    if not is_file:
        theirs = own_program(candidate, written, program).theirs
        return await find_mixed_types(process, program, theirs, as_ghost=as_ghost)
    lines = [token.line for token in program.tokens]
    end = bisect_right(lines, own_lines) if own_lines else len(lines)
    return await find_mixed_types(process, program, range(end))


async def _find_unproved(
    prove: Callable[[str], Awaitable[tuple[Reply, Candidate]]], mixes: Mixes
) -> list[Finding]:
    """A finding where a text is not proved once more with its types written out."""
    if not (mixes.spelled and mixes.selection):
        return []
    try:
        reply, _ = await prove(mixes.spelled.text)
    except GrammarError as error:
        failed = error.finding.message
    else:
        if reply.all_verified and not reply.errors:
            return []
        failed = (*reply.errors, "not all is verified")[0]
    message = f"{_SPELLED}: {failed}; write the types of the variables around this place"
    return [mixes.selection.refuse("cheat", "narrow-type", message)]


async def _ask(process: DafnyProcess, text: str, candidate: Candidate) -> tuple[Reply, Candidate]:
    """Dafny's reply, and its candidate: the candidate's own lines where these are to be judged and
    nothing is wrong with them, else of all of it."""
    if number := candidate.own_lines:
        lines = text.split("\n")
        reply = await process.ask_part("\n".join(lines[:number]), "\n".join(lines[number:]))
        is_clean = reply and not (reply.errors or reply.unknown)
        if reply and is_clean and all(entry.outcome == "verified" for entry in reply.entries):
            own = "\n".join(candidate.body.split("\n")[:number])
            return reply, replace(candidate, body=own)
    return await process.ask(text), candidate


def count_obligations(reply: Reply) -> tuple[Obligations, ...]:
    """The obligations of each entry and how many were proved; the errors named are the failures.

    An entry that failed proved at least one obligation less than it has, one that ran out of its
    limit counts as having proved none.
    """
    counted = []
    for entry in reply.entries:
        total = entry.num_obligations
        proved = total if entry.outcome == "verified" else 0
        if entry.outcome in ("error", "errors"):
            proved = max(0, total - max(1, entry.num_failures))
        counted.append(Obligations(entry.name, total, proved))
    return tuple(counted)


def judge_reply(
    reply: Reply,
    candidate: Candidate,
    expected: frozenset[str] | None,
    trusted: Sequence[Finding] = (),
) -> Verdict:
    """Apply the verdict rule. ``expected`` is None for a bare file, ``trusted`` is what it has
    believed.

    An annotated program may have entries beyond the expected ones, for what it declares itself;
    they too must be verified. Raises ``WorkerError`` when nothing can be concluded: an entry is
    inconclusive (its prover died) or a line that is not understood stands in an otherwise clean
    reply.
    """
    diagnostics = _make_diagnostics(reply, candidate)
    counts = Counter(finding.trust for finding in trusted)
    stage = Stage.PROVER if reply.entries else Stage.READING

    def conclude(status: Status, *more: str, error: str = "") -> Verdict:
        """``more`` names what was looked at beside the audit and the resolution, in order."""
        errors = (Diagnostic("error", error),) if error else ()
        return Verdict(
            status=status,
            # Behind an error they would pass for notes of it.
            diagnostics=(*_make_notes(trusted), *errors, *diagnostics),
            obligations=count_obligations(reply),
            stage=stage,
            believed=tuple(sorted(counts.items())),
            checks=("audit", "resolve", *more),
            cause=reply.cause,
        )

    is_whole = "missing-body" not in {finding.rule for finding in trusted}
    if is_whole and any(_NO_BODY in m.text for m in reply.messages if m.kind == "warning"):
        return conclude(Status.UNSOUND)
    outcomes = {entry.outcome for entry in reply.entries}
    if reply.errors or outcomes & {"error", "errors"}:
        return conclude(Status.REJECTED, *(["obligations"] if reply.resolved else []))
    if odd := outcomes - {"verified", *LIMIT_OUTCOMES}:
        raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}", "no-result")
    if outcomes & set(LIMIT_OUTCOMES):
        return conclude(Status.EXHAUSTED, "obligations")
    if reply.unknown:
        raise WorkerError(f"Dafny said what is not understood: {reply.unknown[0][:200]!r}")
    if not reply.entries and not expected:
        return conclude(Status.REJECTED, error=f"{NOTHING}the program has no proof obligation")
    if unchecked := _list_unchecked_iterators(reply, candidate):
        skipped = f"Dafny skipped these iterators: {', '.join(unchecked)}"
        return conclude(Status.UNSOUND, error=skipped)
    missing, extra = _compare_entries(reply, candidate, expected)
    if missing or extra:
        differ = "what was verified is not what the problem asks for: "
        differ += f"missing {missing or 'nothing'}, unexpected {extra or 'nothing'}"
        return conclude(Status.UNSOUND, error=differ)
    return conclude(
        Status.PROVED,
        f"{'some-entries' if expected is None else 'entries'}:{len(reply.entries)}",
        f"obligations:{sum(entry.num_obligations for entry in reply.entries)}",
        "no-errors",
        *(["no-missing-body"] if is_whole else []),
        "no-unknown-lines",
    )


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
    if candidate.problem.kind in (CONTRACT, PROGRAM):
        # An empty contract asks for nothing, and has no entries of its own.
        own = find_own_entries(candidate.head)
        extra -= set(own)
        if candidate.problem.kind == PROGRAM:
            # Without its body the method has none either, but a proof must verify the body.
            expected |= {own[1]}
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


def judge_whole(reply: Reply, candidate: Candidate) -> Verdict:
    """The verdict on a text of which a second Dafny verified all that there was, with everything
    that it said: what fails, each with its place, and what was proved by contradiction, among the
    warnings."""
    diagnostics = tuple(_make_diagnostic(message, candidate) for message in reply.messages)
    checks = ("resolve", "obligations") if reply.entries else ("resolve",)
    stage = Stage.PROVER if reply.entries else Stage.READING
    status = Status.REJECTED
    if not reply.entries and not reply.errors:
        nothing = Diagnostic("error", f"{NOTHING}the program has no proof obligation")
        diagnostics = (nothing, *diagnostics)
    elif not reply.errors:
        if odd := {entry.outcome for entry in reply.entries} - {"verified", *LIMIT_OUTCOMES}:
            raise WorkerError(f"Dafny named no error, and yet an outcome is {', '.join(odd)}")
        limited = any(message.kind == "limit" for message in reply.messages)
        status = Status.PROVED if reply.all_verified and not limited else Status.EXHAUSTED
    return Verdict(
        status,
        diagnostics,
        obligations=count_obligations(reply),
        stage=stage,
        checks=checks,
        cause=reply.cause,
    )


def _make_diagnostics(reply: Reply, candidate: Candidate) -> tuple[Diagnostic, ...]:
    """Errors first, then warnings, without repeats and ``Info`` lines; a note follows its
    message."""
    owner, owned = None, []
    for message in reply.messages:
        # Two errors may share a note, such as the postcondition that neither path fulfils.
        owner = owner if message.kind == "related" else message
        owned.append((owner, message))
    pairs = [pair for pair in dict.fromkeys(owned) if pair[1].kind != "info"]
    pairs.sort(key=lambda pair: pair[0] is not None and pair[0].kind == "warning")
    is_whole = candidate.problem.kind in (ANNOTATE, FILE)
    most = _MAX_OF_WHOLE if is_whole else _MAX_DIAGNOSTICS
    return tuple(_make_diagnostic(message, candidate) for _, message in pairs[:most])


def _make_diagnostic(message: ReplyMessage, candidate: Candidate) -> Diagnostic:
    place = find_body_place(candidate, message.line, message.column)
    return Diagnostic(
        severity=_SEVERITIES.get(message.kind, "info"),
        message=message.text,
        line=message.line,
        column=message.column,
        body_line=place[0] if place else None,
        body_column=place[1] if place else None,
    )


def _make_notes(trusted: Sequence[Finding]) -> Iterator[Diagnostic]:
    """Notes where something is believed, for a person to read."""
    for found in trusted[:_MAX_DIAGNOSTICS]:
        message = f"{found.message} (believed: --allow {found.trust})"
        yield Diagnostic("info", message, found.line, found.column)


def make_options(toolchain: DafnyToolchain, limits: Limits, rlimit: int | None = None) -> list[str]:
    """The options of every question, to the server and to the command line alike."""
    return [
        f"/noCheating:{0 if toolchain.believes else 1}",
        f"/rlimit:{rlimit or limits.rlimit}",
        f"/timeLimit:{limits.time_limit_seconds}",
        f"/z3exe:{toolchain.z3}",
        *([f"/dprelude:{toolchain.prelude}"] if toolchain.prelude else []),
        *toolchain.arguments,
    ]
