"""A wall: another Dafny is asked of every proof that one has accepted.

Flows in: candidates and their PROVED verdicts. Flows out: the verdicts, with the check
``second-judge`` and its toolchain. UNCONFIRMED is what the other Dafny rejects, cannot read, or
does not verify within its limits; what an older Dafny cannot read says nothing. UNSOUND, with the
check ``wall:second-judge``, is a proof with which an obligation of our own text holds by
contradictory assumptions, and not so without the body. Not covered: bugs that both share; one
inside a branch, of which nothing is told; bare files, which hold no text of ours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.annotated import align_admitted
from proverrl.lang.dafny.audit.written_types import get_empty_body
from proverrl.lang.dafny.syntax.plain import write_plain
from proverrl.lang.dafny.syntax.reply import is_contradiction
from proverrl.types import ANNOTATE, FILE, Candidate, Diagnostic, Stage, Status, Verdict
from proverrl.verifier.base import FRESH_GROWTH, Lane, LanedVerifier
from proverrl.verifier.body_place import find_offset

_RULE = "second-judge"
VERSION = 6
"""Changes with what this wall lets through: stored verdicts depend on it."""

_GOAL = "ensures clause"
_PREFIX = re.compile(r"(?<=[^_])_h$")
_NAMED_OTHERWISE = str.maketrans({"_": "__", "'": "_k", "?": "_q", "#": "_h", ".": "_o"})
Place = tuple[str, int]


class SecondJudge:
    """The ``Wall`` of a verifier that judges texts as they stand and tells what is proved by
    contradiction (``DafnyLanguageServer``). It proves less than Dafny does without that, and now
    and then more: of what one does not prove ``plain`` or it is asked too."""

    def __init__(self, verifier: LanedVerifier, plain: LanedVerifier) -> None:
        self._verifier = verifier
        self._plain = plain

    async def confirm(
        self, candidate: Candidate, verdict: Verdict, *, deadline_seconds: float, lane: Lane
    ) -> Verdict:
        """See ``Wall``. CRASHED says, as ever, that somebody else ended the judge."""
        seconds = FRESH_GROWTH * deadline_seconds
        judges = (self._verifier, self._plain)
        # Contradictions mean nothing in a bare file, and each proves some that the other does not.
        first, other = judges[::-1] if candidate.problem.kind == FILE else judges
        again = analysed = await first.verify(candidate, deadline_seconds=seconds, lane=lane)
        if _is_judged(again) and not again.proved:
            again = await other.verify(candidate, deadline_seconds=seconds, lane=lane)
            again = replace(again, seconds=again.seconds + analysed.seconds)
        verdict = _note(verdict, again, again.toolchain)
        if not again.proved:
            return _refuse(verdict, again, "does not confirm the proof")
        if missing := _list_missing(verdict, again):
            why = f"a second Dafny does not verify {', '.join(missing)}"
            return _stop(verdict, Status.UNCONFIRMED, Diagnostic("error", why))
        suspects = _find_suspects(candidate, analysed)
        if not suspects:
            return verdict
        blank = Candidate(candidate.problem, get_empty_body(candidate.problem))
        empty = await self._verifier.verify(blank, deadline_seconds=seconds, lane=lane)
        if not _is_judged(empty):
            return _refuse(verdict, empty, "cannot read the problem with an empty body")
        known = _find_suspects(blank, empty)
        new = [found for place, found in suspects.items() if place not in known]
        return _stop(verdict, Status.UNSOUND, *new) if new else verdict

    async def aclose(self) -> None:
        await self._verifier.aclose()
        await self._plain.aclose()


class OlderJudge:
    """The ``Wall`` of a Dafny 2.3 behind a Dafny 4: it judges what is written in the language of
    both. What it cannot read it lets pass; the check then ends in ``not read``."""

    def __init__(self, verifier: LanedVerifier, toolchain: str) -> None:
        self._verifier = verifier
        self._toolchain = toolchain

    async def confirm(
        self, candidate: Candidate, verdict: Verdict, *, deadline_seconds: float, lane: Lane
    ) -> Verdict:
        """See ``Wall``."""
        seconds = FRESH_GROWTH * deadline_seconds
        try:
            again = await self._verifier.verify(candidate, deadline_seconds=seconds, lane=lane)
        except ProblemError:
            # The problem itself cannot be read, such as one in the words of Dafny 4.
            again = Verdict(Status.REJECTED, stage=Stage.READING)
        is_read = not again.status.judged or again.stage is not Stage.READING
        verdict = _note(verdict, again, f"{self._toolchain}{'' if is_read else ': not read'}")
        if is_read and not again.proved:
            return _refuse(verdict, again, "does not confirm the proof")
        return verdict

    async def aclose(self) -> None:
        await self._verifier.aclose()


def _note(verdict: Verdict, again: Verdict, who: str) -> Verdict:
    """The verdict with the time of the second one, and the check that names its judge."""
    checks = (*verdict.checks, f"{_RULE}: {who}")
    return replace(verdict, seconds=verdict.seconds + again.seconds, checks=checks)


def _is_judged(verdict: Verdict) -> bool:
    return verdict.status.judged and verdict.stage is Stage.PROVER


def _stop(verdict: Verdict, status: Status, *why: Diagnostic) -> Verdict:
    """The verdict on a proof that this wall does not let through."""
    errors = tuple(replace(one, severity="error") for one in why)
    return replace(
        verdict,
        status=status,
        diagnostics=errors,
        stage=Stage.WALL,
        rule=_RULE,
        checks=(*verdict.checks, f"{Stage.WALL}:{_RULE}"),
    )


def _refuse(verdict: Verdict, again: Verdict, what: str) -> Verdict:
    """UNCONFIRMED with what the other Dafny said; CRASHED if that was ended by somebody else."""
    errors = [found for found in again.diagnostics if found.severity == "error"]
    said = errors[0].message if errors else again.status.value
    read = "" if not again.status.judged or _is_judged(again) else " (it is not read)"
    first = Diagnostic("error", f"a second Dafny {what}{read}: {said}")
    status = again.status if again.status is Status.CRASHED else Status.UNCONFIRMED
    return replace(_stop(verdict, status, first, *errors), cause=again.cause)


def _list_missing(verdict: Verdict, again: Verdict) -> list[str]:
    """Entries that the first Dafny verified and the second does not name, as where a comment ends
    elsewhere for it."""
    named = Counter(entry.entry.translate(_NAMED_OTHERWISE) for entry in again.obligations)
    # By their paths, without what of them was verified (``Impl$$M.F``, ``CheckWellformed$$M.F``).
    # A colemma is verified by its prefix (``L#``), which the second one does not name.
    paths = {_PREFIX.sub("", entry.entry.rpartition("$")[2]) for entry in verdict.obligations}
    asked = Counter(path.rpartition(".")[2] for path in paths)
    # A constructor without a name and the like have none to compare.
    return sorted(name for name in asked - named if not name.startswith("_"))


def _find_suspects(candidate: Candidate, verdict: Verdict) -> dict[Place, Diagnostic]:
    """The obligations of our own text that were proved by contradictory assumptions, by a place
    that does not depend on the policy's text."""
    found = {}
    for told in verdict.diagnostics:
        if is_contradiction(told.message) and (place := _find_place(candidate, told)) is not None:
            found[place] = told
    return found


def _find_place(candidate: Candidate, told: Diagnostic) -> Place | None:
    """Its place in our own text; None in the policy's text."""
    kind, source = candidate.problem.kind, candidate.source
    if kind == FILE or (kind == ANNOTATE and not told.message.startswith(_GOAL)):
        return None
    if kind == ANNOTATE:
        # The clauses of our methods are ours, wherever hints have moved them.
        written = write_plain(candidate.body, comments=False)
        aligned = align_admitted(candidate.problem, written.text)
        places = [(t.line, written.find_column(t.line, t.column)) for t in aligned.theirs]
        token = bisect_right(places, (told.line, told.column)) - 1
        ours = {theirs: our for our, theirs in aligned.matched.items()}
        return ("goal", ours[token]) if token in ours else None
    offset = find_offset(source, told.line, told.column)
    before, head = len(candidate.problem.preamble), len(candidate.head)
    end = before + len(candidate.prelude)
    if offset < before:
        return "before", offset
    if end <= offset < head:
        return "before", offset - len(candidate.prelude)
    behind = len(source) - offset
    return ("behind", behind) if offset >= head + len(candidate.body) else None
