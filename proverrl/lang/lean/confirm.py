"""Accepted Lean proofs are judged once more by a fresh process before they count.

Flows in: candidates, for a verifier that is fast, and their PROVED verdicts. Flows out: the
verdicts, UNSOUND where a fresh Lean does not agree. What one text may have left behind in a worker
that is used again cannot reach the second judgement. Not handled here: how a fresh process judges
(``proverrl.lang.lean.workers.file``).
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.types import Candidate, Diagnostic, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, FRESH_GROWTH, Lane, LanedVerifier, PoolStats

_HEX_DIGITS = 8


def read_rate(confirm: str) -> float:
    """The share of proofs that ``pool.confirm`` asks to confirm."""
    if confirm in ("proved", "off"):
        return float(confirm == "proved")
    return float(confirm.removeprefix("sample:"))


class ConfirmingVerifier:
    """A ``LanedVerifier`` whose proofs ``confirming`` has accepted too, or a share ``rate`` of
    them, chosen by the candidates' keys."""

    def __init__(self, inner: LanedVerifier, confirming: LanedVerifier, rate: float) -> None:
        self._inner = inner
        self._confirming = confirming
        self._rate = rate
        self._num_confirmed = self._num_unconfirmed = 0

    def stats(self) -> PoolStats | None:
        """The inner verifier's counters, with the proofs that were confirmed and that were not."""
        stats = self._inner.stats()
        counts = PoolStats(confirmed=self._num_confirmed, unconfirmed=self._num_unconfirmed)
        return stats and stats + counts

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``. A proof that a fresh process could not judge is TIMEOUT or
        CRASHED: it may be none."""
        verdict = await self._inner.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)
        share = int(candidate.key[:_HEX_DIGITS], 16) / 16**_HEX_DIGITS
        if not verdict.proved or share >= self._rate:
            return verdict
        again = await self._confirming.verify(
            candidate, deadline_seconds=FRESH_GROWTH * deadline_seconds, lane=lane
        )
        timed = replace(verdict, seconds=verdict.seconds + again.seconds)
        if again.proved:
            self._num_confirmed += 1
            more = tuple(check for check in again.checks if check not in verdict.checks)
            return replace(timed, checks=(*verdict.checks, *more, "confirmed"))
        self._num_unconfirmed += again.status.judged
        said = again.diagnostics[0].message if again.diagnostics else again.status.value
        why = Diagnostic("error", f"a fresh Lean does not confirm the proof: {said}")
        status = Status.UNSOUND if again.status.judged else again.status
        return replace(timed, status=status, diagnostics=(why,), cause=again.cause)

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._confirming.aclose()
