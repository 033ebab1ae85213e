"""The processes beside rank 0 of a run, which do as they are told.

Flows in: orders of rank 0, through ``World.share``. Flows out: their share of completions and
gradients. Rank 0 holds everything else. Where it learns and samples at the same time, a thread
obeys what samples, in a group of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from proverrl.config import Config
from proverrl.errors import PeerError
from proverrl.learner.learner import TorchLearner, UpdateCheck, require_finite
from proverrl.parallel import World
from proverrl.policy.base import SharedSampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.experiments import Experiments
from proverrl.run.samplers import SamplerCopy
from proverrl.run.session import TrainingProblems
from proverrl.run.supervised import SupervisedLearner, choose_probe_rows


class Follower:
    """A process that obeys; ``open_learner`` makes the learner of rank 0, without its guard."""

    learner: TorchLearner
    supervised: SupervisedLearner

    def __init__(
        self,
        world: World,
        policy: TransformersPolicy,
        open_learner: Callable[[], TorchLearner],
        sampler: SharedSampler | None = None,
    ) -> None:
        self.world = world
        self.policy = policy
        self.sampler: SharedSampler = policy if sampler is None else sampler
        self.open_learner = open_learner
        self._copy: SamplerCopy | None = None
        self.orders: dict[str, Callable[..., Any]] = {
            "generate": self._generate,
            "load": lambda version: self.sampler.push(version),
            "learner": self._start_learner,
            "step": self._step,
            "state": lambda: self.learner.state(),
            "supervise": self._start_supervised,
            "supervised_step": lambda batch, rate: self.supervised.step(batch, rate),
            "score": lambda items, score: self.supervised.score(items, score),
            "supervised_end": lambda: self.supervised.close(),
            "copy": self._copy_sampler,
            "publish": self._publish,
            "split_sampler": self._split_sampler,
            "barrier": lambda: self.world.gather(None),
            "push": lambda: self.world.push(self.policy.model.parameters()),
            "check": lambda: self.world.check_same(self.policy.model.parameters()),
        }

    def run(self) -> None:
        """Obey until the order ``stop``."""
        if threading.current_thread() is threading.main_thread():
            # A launcher or a terminal sends them to all; rank 0 saves first and then says stop.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            order: tuple[str, tuple[Any, ...]] = self.world.share(None)
            name, values = order
            if name == "stop":
                return
            self.orders[name](*values)

    def _generate(self, prompts: Any, n: int, sampling: Any, version: int) -> None:
        self.sampler.take(version)
        self.sampler.generate_shared(prompts, n, sampling)

    def _step(self, samples: Any, *others: Any) -> None:
        self.sampler.sleep()
        self.learner.step(samples, tuple, *others)

    def _copy_sampler(self, step: int, version: int) -> None:
        self.policy.version = version
        self._copy = made = SamplerCopy(self.policy, step)
        self._obey_apart(Follower(made.world, made, self.open_learner))

    def _publish(self, version: int, asked: int) -> None:
        assert self._copy is not None
        self._copy.hold(version, asked)

    def _split_sampler(self) -> None:
        self.sampler.world = self.world.split()
        self._obey_apart(Follower(self.sampler.world, self.policy, self.open_learner, self.sampler))

    def _obey_apart(self, follower: Follower) -> None:
        """Obey what samples in a thread, until rank 0 has written its last batch."""
        device = torch.cuda.current_device() if torch.cuda.is_available() else None

        def obey() -> None:
            if device is not None:
                # A thread begins with the first one.
                torch.cuda.set_device(device)
            is_over = False
            try:
                follower.run()
                self.sampler.world = self.world
                follower.world.gather(None)
                is_over = True
            except PeerError:
                # The thread that learns hears of it as well, and says so.
                is_over = True
            finally:
                if not is_over:
                    # That thread may wait for rank 0, which waits for this one.
                    traceback.print_exc()
                    sys.stderr.flush()
                    os._exit(1)

        threading.Thread(target=obey, name="sampler", daemon=True).start()

    def _start_learner(self, checkpoint: Path | None) -> None:
        self.learner = self.open_learner()
        if checkpoint is not None:
            self.learner.load(checkpoint / "learner.pt")

    def _start_supervised(self, *given: Any) -> None:
        self.supervised = SupervisedLearner(self.policy, *given)


def open_learner(
    config: Config,
    policy: TransformersPolicy,
    problems: TrainingProblems,
    experiments: Experiments,
    check: UpdateCheck = require_finite,
) -> TorchLearner:
    """The learner of a run, on any of its processes; ``check`` is asked on rank 0 only."""
    made = {name: each.make_term(policy.model, config) for name, each in experiments.items()}
    return TorchLearner(
        policy.model,
        config.learner,
        temperature=config.sampling.temperature,
        loss=config.loss,
        version=policy.version,
        check=check,
        world=policy.world,
        probe_rows=choose_probe_rows(config, policy, problems),
        terms={name: term for name, term in made.items() if term is not None},
    )


def push_weights(world: World, policy: TransformersPolicy) -> None:
    """Give all processes rank 0's weights; called there."""
    if world.size > 1:
        world.share(("push", ()))
        world.push(policy.model.parameters())


def check_weights(world: World, policy: TransformersPolicy) -> None:
    """Compare the weights of all processes; called on rank 0. Raises ``ProverRLError``: they
    differ."""
    if world.size > 1:
        world.share(("check", ()))
        world.check_same(policy.model.parameters())


def start_learners(world: World, checkpoint: Path | None) -> None:
    """Have the others make the learner that rank 0 makes next, and load it from a checkpoint."""
    if world.size > 1:
        world.share(("learner", (checkpoint,)))


def dismiss(world: World) -> None:
    """Let the others end."""
    if world.size > 1:
        world.share(("stop", ()))
