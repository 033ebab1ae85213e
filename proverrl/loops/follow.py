"""What the processes beside rank 0 do in a run: as they are told.

Flows in: orders of rank 0, through ``World.share``. Flows out: their share of completions and
gradients. Rank 0 holds everything else: problems, verifiers, curriculum, monitor, guard, files. Not
handled here: supervised training, which rank 0 does alone and pushes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proverrl.learner import TorchLearner
from proverrl.parallel import World
from proverrl.policy.transformers import TransformersPolicy

OpenLearner = Callable[[], TorchLearner]


class Follower:
    """A process that obeys; ``open_learner`` makes the learner of rank 0, without its guard."""

    def __init__(self, world: World, policy: TransformersPolicy, open_learner: OpenLearner) -> None:
        self.world = world
        self.policy = policy
        self.open_learner = open_learner
        self.learner: TorchLearner | None = None
        self.orders: dict[str, Callable[..., Any]] = {
            "generate": self._generate,
            "learner": self._start_learner,
            "step": self._step,
            "push": lambda: self.world.push(self.policy.model.parameters()),
            "check": lambda: self.world.check_same(self.policy.model.parameters()),
        }

    def run(self) -> None:
        """Obey until the order ``stop``."""
        if threading.current_thread() is threading.main_thread():
            # A launcher sends it to all; rank 0 saves first and then says stop.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            order: tuple[str, tuple[Any, ...]] = self.world.share(None)
            name, values = order
            if name == "stop":
                return
            self.orders[name](*values)

    def _generate(self, prompts: Any, n: int, sampling: Any, version: int) -> None:
        self.policy.version = version
        self.policy.generate_shared(prompts, n, sampling)

    def _start_learner(self, checkpoint: Path | None) -> None:
        self.learner = self.open_learner()
        if checkpoint is not None:
            self.learner.load(checkpoint / "learner.pt")

    def _step(self, samples: Any, pairs: Any) -> None:
        assert self.learner is not None
        self.learner.step(samples, tuple, pairs)


def push_weights(world: World, policy: TransformersPolicy) -> None:
    """Give all processes rank 0's weights; called there."""
    if world.size > 1:
        world.share(("push", ()))
        world.push(policy.model.parameters())


def check_weights(world: World, policy: TransformersPolicy) -> None:
    """Compare the weights of all processes; called on rank 0.

    Raises:
        ProverRLError: they differ.
    """
    if world.size > 1:
        world.share(("check", ()))
        world.check_same(policy.model.parameters())


def start_learners(world: World, checkpoint: Path | None) -> None:
    """Have the others make the learner that rank 0 has made, or loaded from a checkpoint."""
    if world.size > 1:
        world.share(("learner", (checkpoint,)))


def dismiss(world: World) -> None:
    """Let the others end."""
    if world.size > 1:
        world.share(("stop", ()))
