"""A step of self-play: statements, guards, the solver's groups, and what overlaps with what.

Flows in: a ledger, a composer. Flows out: a ``StepBatch`` a step, with the composer's samples. The
order is fixed, so that a run repeats bit for bit: the pool checks the round's statements while the
policy writes the step's groups on base problems; what passed is given to the solver; while the
pool judges its proofs the composer writes the next round, whose checks go on while the learner
updates. Late guards are asked once the attempts on the round are judged. So a solver's group is
never stale, and a statement is one step older than its update.
A checkpoint holds the next round's drafts; their checks are made again, from the cache.
Not handled here: what is learned from (``selfplay_ledger``), the composer's own weights
(``selfplay``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
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
from proverrl.loops.audit import judge_first, judge_rest
from proverrl.loops.collector import IdleClock, write_draw
from proverrl.loops.ledger import Order, StepBatch
from proverrl.loops.selfplay.attack import Attacks, write_attacks
from proverrl.loops.selfplay.guards import Checked
from proverrl.loops.selfplay.ledger import SelfplayLedger
from proverrl.loops.selfplay.round import Round
from proverrl.rollout.training_sample import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw


@dataclass
class Composition:
    """A round's drafts, whose checks are under way, and what is tried on their negations."""

    number: int
    drafts: list[Draft]
    attacks: Attacks
    checked: asyncio.Task[Checked]


@dataclass
class Flight:
    """Groups whose verdicts are awaited, and the seconds that it took to write them; ``on_round``
    are those on the round's statements."""

    judged: asyncio.Task[list[JudgedDraw]]
    seconds: float
    on_round: bool


class SelfplayCollector:
    """The ``Collector`` of a self-play run; ``train_composer`` is given what a composer with
    weights of its own learns from, and otherwise the batch is."""

    def __init__(
        self,
        ledger: SelfplayLedger,
        composer: Composer,
        state: Mapping[str, Any] | None = None,
        *,
        train_composer: Callable[[Sequence[TrainingSample]], dict[str, float]] | None = None,
    ) -> None:
        self.usage = IdleClock(parts=("generator", "pool", "learner", "composer"))
        self._ledger = ledger
        self._session = ledger.session
        self._composer = composer
        self._train = train_composer
        self._samples: list[TrainingSample] = []
        self._next: Composition | None = None
        self._flights: list[Flight] = []
        self._late: asyncio.Task[Checked] | None = None
        if state is not None and state["drafts"] is not None:
            self._next = self._check(state["round"], load_drafts(state["drafts"]), state["attacks"])

    async def collect(self) -> StepBatch:
        """See ``Collector.collect``: one round and one draw on base problems."""
        ledger, batch = self._ledger, StepBatch()
        num_groups = self._session.config.grpo.groups_per_draw
        num_base = round(ledger.settings.base_share * num_groups)
        composition = self._next or await self._compose()
        self._next = composition
        if num_base:
            await self._write(ledger.choose(num_base))
        checked = await composition.checked
        this = ledger.admit(batch, composition.number, composition.drafts, checked)
        if this.tried:
            await self._write(ledger.order_composed(this.tried), on_round=True)
        missing = num_groups - num_base - len(this.tried)
        if missing > 0:
            await self._write(ledger.choose(missing))
        self._next = await self._compose()
        await self._absorb(batch, this, composition.attacks)
        samples = ledger.reward_round(batch, this)
        batch.figures["attack_bodies"] = sum(map(len, composition.attacks.values()))
        batch.figures |= measure_truncated(composition.drafts)
        if self._train is None:
            batch.extra = samples
        else:
            self._samples = samples
        return batch

    async def learned(self) -> dict[str, float]:
        """Bring the solver's weights to the sampler, and train a composer that has its own."""
        session = self._session
        metrics = await asyncio.to_thread(session.sampler.push, session.policy.version)
        if self._train is not None and self._samples:
            with self.usage.busy("learner"):
                metrics |= await asyncio.to_thread(self._train, self._samples)
        self._samples = []
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """See ``Collector.state_dict``."""
        following = self._next
        return {
            "round": following.number if following else 0,
            "drafts": dump_drafts(following.drafts) if following else None,
            "attacks": following.attacks if following else {},
        }

    async def aclose(self) -> None:
        """See ``Collector.aclose``."""
        tasks: list[asyncio.Task[Any]] = [flight.judged for flight in self._flights]
        if self._next is not None:
            tasks.append(self._next.checked)
        if self._late is not None:
            tasks.append(self._late)
        await cancel_all(tasks)

    async def _compose(self) -> Composition:
        with self.usage.busy("composer"):
            number, pairs, scaffolds = self._ledger.draw_round()
            written = await self._composer.write(pairs, round_number=number)
            drafts = drop_repeats([*written, *scaffolds])
        with self.usage.busy("generator"):
            attacks = await write_attacks(self._session, drafts, number)
        return self._check(number, drafts, attacks)

    def _check(self, number: int, drafts: list[Draft], attacks: Attacks) -> Composition:
        checked = self._start(self._ledger.checks.check_drafts(drafts, attacks))
        return Composition(number, drafts, attacks, checked)

    async def _write(self, order: Order, *, on_round: bool = False) -> None:
        with self.usage.busy("generator"):
            draws, seconds = await write_draw(self._session, order)

        async def judge() -> list[JudgedDraw]:
            with self.usage.busy("pool"):
                return await judge_first(self._session, self._ledger.auditor, draws)

        self._flights.append(Flight(asyncio.create_task(judge()), seconds, on_round))

    async def _absorb(self, batch: StepBatch, this: Round, attacks: Attacks) -> None:
        """Await the step's verdicts, note those on the round, have the late guards asked about it
        while the others are judged, and take them all in, in the order of writing."""
        ledger = self._ledger
        tried = {problem.id for problem in this.tried}
        waited: list[tuple[list[JudgedDraw], float]] = []
        for flight in self._flights:
            judged = await flight.judged
            with self.usage.busy("pool"):
                judged = await judge_rest(self._session, ledger.auditor, judged)
            for draw in judged:
                name = draw.rollouts[0].problem.id
                if name in tried:
                    this.attempts[name] = (*this.attempts.get(name, ()), *draw.rollouts)
            if flight.on_round and ledger.checks.late:
                self._late = self._start(ledger.checks.check_tried(this, attacks))
            waited.append((judged, flight.seconds))
        if self._late is not None:
            ledger.settle(batch, this, await self._late)
        for judged, seconds in waited:
            await ledger.absorb(batch, judged, seconds, age=0)
        self._flights, self._late = [], None

    def _start(self, checks: Coroutine[Any, Any, Checked]) -> asyncio.Task[Checked]:
        async def check() -> Checked:
            with self.usage.busy("pool"):
                return await checks

        return asyncio.create_task(check())
