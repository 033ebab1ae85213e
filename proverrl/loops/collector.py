"""Where a step's groups come from: the seam, and the collector that keeps their order.

Flows in: problems of the curriculum. Flows out: a ``StepBatch`` a step. ``InOrder`` learns from
draws in the order in which they were drawn, so that a run repeats bit for bit, and waits for every
verdict of a draw. With ``max_staleness`` 1 or more (the default) it is one draw ahead: while the
pool judges a draw the policy writes the next one, and while the learner updates, the pool judges
what was written; so a draw is at most one step behind. With 0 nothing is written ahead, and every
draw is of the weights that learn from it. Not handled here: groups in the order in which they
complete (``overlap``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proverrl.loops.audit import judge_first, judge_rest
from proverrl.loops.checkpoint import dump_draws, load_draws
from proverrl.loops.ledger import Ledger, Order, StepBatch
from proverrl.loops.session import Session, sample_draw
from proverrl.rollout.whole_proof import Draw, JudgedDraw

Part = Literal["generator", "pool", "learner", "composer"]


class IdleClock:
    """How long each part of a run had nothing to do, in wall seconds. ``pool`` works while any
    verdict is awaited; turns after the first, their writing included, count for it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        parts: Sequence[Part] = ("generator", "pool", "learner"),
    ) -> None:
        self._clock = clock
        self._since = clock()
        self._depth: dict[Part, int] = dict.fromkeys(parts, 0)
        self._began: dict[Part, float] = {}
        self._busy: dict[Part, float] = dict.fromkeys(parts, 0.0)

    @contextmanager
    def busy(self, part: Part) -> Iterator[None]:
        """The part is at work; scopes may lie within or beside each other."""
        if self._depth[part] == 0:
            self._began[part] = self._clock()
        self._depth[part] += 1
        try:
            yield
        finally:
            self._depth[part] -= 1
            if self._depth[part] == 0:
                self._busy[part] += self._clock() - self._began[part]

    def take_idle(self) -> dict[str, float]:
        """Idle seconds of each part since this was last asked, for the metrics."""
        now = self._clock()
        idle = {}
        for part, busy in self._busy.items():
            if self._depth[part]:
                busy += now - self._began[part]
                self._began[part] = now
            idle[f"idle_{part}_seconds"] = round(max(0.0, now - self._since - busy), 3)
            self._busy[part] = 0.0
        self._since = now
        return idle


class Collector(Protocol):
    """Fills the batches of a run's steps."""

    usage: IdleClock

    async def collect(self) -> StepBatch:
        """What the next step learns from: enough admitted groups, or as many as the limit on
        draws lets be found."""
        ...

    async def learned(self) -> dict[str, float]:
        """A step was made: the weights of ``session.policy`` and ``progress.step`` are new.
        Returns what bringing them to the sampler has to say for the metrics."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that is in flight, as JSON values that nothing changes any more."""
        ...

    async def aclose(self) -> None:
        """Give up what is in flight."""
        ...


@dataclass
class Flight:
    """A draw whose verdicts are on their way; ``step`` is that of the weights that wrote it."""

    draws: list[Draw]
    judged: asyncio.Task[list[JudgedDraw]]
    generation_seconds: float
    step: int


async def write_draw(session: Session, order: Order) -> tuple[list[Draw], float]:
    """Have the session's sampler write what is ordered; returns the seconds as well."""
    return await sample_draw(
        session,
        order.problems,
        n=session.config.grpo.group_size,
        number=order.number,
        hints=order.hints,
    )


class InOrder:
    """The ``Collector`` of runs that repeat bit for bit."""

    def __init__(self, ledger: Ledger, state: Mapping[str, Any] | None = None) -> None:
        self.usage = IdleClock()
        self._ledger = ledger
        self._session = ledger.session
        self._ahead = self._session.config.grpo.max_staleness > 0
        self._flight: Flight | None = None
        self._following: Flight | None = None
        if state is not None and state["draws"]:
            by_id = {p.id: p for p in self._session.problems.without_reference}
            self._flight = self._launch(load_draws(state["draws"], by_id), 0.0, state["step"])

    async def collect(self) -> StepBatch:
        """See ``Collector.collect``; the groups of a draw are admitted together."""
        config = self._session.config.grpo
        ledger, batch = self._ledger, StepBatch()
        for _ in range(config.max_draws_per_step):
            flight = self._flight or await self._draw()
            self._flight = flight
            self._following = await self._draw() if self._ahead else None
            judged = await flight.judged
            with self.usage.busy("pool"):
                judged = await judge_rest(self._session, ledger.auditor, judged)
            self._flight, self._following = self._following, None
            age = ledger.progress.step - flight.step
            await ledger.absorb(batch, judged, flight.generation_seconds, age=age)
            if len(batch.groups) >= config.groups_per_step:
                break
        return batch

    async def learned(self) -> dict[str, float]:
        """Bring the weights to the sampler; nothing is being written meanwhile."""
        session = self._session
        return await asyncio.to_thread(session.sampler.push, session.policy.version)

    def state_dict(self) -> dict[str, Any]:
        """See ``Collector.state_dict``."""
        flight = self._flight
        return {
            "draws": dump_draws(flight.draws) if flight else [],
            "step": flight.step if flight else 0,
        }

    async def aclose(self) -> None:
        """See ``Collector.aclose``."""
        for flight in (self._flight, self._following):
            if flight is not None:
                flight.judged.cancel()

    async def _draw(self) -> Flight:
        with self.usage.busy("generator"):
            draws, seconds = await write_draw(self._session, self._ledger.choose())
        return self._launch(draws, seconds, self._ledger.progress.step)

    def _launch(self, draws: list[Draw], seconds: float, step: int) -> Flight:
        async def judge() -> list[JudgedDraw]:
            with self.usage.busy("pool"):
                return await judge_first(self._session, self._ledger.auditor, draws)

        return Flight(draws, asyncio.create_task(judge()), seconds, step)
