"""Accepted Lean proofs are judged once more by a fresh process before they count.

Flows in: candidates and their PROVED verdicts. Flows out: the verdicts, UNSOUND where a fresh Lean
does not agree. What one text may have left behind in a worker that is used again cannot reach the
second judgement. Not handled here: which proofs are confirmed (``proverrl.verifier.confirm``); how
a fresh process judges (``proverrl.lang.lean.verify.workers.file``).
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict
from proverrl.verifier.base import FRESH_GROWTH, Lane, LanedVerifier


class FreshProcess:
    """The ``Wall`` of a verifier with fresh processes."""

    def __init__(self, verifier: LanedVerifier) -> None:
        self._verifier = verifier

    async def confirm(
        self, candidate: Candidate, verdict: Verdict, *, deadline_seconds: float, lane: Lane
    ) -> Verdict:
        """See ``Wall``. A proof that a fresh process could not judge is TIMEOUT or CRASHED: it may
        be none. One that ends fresh processes is UNCONFIRMED."""
        again = await self._verifier.verify(
            candidate, deadline_seconds=FRESH_GROWTH * deadline_seconds, lane=lane
        )
        timed = replace(verdict, seconds=verdict.seconds + again.seconds)
        if again.proved:
            return replace(timed, checks=tuple(dict.fromkeys((*verdict.checks, *again.checks))))
        said = again.diagnostics[0].message if again.diagnostics else again.status.value
        why = Diagnostic("error", f"a fresh Lean does not confirm the proof: {said}")
        status = Status.UNSOUND if again.status.judged else again.status
        if again.fatal:
            status = Status.UNCONFIRMED
        return replace(
            timed,
            status=status,
            diagnostics=(why,),
            stage=Stage.WALL,
            rule="fresh-process",
            cause=again.cause,
        )

    async def aclose(self) -> None:
        await self._verifier.aclose()
