"""A step of self-play: statements, guards, the solver's groups, and what overlaps with what.

Flows in: a run's state and rounds, a composer. Flows out: judged draws, and the composer's samples.
The order is fixed, so that a run repeats bit for bit: the pool checks the round's statements while
the policy writes the step's groups on base problems; what passed is given to the solver; while the
pool judges its proofs the composer writes the next round, whose checks go on while the learner
updates. Late guards are asked once the attempts on the round are judged. So a solver's group is
never stale, and a statement is one step older than its update.
A checkpoint holds the next round's drafts; their checks are made again, from the cache.
Not handled here: what is learned from (``rounds``), the composer's own weights (``composer``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.compose.composers import (
    Composer,
    Draft,
    drop_repeats,
    dump_drafts,
    load_drafts,
    measure_truncated,
)
from proverrl.concurrency import cancel_all
from proverrl.config.compose import GuardName
from proverrl.loops.pipeline import Beside, Flight, Judged, Order, Pipeline, Source
from proverrl.loops.selfplay.attack import Attacks, write_attacks
from proverrl.loops.selfplay.round import Round, solve_rate
from proverrl.loops.selfplay.rounds import Checked, Rounds
from proverrl.loops.state import GrpoState
from proverrl.loops.usage import IdleClock
from proverrl.rollout.samples import TrainingSample
from proverrl.types import Group, Problem, Rollout


@dataclass(frozen=True, slots=True)
class Composition:
    """A round's drafts, whose checks are under way, and what is tried on their negations."""

    number: int
    drafts: list[Draft]
    attacks: Attacks
    checked: asyncio.Task[Checked]


class SelfplaySource(Source):
    """The ``Source`` of a self-play run: a round and a draw on base problems each step. A composer
    with weights of its own learns apart from the solver."""

    def __init__(
        self,
        state: GrpoState,
        rounds: Rounds,
        composer: Composer,
        in_flight: Mapping[str, Any] | None = None,
    ) -> None:
        self.usage = IdleClock(parts=("generator", "pool", "learner", "composer"))
        self._state = state
        self._session = session = state.session
        self._rounds = rounds
        self._composer = composer
        self._num_groups = session.config.grpo.groups_per_draw
        self._pipeline = Pipeline(
            session, state.auditor, session.config.grpo.group_size, usage=self.usage
        )
        self._own = rounds.own if rounds.own is not None and rounds.own.learner else None
        self._samples: list[TrainingSample] = []
        self._next: Composition | None = None
        self._flights: list[Flight] = []
        self._late: asyncio.Task[Checked] | None = None
        self._judged: tuple[Round, int] | None = None
        if in_flight is not None and in_flight["drafts"] is not None:
            drafts = load_drafts(in_flight["drafts"])
            self._next = self._check(in_flight["round"], drafts, in_flight["attacks"])

    async def draws(self) -> AsyncIterator[Judged]:
        """See ``Source.draws``; all groups of the step, whatever is admitted."""
        state, rounds = self._state, self._rounds
        num_base = round(rounds.settings.base_share * self._num_groups)
        self._next = this = self._next or await self._compose()
        if num_base:
            await self._write(state.choose(num_base))
        checked = await this.checked
        tried = rounds.admit(this.drafts, checked)
        on_round = None
        if tried:
            on_round = await self._write(Order(state.number_draw(), tuple(tried)))
        missing = self._num_groups - num_base - len(tried)
        if missing > 0:
            await self._write(state.choose(missing))
        self._next = await self._compose()
        landed, attempts = await self._land(tried, on_round, this.attacks)
        kept: Sequence[Problem] = tried
        runs = [checked.run]
        if self._late is not None:
            late = await self._late
            rounds.settle(this.drafts, late)
            kept = late.run.kept
            runs.append(late.run)
        self._flights, self._late = [], None
        stops = {stop.problem_id: stop.guard for run in runs for stop in run.stops}
        calls = sum(run.num_calls for run in runs)
        done = Round(this.number, this.drafts, stops, tried, kept, attempts, calls)
        self._judged = done, sum(map(len, this.attacks.values()))
        for judged in landed:
            aside = [d for d in judged.draws if d.rollouts[0].problem.id in done.set_aside]
            used = [d for d in judged.draws if d.rollouts[0].problem.id not in done.set_aside]
            for draw in used:
                rounds.scaffolder.see(draw.rollouts)
            yield Judged(aside, 0.0, use="counted")
            yield Judged(used, judged.seconds)

    def end_step(self, groups: Sequence[Group]) -> Beside:
        """See ``Source.end_step``: the composer's samples, and the figures of the round."""
        assert self._judged is not None
        this, num_attacks = self._judged
        samples, figures = self._rounds.reward(this, groups)
        figures |= {"attack_bodies": num_attacks, **measure_truncated(this.drafts)}
        self._samples = samples if self._own is not None else []
        return Beside([] if self._own is not None else samples, this.guard_calls, figures)

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
            "attacks": following.attacks if following else {},
        }

    async def aclose(self) -> None:
        tasks: list[asyncio.Task[Any]] = [flight.judged for flight in self._flights]
        if self._next is not None:
            tasks.append(self._next.checked)
        if self._late is not None:
            tasks.append(self._late)
        await cancel_all(tasks)

    async def _compose(self) -> Composition:
        with self.usage.busy("composer"):
            number, pairs, scaffolds = self._rounds.draw()
            written = await self._composer.write(pairs, round_number=number)
            drafts = drop_repeats([*written, *scaffolds])
        with self.usage.busy("generator"):
            attacks = await write_attacks(self._session, drafts, number)
        return self._check(number, drafts, attacks)

    def _check(self, number: int, drafts: list[Draft], attacks: Attacks) -> Composition:
        problems = [draft.composed.problem for draft in drafts if draft.composed is not None]
        return Composition(
            number, drafts, attacks, self._ask(self._rounds.early, problems, attacks)
        )

    async def _write(self, order: Order) -> Flight:
        self._flights.append(self._pipeline.launch(*await self._pipeline.write(order)))
        return self._flights[-1]

    async def _land(
        self, tried: Sequence[Problem], on_round: Flight | None, attacks: Attacks
    ) -> tuple[list[Judged], dict[str, tuple[Rollout, ...]]]:
        """Await the step's verdicts, in the order of writing, and find the attempts on what was
        ``tried``. The late guards are asked about it while the others are judged."""
        names, late = {problem.id for problem in tried}, self._rounds.late
        attempts: dict[str, tuple[Rollout, ...]] = {}
        landed = []
        for flight in self._flights:
            judged = await self._pipeline.land(flight)
            landed.append(Judged(judged, flight.seconds))
            for draw in judged:
                name = draw.rollouts[0].problem.id
                if name in names:
                    attempts[name] = (*attempts.get(name, ()), *draw.rollouts)
            if flight is on_round and late:
                rates = {name: solve_rate(rollouts) or 0.0 for name, rollouts in attempts.items()}
                # Nothing is learned from the others: questions about them would cost for nothing.
                between = [p for p in tried if 0.0 < rates.get(p.id, 0.0) < 1.0]
                self._late = self._ask(late, between, attacks)
        return landed, attempts

    def _ask(
        self, guards: Sequence[GuardName], problems: Sequence[Problem], attacks: Attacks
    ) -> asyncio.Task[Checked]:
        async def check() -> Checked:
            with self.usage.busy("pool"):
                return await self._rounds.ask(guards, problems, attacks)

        return asyncio.create_task(check())
