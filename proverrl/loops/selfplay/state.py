"""The state of a self-play run beside that of GRPO: composed problems, filters, their outcomes.

Flows in: drafts of a composer, the filters' answers, judged rounds. Flows out: the next pairs of
parents, problems that passed (in the archive, in the curriculum), the composer's rewards and
samples, the figures of a round. A round is a step. Not handled here: when anything happens
(``selfplay``), the composer's own weights (``composer``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from proverrl.compose.archive import Composed
from proverrl.compose.composers import REPEATED, Draft, Pair, measure_truncated
from proverrl.compose.filters import FilterRun, make_filters, run_filters
from proverrl.config.selfplay import FilterName
from proverrl.curriculum.collapse import RoundFigures, examine_round, find_warnings
from proverrl.loops.selfplay.composer import OwnComposer
from proverrl.loops.selfplay.composition import ComposedProblems
from proverrl.rewards import (
    StatementOutcome,
    compare_statements,
    is_modified,
    reward_statements,
)
from proverrl.rollout.samples import TrainingSample, build_rollout_samples
from proverrl.run.state import GrpoState
from proverrl.types import Group, Problem, Rollout, Status, Turn

BINS = ("0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
"""Solve rates of composed problems: 0, up to and with each bound, below 1, and 1."""


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round when all of it is judged: its drafts, the filters by the ids of what they stopped,
    the solver's attempts by problem id. ``tried`` passed the early filters, ``kept`` all of them.
    What was tried and is neither kept nor stopped was not given to the late filters; nothing is
    learned from it."""

    number: int
    drafts: Sequence[Draft]
    stops: Mapping[str, str]
    tried: Sequence[Problem]
    kept: Sequence[Problem]
    attempts: Mapping[str, Sequence[Rollout]]
    filter_calls: int

    @property
    def set_aside(self) -> set[str]:
        """Ids of what was tried and may not be learned from."""
        return {problem.id for problem in self.tried} - {problem.id for problem in self.kept}


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
    this: JudgedRound, outcomes: Sequence[StatementOutcome], rewards: Sequence[float | None]
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
        "statements_unchecked": len(this.set_aside - set(this.stops)),
        "statements_reasons": dict(Counter(d.reason for d in this.drafts if d.reason)),
        "filter_stops": dict(Counter(this.stops.values())),
        "filter_calls": this.filter_calls,
        "solve_rates": {name: bins[name] for name in BINS},
        "statements_never": bins["0"] / len(rates) if rates else 0.0,
        "statements_always": bins["1"] / len(rates) if rates else 0.0,
        "statements_modified": (
            sum(outcome.modified for outcome in outcomes) / len(rates) if rates else 0.0
        ),
        "composer_reward": sum(earned) / len(earned) if earned else None,
        **measure_truncated(this.drafts),
    }


class Rounds:
    """The rounds of a run: the ``Extension`` of its state. ``own`` are the composer's weights where
    it has some; ``early`` and ``late`` filters are asked before and after the solver's attempts."""

    def __init__(self, state: GrpoState, own: OwnComposer | None) -> None:
        session = state.session
        self.own = own
        self.settings = settings = session.config.selfplay
        self._composed = ComposedProblems(session)
        self.archive = self._composed.archive
        asked: list[FilterName] = [
            name for name in get_args(FilterName) if name in settings.filters
        ]
        self.early = [name for name in asked if name not in settings.late_filters]
        self.late = [name for name in asked if name in settings.late_filters]
        self._state = state
        self._session = session
        self._drafts_next = 0
        self._figures: list[RoundFigures] = []

    def draw(self) -> tuple[int, list[Pair]]:
        """The next round's number and the pairs of parents."""
        number = self._drafts_next
        self._drafts_next += 1
        # The shortest comes first.
        proofs = {name: kept[0].body for name, kept in self._state.store.proofs.items() if kept}
        num = self.settings.statements
        return number, self._composed.draw_parents(proofs, number=number, num=num)

    async def ask(self, filters: Sequence[FilterName], problems: Sequence[Problem]) -> FilterRun:
        """The answers of these filters on statements."""
        tools = self._composed.open_tools(set(self._composed.seen))
        return await run_filters(problems, make_filters(tools, filters), tools)

    def admit(self, drafts: Sequence[Draft], checked: FilterRun) -> list[Problem]:
        """Take a round into the archive; what the early filters let pass is tried by the solver."""
        made = _list_made(drafts)
        # Stopped ones too: to stop them again would cost the same calls again.
        self._composed.see(composed.problem for composed in made.values())
        self._note_stops(made, checked)
        tried = []
        for problem in checked.kept:
            # One that is there already stays as it was.
            self.archive.add(made[problem.id])
            tried.append(self.archive.get(problem.id).problem)
        if not self.late:
            self._take(tried)
        self._composed.join()
        return tried

    def settle(self, drafts: Sequence[Draft], checked: FilterRun) -> None:
        """Take what the late filters let pass into the curriculum."""
        self._note_stops(_list_made(drafts), checked)
        self._take(checked.kept)
        self._composed.join()

    def _take(self, problems: Sequence[Problem]) -> None:
        self._state.curriculum.add(problems)

    def _note_stops(self, made: Mapping[str, Composed], checked: FilterRun) -> None:
        self._composed.num_filter_calls += checked.calls.total()
        for stop in checked.stops:
            composed = made[stop.problem_id]
            # What a late filter stops is in the archive since it was tried.
            if self.archive.add(composed) or stop.filter in self.late:
                self.archive.note(stop.problem_id, stopped_by=stop.filter, reason=stop.reason)
            else:
                # A duplicate of a problem that is in there, like any other.
                repeats = self.archive.facts(stop.problem_id).get("repeats", 0)
                self.archive.note(stop.problem_id, repeats=repeats + 1)
            if stop.kept is not None and self.archive.add(stop.kept):
                self.archive.note(stop.kept.problem.id, negation_of=stop.problem_id)
                self._composed.see([stop.kept.problem])

    def is_within(self, group: Group) -> bool:
        """True if the solver learns from a group: within its window (GAR: 0 < p <= 0.5)."""
        rate = solve_rate(group.rollouts) or 0.0
        low, high = self.settings.solve_rates
        return low < rate <= high

    def reward(
        self, this: JudgedRound, groups: Sequence[Group]
    ) -> tuple[list[TrainingSample], dict[str, Any]]:
        """Note what became of each statement, and return the samples of a composer that is trained,
        with the figures of the round. The solver learns from ``groups``."""
        outcomes = [_judge(draft, this) for draft in this.drafts]
        rewards = reward_statements(outcomes)
        advantages = compare_statements(rewards)
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
            "filter_calls_total": self._composed.num_filter_calls,
        }
        problems = {problem.id: problem for problem in self._session.problems.all}
        samples = []
        for number, (draft, advantage) in enumerate(zip(this.drafts, advantages, strict=True)):
            learned = self.settings.weights != "frozen" and draft.completion is not None
            if learned and advantage != 0.0:
                problem = problems[draft.parents[0]]
                samples += _build_sample(draft, f"c{this.number}-{number}", advantage, problem)
        return samples, figures

    def _watch(
        self,
        this: JudgedRound,
        outcomes: Sequence[StatementOutcome],
        rewards: Sequence[float | None],
    ) -> dict[str, Any]:
        """The collapse watch's figures of the round, and its warnings."""
        tried = [
            (draft.composed.problem, outcome.solved)
            for draft, outcome in zip(this.drafts, outcomes, strict=True)
            if draft.composed is not None and outcome.solved is not None
        ]
        earned = [reward for reward in rewards if reward is not None]
        problems, rates = [p for p, _ in tried], [rate for _, rate in tried]
        malformed = sum(
            draft.composed is None and draft.reason != REPEATED for draft in this.drafts
        )
        self._figures.append(
            examine_round(
                this.number, problems, rates, earned, written=len(this.drafts), malformed=malformed
            )
        )
        warnings = find_warnings(self._figures)
        texts = [f"{warning.rule}: {warning.text}" for warning in warnings]
        for text in texts:
            self._session.monitor.phase("collapse watch", text)
        return self._figures[-1].metrics() | {"compose_warnings": texts}

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._composed.state_dict(),
            "drafts_next": self._drafts_next,
            "rounds": [asdict(figures) for figures in self._figures],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._composed.load_state_dict(state)
        self._drafts_next = state["drafts_next"]
        # Whatever was composed is in the archive, stopped or not.
        self._composed.see(composed.problem for composed in self.archive)
        self._figures = [RoundFigures(**figures) for figures in state["rounds"]]

    def save_files(self, folder: Path) -> None:
        if self.own is not None:
            self.own.save(folder)

    def load_files(self, folder: Path) -> None:
        if self.own is not None:
            self.own.load(folder)


def _list_made(drafts: Sequence[Draft]) -> dict[str, Composed]:
    return {d.composed.problem.id: d.composed for d in drafts if d.composed is not None}


def _judge(draft: Draft, this: JudgedRound) -> StatementOutcome:
    """The outcome of a statement."""
    if draft.composed is None:
        return StatementOutcome("stopped" if draft.reason == REPEATED else "malformed")
    problem = draft.composed.problem
    if stopped_by := this.stops.get(problem.id):
        return StatementOutcome("malformed" if stopped_by == "well_formed" else "stopped")
    attempts = this.attempts.get(problem.id, ())
    modified = sum(map(is_modified, attempts)) / len(attempts) if attempts else 0.0
    return StatementOutcome("tried", solve_rate(attempts), modified)


def _build_sample(
    draft: Draft, name: str, advantage: float, problem: Problem
) -> list[TrainingSample]:
    """A composer's sample; ``problem`` is the first parent, which it was asked about."""
    assert draft.completion is not None
    rollout = Rollout(name, problem, "composer", (Turn(draft.completion, None, None),))
    return build_rollout_samples(rollout, [advantage])
