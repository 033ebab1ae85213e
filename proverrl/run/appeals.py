"""Second looks at refused proofs, and what they say of the verifier.

Flows in: judged draws. Flows out: the same draws, in which a failure that a second look
overturned is a proof; the running estimate of the false-negative rate; the figures for the metrics.
Not handled here: who judges again (``CachedVerifier.appeal``: another worker with larger limits).

A draw is given on when its appeals are in, so that no proof is learned from as a failure. Which
candidates are judged again depends on the candidate and the seed alone. Each is judged again once:
draws that share it share the answer, and the one that is learned from first counts it, so that a
resumed run makes the same counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from proverrl.config import AppealConfig
from proverrl.rewards.noise import FalseNegativeRate, is_appealed
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.session import Session
from proverrl.types import Candidate, Rollout, Status, Verdict
from proverrl.verifier.cache import was_overturned

APPEALED = (Status.REJECTED, Status.EXHAUSTED)
"""Failures that may be the verifier's. An unsound or incomplete body is no proof by its text."""

APPEAL_FACTOR = 4.0
"""For the resource limit (Dafny's rlimit, Lean's heartbeats) and the deadline of an appeal."""

AppealFn = Callable[[Candidate], Awaitable[Verdict]]


class Reviewer:
    """Has failures of draws judged again and estimates the false-negative rate; ``num_calls`` and
    ``num_overturned`` count what was observed."""

    def __init__(self, settings: AppealConfig, *, seed: int, appeal: AppealFn) -> None:
        self.rates = FalseNegativeRate()
        self.num_calls = 0
        self.num_overturned = 0
        self._settings = settings
        self._seed = seed
        self._appeal = appeal
        self._answers: dict[str, asyncio.Future[Verdict]] = {}
        self._observed: dict[str, bool | None] = {}

    async def review(self, judged: JudgedDraw) -> JudgedDraw:
        """Appeal the failures that are drawn for it, and correct the rollouts."""
        last = _last_verdicts(judged.rollouts)
        asked = [c for c, verdict in last.values() if self._is_asked(c, verdict)]
        answers = await asyncio.gather(*(self._ask(candidate) for candidate in asked))
        given = {c.key: verdict for c, verdict in zip(asked, answers, strict=True)}
        turned = {key: verdict for key, verdict in given.items() if verdict.proved}
        appeals = [(key, v.proved if v.status.judged else None) for key, v in given.items()]
        # Found before the run was killed, and so in the cache by now: the same appeal.
        appeals += [
            (c.key, True)
            for c, verdict in last.values()
            if was_overturned(verdict) and self._draws(c)
        ]
        rollouts = tuple(_correct(rollout, turned) for rollout in judged.rollouts)
        return replace(judged, rollouts=rollouts, appeals=tuple(appeals))

    async def review_all(self, judged: Sequence[JudgedDraw]) -> list[JudgedDraw]:
        """``review`` for many draws at once."""
        return list(await asyncio.gather(*(self.review(draw) for draw in judged)))

    def observe(self, judged: JudgedDraw) -> int:
        """Count what a draw says of the verifier; returns how many of its appeals are new."""
        for _, verdict in _last_verdicts(judged.rollouts).values():
            if verdict.proved or verdict.status in APPEALED:
                # The first look: it refused what an appeal overturned.
                proved = verdict.proved and not was_overturned(verdict)
                self.rates.proved.add(proved)
        new = {key: turned for key, turned in judged.appeals if key not in self._observed}
        self._observed |= new
        for turned in new.values():
            if turned is not None:
                self.rates.overturned.add(turned)
                self.num_overturned += turned
        self.num_calls += len(new)
        return len(new)

    def metrics(self) -> dict[str, Any]:
        """The estimate; nothing when nothing is judged again."""
        if self._settings.rate == 0.0:
            return {}
        low, high = self.rates.interval
        return {
            "appeal_calls_total": self.num_calls,
            "appeals_overturned_total": self.num_overturned,
            "false_negative_rate": self.rates.rate,
            "false_negative_rate_low": low,
            "false_negative_rate_high": high,
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "rates": asdict(self.rates),
            "observed": self._observed,
            "num_overturned": self.num_overturned,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rates.load_state_dict(state["rates"])
        self._observed = dict(state["observed"])
        self.num_calls = len(self._observed)
        self.num_overturned = state["num_overturned"]

    def close(self) -> None:
        """Give up what is under way."""
        for answer in self._answers.values():
            answer.cancel()

    def _draws(self, candidate: Candidate) -> bool:
        return is_appealed(candidate.key, share=self._settings.rate, seed=self._seed)

    def _is_asked(self, candidate: Candidate, verdict: Verdict) -> bool:
        """Not what an earlier draw's appeal has confirmed."""
        confirmed = self._observed.get(candidate.key, True) is False
        return verdict.status in APPEALED and not confirmed and self._draws(candidate)

    async def _ask(self, candidate: Candidate) -> Verdict:
        answer = self._answers.get(candidate.key)
        if answer is None:
            answer = asyncio.ensure_future(self._appeal(candidate))
            self._answers[candidate.key] = answer
        # One draw that is given up must not take the answer from the others.
        return await asyncio.shield(answer)


def open_reviewer(session: Session) -> Reviewer:
    """The reviewer of a run."""
    config = session.config

    def appeal(candidate: Candidate) -> Awaitable[Verdict]:
        return session.verifier.appeal(candidate, deadline_seconds=config.pool.deadline_seconds)

    return Reviewer(config.appeal, seed=config.seed, appeal=appeal)


def _last_verdicts(rollouts: Sequence[Rollout]) -> dict[str, tuple[Candidate, Verdict]]:
    """The distinct last candidates that have a verdict, by their keys."""
    turns = [rollout.turns[-1] for rollout in rollouts]
    return {
        turn.candidate.key: (turn.candidate, turn.verdict)
        for turn in turns
        if turn.candidate is not None and turn.verdict is not None
    }


def _correct(rollout: Rollout, turned: Mapping[str, Verdict]) -> Rollout:
    """The rollout with the proof in place of the verdict that was overturned."""
    *before, last = rollout.turns
    verdict = turned.get(last.candidate.key) if last.candidate is not None else None
    if verdict is None:
        return rollout
    return replace(rollout, turns=(*before, replace(last, verdict=verdict)))
