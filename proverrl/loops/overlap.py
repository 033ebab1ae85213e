"""Generation, verification and learning at the same time, within a bound on staleness.

Flows in: problems of the curriculum. Flows out: a ``StepBatch`` a step, of the oldest groups that
are complete. Each group is judged by a task of its own (first turn, further turns, audits),
so that a slow verification holds back its own group and no other. A group is learned from at most
``max_staleness`` steps after the weights that wrote it; a later one is counted and dropped. Within
the bound, ``[loss.weights]`` weighs what the sampler's probabilities are worth.

The policy writes on as long as fewer groups are unlearned than ``max_staleness`` + 1 steps take,
so that none is too old by the time its turn comes. Groups that are too old to be learned from do
not count, or one that hangs would hold its place for good. The sampler has weights of its own,
because generation must not see an update half made, and a lock would let one wait for the other:
after each step a copy is published, and the sampler takes it over before it writes the next batch.
That costs the weights once more, and twice for the moment between.

All that is in flight is in the checkpoint: groups whose verdicts are awaited or not yet learned
from, by their first turns, and the draw that is just being written, by its number and problems.
What a resumed run judges again comes from the cache. Not handled here: bit-for-bit repetition,
which the order of completion rules out (``collector.InOrder``); further turns of several groups in
one batch.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, cast

from torch import Tensor

from proverrl.concurrency import cancel_all
from proverrl.config import LayoutName
from proverrl.loops.audit import judge_first, judge_rest
from proverrl.loops.checkpoint import dump_draws, load_draws, load_hint
from proverrl.loops.collector import IdleClock, write_draw
from proverrl.loops.ledger import Ledger, Order, StepBatch
from proverrl.loops.session import Session
from proverrl.policy.base import Exchange, Policy, Sampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.whole_proof import Draw, JudgedDraw
from proverrl.types import Completion, Problem, Prompt, Sampling


class Publisher(Policy, Protocol):
    """A sampler whose weights change only where ``publish`` says so; ``step`` is that of the
    weights that wrote the last batch."""

    step: int

    async def publish(self, step: int) -> dict[str, float]:
        """The learner has made ``step`` steps: batches that begin from now on use its weights.
        Returns figures for the metrics."""
        ...


class SamplerCopy(TransformersPolicy):
    """A ``Publisher`` with a copy of another policy's weights; one batch is written at a time."""

    def __init__(self, source: TransformersPolicy, step: int) -> None:
        super().__init__(
            copy.deepcopy(source.model).requires_grad_(False),
            source.tokenizer,
            layout=source.layout,
            device=source.device,
            max_rows=source.max_rows,
            version=source.version,
        )
        self.step = step
        self._source = source
        self._lock = asyncio.Lock()
        self._published: tuple[dict[str, Tensor], int, int] | None = None

    async def publish(self, step: int) -> dict[str, float]:
        """See ``Publisher.publish``. Not to be called while the source is being updated."""
        weights = await asyncio.to_thread(_copy_weights, self._source.model)
        self._published = (weights, self._source.version, step)
        return {}

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        async with self._lock:
            if self._published is not None:
                weights, self.version, self.step = self._published
                self._published = None
                await asyncio.to_thread(self.model.load_state_dict, weights)
            return await super().generate(prompts, n=n, sampling=sampling)


class PushedSampler:
    """A ``Publisher`` on an engine that holds the weights itself. It is not copied: a push waits
    for the batch that is being written, and the learner for the push."""

    def __init__(self, session: Session, step: int) -> None:
        self.step = step
        self._sampler = session.sampler
        self._policy = session.policy
        self._lock = asyncio.Lock()

    @property
    def version(self) -> int:
        return self._sampler.version

    @property
    def engine(self) -> str:
        return self._sampler.engine

    @property
    def layout(self) -> LayoutName:
        return self._sampler.layout

    def prompt(self, problem: Problem) -> Prompt:
        return self._sampler.prompt(problem)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return self._sampler.resume(prompt, history)

    async def publish(self, step: int) -> dict[str, float]:
        """See ``Publisher.publish``."""
        async with self._lock:
            figures = await asyncio.to_thread(self._sampler.push, self._policy.version)
            self.step = step
        return figures

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        async with self._lock:
            return await self._sampler.generate(prompts, n=n, sampling=sampling)


@dataclass
class _Waiting:
    """A group that is not learned from yet; ``step`` is that of the weights that wrote it."""

    draw: Draw
    step: int
    seconds: float
    judged: asyncio.Task[JudgedDraw]


class Overlap:
    """The ``Collector`` that keeps sampler, pool and learner at work at the same time."""

    def __init__(
        self, ledger: Ledger, sampler: Publisher, state: Mapping[str, Any] | None = None
    ) -> None:
        self.usage = IdleClock()
        self._ledger = ledger
        self._sampler = sampler
        # The same run, written by the sampler's weights.
        self._session: Session = replace(ledger.session, sampler=cast(Sampler, sampler))
        self._settings = ledger.session.config.grpo
        self._waiting: dict[int, _Waiting] = {}
        self._num_launched = 0
        self._complete: set[int] = set()
        # Admitted to the step that is being made: not learned from yet.
        self._num_taken = 0
        self._arrived = asyncio.Event()
        self._changed = asyncio.Event()
        self._drawing: Order | None = None
        if state is not None:
            self._restore(state)
        self._generator = asyncio.create_task(self._generate())
        self._generator.add_done_callback(lambda _: self._arrived.set())

    async def collect(self) -> StepBatch:
        """See ``Collector.collect``; groups are taken one by one, as they complete."""
        batch, num_fresh = StepBatch(), 0
        most = self._settings.max_draws_per_step * self._settings.groups_per_draw
        while len(batch.groups) < self._settings.groups_per_step and num_fresh < most:
            group = await self._next()
            age = self._age(group)
            stale = age > self._settings.max_staleness
            num_fresh += not stale
            judged = [group.judged.result()]
            await self._ledger.absorb(batch, judged, group.seconds, age=age, stale=stale)
            self._num_taken = len(batch.groups)
            self._changed.set()
        return batch

    async def learned(self) -> dict[str, float]:
        """Hand the new weights to the sampler, and look again whether it may write."""
        figures = await self._sampler.publish(self._ledger.progress.step)
        self._num_taken = 0
        self._changed.set()
        return figures

    def state_dict(self) -> dict[str, Any]:
        """See ``Collector.state_dict``."""
        waiting = list(self._waiting.values())
        drawing = self._drawing
        return {
            "draws": dump_draws([group.draw for group in waiting]),
            "steps": [group.step for group in waiting],
            "drawing": _dump_order(drawing) if drawing else None,
        }

    async def aclose(self) -> None:
        """See ``Collector.aclose``."""
        await cancel_all([self._generator, *(group.judged for group in self._waiting.values())])

    def _restore(self, state: Mapping[str, Any]) -> None:
        by_id = {p.id: p for p in self._session.problems.without_reference}
        draws = load_draws(state["draws"], by_id)
        for draw, step in zip(draws, state["steps"], strict=True):
            self._launch(draw, step, 0.0)
        if state["drawing"] is not None:
            self._drawing = _load_order(state["drawing"], by_id)

    def _age(self, group: _Waiting) -> int:
        return self._ledger.progress.step - group.step

    def _has_room(self) -> bool:
        """Whether one more draw may be of use before it is too old."""
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
            self._drawing = self._drawing or self._ledger.choose()
            with self.usage.busy("generator"):
                draws, seconds = await write_draw(self._session, self._drawing)
            self._drawing = None
            for draw in draws:
                self._launch(draw, self._sampler.step, seconds / len(draws))

    def _launch(self, draw: Draw, step: int, seconds: float) -> None:
        key = self._num_launched
        self._num_launched += 1
        judged = asyncio.create_task(self._judge(draw))
        self._waiting[key] = _Waiting(draw, step, seconds, judged)
        judged.add_done_callback(lambda _: self._land(key))

    async def _judge(self, draw: Draw) -> JudgedDraw:
        auditor = self._ledger.auditor
        with self.usage.busy("pool"):
            first = await judge_first(self._session, auditor, [draw])
            (judged,) = await judge_rest(self._session, auditor, first)
        return judged

    def _land(self, key: int) -> None:
        self._complete.add(key)
        self._arrived.set()

    async def _next(self) -> _Waiting:
        """The oldest complete group, now no longer waiting; raises what broke the generator."""
        while not self._complete:
            if self._generator.done():
                self._generator.result()
            self._arrived.clear()
            await self._arrived.wait()
        oldest = min(self._complete)
        self._complete.remove(oldest)
        return self._waiting.pop(oldest)


def _copy_weights(model: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


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
