"""Draw problems, write completions, judge them: the pipeline beneath every loop.

Flows in: orders, which say which problems to write on. Flows out: ``Judged`` draws, for the loop to
reward and to learn from. ``Pipeline`` writes and judges; a ``Source`` says which parts overlap.
``InOrder`` gives draws in the order in which they were drawn, so that a run repeats bit for bit. It
is one draw ahead: while the pool judges a draw the policy writes the next, and while the learner
updates, the pool judges what was written.

``Reviewer`` has a share of the refused proofs judged a second time, and a failure that this
overturns becomes a proof. A draw is given on when its appeals are in, so that no proof is learned
from as a failure. The choice of candidates depends on the candidate and the seed alone. Each is
judged again once: draws that share it share the answer, and the one that is learned from first
counts it, so that a resumed run makes the same counts.

Not handled here: groups as they complete (``overlap``), statements that a composer writes
(``selfplay``), rewards (the loops), who judges again (``CachedVerifier.appeal``: another worker
with larger limits).
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal

from proverrl.concurrency import cancel_all
from proverrl.config import AppealConfig, Config
from proverrl.plugins import refuse
from proverrl.policy.base import Policy
from proverrl.rewards import FalseNegativeRate, find_hook, is_appealed
from proverrl.rollout.samples import TrainingSample
from proverrl.rollout.self_correct import continue_rollouts
from proverrl.rollout.whole_proof import Draw, Flights, JudgedDraw, draw_groups, judge_all
from proverrl.run.checkpoint import dump_draws, load_draws
from proverrl.run.session import Session
from proverrl.run.tally import IdleClock, Tally
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Group, Hint, Problem, Rollout, Sampling, Status, Verdict
from proverrl.verifier.cache import was_overturned

APPEALED = (Status.REJECTED, Status.EXHAUSTED)
"""Failures that may be the verifier's. An unsound or incomplete body is no proof by its text."""

APPEAL_FACTOR = 4.0
"""For the resource limit (Dafny's rlimit, Lean's heartbeats) and the deadline of an appeal."""

AppealFn = Callable[[Candidate], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Order:
    """The order for what the policy writes next: draw ``number``, a group on each of ``problems``,
    begun with its hint where it has one; no ``hints`` at all is none for any."""

    number: int
    problems: tuple[Problem, ...]
    hints: tuple[Hint | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Flight:
    """Draws without their verdicts yet, the seconds of writing, and the step of their weights."""

    draws: list[Draw]
    seconds: float
    step: int
    judged: asyncio.Task[list[JudgedDraw]]


Use = Literal["learned", "stale", "set_aside"]


@dataclass(frozen=True, slots=True)
class Judged:
    """Draws with their verdicts, written ``age`` steps ago. Of groups that are ``stale``, too old
    to be learned from, proofs are kept; of what is ``set_aside``, verdicts alone are counted."""

    draws: Sequence[JudgedDraw]
    seconds: float
    age: int = 0
    use: Use = "learned"


class Source(ABC):
    """Gives the judged draws of a run's steps."""

    usage: IdleClock

    @abstractmethod
    def draws(self) -> AsyncIterator[Judged]:
        """The draws of the next step, until it has enough groups or made too many draws."""

    def took(self, num_groups: int) -> None:  # noqa: B027
        """So many groups of the step are admitted, and not learned from yet."""

    def end_step(self, groups: Sequence[Group], tally: Tally) -> Sequence[TrainingSample]:
        """These groups of the step are admitted; returns what is learned beside them."""
        return ()

    @abstractmethod
    async def learned(self) -> dict[str, float]:
        """A step was made: bring the new weights of ``session.policy`` to the sampler. Returns
        figures for the metrics."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """All that is in flight, as JSON values that nothing changes any more."""

    @abstractmethod
    async def aclose(self) -> None:
        """Give up what is in flight."""


def make_sampling(config: Config, *seed: str | int) -> Sampling:
    """The sampling of a loop, under a seed of its own."""
    return Sampling(
        temperature=config.sampling.temperature,
        max_new_tokens=config.sampling.max_new_tokens,
        seed=derive_seed(config.seed, *seed),
    )


class Pipeline:
    """Writes and judges ``num`` completions per problem, with the session's ``sampler`` if no other
    is given; ``reviewer`` looks at the failures."""

    def __init__(
        self,
        session: Session,
        reviewer: Reviewer,
        num: int,
        *,
        sampler: Policy | None = None,
        usage: IdleClock | None = None,
    ) -> None:
        self.usage = usage or IdleClock()
        self.session = session
        self._reviewer = reviewer
        self._num = num
        self._sampler = sampler or session.sampler

    async def write(self, order: Order) -> tuple[list[Draw], float]:
        """Completions on the order's problems, seeded by its number; and the seconds."""
        started = time.monotonic()
        with self.usage.busy("generator"):
            draws = await draw_groups(
                self._sampler,
                order.problems,
                n=self._num,
                sampling=make_sampling(self.session.config, "draw", order.number),
                name=str(order.number),
                hints=order.hints or None,
                mode=self.session.mode,
            )
        self.usage.wrote([len(c.token_ids) for draw in draws for c in draw.completions])
        return draws, time.monotonic() - started

    def launch(
        self, draws: list[Draw], seconds: float = 0.0, *, step: int = 0, turns: bool = False
    ) -> Flight:
        """Have draws judged. Turns after the first are taken when they land, or at once with
        ``turns``; a checkpoint holds the first turns of what is in flight."""

        async def judge() -> list[JudgedDraw]:
            with self.usage.busy("pool"):
                judged = await self._judge_first(draws)
                return await self._take_turns(judged) if turns else judged

        return Flight(draws, seconds, step, asyncio.create_task(judge()))

    def relaunch(
        self, in_flight: Mapping[str, Any] | None, *, also: Sequence[Problem] = ()
    ) -> Flight | None:
        """Have judged again what a checkpoint held (``dump``), on the session's problems and
        ``also`` on these; None for nothing."""
        if in_flight is None or not in_flight.get("draws"):
            return None
        problems = (*also, *self.session.problems.without_reference)
        draws = load_draws(in_flight["draws"], {problem.id: problem for problem in problems})
        return self.launch(draws, step=in_flight["step"])

    def dump(self, flights: Sequence[Flight]) -> dict[str, Any]:
        """Flights that began at one step, as JSON values."""
        rows = [row for flight in flights for row in dump_draws(flight.draws)]
        return {"draws": rows, "step": flights[0].step if flights else 0}

    async def land(self, flight: Flight) -> list[JudgedDraw]:
        """The verdicts of a flight, once its turns are taken."""
        judged = await flight.judged
        with self.usage.busy("pool"):
            return await self._take_turns(judged)

    async def _judge_first(self, draws: Sequence[Draw]) -> list[JudgedDraw]:
        """The verdicts of the first turns, and their appeals where no other turns follow."""
        config = self.session.config
        deadline = config.pool.deadline_seconds
        judged = await judge_all(draws, self.session.verifier, deadline_seconds=deadline)
        return judged if config.rollout.takes_turns else await self._review(judged)

    async def _take_turns(self, judged: list[JudgedDraw]) -> list[JudgedDraw]:
        """The turns after the first with their verdicts and appeals; nothing without such turns."""
        config = self.session.config
        if not config.rollout.takes_turns:
            return judged
        first = judged[0].rollouts[0].id if judged else ""
        whole = await continue_rollouts(
            judged,
            policy=self._sampler,
            verifier=self.session.verifier,
            settings=config.rollout,
            sampling=make_sampling(config, "turns", first),
            deadline_seconds=config.pool.deadline_seconds,
            mode=self.session.mode,
        )
        return await self._review(whole)

    async def _review(self, judged: Sequence[JudgedDraw]) -> list[JudgedDraw]:
        """The draws after their appeals, with the marks that the reward reads."""
        session, deadline = self.session, self.session.config.pool.deadline_seconds
        marked = await self._reviewer.review_all(judged)
        if review := find_hook(session.config.reward, "review"):
            given = await review(marked, session.verifier, deadline_seconds=deadline)
            check_review(session.config.reward.name, marked, given)
            return given  # type: ignore[no-any-return]
        return marked


def check_review(name: str, before: Sequence[JudgedDraw], given: Sequence[JudgedDraw]) -> None:
    """Raise ``UsageError`` where a review calls something proved that was not, or was another."""
    turns = {rollout.id: rollout.turns for draw in before for rollout in draw.rollouts}
    for rollout in chain.from_iterable(draw.rollouts for draw in given):
        if rollout.status is Status.PROVED and rollout.turns != turns.get(rollout.id):
            wanted = "judged draws in which nothing is proved that was not"
            raise refuse("reward", name, rollout.turns[-1].verdict, "the review of draws", wanted)


class InOrder(Source):
    """The ``Source`` of runs that repeat bit for bit. ``choose`` orders the next draw, or None when
    there is no other; a step takes ``most`` draws, or as many as bring ``wanted`` groups. ``now``
    is the number of steps made, and ``flight`` what a checkpoint held."""

    def __init__(
        self,
        pipeline: Pipeline,
        choose: Callable[[], Order | None],
        *,
        most: int,
        wanted: int = 1,
        ahead: bool = True,
        now: Callable[[], int] = lambda: 0,
        flight: Flight | None = None,
    ) -> None:
        self.usage = pipeline.usage
        self._pipeline = pipeline
        self._choose = choose
        self._most = most
        self._wanted = wanted
        self._now = now
        self._flights = Flights(self._write, ahead=int(ahead), waiting=[flight] if flight else [])
        self._num_taken = 0

    async def draws(self) -> AsyncIterator[Judged]:
        self._num_taken = 0
        for _ in range(self._most):
            flight = await self._flights.oldest()
            if flight is None:
                return
            judged = await self._pipeline.land(flight)
            self._flights.land()
            yield Judged(judged, flight.seconds, self._now() - flight.step)
            if self._num_taken >= self._wanted:
                return

    def took(self, num_groups: int) -> None:
        self._num_taken = num_groups

    async def learned(self) -> dict[str, float]:
        """Bring the weights to the sampler; nothing is being written meanwhile."""
        session = self._pipeline.session
        return await asyncio.to_thread(session.sampler.push, session.policy.version)

    def state_dict(self) -> dict[str, Any]:
        return self._pipeline.dump(self._flights.waiting)

    async def aclose(self) -> None:
        await cancel_all([flight.judged for flight in self._flights.waiting])

    async def _write(self) -> Flight | None:
        order = self._choose()
        if order is None:
            return None
        step = self._now()
        return self._pipeline.launch(*await self._pipeline.write(order), step=step)


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
