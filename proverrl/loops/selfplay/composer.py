"""The composer of a run: a program, a policy with the solver's weights or its own.

Flows in: a session. Flows out: a ``Composer``; what warm start teaches it; its own weights and
learner. Not handled here: pairs of parents (``composition``), filters.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from proverrl.compose.composers import (
    Composer,
    FunctionComposer,
    PolicyComposer,
    ProgramComposer,
    teach_scripts,
)
from proverrl.config.loops import find_traits
from proverrl.curriculum.base import Belief
from proverrl.learner.learner import TorchLearner
from proverrl.loops.selfplay.composition import draw_pair
from proverrl.plugins import bind
from proverrl.policy.base import Policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.run.pairs import Pair, PairSource
from proverrl.run.session import Session, load_weights
from proverrl.seeds import derive_seed

COMPOSER_FOLDER = "composer"
TAUGHT_SCRIPTS = 400
"""Scripts that the warm start teaches: with these a small model writes readable ones."""


class OwnComposer:
    """A composer's own weights: a copy of the run's first. A frozen one has no ``learner``."""

    def __init__(self, session: Session) -> None:
        config, policy = session.config, session.policy
        self._config = config
        self.policy = TransformersPolicy(
            copy.deepcopy(policy.model), policy.tokenizer, **policy.settings
        )
        self.learner: TorchLearner | None = None
        if config.selfplay.weights == "own":
            self.learner = TorchLearner(
                self.policy.model,
                config.learner,
                temperature=config.sampling.temperature,
                loss=config.loss,
            )

    def step(self, samples: Sequence[TrainingSample]) -> dict[str, float]:
        """One update on the composer's samples; its figures."""
        assert self.learner is not None
        metrics = self.learner.step(samples)
        self.policy.version = self.learner.version
        return {f"composer_{name}": value for name, value in metrics.items()}

    def save(self, folder: Path) -> None:
        """Write weights and learner into a checkpoint's folder."""
        (folder / COMPOSER_FOLDER).mkdir()
        self.policy.save(folder / COMPOSER_FOLDER)
        if self.learner is not None:
            self.learner.save(folder / f"{COMPOSER_FOLDER}.pt")

    def load(self, folder: Path) -> None:
        """Read what ``save`` wrote, into the weights that the learner holds."""
        stored = load_weights(self._config, folder / COMPOSER_FOLDER)
        self.policy.model.load_state_dict(stored.model.state_dict())
        if self.learner is not None:
            self.learner.load(folder / f"{COMPOSER_FOLDER}.pt")
            self.policy.version = self.learner.version


def teach_composer(session: Session) -> list[PairSource]:
    """Scripts on pairs of training problems for the warm start, if a policy is to write scripts."""
    settings = session.config.selfplay
    composes = "selfplay" in find_traits(session.config.loop).takes
    asked = composes and settings.composer == "policy"
    if not asked:
        return []
    rng = random.Random(derive_seed(session.config.seed, "warm_pairs"))
    problems = sorted(session.problems.all, key=lambda problem: problem.id)
    pairs = [draw_pair(rng, problems, problems, {}) for _ in range(TAUGHT_SCRIPTS)]
    taught = teach_scripts(session.policy, pairs, settings.operators, seed=session.config.seed)
    return [partial(Pair, prompt_ids, target_ids) for prompt_ids, target_ids in taught]


def open_composer(
    session: Session, writer: Policy, *, weigh: Callable[[], Mapping[str, Belief]] | None = None
) -> Composer:
    """The composer of the configuration; ``writer`` writes where a policy does, and ``weigh`` says
    how useful each operator is where a program chooses among them."""
    config, settings = session.config, session.config.selfplay
    if settings.composer == "program":
        return ProgramComposer(settings.operators, config.seed, weigh=weigh)
    if settings.composer != "policy":
        compose = bind("composer", settings.composer, settings.options)
        return FunctionComposer(settings.composer, compose, config.seed)
    return PolicyComposer(
        writer,
        session.policy,
        operators=settings.operators,
        temperature=config.sampling.temperature,
        max_new_tokens=settings.max_new_tokens,
        seed=config.seed,
    )
