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
from proverrl.compose.operator import Parent
from proverrl.curriculum.collapse import RoundFigures, examine_round, find_warnings
from proverrl.errors import ProblemError
from proverrl.loops.ledger import Ledger, Order, StepBatch
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
        self.archive = ProblemArchive(session.folder / ARCHIVE_FILE)
        if latest_checkpoint(session.checkpoints) is None:
            # What a run wrote that was stopped before its first checkpoint is made again.
            empty = hashlib.sha256().hexdigest()
            self.archive.load_state_dict({"num_lines": 0, "sha256": empty})
        self.guards = GuardLedger()
        self.drafts_next = 0
        self._held_out = OverlapIndex(take_statements(_read_held_out(session)))
        self._seen = {make_skeleton(problem) for problem in self._base.all}
        self._rounds: list[RoundFigures] = []
        self._reward = _with_penalty(self._reward, self.settings.modified_weight)

    def draw_pairs(self) -> tuple[int, list[Pair]]:
        """The next round's number and its pairs of base problems, each with a proof where one is
        known: of the references of warm start, or of the run's own proofs. Solved are those that
        the run has proved; while there are none, any problem may stand for them."""
        number = self.drafts_next
        self.drafts_next += 1
        rng = random.Random(derive_seed(self.session.config.seed, "parents", number))
        references = {problem.id: body for problem, body in self._base.references}
        own = dict(self.store.pairs())
        problems = sorted(self._base.all, key=lambda problem: problem.id)
        solved = [problem for problem in problems if problem.id in own]
        open_ = [problem for problem in problems if problem.id not in own]
        references |= own
        if self.settings.parents == "solved":
            first, second = solved or problems, solved or problems
        elif self.settings.parents == "mixed":
            first, second = open_ or problems, solved or problems
        else:
            first = second = problems
        return number, [
            _draw_pair(rng, first, second, references) for _ in range(self.settings.statements)
        ]

    async def run_guards(self, drafts: Sequence[Draft]) -> Checked:
        """The guards on a round's statements; nothing of the ledger changes."""
        tools = GuardTools(
            asker=Asker(
                self.session.verifier,
                deadline_seconds=self.session.config.pool.deadline_seconds,
            ),
            held_out=self._held_out,
            seen=set(self._seen),
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
        rewards = COMPOSER_REWARDS[self.settings.reward](outcomes, self.settings)
        advantages = compare_statements(outcomes, rewards, self.settings.reward)
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
                samples += _build_sample(draft, f"c{this.number}-{number}", advantage, self._base)
        return samples

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
            "seen": sorted(self._seen),
            "rounds": [asdict(figures) for figures in self._rounds],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.archive.load_state_dict(state["archive"])
        self.guards.load_state_dict(state["guards"])
        self.drafts_next = state["drafts_next"]
        self._seen = set(state["seen"])
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


def _draw_pair(
    rng: random.Random,
    first: Sequence[Problem],
    second: Sequence[Problem],
    references: Mapping[str, str],
) -> Pair:
    a = rng.choice(first)
    # A pair is of one language; of two problems where there are two.
    others = [p for p in second if p.id != a.id and p.language == a.language]
    if not others:
        raise ProblemError(
            f"problem {a.id!r} has no second problem of its language to be paired with; give "
            "problems.train at least two"
        )
    b = rng.choice(others)
    return Parent(a, references.get(a.id)), Parent(b, references.get(b.id))


def _build_sample(draft: Draft, name: str, advantage: float, base: Any) -> list[TrainingSample]:
    """A composer's sample; its problem is the first parent, which it was asked about."""
    assert draft.completion is not None
    problem = next(p for p in base.all if p.id == draft.parents[0])
    rollout = Rollout(name, problem, "composer", (Turn(draft.completion, None, None),))
    return build_rollout_samples(rollout, [advantage])


def _read_held_out(session: Session) -> list[Problem]:
    """All problems that the run is measured by."""
    config = session.config
    sources = [str(config.problems.heldout), *config.evaluation.benchmarks]
    if config.problems.valid.exists():
        sources.append(str(config.problems.valid))
    found = [p for source in sources for p in open_benchmark(source).problems]
    session.monitor.phase("guards", f"{len(found)} held-out problems must not leak")
    return found
