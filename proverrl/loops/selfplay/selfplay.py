"""Self-play: a composer writes statements that a solver learns to prove, both in one run.

Paper order (GAR, 2025, arXiv 2510.11769): draw pairs of base problems, have a composer write a
statement for each, keep those that pass the filters, sample a group of proofs on each, verify,
reward both, update both. Shared weights get one update over the samples of both roles; otherwise
the composer has a copy of the solver's first weights, which has its own learner or stays as it is.

Flows in: a session. Flows out: what a GRPO run leaves, and ``archive.jsonl``. It is the loop of
``grpo`` with draws in a fixed order, so that a run repeats bit for bit. While the pool judges a
step, the composer writes the next round, and the policy that step's bodies: on base problems, and
on what passes the early filters. The pool judges these while the learner updates, so they are one
step old when they are learned from. A checkpoint holds the next round's drafts and bodies; they are
judged again, from the cache. Not handled here: several processes, what is learned from (``state``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from proverrl.compose.composers import Composer, Draft, drop_repeats, dump_drafts, load_drafts
from proverrl.compose.filters import FilterRun
from proverrl.concurrency import cancel_all
from proverrl.config.selfplay import FilterName
from proverrl.errors import UsageError
from proverrl.loops.grpo import make_reward, run_steps
from proverrl.loops.selfplay.composer import OwnComposer, open_composer, teach_composer
from proverrl.loops.selfplay.composition import drop_long, weigh_operators
from proverrl.loops.selfplay.state import JudgedRound, Rounds, solve_rate
from proverrl.rewards import is_modified, penalise_modified
from proverrl.rollout.samples import TrainingSample
from proverrl.rollout.whole_proof import Draw
from proverrl.run.pipeline import Flight, Judged, Order, Pipeline, Source
from proverrl.run.session import Session
from proverrl.run.state import GrpoState
from proverrl.run.tally import Component, IdleClock, Tally
from proverrl.types import Group, Problem, Reward, Rollout


async def run_selfplay(session: Session) -> None:
    """Play until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself.
    Raises ``UsageError``: there are several processes."""
    if session.policy.world.size > 1:
        raise UsageError('loop = "selfplay" runs in one process; start it without a launcher')
    _say_who_composes(session)
    settings = session.config.selfplay
    state = GrpoState(session)
    writes = settings.composer == "policy"
    own = OwnComposer(session) if writes and settings.weights != "shared" else None
    if own is None and session.config.learner.replay_samples:
        # Weights that learn proofs alone forget how to write scripts within a few steps.
        state.other_role = teach_composer(session)
    rounds = state.extension = Rounds(state, own)
    plain = make_reward(state)

    def reward(rollout: Rollout) -> Reward:
        return penalise_modified(plain(rollout), is_modified(rollout))

    await run_steps(state, reward, partial(_open_source, state, rounds), rounds.is_within)


def _open_source(state: GrpoState, rounds: Rounds) -> SelfplaySource:
    settings, own = rounds.settings, rounds.own
    weigh = None
    if settings.operator_choice == "useful":
        weigh = partial(weigh_operators, rounds.archive, *settings.solve_rates)
    writer = state.session.sampler if own is None else own.policy
    composer = open_composer(state.session, writer, weigh=weigh)
    return SelfplaySource(state, rounds, composer)


def _say_who_composes(session: Session) -> None:
    settings = session.config.selfplay
    if settings.composer == "program":
        text = "a program, one operator a statement"
    elif settings.composer != "policy":
        text = f"{settings.composer}, one statement a call"
    else:
        whose = "the solver's weights" if settings.weights == "shared" else "weights of its own"
        trained = "not trained" if settings.weights == "frozen" else "trained"
        text = f"a policy with {whose}, {trained}"
    session.monitor.phase("composer", text)


@dataclass(frozen=True, slots=True)
class Composition:
    """A round's drafts, whose checks are under way."""

    number: int
    drafts: list[Draft]
    checked: asyncio.Task[FilterRun]


class SelfplaySource(Source):
    """The ``Source`` of a self-play run: a round and a draw on base problems each step."""

    def __init__(self, state: GrpoState, rounds: Rounds, composer: Composer) -> None:
        self._state = state
        self._session = session = state.session
        parts: tuple[Component, ...] = ("generator", "pool", "learner", "composer")
        self.usage = IdleClock(parts=parts)
        self._rounds = rounds
        self._composer = composer
        self._num_groups = session.config.grpo.groups_per_draw
        self._pipeline = Pipeline(
            session, state.reviewer, session.config.grpo.group_size, usage=self.usage
        )
        self._own = rounds.own if rounds.own is not None and rounds.own.learner else None
        self._samples: list[TrainingSample] = []
        self._next: Composition | None = None
        self._flights: list[Flight] = []
        self._ahead: Flight | None = None
        self._late: asyncio.Task[FilterRun] | None = None
        self._judged: JudgedRound | None = None
        in_flight = state.in_flight
        if in_flight is not None and in_flight["drafts"] is not None:
            drafts = load_drafts(in_flight["drafts"])
            self._next = self._check(in_flight["round"], drafts)
            self._ahead = self._pipeline.relaunch(in_flight, also=_list_problems(drafts))

    async def draws(self) -> AsyncIterator[Judged]:
        """All groups of the step, whatever is admitted."""
        state, rounds = self._state, self._rounds
        self._next = this = self._next or await self._compose()
        self._flights = [self._ahead or self._launch(await self._write_ahead(this))]
        self._ahead = None
        checked = await this.checked
        tried = rounds.admit(this.drafts, checked)
        written = {draw.problem.id for draw in self._flights[0].draws}
        # After a resume a filter may let pass what was not judged before.
        if others := tuple(problem for problem in tried if problem.id not in written):
            order = Order(state.number_draw(), others)
            self._flights.append(self._launch(await self._pipeline.write(order)))
        missing = self._num_groups - self._count_base(this) - len(tried)
        if missing > 0:
            self._flights.append(self._launch(await self._pipeline.write(state.choose(missing))))
        self._next = await self._compose()
        ahead = await self._write_ahead(self._next)
        landed, attempts = await self._land(tried)
        kept: Sequence[Problem] = tried
        runs = [checked]
        if self._late is not None:
            late = await self._late
            rounds.settle(this.drafts, late)
            kept = late.kept
            runs.append(late)
        self._flights, self._late = [], None
        # Not before: the pool would be done with them, and wait while the learner updates.
        self._ahead = self._launch(ahead)
        stops = {stop.problem_id: stop.filter for run in runs for stop in run.stops}
        calls = sum(run.calls.total() for run in runs)
        self._judged = done = JudgedRound(
            this.number, this.drafts, stops, tried, kept, attempts, calls
        )
        for judged in landed:
            aside = [d for d in judged.draws if d.rollouts[0].problem.id in done.set_aside]
            used = [d for d in judged.draws if d.rollouts[0].problem.id not in done.set_aside]
            yield Judged(aside, 0.0, use="set_aside")
            yield Judged(used, judged.seconds, judged.age)

    def end_step(self, groups: Sequence[Group], tally: Tally) -> Sequence[TrainingSample]:
        """The composer's samples, unless it learns apart, and the figures of the round."""
        assert self._judged is not None
        samples, tally.figures = self._rounds.reward(self._judged, groups)
        tally.verifier_calls += self._judged.filter_calls
        self._samples = samples if self._own is not None else []
        return samples if self._own is None else ()

    async def learned(self) -> dict[str, float]:
        """Bring the solver's weights to the sampler, and train a composer that has its own."""
        session = self._session
        metrics = await asyncio.to_thread(session.sampler.push, session.policy.version)
        if self._own is not None and self._samples:
            with self.usage.busy("learner"):
                metrics |= await asyncio.to_thread(self._own.step, self._samples)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        following = self._next
        return {
            "round": following.number if following else 0,
            "drafts": dump_drafts(following.drafts) if following else None,
            **self._pipeline.dump([self._ahead] if self._ahead else []),
        }

    async def aclose(self) -> None:
        flights = [*self._flights, *([self._ahead] if self._ahead else [])]
        tasks: list[asyncio.Task[Any]] = [flight.judged for flight in flights]
        if self._next is not None:
            tasks.append(self._next.checked)
        if self._late is not None:
            tasks.append(self._late)
        await cancel_all(tasks)

    async def _compose(self) -> Composition:
        with self.usage.busy("composer"):
            number, pairs = self._rounds.draw()
            written = await self._composer.write(pairs, round_number=number)
            drafts = drop_long(self._session, drop_repeats(written))
        return self._check(number, drafts)

    def _check(self, number: int, drafts: list[Draft]) -> Composition:
        return Composition(number, drafts, self._ask(self._rounds.early, _list_problems(drafts)))

    def _count_base(self, following: Composition) -> int:
        """The number of base problems that a step begins with: its share, or more where a round has
        fewer statements than the rest."""
        least = round(self._rounds.settings.base_share * self._num_groups)
        return max(least, self._num_groups - len(_list_problems(following.drafts)))

    async def _write_ahead(self, following: Composition) -> tuple[list[Draw], float]:
        """The flight that a round's step begins with: bodies on base problems, and on what the
        early filters let pass. One flight, as it is after a resume."""
        state, orders = self._state, []
        if num_base := self._count_base(following):
            orders.append(state.choose(num_base))
        if tried := (await following.checked).kept:
            orders.append(Order(state.number_draw(), tuple(tried)))
        written = [await self._pipeline.write(order) for order in orders]
        return [draw for draws, _ in written for draw in draws], sum(took for _, took in written)

    def _launch(self, written: tuple[list[Draw], float]) -> Flight:
        return self._pipeline.launch(*written, step=self._state.progress.step)

    async def _land(
        self, tried: Sequence[Problem]
    ) -> tuple[list[Judged], dict[str, tuple[Rollout, ...]]]:
        """Await the step's verdicts, in the order of writing, and find the attempts on what was
        ``tried``. The late filters are asked about it while the others are judged."""
        names, late = {problem.id for problem in tried}, self._rounds.late
        attempts: dict[str, tuple[Rollout, ...]] = {}
        landed = []
        for flight in self._flights:
            judged = await self._pipeline.land(flight)
            age = self._state.progress.step - flight.step
            landed.append(Judged(judged, flight.seconds, age))
            for draw in judged:
                name = draw.rollouts[0].problem.id
                if name in names:
                    attempts[name] = (*attempts.get(name, ()), *draw.rollouts)
            if late and self._late is None and names and names <= attempts.keys():
                rates = {name: solve_rate(rollouts) or 0.0 for name, rollouts in attempts.items()}
                # Nothing is learned from the others: questions about them would cost for nothing.
                between = [p for p in tried if 0.0 < rates.get(p.id, 0.0) < 1.0]
                self._late = self._ask(late, between)
        return landed, attempts

    def _ask(
        self, filters: Sequence[FilterName], problems: Sequence[Problem]
    ) -> asyncio.Task[FilterRun]:
        async def check() -> FilterRun:
            with self.usage.busy("pool"):
                return await self._rounds.ask(filters, problems)

        return asyncio.create_task(check())


def _list_problems(drafts: Sequence[Draft]) -> list[Problem]:
    return [draft.composed.problem for draft in drafts if draft.composed is not None]
