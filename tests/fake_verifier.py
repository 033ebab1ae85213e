"""A verifier without a prover.

Flows in: a function from candidate to verdict, or to a bare status. Flows out: those verdicts,
after an optional delay, with every call recorded. Not handled here: audit, cache, processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from proverrl.errors import VerifierError
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, PoolStats

Judge = Callable[[Candidate], Verdict | Status]


class FakeVerifier:
    """A ``LanedVerifier`` that answers with a function.

    ``script`` maps the number of a call (from 0) to a status, such as CRASHED or TIMEOUT, or to
    an exception to raise, in place of the function's answer. ``calls`` holds every candidate in
    the order of the calls; ``num_cancelled`` counts callers that gave up while it "worked".
    ``judge_appeal`` (by default ``judge``) answers appeals, which are recorded in ``appeals`` only.
    """

    toolchain = "fake"
    described = "fake"

    def __init__(
        self,
        judge: Judge,
        *,
        delay_seconds: float = 0.0,
        script: Mapping[int, Status | Exception] | None = None,
        judge_appeal: Judge | None = None,
    ) -> None:
        self._judge = judge
        self._judge_appeal = judge_appeal or judge
        self.appeals: list[Candidate] = []
        self._delay_seconds = delay_seconds
        self._script = dict(script or {})
        self._closed = False
        self.calls: list[Candidate] = []
        self.num_cancelled = 0

    @property
    def num_calls(self) -> int:
        return len(self.calls)

    def identify(self, candidate: Candidate) -> str:
        """What stands for toolchain, limits and audit version; a test may set ``toolchain``."""
        return self.toolchain

    def stats(self) -> PoolStats | None:
        """None: there is no pool."""
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """Answer from the script, else the function; TIMEOUT when the delay exceeds the
        deadline."""
        if self._closed:
            raise VerifierError("this verifier was closed")
        scripted = self._script.get(len(self.calls))
        self.calls.append(candidate)
        try:
            await asyncio.sleep(min(self._delay_seconds, deadline_seconds))
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        if isinstance(scripted, Exception):
            raise scripted
        if self._delay_seconds > deadline_seconds:
            scripted = Status.TIMEOUT
        answer = scripted if scripted is not None else self._judge(candidate)
        return self._verdict(answer)

    async def appeal(self, candidate: Candidate, *, deadline_seconds: float) -> Verdict:
        """Like ``CachedVerifier.appeal``, but without memory."""
        if self._closed:
            raise VerifierError("this verifier was closed")
        self.appeals.append(candidate)
        verdict = self._verdict(self._judge_appeal(candidate))
        if not verdict.proved:
            return verdict
        return replace(verdict, at_limit=True)

    def _verdict(self, answer: Verdict | Status) -> Verdict:
        if isinstance(answer, Verdict):
            return answer
        return Verdict(answer, seconds=self._delay_seconds, toolchain="fake", checks=("fake",))

    async def aclose(self) -> None:
        self._closed = True
