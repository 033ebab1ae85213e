"""Generation, verification and learning at the same time, within a bound on staleness.

Flows in: orders of the run's state. Flows out: judged draws of one group each, the oldest that are
complete. Each group is judged by a task of its own, so that a slow verification holds back no
other. A group is learned from at most ``max_staleness`` steps after the weights that wrote it; a
later one is counted and dropped. The policy writes on while fewer groups are unlearned than
``max_staleness`` + 1 steps take; groups that are too old do not count, or one that hangs would hold
its place for good. The sampler has weights of its own, because generation must not see an update
half made nor wait for it: after each step a copy is published, which it takes over before its next
batch (``samplers``). The checkpoint holds groups that are not yet learned from, by their first
turns, and the draw that is being written, by its number and problems. Not handled here: bit-for-bit
repetition (``pipeline.InOrder``); further turns of several groups in one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from proverrl.concurrency import cancel_all
from proverrl.rollout.whole_proof import Draw
from proverrl.run.checkpoint import dump_draws, load_draws, load_hint
from proverrl.run.pipeline import Flight, Judged, Order, Pipeline, Source, Use
from proverrl.run.samplers import PublishedSampler
from proverrl.run.state import GrpoState
from proverrl.types import Problem


class AsCompleted(Source):
    """The ``Source`` that keeps sampler, pool and learner at work at the same time."""

    def __init__(
        self,
        state: GrpoState,
        sampler: PublishedSampler,
        in_flight: Mapping[str, Any] | None = None,
    ) -> None:
        self._state = state
        self._sampler = sampler
        self._settings = state.session.config.grpo
        # The sampler's weights write, not the session's.
        self._pipeline = Pipeline(
            state.session, state.reviewer, self._settings.group_size, sampler=sampler
        )
        self.usage = self._pipeline.usage
        self._waiting: dict[int, Flight] = {}
        self._num_launched = 0
        self._complete: set[int] = set()
        # Admitted to the step that is being made: not learned from yet.
        self._num_taken = 0
        self._arrived = asyncio.Event()
        self._changed = asyncio.Event()
        self._drawing: Order | None = None
        if in_flight is not None:
            by_id = {p.id: p for p in state.session.problems.without_reference}
            draws = load_draws(in_flight["draws"], by_id)
            for draw, step in zip(draws, in_flight["steps"], strict=True):
                self._launch(draw, 0.0, step)
            if in_flight["drawing"] is not None:
                self._drawing = _load_order(in_flight["drawing"], by_id)
        self._generator = asyncio.create_task(self._generate())
        self._generator.add_done_callback(lambda _: self._arrived.set())

    async def draws(self) -> AsyncIterator[Judged]:
        """See ``Source.draws``; groups are taken one by one, as they complete."""
        settings, num_fresh = self._settings, 0
        most = settings.max_draws_per_step * settings.groups_per_draw
        while self._num_taken < settings.groups_per_step and num_fresh < most:
            group = await self._next()
            age = self._age(group)
            stale = age > settings.max_staleness
            num_fresh += not stale
            use: Use = "stale" if stale else "learned"
            yield Judged(group.judged.result(), group.seconds, age, use)

    def took(self, num_groups: int) -> None:
        """See ``Source.took``; there may be room for another draw."""
        self._num_taken = num_groups
        self._changed.set()

    async def learned(self) -> dict[str, float]:
        """Hand the new weights to the sampler, and look again whether it may write."""
        figures = await self._sampler.publish(self._state.progress.step)
        self.took(0)
        return figures

    def state_dict(self) -> dict[str, Any]:
        waiting = list(self._waiting.values())
        drawing = self._drawing
        return {
            "draws": dump_draws([draw for group in waiting for draw in group.draws]),
            "steps": [group.step for group in waiting],
            "drawing": _dump_order(drawing) if drawing else None,
        }

    async def aclose(self) -> None:
        await cancel_all([self._generator, *(group.judged for group in self._waiting.values())])
        await self._sampler.aclose()

    def _age(self, group: Flight) -> int:
        return self._state.progress.step - group.step

    def _has_room(self) -> bool:
        """True if one more draw may be of use before it is too old."""
        settings = self._settings
        usable = sum(self._age(g) <= settings.max_staleness for g in self._waiting.values())
        a_step = max(settings.groups_per_step, settings.groups_per_draw)
        unlearned = usable + self._num_taken
        return unlearned + settings.groups_per_draw <= (settings.max_staleness + 1) * a_step

    async def _generate(self) -> None:
        """Write draws as long as there is room for them."""
        while True:
            while not self._has_room():
                self._changed.clear()
                await self._changed.wait()
            # What was being written when the checkpoint was made comes first.
            self._drawing = self._drawing or self._state.choose()
            draws, seconds = await self._pipeline.write(self._drawing)
            self._drawing = None
            for draw in draws:
                self._launch(draw, seconds / len(draws), self._sampler.step)

    def _launch(self, draw: Draw, seconds: float, step: int) -> None:
        key = self._num_launched
        self._num_launched += 1
        flight = self._pipeline.launch([draw], seconds, step=step, turns=True)
        self._waiting[key] = flight

        def land(_: object) -> None:
            self._complete.add(key)
            self._arrived.set()

        flight.judged.add_done_callback(land)

    async def _next(self) -> Flight:
        """The oldest complete group, now no longer waiting; raises what broke the generator."""
        while not self._complete:
            if self._generator.done():
                self._generator.result()
            self._arrived.clear()
            await self._arrived.wait()
        oldest = min(self._complete)
        self._complete.remove(oldest)
        return self._waiting.pop(oldest)


def _dump_order(order: Order) -> dict[str, Any]:
    return {
        "number": order.number,
        "problems": [problem.id for problem in order.problems],
        "hints": [hint and asdict(hint) for hint in order.hints],
    }


def _load_order(row: Mapping[str, Any], by_id: Mapping[str, Problem]) -> Order:
    return Order(
        row["number"],
        tuple(by_id[name] for name in row["problems"]),
        tuple(hint and load_hint(hint) for hint in row["hints"]),
    )
