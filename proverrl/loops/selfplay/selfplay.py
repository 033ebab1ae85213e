"""Self-play: a composer writes statements that a solver learns to prove, both in one run.

Paper order (GAR, 2025, arXiv 2510.11769): draw pairs of base problems, have a composer write a
statement for each, keep those that pass the guards, sample a group of proofs on each, verify,
reward both, update both. With shared weights there is one update over the samples of both roles;
otherwise the composer has a copy of the solver's first weights, with a learner and a checkpoint of
its own, or stays as it is.

Flows in: a session. Flows out: what a GRPO run leaves, and ``archive.jsonl`` with a picture. It is
the loop of ``grpo`` with another ledger and another collector. Not handled here: several processes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.compose.archive_picture import draw_archive
from proverrl.compose.composers import Composer, PolicyComposer, ProgramComposer, teach_scripts
from proverrl.config import SelfplayConfig
from proverrl.curriculum.beliefs import Belief
from proverrl.errors import UsageError
from proverrl.files.lines import write_atomically
from proverrl.lang.records import Parent
from proverrl.learner.learner import TorchLearner
from proverrl.loops.grpo import run_steps
from proverrl.loops.selfplay.ledger import SelfplayLedger
from proverrl.loops.selfplay.parents import weigh_operators
from proverrl.loops.selfplay.step import SelfplayCollector
from proverrl.loops.session import Session
from proverrl.loops.warm_start import Pair, PairSource
from proverrl.policy.base import Policy
from proverrl.policy.loading import load_policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.training_sample import TrainingSample
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


class _Ledger(SelfplayLedger):
    """The ledger with the composer's own weights in its checkpoints."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        settings = self.settings
        writes = settings.composer == "policy"
        self.own = OwnComposer(session) if writes and not settings.shared else None
        if self.own is None and session.config.learner.replay_samples:
            # Weights that learn proofs alone forget how to write scripts within a few steps.
            self.other_role = teach_composer(session)

    def save_files(self, folder: Path) -> None:
        """See ``Ledger.save_files``."""
        if self.own is not None:
            self.own.save(folder)

    def load_files(self, folder: Path) -> None:
        """See ``Ledger.load_files``."""
        if self.own is not None:
            self.own.load(folder)


async def run_selfplay(session: Session) -> None:
    """Play until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself.

    Raises:
        UsageError: there are several processes.
    """
    if session.policy.world.size > 1:
        raise UsageError('loop = "selfplay" runs in one process; start it without a launcher')
    _say_who_composes(session)
    try:
        await run_steps(session, _Ledger, _open_collector)
    finally:
        draw_lineage(session)


def draw_lineage(session: Session) -> None:
    """Draw the archive beside it, as far as there is one."""
    path = session.folder / ARCHIVE_FILE
    if path.exists():
        write_atomically(path.with_suffix(".svg"), draw_archive(ProblemArchive(path)))


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


def _open_collector(ledger: _Ledger, state: Mapping[str, Any] | None) -> SelfplayCollector:
    own = ledger.own
    train = own.step if own is not None and own.learner is not None else None
    writer = ledger.session.sampler if own is None else own.policy
    settings = ledger.settings
    weigh = None
    if settings.operator_choice == "useful":
        low, high = settings.solver_low, settings.solver_high
        weigh = partial(weigh_operators, ledger.archive, low, high)
    composer = open_composer(ledger.session, writer, weigh=weigh)
    return SelfplayCollector(ledger, composer, state, train_composer=train)


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


def _say_who_composes(session: Session) -> None:
    settings: SelfplayConfig = session.config.selfplay
    if settings.composer == "program":
        text = "a program, one operator a statement"
    else:
        whose = "the solver's weights" if settings.shared else "weights of its own"
        trained = f"reward {settings.reward}" if settings.train_composer else "not trained"
        text = f"a policy with {whose}, form {settings.format}, {trained}"
    session.monitor.phase("composer", text)
