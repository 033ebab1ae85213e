"""Judges again what may have failed by its limits alone, for commands that judge for a person.

Flows in: candidates, and a verifier with appeals. Flows out: verdicts; one that hangs on the limit
is ``at_limit``, and one that ran out of time is TIMEOUT, however long it worked. That this counts
against a text is a rule for policies, which could leave their groups by it. Dafny 2.3 says now and
then that an assertion does not hold where z3 runs out, and never says how much it used. So a
refusal is judged again if z3 had the time to use up its limit; quick ones cost nothing more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict
from proverrl.verifier.base import AT_LIMIT
from proverrl.verifier.cache import CachedVerifier

FACTOR = 2.0
RLIMIT = 30_000_000
"""Dafny's limit: a proof that it finds without a limit in seconds counts. Training is stricter."""
_MOST_PER_SECOND = 60_000_000
"""More than z3 4.8.5 counts in a second: 2 to 22 million were measured, by the kind of text."""


class SecondLook:
    """A ``Verifier`` whose Dafny has this limit, ``FACTOR`` times as much at the second look. None
    is that of servers, which look once."""

    def __init__(self, verifier: CachedVerifier, rlimit: int | None) -> None:
        self._verifier = verifier
        self._rlimit = rlimit

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """See ``Verifier.verify``; the second look has ``FACTOR`` times the deadline too."""
        first = await self._verifier.verify(candidate, deadline_seconds=deadline_seconds)
        first = _call_timeout(first, deadline_seconds)
        ran_out = first.status is Status.EXHAUSTED
        is_failure = first.status is Status.REJECTED and _failed_in_z3(first)
        if self._rlimit is None or not (
            ran_out or (is_failure and first.seconds >= self._rlimit / _MOST_PER_SECOND)
        ):
            return first
        again = await self._verifier.appeal(candidate, deadline_seconds=deadline_seconds)
        again = _call_timeout(again, FACTOR * deadline_seconds)
        verdict = again if again.status.judged else first
        if not ran_out and verdict.status is first.status:
            return first
        diagnostics = verdict.diagnostics
        if verdict.status is Status.EXHAUSTED and _failed_in_z3(verdict):
            remedy = f"{AT_LIMIT}: --rlimit {self._rlimit} and twice that do not suffice; raise it"
            diagnostics = (Diagnostic("error", remedy), *diagnostics)
        return replace(
            verdict,
            diagnostics=diagnostics,
            at_limit=True,
            seconds=first.seconds + again.seconds,
        )

    def make_key(self, candidate: Candidate) -> str:
        """See ``CachedVerifier.make_key``."""
        return self._verifier.make_key(candidate)

    async def aclose(self) -> None:
        """See ``Verifier.aclose``."""
        await self._verifier.aclose()


def open_patient(rlimit: int | None, **options: Any) -> SecondLook:
    """The verifier of ``open_verifier`` with these options, judging as ``proverrl verify``."""
    limit = rlimit or RLIMIT
    return SecondLook(open_verifier(rlimit=limit, appeal_factor=FACTOR, **options), limit)


def _failed_in_z3(verdict: Verdict) -> bool:
    """Lean counts no obligations, and its limits are others."""
    return verdict.failed_in_prover and bool(verdict.obligations)


def _call_timeout(verdict: Verdict, seconds: float) -> Verdict:
    """The same, where no time ran out."""
    if verdict.cause not in ("stalled", "deadline") or verdict.status is Status.UNCONFIRMED:
        return verdict
    said = f"no answer in {seconds:g} seconds, nor in twice that; it may be a proof all the same: "
    found = Diagnostic("error", f"{said}raise --timeout")
    return replace(
        verdict, status=Status.TIMEOUT, diagnostics=(found,), stage=Stage.NOBODY, checks=()
    )
