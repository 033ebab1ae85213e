"""Mixes false statements in among the candidates, to check that they are refused.

Flows in: candidates for an inner verifier, and a rate. Flows out: their verdicts; the verdict of a
call that drew a canary is returned only after the canary was refused. A canary that is called
proved raises ``CanaryError`` from this call and every later one, because whatever let it through
would let other false proofs through. Covered: a broken prover, a stale answer, an option that lost
its effect, a disconnected audit (one body is a cheat). Not covered: a verifier that refuses
everything (its start-up test finds that); a cheat that no canary resembles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random

from proverrl.errors import CanaryError, UsageError
from proverrl.types import HOLE, Candidate, Language, Problem, Status, Verdict
from proverrl.verify.base import (
    CANARY_LANE,
    DEFAULT_LANE,
    Lane,
    LanedVerifier,
    PoolStats,
)

Canary = Callable[[int, int], Candidate]
"""A candidate for a size (from 2) and an error: false for every error but 0, true for 0."""

_MAX_SIZE = 99
_MAX_ERROR = 9


def _build_dafny_loop(size: int, error: int) -> Candidate:
    statement = (
        "method Sum(n: nat) returns (r: int)\n"
        f"  ensures r == {size} * n + {error}\n"
        "{\n  r := 0;\n  var i := 0;\n  while i < n\n"
        f"    {HOLE}\n  {{\n    r := r + {size};\n    i := i + 1;\n  }}\n}}\n"
    )
    body = f"invariant 0 <= i <= n\ninvariant r == {size} * i"
    return _fill("dafny-loop", "dafny", "invariants", statement, body)


def _build_dafny_count(size: int, error: int) -> Candidate:
    statement = (
        f"method Count(n: nat) returns (r: nat)\n  requires n >= {size}\n"
        f"  ensures r == n + {error}\n"
        "{\n  r := 0;\n  while r < n\n"
        f"    {HOLE}\n  {{\n    r := r + 1;\n  }}\n}}\n"
    )
    return _fill("dafny-count", "dafny", "invariants", statement, "invariant r <= n")


def _build_dafny_lemma(size: int, error: int) -> Candidate:
    statement = (
        "lemma Bound(x: int, y: int)\n"
        f"  requires x >= {size} && y >= {size}\n"
        f"  ensures x + y >= {2 * size + error}\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    body = f"assert x - {size} >= 0;\nassert y - {size} >= 0;"
    return _fill("dafny-lemma", "dafny", "statements", statement, body)


def _build_dafny_induction(size: int, error: int) -> Candidate:
    statement = (
        f"function F(n: nat): int {{ if n == 0 then 0 else {size} + F(n - 1) }}\n"
        f"lemma Linear(n: nat)\n  ensures F(n) == {size} * n + {error}\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    # With an error the step still holds: only the base case is false.
    body = "if n > 0 {\n  Linear(n - 1);\n}"
    return _fill("dafny-induction", "dafny", "statements", statement, body)


def _build_dafny_cheat(size: int, error: int) -> Candidate:
    statement = (
        f"lemma Same(x: int)\n  ensures x * {size} == {size} * x + {error}\n{{\n  {HOLE}\n}}\n"
    )
    body = "assume false;" if error else f"assert x * {size} == {size} * x;"
    return _fill("dafny-cheat", "dafny", "statements", statement, body)


def _build_lean_omega(size: int, error: int) -> Candidate:
    statement = f"theorem canary (n : Nat) : n + {size} + {error} = {size} + n := by\n  {HOLE}\n"
    return _fill("lean-omega", "lean", "tactics", statement, "omega")


def _build_lean_decide(size: int, error: int) -> Candidate:
    statement = f"theorem canary : {size} * 2 + {error} = 2 * {size} := by\n  {HOLE}\n"
    return _fill("lean-decide", "lean", "tactics", statement, "decide")


def _build_lean_induction(size: int, error: int) -> Candidate:
    statement = f"theorem canary (n : Nat) : n * {size} + {error} = {size} * n := by\n  {HOLE}\n"
    body = "induction n with\n  | zero => simp\n  | succ k ih => omega"
    return _fill("lean-induction", "lean", "tactics", statement, body)


def _build_lean_cheat(size: int, error: int) -> Candidate:
    statement = f"theorem canary : {size} + {error} = {size} := by\n  {HOLE}\n"
    return _fill("lean-cheat", "lean", "tactics", statement, "sorry" if error else "rfl")


CANARIES: Mapping[Language, Sequence[Canary]] = {
    "dafny": (
        _build_dafny_loop,
        _build_dafny_count,
        _build_dafny_lemma,
        _build_dafny_induction,
        _build_dafny_cheat,
    ),
    "lean": (_build_lean_omega, _build_lean_decide, _build_lean_induction, _build_lean_cheat),
}


def _fill(name: str, language: Language, kind: str, statement: str, body: str) -> Candidate:
    return Candidate(Problem(f"canary-{name}", language, kind, "", statement), body)


class CanaryVerifier:
    """A ``LanedVerifier`` that gives ``inner`` a canary with a share ``rate`` of the calls.

    ``rate`` is the chance that a call draws one; the draws depend only on ``seed`` and the number
    of the call. It belongs below a cache, so that no cache ever answers a canary. ``num_canaries``
    counts those that were judged, ``num_unjudged`` those that were not.
    """

    def __init__(
        self, inner: LanedVerifier, *, language: Language, rate: float, seed: int = 0
    ) -> None:
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"the rate of canaries must be between 0 and 1, got {rate}")
        self.inner = inner
        self.num_canaries = 0
        self.num_unjudged = 0
        self._canaries = CANARIES[language]
        self._rate = rate
        self._random = Random(seed)
        self._accepted: Candidate | None = None

    def stats(self) -> PoolStats | None:
        """The inner verifier's counters, with canaries counted separately."""
        return self.inner.stats()

    def lane(self, name: str) -> Lane:
        """A view with its own queue; canaries have one too."""
        return Lane(self, name)

    async def verify(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """See ``Verifier.verify``. Raises ``CanaryError`` once a canary has been called proved."""
        return await self.verify_in(DEFAULT_LANE, candidate, deadline_seconds=deadline_seconds)

    async def verify_in(
        self, lane: str, candidate: Candidate, *, deadline_seconds: float
    ) -> Verdict:
        """Like ``verify``, but wait in the queue that ``lane`` names."""
        self._check()
        if self._random.random() >= self._rate:
            verdict = await self.inner.verify_in(lane, candidate, deadline_seconds=deadline_seconds)
            self._check()
            return verdict
        canary = asyncio.create_task(self._try_canary(deadline_seconds))
        # When the call itself fails, nobody else asks for the canary's error.
        canary.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            verdict = await self.inner.verify_in(lane, candidate, deadline_seconds=deadline_seconds)
            await canary
        finally:
            canary.cancel()
        self._check()
        return verdict

    async def aclose(self) -> None:
        """Close the inner verifier."""
        await self.inner.aclose()

    async def _try_canary(self, deadline_seconds: float) -> None:
        build = self._random.choice(self._canaries)
        size = self._random.randint(2, _MAX_SIZE)
        canary = build(size, self._random.randint(1, _MAX_ERROR))
        verdict = await self.inner.verify_in(CANARY_LANE, canary, deadline_seconds=deadline_seconds)
        if verdict.status is Status.PROVED:
            self._accepted = self._accepted or canary
        elif verdict.status.judged:
            self.num_canaries += 1
        else:
            self.num_unjudged += 1

    def _check(self) -> None:
        if self._accepted is not None:
            raise CanaryError(
                f"a false statement was called proved ({self._accepted.problem.id}); no verdict "
                f"of this run can be believed. The program:\n{self._accepted.source}"
            )
