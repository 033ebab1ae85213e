"""What a self-play run knows beside a GRPO run: composed problems, guards, what became of them.

Flows in: drafts of a composer, the guards' answers, judged rounds. Flows out: the next pairs of
parents, problems that passed (in the archive, in the curriculum), the composer's rewards and
samples, the figures of a round. A round is a step. Everything that decides the future is in the
checkpoint; pairs are drawn from the seed and the round, so that there is no generator to save.
Not handled here: when anything happens (``source``), the composer's own weights (``composer``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.compose.archive import Composed
from proverrl.compose.composers import REPEATED, Draft, Pair
from proverrl.compose.guards import GuardLedger
from proverrl.curriculum.collapse import RoundFigures, examine_round, find_warnings
from proverrl.loops.selfplay.archive import open_archive
from proverrl.loops.selfplay.composer import OwnComposer
from proverrl.loops.selfplay.guards import Checked, RoundGuards
from proverrl.loops.selfplay.parents import draw_parents
from proverrl.loops.selfplay.round import Round, describe_round, solve_rate
from proverrl.loops.selfplay.scaffolds import Scaffolder
from proverrl.loops.state import GrpoState
from proverrl.rewards.composer import COMPOSER_REWARDS, Outcome, compare_statements, is_modified
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.training_sample import TrainingSample
from proverrl.types import Group, Problem, Rollout, Status, Turn


class Rounds:
    """The rounds of a run: the ``Extension`` of its state. Base problems are those of the training
    file; ``own`` are the composer's weights where it has some."""

    def __init__(self, state: GrpoState, own: OwnComposer | None) -> None:
        session = state.session
        self.own = own
        self.settings = settings = session.config.selfplay
        self.archive = open_archive(session)
        self.checks = RoundGuards(session)
        self.checks.see(session.problems.all)
        self._state = state
        self._session = session
        self._base = session.problems
        self._guards = GuardLedger()
        self._drafts_next = 0
        self._figures: list[RoundFigures] = []
        self.scaffolder = Scaffolder(
            settings.scaffolds,
            round(settings.scaffold_share * settings.statements),
            seed=session.config.seed,
        )

    def draw(self) -> tuple[int, list[Pair], list[Draft]]:
        """The next round's number, the scaffolds among its drafts, and the pairs of parents of the
        others, each with a proof where one is known: of the references of warm start, or of the
        run's own proofs."""
        number = self._drafts_next
        self._drafts_next += 1
        # The shortest comes first.
        proofs = {name: kept[0].body for name, kept in self._state.store.proofs.items() if kept}
        made = {c.problem.id: c.reference for c in self.archive if c.reference is not None}
        problems = {problem.id: problem for problem in self._session.problems.all}
        scaffolds = self.scaffolder.draw(number, problems, proofs, made, self.archive)
        left = self.settings.statements - len(scaffolds)
        pairs = draw_parents(
            self._session, self._base, self.archive, proofs, number=number, num=left
        )
        return number, pairs, scaffolds

    def admit(self, drafts: Sequence[Draft], checked: Checked) -> list[Problem]:
        """Take a round into the archive; what the early guards let pass is tried by the solver."""
        made = {d.composed.problem.id: d.composed for d in drafts if d.composed is not None}
        # Stopped ones too: to stop them again would cost the same calls again.
        self.checks.see(composed.problem for composed in made.values())
        self._guards.num_seen += len(made)
        self._note_stops(made, checked)
        tried = [self._keep(made[problem.id]) for problem in checked.run.kept]
        if not self.checks.late:
            self._take(tried)
        self._join_composed()
        return tried

    def settle(self, drafts: Sequence[Draft], checked: Checked) -> None:
        """Take what the late guards let pass into the curriculum. Nothing is learned from what
        else was tried: no group, no stored proof."""
        made = {d.composed.problem.id: d.composed for d in drafts if d.composed is not None}
        self._note_stops(made, checked)
        self._take(checked.run.kept)
        self._join_composed()

    def _take(self, problems: Sequence[Problem]) -> None:
        self._guards.num_kept += len(problems)
        self._state.curriculum.add(problems)

    def _note_stops(self, made: Mapping[str, Composed], checked: Checked) -> None:
        self._guards.calls += checked.calls
        for stop in checked.run.stops:
            composed = made[stop.problem_id]
            self._guards.record(composed.problem, stop)
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
        self._session.problems = self._base.join([c.problem for c in self.archive])

    def _keep(self, composed: Composed) -> Problem:
        """Archive a problem; one that is there already stays as it was."""
        self.archive.add(composed)
        return self.archive.get(composed.problem.id).problem

    def is_within(self, group: Group) -> bool:
        """Whether the solver learns from a group: within its window (GAR: 0 < p <= 0.5)."""
        rate = solve_rate(group.rollouts) or 0.0
        return self.settings.solver_low < rate <= self.settings.solver_high

    def reward(
        self, this: Round, groups: Sequence[Group]
    ) -> tuple[list[TrainingSample], dict[str, Any]]:
        """Note what became of each statement, and return the composer's samples with the figures of
        the round; no samples where no policy wrote, or it is not trained. ``groups`` are those that
        the solver learns from."""
        outcomes = [_judge(draft, this) for draft in this.drafts]
        rewards, advantages = self._compare(this.drafts, outcomes)
        self.scaffolder.end_step(this.number)
        for draft, outcome, reward in zip(this.drafts, outcomes, rewards, strict=True):
            if outcome.stage == "tried" and draft.composed is not None:
                name = draft.composed.problem.id
                facts = {"solve_rate": outcome.solved, "modified": outcome.modified}
                unchecked = {"unchecked": True} if name in this.set_aside else {}
                self.archive.note(name, **facts, reward=reward, **unchecked)
        composed = {problem.id for problem in this.kept}
        figures = {
            "groups_composed": sum(group.rollouts[0].problem.id in composed for group in groups),
            **describe_round(this, outcomes, rewards),
            **self._watch(this, outcomes, rewards),
            "archive": len(self.archive),
            "guard_calls_total": sum(self._guards.calls.values()),
        }
        problems = {problem.id: problem for problem in self._session.problems.all}
        samples = []
        for number, (draft, advantage) in enumerate(zip(this.drafts, advantages, strict=True)):
            learned = self.settings.train_composer and draft.completion is not None
            if learned and advantage != 0.0:
                problem = problems[draft.parents[0]]
                samples += _build_sample(draft, f"c{this.number}-{number}", advantage, problem)
        return samples, figures

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
        self._figures.append(
            examine_round(
                this.number, problems, rates, earned, written=len(own), malformed=malformed
            )
        )
        warnings = find_warnings(self._figures, self.settings.collapse)
        texts = [f"{warning.rule}: {warning.text}" for warning in warnings]
        for text in texts:
            self._session.monitor.phase("collapse watch", text)
        return self._figures[-1].metrics() | {"compose_warnings": texts}

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "archive": self.archive.state_dict(),
            "guards": self._guards.state_dict(),
            "drafts_next": self._drafts_next,
            "scaffolds": self.scaffolder.state_dict(),
            "rounds": [asdict(figures) for figures in self._figures],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` wrote."""
        self.archive.load_state_dict(state["archive"])
        self._guards.load_state_dict(state["guards"])
        self._drafts_next = state["drafts_next"]
        # Whatever was composed is in the archive, stopped or not.
        self.checks.see(composed.problem for composed in self.archive)
        self.scaffolder.load_state_dict(state["scaffolds"])
        self._figures = [RoundFigures(**figures) for figures in state["rounds"]]
        self._join_composed()

    def save_files(self, folder: Path) -> None:
        if self.own is not None:
            self.own.save(folder)

    def load_files(self, folder: Path) -> None:
        if self.own is not None:
            self.own.load(folder)


def _judge(draft: Draft, this: Round) -> Outcome:
    """What became of a statement."""
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


def _build_sample(
    draft: Draft, name: str, advantage: float, problem: Problem
) -> list[TrainingSample]:
    """A composer's sample; ``problem`` is the first parent, which it was asked about."""
    assert draft.completion is not None
    rollout = Rollout(name, problem, "composer", (Turn(draft.completion, None, None),))
    return build_rollout_samples(rollout, [advantage])
