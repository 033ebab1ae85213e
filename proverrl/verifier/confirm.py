"""Accepted proofs meet further walls before they count.

Flows in: candidates, for a verifier, and their PROVED verdicts. Flows out: the verdicts, with what
each wall checked, or the verdict of the first wall that does not let one through. Which proofs meet
them is ``pool.confirm``. Not handled here: any wall (``proverrl.lang.lean.verify.confirm``,
``proverrl.lang.dafny.verify.walls``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, PoolStats

_HEX_DIGITS = 8


class Wall(Protocol):
    """A further check that an accepted proof has to pass."""

    async def confirm(
        self, candidate: Candidate, verdict: Verdict, *, deadline_seconds: float, lane: Lane
    ) -> Verdict:
        """The PROVED verdict with what this wall checked and the time that it took; another verdict
        where the wall does not let the proof through. ``deadline_seconds`` are those that the
        candidate was given at first."""

    async def aclose(self) -> None:
        """Kill everything that runs."""


def read_rate(confirm: str) -> float:
    """The share of proofs that ``pool.confirm`` asks to confirm."""
    if confirm in ("proved", "off"):
        return float(confirm == "proved")
    return float(confirm.removeprefix("sample:"))


class ConfirmingVerifier:
    """A ``LanedVerifier`` whose proofs have passed all ``walls``, one after another, or a share
    ``rate`` of them, chosen by the candidates' keys."""

    def __init__(self, inner: LanedVerifier, walls: Sequence[Wall], rate: float) -> None:
        self._inner = inner
        self._walls = walls
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
        """See ``LanedVerifier.verify``. A proof that a wall could not judge is none."""
        verdict = await self._inner.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)
        share = int(candidate.key[:_HEX_DIGITS], 16) / 16**_HEX_DIGITS
        # No other judge can prove an assumption that a user let the first one believe.
        if not verdict.proved or verdict.believed or share >= self._rate:
            return verdict
        for wall in self._walls:
            verdict = await wall.confirm(
                candidate, verdict, deadline_seconds=deadline_seconds, lane=lane
            )
            if not verdict.proved:
                self._num_unconfirmed += verdict.status.judged
                return verdict
        self._num_confirmed += 1
        return replace(verdict, checks=(*verdict.checks, "confirmed"))

    async def aclose(self) -> None:
        await self._inner.aclose()
        for wall in self._walls:
            await wall.aclose()
