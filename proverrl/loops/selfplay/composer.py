"""Who composes in a run: a program, a policy with the solver's weights or its own, and scaffolds.

Flows in: a session; judged attempts of a step, proofs of the run. Flows out: a ``Composer``; what
warm start teaches it; its own weights and learner; drafts made from what the solver has just solved
or failed, in place of some of a round's fusions. A round is written while its step's proofs are
judged: it builds on the step before. Not handled here: pairs of parents (``composed``), filters,
parts of failed Lean proofs, which need a Lean at hand.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from proverrl.compose.archive import Composed, dump_composed, load_composed
from proverrl.compose.composers import (
    Composer,
    Draft,
    FunctionComposer,
    PolicyComposer,
    ProgramComposer,
    teach_scripts,
)
from proverrl.compose.operators import build_scaffold, collect_subgoals
from proverrl.config.compose import SelfplayScaffold
from proverrl.curriculum.beliefs import Belief
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.records import Parent
from proverrl.learner.learner import TorchLearner
from proverrl.loops.pairs import Pair, PairSource
from proverrl.loops.selfplay.composed import draw_pair
from proverrl.loops.session import Session, load_weights
from proverrl.plugins import bind
from proverrl.policy.base import Policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import TrainingSample
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Rollout, Status, Verdict

COMPOSER_FOLDER = "composer"
MAX_TRIES = 25
"""Draws of scaffold and parents for one statement, before it is left to the composer."""

Pool = Literal["parts", "solved", "failed", "both", "pairs"]

POOLS: Mapping[SelfplayScaffold, Pool] = {
    "show_hints": "both",
    "mask_hint": "both",
    "easier": "failed",
    "harder": "solved",
    "extract_lemma": "solved",
    "chain_solved": "pairs",
    "subgoals": "parts",
}
"""What each scaffold is built on: parts of failed proofs; problems that the run has a proof of;
those that no attempt of the last step proved; either; two that it has proofs of."""


class OwnComposer:
    """A composer's own weights: a copy of the run's first. A frozen one has no ``learner``."""

    def __init__(self, session: Session) -> None:
        config, policy = session.config, session.policy
        self._config = config
        self.policy = TransformersPolicy(
            copy.deepcopy(policy.model), policy.tokenizer, **policy.settings
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
        stored = load_weights(self._config, folder / COMPOSER_FOLDER)
        self.policy.model.load_state_dict(stored.model.state_dict())
        if self.learner is not None:
            self.learner.load(folder / f"{COMPOSER_FOLDER}.pt")
            self.policy.version = self.learner.version


def teach_composer(session: Session) -> list[PairSource]:
    """Scripts on pairs of training problems for the warm start, if a policy is to write scripts."""
    settings = session.config.selfplay
    composes = session.config.loop in ("selfplay", "data_loop")
    asked = composes and settings.composer == "policy"
    if not asked or settings.format != "edit" or settings.warm_pairs == 0:
        return []
    rng = random.Random(derive_seed(session.config.seed, "warm_pairs"))
    problems = sorted(session.problems.all, key=lambda problem: problem.id)
    pairs = [draw_pair(rng, problems, problems, {}) for _ in range(settings.warm_pairs)]
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
    if session.english is not None:
        return session.english
    if settings.composer != "policy":
        compose = bind("composer", settings.composer, settings.options)
        return FunctionComposer(settings.composer, compose, config.seed)
    return PolicyComposer(
        writer,
        session.policy,
        form=settings.format,
        operators=settings.operators,
        temperature=config.sampling.temperature,
        max_new_tokens=settings.max_new_tokens,
        seed=config.seed,
    )


class Scaffolder:
    """Draws scaffolds by name, each name as likely; ``num`` drafts a round at most."""

    def __init__(self, names: Sequence[SelfplayScaffold], num: int, *, seed: int) -> None:
        self._names = tuple(names)
        self._num = num if names else 0
        self._seed = seed
        self._attempts: list[Rollout] = []
        self._failed: list[str] = []
        self._parts: list[Composed] = []

    def see(self, rollouts: Sequence[Rollout]) -> None:
        """Note judged attempts of the step."""
        if self._num:
            self._attempts += rollouts

    def end_step(self, number: int) -> None:
        """The step of round ``number`` is judged: only what it failed is built on."""
        attempts, self._attempts = self._attempts, []
        judged = [rollout for rollout in attempts if rollout.status.judged]
        solved = {r.problem.id for r in judged if r.status is Status.PROVED}
        self._failed = sorted({r.problem.id for r in judged} - solved)
        if "subgoals" in self._names:
            failed = [r for r in judged if r.problem.id not in solved]
            self._parts = self._cut_parts(failed, number)

    def draw(
        self,
        number: int,
        problems: Mapping[str, Problem],
        proofs: Mapping[str, str],
        references: Mapping[str, str],
        taken: Container[str],
    ) -> list[Draft]:
        """The drafts of round ``number``: fewer where there is nothing to build on. ``proofs`` are
        the run's, by problem; ``references`` of composed problems may prove them. Problems whose
        ids are ``taken`` are not made again."""
        rng = random.Random(derive_seed(self._seed, "scaffolds", number))
        given = {
            "solved": [Parent(problems[n], proofs[n]) for n in sorted(proofs) if n in problems],
            "failed": [Parent(problems[n], references.get(n)) for n in self._failed],
        }
        given["both"] = [*given["solved"], *given["failed"]]
        drafts: dict[str, Draft] = {}
        for _ in range(self._num):
            for _ in range(MAX_TRIES):
                name = rng.choice(self._names)
                made = self._make(rng, name, given, number)
                fresh = [
                    c for c in made if c.problem.id not in drafts and c.problem.id not in taken
                ]
                if fresh:
                    composed = rng.choice(fresh)
                    draft = Draft(composed.parents, composed.problem.kind, composed, scaffold=name)
                    drafts[composed.problem.id] = draft
                    break
        return list(drafts.values())

    def _make(
        self,
        rng: random.Random,
        name: SelfplayScaffold,
        given: Mapping[str, Sequence[Parent]],
        number: int,
    ) -> list[Composed]:
        if name == "subgoals":
            return self._parts
        pool = POOLS[name]
        parents = given["solved" if pool == "pairs" else pool]
        if not parents:
            return []
        chosen = [rng.choice(parents)]
        if pool == "pairs":
            first = chosen[0].problem
            others = [
                p
                for p in parents
                if p.problem.id != first.id and p.problem.language == first.language
            ]
            if not others:
                return []
            chosen.append(rng.choice(others))
        try:
            return build_scaffold(name, chosen, round_number=number, seed=self._seed)
        except ProblemError:
            # A program that cannot be taken apart (a class, a proof with a form we do not read).
            return []

    def _cut_parts(self, failed: Sequence[Rollout], number: int) -> list[Composed]:
        """Parts of failed proofs in random order, as many as a round has scaffolds."""
        rng = random.Random(derive_seed(self._seed, "parts", number))
        tried: dict[str, tuple[Candidate, Verdict]] = {}
        for rollout in failed:
            turn = rollout.turns[-1]
            candidate, verdict = turn.candidate, turn.verdict
            if candidate is not None and verdict is not None and not candidate.prelude:
                tried.setdefault(candidate.key, (candidate, verdict))
        found: dict[str, Composed] = {}
        for key in rng.sample(sorted(tried), len(tried)):
            if len(found) >= self._num:
                break
            for composed in lift_failed(*tried[key], round_number=number, seed=self._seed):
                found.setdefault(composed.problem.id, composed)
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        """What the last step left to build on, as JSON values."""
        return {"failed": self._failed, "parts": [dump_composed(part) for part in self._parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._failed = list(state["failed"])
        self._parts = [load_composed(row) for row in state["parts"]]


def lift_failed(
    candidate: Candidate, verdict: Verdict, *, round_number: int, seed: int
) -> list[Composed]:
    """The open parts of a failed body in both forms (as Ren et al. 2025, DeepSeek-Prover-V2, arXiv
    2504.21801; Lin et al. 2025, Goedel-Prover-V2, arXiv 2508.03613); none where nothing is worth
    keeping."""
    sketching = find_language(candidate.problem.language).sketching
    if sketching is None:
        return []

    def lift_parts(problem: Problem, body: str) -> list[tuple[Problem | None, Problem | None]]:
        sketch = sketching.make_sketch(candidate, verdict)
        if sketch is None:
            return []
        return [
            (
                sketching.lift(problem, sketch, part, ()),
                sketching.lift(problem, sketch, part, part.needs),
            )
            for part in sketch.subgoals
        ]

    try:
        return collect_subgoals(
            candidate.problem, candidate.body, lift_parts, round_number=round_number, seed=seed
        )
    except ProblemError:
        # What was written cannot be taken apart; there is more where it came from.
        return []
