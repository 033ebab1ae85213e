"""Samplers beside the learner, with weights as they were last published.

Flows in: the weights of the policy that is trained, after each step. Flows out: completions of the
weights that were published when a batch began. Of several processes each writes its part of a
batch. Rank 0's learner and sampler speak to the others at the same time and in no fixed order, so
that the sampler has a group of processes of its own, and each other process a thread that obeys it
(``proverrl.run.follow``). In each group there is one conversation, in one order: the learner's
never waits for the sampler's. A batch may begin before the publication of its weights has been
sent, and the others then wait for that: it is always sent, because ``in_thread`` outlasts a
cancellation. Not handled here: when to write (``overlap``).
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Sequence
from typing import Protocol, cast

from torch import Tensor

from proverrl.concurrency import in_thread
from proverrl.config import LayoutName
from proverrl.parallel import World
from proverrl.policy.base import Exchange, NoRoomError, Policy, SharedSampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import Before
from proverrl.run.session import Session
from proverrl.types import Completion, Problem, Prompt, Sampling


class PublishedSampler(Policy, Protocol):
    """A sampler with weights as last published; those of ``step`` wrote the last batch."""

    step: int

    async def publish(self, step: int) -> dict[str, float]:
        """Batches that begin from now on use the weights of ``step``. Returns figures."""

    async def aclose(self) -> None:
        """Nothing more is written; called when no batch is being written."""


class SamplerCopy(TransformersPolicy):
    """A ``PublishedSampler`` with a copy of another policy's weights; one batch is written at a
    time. Every process of a run makes one: rank 0, and the others as it tells them."""

    def __init__(self, source: TransformersPolicy, step: int) -> None:
        if source.world.size > 1 and source.world.leads:
            source.world.share(("copy", (step, source.version)))
        super().__init__(
            copy.deepcopy(source.model).requires_grad_(False),
            source.tokenizer,
            **source.settings,
            version=source.version,
            world=source.world.split(),
        )
        self.step = step
        self._source = source
        self._lock = asyncio.Lock()
        self._failures = _Failures()
        # The weights that wait to be taken, by their version, and the step of the newest.
        self._held: dict[int, dict[str, Tensor]] = {}
        self._arrival = threading.Condition()
        self._newest = (source.version, step)
        # The version of the last batch, which need not have been taken yet.
        self._asked = source.version

    async def publish(self, step: int) -> dict[str, float]:
        """See ``PublishedSampler.publish``. Not to be called while the source is being updated."""
        version, asked = self._source.version, self._asked
        self.hold(version, asked)
        self._newest = (version, step)
        if self.world.size > 1:
            await in_thread(self._source.world.share, ("publish", (version, asked)))
        return {}

    def hold(self, version: int, asked: int) -> None:
        """Keep a copy of the source's weights for batches to come. Of those that are kept already
        none is wanted any more but the version that rank 0 ``asked`` for last."""
        with self._arrival:
            self._held = {v: held for v, held in self._held.items() if v in (version, asked)}
            if version != self.version and version not in self._held:
                # What is not trained is the same in the copy: with adapters nearly everything.
                self._held[version] = {
                    name: weight.detach().clone()
                    for name, weight in self._source.model.named_parameters()
                    if weight.requires_grad
                }
            self._arrival.notify_all()

    def take(self, version: int) -> None:
        """Write with the weights of this version from now on, once they are published here."""
        if version == self.version:
            return
        with self._arrival:
            self._arrival.wait_for(lambda: version in self._held)
            weights = self._held.pop(version)
            self.version = version
        self.model.load_state_dict(weights, strict=False)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        async with self._lock:
            # At once: what is published from here on must not replace it.
            self._asked, self.step = self._newest
            with self._failures:
                await in_thread(self.take, self._asked)
                return await super().generate(prompts, n=n, sampling=sampling)

    async def aclose(self) -> None:
        if not self._failures.happened:
            await in_thread(dismiss_apart, self.world)


class PushedSampler:
    """A ``PublishedSampler`` on an engine that holds the weights itself: a push waits for the batch
    that is being written, and the learner for the push."""

    def __init__(self, session: Session, step: int) -> None:
        self.step = step
        self._sampler = cast(SharedSampler, session.sampler)
        self._policy = session.policy
        self._lock = asyncio.Lock()
        self._failures = _Failures()
        self._world = session.policy.world
        if self._world.size > 1:
            self._world.share(("split_sampler", ()))
            self._sampler.world = self._world.split()

    @property
    def version(self) -> int:
        return self._sampler.version

    @property
    def engine(self) -> str:
        return self._sampler.engine

    @property
    def layout(self) -> LayoutName:
        return self._policy.layout

    @property
    def before(self) -> Before:
        return self._policy.before

    @property
    def context_tokens(self) -> int:
        return self._sampler.context_tokens

    def prompt(self, problem: Problem) -> Prompt:
        return self._policy.prompt(problem)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        return self._policy.resume(prompt, history)

    async def publish(self, step: int) -> dict[str, float]:
        async with self._lock:
            with self._failures:
                figures = await in_thread(self._push, self._policy.version)
            self.step = step
        return figures

    def _push(self, version: int) -> dict[str, float]:
        if self._world.size > 1:
            # The push goes another way than the step: all must have made it.
            self._world.share(("barrier", ()))
            self._world.gather(None)
        return self._sampler.push(version)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        async with self._lock:
            with self._failures:
                return await self._sampler.generate(prompts, n=n, sampling=sampling)

    async def aclose(self) -> None:
        if self._world.size > 1 and not self._failures.happened:
            await in_thread(dismiss_apart, self._sampler.world)
            self._sampler.world = self._world


class _Failures:
    """True if something that was done inside has failed: what the other processes wait for is then
    not known. A cancellation is no failure, because ``in_thread`` outlasts it, and neither is a
    prompt without room, of which they are not told."""

    def __init__(self) -> None:
        self.happened = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None and not issubclass(kind, NoRoomError):
            self.happened |= issubclass(kind, Exception)


def dismiss_apart(world: World) -> None:
    """Let the threads of the other processes end, and wait until they have; called on rank 0 with
    the sampler's group."""
    if world.size > 1:
        world.share(("stop", ()))
        world.gather(None)
