"""What a self-play run knows beside a GRPO run: composed problems, guards, what became of them.

Flows in: drafts of a composer, the guards' answers, judged groups. Flows out: the next pairs of
parents, problems that passed (in the archive, in the curriculum), the composer's rewards and
samples, the figures of a round. A round is a step. Everything that decides the future is in the
checkpoint; pairs are drawn from the seed and the round, so that there is no generator to save.
Not handled here: when anything happens (``selfplay_step``), the weights (``selfplay``).
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.checkpoint import latest_checkpoint
from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.compose.composers import Draft, Pair
from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import Asker, GuardLedger, GuardRun, GuardTools
from proverrl.compose.guards import run_guards as run_guard_checks
from proverrl.compose.operators import read_generation
from proverrl.curriculum.collapse import RoundFigures, examine_round, find_warnings
from proverrl.loops.ledger import Ledger, Order, StepBatch
from proverrl.loops.selfplay_attack import use_attacks
from proverrl.loops.selfplay_parents import draw_pairs
from proverrl.loops.selfplay_scaffolds import Scaffolder
from proverrl.loops.session import Session
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.rewards import RewardFn
from proverrl.rewards.composer import (
    COMPOSER_REWARDS,
    Outcome,
    compare_statements,
    is_modified,
    penalise_modified,
)
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Reward, Rollout, Status, TrainingSample, Turn

ARCHIVE_FILE = "archive.jsonl"
BINS = ("0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
"""Solve rates of composed problems: 0, up to and with each bound, below 1, and 1."""


@dataclass
class Round:
    """A round's drafts, what the guards made of them, and the solver's attempts by problem id."""

    number: int
    drafts: list[Draft]
    stops: dict[str, str] = field(default_factory=dict)
    kept: list[Problem] = field(default_factory=list)
    attempts: dict[str, tuple[Rollout, ...]] = field(default_factory=dict)
    guard_calls: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """What the guards said of a round, and the verifier calls of each guard."""

    run: GuardRun
    calls: Counter[str]


class SelfplayLedger(Ledger):
    """The ledger of a self-play run. Its base problems are those of the training file."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.settings = session.config.selfplay
        self._base = session.problems
        self.archive = open_archive(session)
        self.guards = GuardLedger()
        self.drafts_next = 0
        self._held_out = OverlapIndex(take_statements(read_held_out(session)))
        self._seen = {make_skeleton(problem) for problem in self._base.all}
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

    async def run_guards(
        self, drafts: Sequence[Draft], attacks: Mapping[str, Sequence[str]]
    ) -> Checked:
        """The guards on a round's statements; nothing of the ledger changes."""
        tools = GuardTools(
            asker=Asker(
                self.session.verifier,
                deadline_seconds=self.session.config.pool.deadline_seconds,
            ),
            held_out=self._held_out,
            seen=set(self._seen),
            attack=use_attacks(attacks),
            near_share=self.settings.near_share,
        )
        problems = [draft.composed.problem for draft in drafts if draft.composed is not None]
        guards = make_guards(tools, self.settings.guards)
        return Checked(await run_guard_checks(problems, guards, tools), tools.asker.calls)

    def admit(self, batch: StepBatch, number: int, drafts: list[Draft], checked: Checked) -> Round:
        """Take what passed into the archive and the curriculum, and count what was stopped."""
        run = checked.run
        by_id = {d.composed.problem.id: d.composed for d in drafts if d.composed is not None}
        this = Round(number, drafts, guard_calls=run.num_calls)
        # Stopped ones too: to stop them again would cost the same calls again.
        self._seen |= {make_skeleton(composed.problem) for composed in by_id.values()}
        batch.tally.verifier_calls += run.num_calls
        self.guards.num_seen += len(by_id)
        self.guards.num_kept += len(run.kept)
        for stop in run.stops:
            this.stops[stop.problem_id] = stop.guard
            composed = by_id[stop.problem_id]
            self.guards.record(composed.problem, stop)
            # A duplicate may be in the archive already, where it is a problem like any other.
            if self.archive.add(composed):
                self.archive.note(stop.problem_id, stopped_by=stop.guard, reason=stop.reason)
            if stop.kept is not None and self.archive.add(stop.kept):
                self.archive.note(stop.kept.problem.id, negation_of=stop.problem_id)
                self._seen.add(make_skeleton(stop.kept.problem))
        self.guards.calls += checked.calls
        for problem in run.kept:
            this.kept.append(self._keep(by_id[problem.id]))
        self.curriculum.add(this.kept)
        self._join_composed()
        return this

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
        for draw in judged:
            self.scaffolder.see(draw.rollouts)
        before = len(batch.groups)
        await super().absorb(batch, judged, generation_seconds, age=age, stale=stale)
        fresh, ages = batch.groups[before:], batch.ages[before:]
        inside = [
            self.settings.solver_low < rate <= self.settings.solver_high
            for rate in (solve_rate(group.rollouts) or 0.0 for group in fresh)
        ]
        batch.groups[before:] = [g for g, keep in zip(fresh, inside, strict=True) if keep]
        batch.ages[before:] = [a for a, keep in zip(ages, inside, strict=True) if keep]

    def reward_round(self, batch: StepBatch, this: Round) -> list[TrainingSample]:
        """Note what became of each statement, put the figures into the batch, and return the
        composer's samples: none where no policy wrote, or it is not trained."""
        outcomes = [self._judge(draft, this) for draft in this.drafts]
        rewards, advantages = self._compare(this.drafts, outcomes)
        self.scaffolder.end_step(this.number)
        for draft, outcome, reward in zip(this.drafts, outcomes, rewards, strict=True):
            if outcome.stage == "tried" and draft.composed is not None:
                self.archive.note(
                    draft.composed.problem.id,
                    solve_rate=outcome.solved,
                    modified=outcome.modified,
                    reward=reward,
                )
        batch.figures |= describe_round(this, outcomes, rewards)
        batch.figures |= self._watch(this, outcomes, rewards)
        batch.figures["archive"] = len(self.archive)
        batch.figures["guard_calls_total"] = sum(self.guards.calls.values())
        if not self.settings.train_composer:
            return []
        samples = []
        for number, (draft, advantage) in enumerate(zip(this.drafts, advantages, strict=True)):
            if draft.completion is not None and advantage != 0.0:
                problem = next(p for p in self.session.problems.all if p.id == draft.parents[0])
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
        self._rounds.append(examine_round(this.number, problems, rates, earned))
        warnings = find_warnings(self._rounds, self.settings.collapse)
        texts = [f"{warning.rule}: {warning.text}" for warning in warnings]
        for text in texts:
            self.session.monitor.phase("collapse watch", text)
        return self._rounds[-1].metrics() | {"compose_warnings": texts}

    def _judge(self, draft: Draft, this: Round) -> Outcome:
        if draft.composed is None:
            return Outcome("malformed", task=draft.task)
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
        self._seen |= {make_skeleton(composed.problem) for composed in self.archive}
        self.scaffolder.load_state_dict(state["scaffolds"])
        self._rounds = [RoundFigures(**figures) for figures in state["rounds"]]
        self._join_composed()


def _with_penalty(plain: RewardFn, weight: float) -> RewardFn:
    def reward(rollout: Rollout) -> Reward:
        return penalise_modified(plain(rollout), is_modified(rollout), weight)

    return reward


def solve_rate(rollouts: Sequence[Rollout]) -> float | None:
    """Proved attempts over judged ones; None when none was judged."""
    judged = [rollout for rollout in rollouts if rollout.status.judged]
    if not judged:
        return None
    return sum(rollout.status is Status.PROVED for rollout in judged) / len(judged)


def name_bin(rate: float) -> str:
    """The bin of ``BINS`` that a solve rate falls into."""
    if rate in (0.0, 1.0):
        return BINS[0] if rate == 0.0 else BINS[-1]
    return next(
        name for name, bound in zip(BINS[1:], (0.25, 0.5, 0.75, 1.0), strict=False) if rate <= bound
    )


def describe_round(
    this: Round, outcomes: Sequence[Outcome], rewards: Sequence[float | None]
) -> dict[str, Any]:
    """The figures of a round for ``metrics.jsonl``."""
    rates = [outcome.solved for outcome in outcomes if outcome.solved is not None]
    earned = [reward for reward in rewards if reward is not None]
    bins = Counter(map(name_bin, rates))
    return {
        "statements_written": len(this.drafts),
        "statements_malformed": sum(draft.composed is None for draft in this.drafts),
        "statements_well_formed": sum(outcome.stage != "malformed" for outcome in outcomes),
        "statements_kept": len(this.kept),
        "statements_scaffolds": dict(Counter(d.scaffold for d in this.drafts if d.scaffold)),
        "statements_generation": max(map(read_generation, this.kept), default=0),
        "statements_reasons": dict(Counter(d.reason for d in this.drafts if d.reason)),
        "guard_stops": dict(Counter(this.stops.values())),
        "guard_calls": this.guard_calls,
        "solve_rates": {name: bins[name] for name in BINS},
        "statements_never": bins["0"] / len(rates) if rates else 0.0,
        "statements_always": bins["1"] / len(rates) if rates else 0.0,
        "statements_modified": (
            sum(outcome.modified for outcome in outcomes) / len(rates) if rates else 0.0
        ),
        "composer_reward": sum(earned) / len(earned) if earned else None,
    }


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
