"""Who composes in a run: a program, or a policy with the solver's weights or its own.

Flows in: a session. Flows out: a ``Composer``; what warm start teaches it; its own weights, with a
learner and files of their own in the checkpoints. Not handled here: what is composed from
(``parents``, ``scaffolds``).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proverrl.compose.composers import Composer, PolicyComposer, ProgramComposer, teach_scripts
from proverrl.curriculum.beliefs import Belief
from proverrl.lang.records import Parent
from proverrl.learner.learner import TorchLearner
from proverrl.loops.pairs import Pair, PairSource
from proverrl.loops.session import Session
from proverrl.policy.base import Policy
from proverrl.policy.loading import load_policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.seeds import derive_seed

COMPOSER_FOLDER = "composer"


class OwnComposer:
    """A composer's own weights: a copy of the policy's as they are when the run begins. ``learner``
    is None for a frozen one."""

    def __init__(self, session: Session) -> None:
        config, policy = session.config, session.policy
        self._config = config
        self.policy = TransformersPolicy(
            copy.deepcopy(policy.model),
            policy.tokenizer,
            layout=policy.layout,
            device=policy.device,
            max_rows=policy.max_rows,
        )
        self.learner: TorchLearner | None = None
        if config.selfplay.train_composer:
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
        stored = load_policy(
            str(folder / COMPOSER_FOLDER),
            self._config.policy,
            device=self.policy.device,
            precision=self._config.learner.precision,
        )
        self.policy.model.load_state_dict(stored.model.state_dict())
        if self.learner is not None:
            self.learner.load(folder / f"{COMPOSER_FOLDER}.pt")
            self.policy.version = self.learner.version


def teach_composer(session: Session) -> list[PairSource]:
    """What warm start learns beside the references: scripts on pairs of training problems. None
    unless a policy writes scripts in this run."""
    settings = session.config.selfplay
    composes = session.config.loop in ("selfplay", "data_loop")
    asked = composes and settings.composer == "policy"
    if not asked or settings.format != "edit" or settings.warm_pairs == 0:
        return []
    rng = random.Random(derive_seed(session.config.seed, "warm_pairs"))
    problems = sorted(session.problems.all, key=lambda problem: problem.id)
    pairs = []
    for _ in range(settings.warm_pairs):
        first = rng.choice(problems)
        others = [p for p in problems if p.id != first.id and p.language == first.language]
        pairs.append((Parent(first), Parent(rng.choice(others))))
    taught = teach_scripts(session.policy, pairs, settings.operators, seed=session.config.seed)
    return [_give(Pair(prompt_ids, target_ids)) for prompt_ids, target_ids in taught]


def _give(pair: Pair) -> PairSource:
    return lambda: pair


def open_composer(
    session: Session, writer: Policy, *, weigh: Callable[[], Mapping[str, Belief]] | None = None
) -> Composer:
    """The composer of the configuration; ``writer`` writes where a policy does, and ``weigh`` says
    how useful each operator is where a program chooses among them."""
    config, settings = session.config, session.config.selfplay
    if settings.composer == "program":
        return ProgramComposer(settings.operators, config.seed, weigh=weigh)
    return PolicyComposer(
        writer,
        session.policy,
        form=settings.format,
        operators=settings.operators,
        temperature=config.sampling.temperature,
        max_new_tokens=settings.max_new_tokens,
        seed=config.seed,
    )
