"""What a self-play run knows beside a GRPO run: composed problems, guards, what became of them.

Flows in: drafts of a composer, the guards' answers, judged groups. Flows out: the next pairs of
parents, problems that passed (in the archive, in the curriculum), the composer's rewards and
samples, the figures of a round. A round is a step. Everything that decides the future is in the
checkpoint; pairs are drawn from the seed and the round, so that there is no generator to save.
Not handled here: when anything happens (``step``), the weights (``selfplay``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.archive import ARCHIVE_FILE, Composed, ProblemArchive
from proverrl.compose.composers import REPEATED, Draft, Pair
from proverrl.compose.guards import GuardLedger
from proverrl.curriculum.collapse import RoundFigures, examine_round, find_warnings
from proverrl.loops.checkpoint import latest_checkpoint
from proverrl.loops.ledger import Ledger, Order, StepBatch
from proverrl.loops.selfplay.guards import Checked, RoundGuards
from proverrl.loops.selfplay.parents import draw_pairs
from proverrl.loops.selfplay.round import Round, describe_round, solve_rate
from proverrl.loops.selfplay.scaffolds import Scaffolder
from proverrl.loops.session import Session
from proverrl.rewards import RewardFn
from proverrl.rewards.composer import (
    COMPOSER_REWARDS,
    Outcome,
    compare_statements,
    is_modified,
    penalise_modified,
)
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.training_sample import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Reward, Rollout, Status, Turn


class SelfplayLedger(Ledger):
    """The ledger of a self-play run. Its base problems are those of the training file."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.settings = session.config.selfplay
        self._base = session.problems
        self.archive = open_archive(session)
        self.checks = RoundGuards(session, read_held_out(session))
        self.checks.see(self._base.all)
        self.guards = GuardLedger()
        self.drafts_next = 0
        self._set_aside: set[str] = set()
        self._rounds: list[RoundFigures] = []
        settings = self.settings
        self.scaffolder = Scaffolder(
            settings.scaffolds,
            round(settings.scaffold_share * settings.statements),
            seed=session.config.seed,
        )
        self._reward = _with_penalty(self._reward, self.settings.modified_weight)

    def draw_round(self) -> tuple[int, list[Pair], list[Draft]]:
        """The next round's number, the scaffolds among its drafts, and the pairs of parents of the
        others, each with a proof where one is known: of the references of warm start, or of the
        run's own proofs."""
        number = self.drafts_next
        self.drafts_next += 1
        proofs: dict[str, str] = {}
        for name, body in self.store.pairs():
            # The shortest comes first.
            proofs.setdefault(name, body)
        made = {c.problem.id: c.reference for c in self.archive if c.reference is not None}
        problems = {problem.id: problem for problem in self.session.problems.all}
        scaffolds = self.scaffolder.draw(number, problems, proofs, made, self.archive)
        pairs = draw_pairs(
            random.Random(derive_seed(self.session.config.seed, "parents", number)),
            self.settings.parents,
            self.settings.statements - len(scaffolds),
            base=self._base.all,
            archive=self.archive,
            proofs=proofs,
            references={problem.id: body for problem, body in self._base.references},
        )
        return number, pairs, scaffolds

    def admit(self, batch: StepBatch, number: int, drafts: list[Draft], checked: Checked) -> Round:
        """Take a round into the archive; what the early guards let pass is tried by the solver."""
        this = Round(number, drafts)
        made = this.composed
        # Stopped ones too: to stop them again would cost the same calls again.
        self.checks.see(composed.problem for composed in made.values())
        self.guards.num_seen += len(made)
        self._note_stops(batch, this, checked)
        this.tried = [self._keep(made[problem.id]) for problem in checked.run.kept]
        if not self.checks.late:
            self._take(this, this.tried)
        self._join_composed()
        return this

    def settle(self, batch: StepBatch, this: Round, checked: Checked) -> None:
        """Take what the late guards let pass into the curriculum. Nothing is learned from what
        else was tried: no group, no stored proof."""
        self._note_stops(batch, this, checked)
        self._take(this, checked.run.kept)
        self._set_aside = this.set_aside
        self._join_composed()

    def _take(self, this: Round, problems: Sequence[Problem]) -> None:
        this.kept = list(problems)
        self.guards.num_kept += len(this.kept)
        self.curriculum.add(this.kept)

    def _note_stops(self, batch: StepBatch, this: Round, checked: Checked) -> None:
        run = checked.run
        this.guard_calls += run.num_calls
        batch.tally.verifier_calls += run.num_calls
        self.guards.calls += checked.calls
        made = this.composed
        for stop in run.stops:
            this.stops[stop.problem_id] = stop.guard
            composed = made[stop.problem_id]
            self.guards.record(composed.problem, stop)
            # What a late guard stops is in the archive since it was tried.
            if self.archive.add(composed) or stop.guard in self.checks.late:
                self.archive.note(stop.problem_id, stopped_by=stop.guard, reason=stop.reason)
            else:
                # A duplicate of a problem that is in there, like any other.
                repeats = self.archive.facts(stop.problem_id).get("repeats", 0)
                self.archive.note(stop.problem_id, repeats=repeats + 1)
            if stop.kept is not None and self.archive.add(stop.kept):
                self.archive.note(stop.kept.problem.id, negation_of=stop.problem_id)
                self.checks.see([stop.kept.problem])

    def _join_composed(self) -> None:
        """Have the session know all problems that the run may have proofs of."""
        self.session.problems = self._base.join([c.problem for c in self.archive])

    def _keep(self, composed: Composed) -> Problem:
        """Archive a problem; one that is there already stays as it was."""
        self.archive.add(composed)
        return self.archive.get(composed.problem.id).problem

    def order_composed(self, problems: Sequence[Problem]) -> Order:
        """The draw of groups on composed problems."""
        self.progress.num_draws += 1
        return Order(self.progress.num_draws - 1, tuple(problems), (None,) * len(problems))

    async def absorb(
        self,
        batch: StepBatch,
        judged: Sequence[JudgedDraw],
        generation_seconds: float,
        *,
        age: int,
        stale: bool = False,
    ) -> None:
        """See ``Ledger.absorb``; of what is admitted only groups within the window stay (GAR:
        0 < p <= 0.5)."""
        aside = [d for d in judged if d.rollouts[0].problem.id in self._set_aside]
        used = [d for d in judged if d.rollouts[0].problem.id not in self._set_aside]
        self._count_only(batch, aside)
        for draw in used:
            self.scaffolder.see(draw.rollouts)
        before = len(batch.groups)
        await super().absorb(batch, used, generation_seconds, age=age, stale=stale)
        fresh, ages = batch.groups[before:], batch.ages[before:]
        inside = [
            self.settings.solver_low < rate <= self.settings.solver_high
            for rate in (solve_rate(group.rollouts) or 0.0 for group in fresh)
        ]
        batch.groups[before:] = [g for g, keep in zip(fresh, inside, strict=True) if keep]
        batch.ages[before:] = [a for a, keep in zip(ages, inside, strict=True) if keep]

    def _count_only(self, batch: StepBatch, judged: Sequence[JudgedDraw]) -> None:
        """Count draws that nothing learns from."""
        batch.tally.add_draw(judged, 0.0)
        for draw in judged:
            batch.tally.add_dropped(draw.rollouts)
            batch.tally.add_audits(self.auditor.observe(draw))

    def reward_round(self, batch: StepBatch, this: Round) -> list[TrainingSample]:
        """Note what became of each statement, put the figures into the batch, and return the
        composer's samples: none where no policy wrote, or it is not trained."""
        outcomes = [self._judge(draft, this) for draft in this.drafts]
        rewards, advantages = self._compare(this.drafts, outcomes)
        self.scaffolder.end_step(this.number)
        for draft, outcome, reward in zip(this.drafts, outcomes, rewards, strict=True):
            if outcome.stage == "tried" and draft.composed is not None:
                name = draft.composed.problem.id
                facts = {"solve_rate": outcome.solved, "modified": outcome.modified}
                unchecked = {"unchecked": True} if name in self._set_aside else {}
                self.archive.note(name, **facts, reward=reward, **unchecked)
        composed = {problem.id for problem in this.kept}
        batch.figures["groups_composed"] = sum(
            group.rollouts[0].problem.id in composed for group in batch.groups
        )
        batch.figures |= describe_round(this, outcomes, rewards)
        batch.figures |= self._watch(this, outcomes, rewards)
        batch.figures["archive"] = len(self.archive)
        batch.figures["guard_calls_total"] = sum(self.guards.calls.values())
        if not self.settings.train_composer:
            return []
        problems = {problem.id: problem for problem in self.session.problems.all}
        samples = []
        for number, (draft, advantage) in enumerate(zip(this.drafts, advantages, strict=True)):
            if draft.completion is not None and advantage != 0.0:
                problem = problems[draft.parents[0]]
                samples += _build_sample(draft, f"c{this.number}-{number}", advantage, problem)
        return samples

    def _compare(
        self, drafts: Sequence[Draft], outcomes: Sequence[Outcome]
    ) -> tuple[list[float | None], list[float]]:
        """Rewards and advantages of the composer's statements; None and 0 for scaffolds, which it
        did not write and is not compared with."""
        own = [number for number, draft in enumerate(drafts) if not draft.scaffold]
        written = [outcomes[number] for number in own]
        earned = COMPOSER_REWARDS[self.settings.reward](written, self.settings)
        compared = compare_statements(written, earned, self.settings.reward)
        rewards: list[float | None] = [None] * len(drafts)
        advantages = [0.0] * len(drafts)
        for number, reward, advantage in zip(own, earned, compared, strict=True):
            rewards[number], advantages[number] = reward, advantage
        return rewards, advantages

    def _watch(
        self, this: Round, outcomes: Sequence[Outcome], rewards: Sequence[float | None]
    ) -> dict[str, Any]:
        """The collapse watch's figures of the round, and its warnings."""
        tried = [
            (draft.composed.problem, outcome.solved)
            for draft, outcome in zip(this.drafts, outcomes, strict=True)
            if draft.composed is not None and outcome.solved is not None
        ]
        earned = [reward for reward in rewards if reward is not None]
        problems, rates = [p for p, _ in tried], [rate for _, rate in tried]
        own = [draft for draft in this.drafts if not draft.scaffold]
        malformed = sum(draft.composed is None and draft.reason != REPEATED for draft in own)
        self._rounds.append(
            examine_round(
                this.number, problems, rates, earned, written=len(own), malformed=malformed
            )
        )
        warnings = find_warnings(self._rounds, self.settings.collapse)
        texts = [f"{warning.rule}: {warning.text}" for warning in warnings]
        for text in texts:
            self.session.monitor.phase("collapse watch", text)
        return self._rounds[-1].metrics() | {"compose_warnings": texts}

    def _judge(self, draft: Draft, this: Round) -> Outcome:
        if draft.composed is None:
            stage = "stopped" if draft.reason == REPEATED else "malformed"
            return Outcome(stage, task=draft.task)  # type: ignore[arg-type]
        problem = draft.composed.problem
        if guard := this.stops.get(problem.id):
            stage = "malformed" if guard == "well_formed" else "stopped"
            return Outcome(stage, task=draft.task)  # type: ignore[arg-type]
        attempts = this.attempts.get(problem.id, ())
        proofs = [
            len(rollout.turns[-1].candidate.body)
            for rollout in attempts
            if rollout.status is Status.PROVED and rollout.turns[-1].candidate is not None
        ]
        return Outcome(
            "tried",
            solve_rate(attempts),
            sum(map(is_modified, attempts)) / len(attempts) if attempts else 0.0,
            min(proofs) / len(problem.statement) if proofs else None,
            draft.task,
        )

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "archive": self.archive.state_dict(),
            "guards": self.guards.state_dict(),
            "drafts_next": self.drafts_next,
            "scaffolds": self.scaffolder.state_dict(),
            "rounds": [asdict(figures) for figures in self._rounds],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.archive.load_state_dict(state["archive"])
        self.guards.load_state_dict(state["guards"])
        self.drafts_next = state["drafts_next"]
        # Whatever was composed is in the archive, stopped or not.
        self.checks.see(composed.problem for composed in self.archive)
        self.scaffolder.load_state_dict(state["scaffolds"])
        self._rounds = [RoundFigures(**figures) for figures in state["rounds"]]
        self._join_composed()


def _with_penalty(plain: RewardFn, weight: float) -> RewardFn:
    def reward(rollout: Rollout) -> Reward:
        return penalise_modified(plain(rollout), is_modified(rollout), weight)

    return reward


def _build_sample(
    draft: Draft, name: str, advantage: float, problem: Problem
) -> list[TrainingSample]:
    """A composer's sample; ``problem`` is the first parent, which it was asked about."""
    assert draft.completion is not None
    rollout = Rollout(name, problem, "composer", (Turn(draft.completion, None, None),))
    return build_rollout_samples(rollout, [advantage])


def open_archive(session: Session) -> ProblemArchive:
    """The run's archive; empty before its first checkpoint."""
    archive = ProblemArchive(session.folder / ARCHIVE_FILE)
    if latest_checkpoint(session.checkpoints) is None:
        # What a run wrote that was stopped before its first checkpoint is made again.
        archive.load_state_dict({"num_lines": 0, "sha256": hashlib.sha256().hexdigest()})
    return archive


def read_held_out(session: Session) -> list[Problem]:
    """All problems that the run is measured by."""
    config = session.config
    sources = [str(config.problems.heldout), *config.evaluation.benchmarks]
    if config.problems.valid.exists():
        sources.append(str(config.problems.valid))
    found = [p for source in sources for p in open_benchmark(source).problems]
    session.monitor.phase("guards", f"{len(found)} held-out problems must not leak")
    return found
