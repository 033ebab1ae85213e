"""Mixes false statements in among the candidates, to check that they are refused.

Flows in: candidates for an inner verifier, and a rate. Flows out: their verdicts; a call that drew
a canary returns only after the canary was refused. One that is called proved raises ``CanaryError``
from this call and every later one: what let it through would let other false proofs through.
Covered: a broken prover, a stale answer, an option that lost its effect, a disconnected audit (one
body is a cheat). Not covered: a verifier that refuses everything (its start-up test finds that); a
cheat that no canary resembles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from proverrl.errors import CanaryError, UsageError
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier.base import CANARY_LANE, DEFAULT_LANE, Lane, LanedVerifier, PoolStats

Canary = Callable[[int, int], Candidate]
"""A candidate for a size (from 2) and an error: false for every error but 0, true for 0."""

_MAX_SIZE = 99
_MAX_ERROR = 9


class CanaryVerifier:
    """A ``LanedVerifier`` that gives ``inner`` a canary with a share ``rate`` of the calls.

    The draws depend only on ``seed`` and the number of the call. It belongs below a cache, so that
    no cache ever answers a canary.
    """

    def __init__(
        self, inner: LanedVerifier, canaries: Sequence[Canary], *, rate: float, seed: int = 0
    ) -> None:
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"the rate of canaries must be between 0 and 1, got {rate}")
        self.inner = inner
        self._canaries = canaries
        self._rate = rate
        self._random = Random(seed)
        self._accepted: Candidate | None = None

    def stats(self) -> PoolStats | None:
        """The inner verifier's counters."""
        return self.inner.stats()

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``; canaries wait in a lane of their own. Raises
        ``CanaryError`` once a canary was called proved."""
        self._check()
        judging = self.inner.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)
        if self._random.random() >= self._rate:
            verdict = await judging
            self._check()
            return verdict
        canary = asyncio.create_task(self._try_canary(deadline_seconds))
        # When the call itself fails, nobody else asks for the canary's error.
        canary.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            verdict = await judging
            await canary
        finally:
            canary.cancel()
        self._check()
        return verdict

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def _try_canary(self, deadline_seconds: float) -> None:
        build = self._random.choice(self._canaries)
        size = self._random.randint(2, _MAX_SIZE)
        canary = build(size, self._random.randint(1, _MAX_ERROR))
        verdict = await self.inner.verify(
            canary, deadline_seconds=deadline_seconds, lane=CANARY_LANE
        )
        if verdict.status is Status.PROVED:
            self._accepted = self._accepted or canary

    def _check(self) -> None:
        if self._accepted is not None:
            raise CanaryError(
                f"a false statement was called proved ({self._accepted.problem.id}); no verdict "
                f"of this run can be believed. The program:\n{self._accepted.source}"
            )


def mix_in_canaries(
    pool: LanedVerifier, language: str, canaries: Sequence[Canary], rate: float, seed: int
) -> LanedVerifier:
    """The pool with canaries of its language mixed in; the pool itself for a rate of 0."""
    if rate == 0.0:
        return pool
    return CanaryVerifier(pool, canaries, rate=rate, seed=derive_seed("canaries", language, seed))
