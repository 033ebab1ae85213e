"""What a GRPO run knows beside its weights, and what a step is made of.

Flows in: judged draws, in the order in which they are learned from. Flows out: the groups that a
step trains on, with their advantages and figures. Everything here changes between steps or when a
draw is learned from, and is saved in the checkpoint. Not handled here: where draws come from and
when (``collector``, ``overlap``), the update (``grpo``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

from proverrl.advantages import (
    ADVANTAGES,
    STEPS,
    AdvantageInputs,
    GroupAdvantages,
    RewardHistory,
    admit_groups,
)
from proverrl.config import RestartConfig
from proverrl.curriculum.sampler import CURRICULA
from proverrl.hint import Hint
from proverrl.loops.audit import build_auditor
from proverrl.loops.injection import inject_proofs
from proverrl.loops.restarts import observe_draw, open_restarts, plan_restarts
from proverrl.loops.session import Session, budget_spent, open_store, run_fraction
from proverrl.loops.tally import Tally, absorb_draw
from proverrl.loops.warm_start import PairSource
from proverrl.rewards import build_reward
from proverrl.rollout.inject import InjectStore
from proverrl.rollout.restart import Restarts
from proverrl.rollout.training_sample import TrainingSample
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.seeds import derive_seed
from proverrl.types import Group, Problem


@dataclass
class Progress:
    """How far a run is and what its problems earned so far; saved in the checkpoint."""

    step: int = 0
    num_draws: int = 0
    verifier_calls: int = 0
    seconds: float = 0.0
    history: RewardHistory = field(default_factory=RewardHistory)
    restarts: Restarts = field(default_factory=lambda: Restarts(RestartConfig()))
    injectable: InjectStore = field(default_factory=InjectStore)


@dataclass(frozen=True, slots=True)
class Order:
    """What the policy is to write next: draw ``number``, a group on each of ``problems``, begun
    with its hint where it has one."""

    number: int
    problems: tuple[Problem, ...]
    hints: tuple[Hint | None, ...]


@dataclass
class StepBatch:
    """What a step learns from, and what its draws were like. ``groups`` are those admitted, with
    one entry of ``advantages`` each; ``seen`` are all but the ``num_stale`` ones that were too
    old. ``ages`` counts, for each admitted group, the steps made since its weights. ``extra`` are
    samples of another role, with their advantages, and ``figures`` what else there is to tell."""

    groups: list[Group] = field(default_factory=list)
    advantages: list[GroupAdvantages] = field(default_factory=list)
    seen: list[Group] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    num_stale: int = 0
    tally: Tally = field(default_factory=Tally)
    extra: list[TrainingSample] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def metrics(self, seconds: float) -> dict[str, Any]:
        """The figures of a step that took ``seconds``."""
        return self.tally.metrics(seconds) | {
            "staleness_mean": sum(self.ages) / len(self.ages) if self.ages else 0.0,
            "staleness_max": max(self.ages, default=0),
            "groups_stale": self.num_stale,
            **self.figures,
        }


class Ledger:
    """The state of a run between its parts: progress, curriculum, proofs found, audits."""

    def __init__(self, session: Session) -> None:
        config = session.config
        self.session = session
        self.progress = Progress(
            restarts=open_restarts(session), injectable=InjectStore(config.grpo.inject_max_rate)
        )
        self.store = open_store(session, config.grpo.keep_shortest)
        self.auditor = build_auditor(session)
        self.curriculum = CURRICULA[config.curriculum.name](
            session.problems.without_reference,
            config.curriculum,
            derive_seed(config.seed, "curriculum"),
        )
        self._reward = build_reward(
            config.reward,
            max_new_tokens=config.sampling.max_new_tokens,
            false_negative_rate=self.auditor.rate,
        )
        # What else the weights were taught and must not forget; some of it is in each replay.
        self.other_role: list[PairSource] = []

    def end(self) -> str:
        """Why no further step is to be made, or an empty string."""
        if self.progress.step >= self.session.config.grpo.steps:
            return f"all {self.progress.step} steps made"
        progress = self.progress
        return budget_spent(self.session.config, progress.verifier_calls, progress.seconds)

    def choose(self, num_groups: int | None = None) -> Order:
        """What the next draw is of: ``num_groups`` groups, ``grpo.groups_per_draw`` by default."""
        if num_groups is None:
            num_groups = self.session.config.grpo.groups_per_draw
        self.progress.num_draws += 1
        restarts = plan_restarts(self.session, self.progress.restarts, self.store, num_groups)
        problems = self.curriculum.draw(num_groups - len(restarts))
        return Order(
            self.progress.num_draws - 1,
            (*problems, *(problem for problem, _ in restarts)),
            (*(None for _ in problems), *(hint for _, hint in restarts)),
        )

    async def absorb(
        self,
        batch: StepBatch,
        judged: Sequence[JudgedDraw],
        generation_seconds: float,
        *,
        age: int,
        stale: bool = False,
    ) -> None:
        """Count draws that were written ``age`` steps ago and admit their groups to the step.

        What is ``stale`` is not trained on; its proofs are kept and its verdicts count.
        """
        groups = absorb_draw(
            judged,
            generation_seconds,
            tally=batch.tally,
            curriculum=self.curriculum,
            store=self.store,
            reward=self._reward,
            auditor=self.auditor,
        )
        observe_draw(self.session, self.progress.restarts, judged)
        if stats := self.session.verifier.stats():
            self.session.monitor.display(verifier_queue=stats.queued)
        if stale:
            batch.num_stale += len(judged)
            return
        config = self.session.config
        batch.seen += groups
        groups = await inject_proofs(
            self.session, self.progress.injectable, groups, batch.tally, self._reward
        )
        inputs = self._inputs(groups)
        admitted = list(compress(groups, admit_groups(inputs, config.advantage.name, config.grpo)))
        batch.groups += admitted
        batch.ages += [age] * len(admitted)

    def compare(self, batch: StepBatch) -> None:
        """Give the admitted groups their advantages; then let the history know all groups."""
        advantage = ADVANTAGES[self.session.config.advantage.name]
        batch.advantages = advantage(self._inputs(batch.groups))
        for group, values in zip(batch.groups, batch.advantages, strict=True):
            batch.tally.add_advantages(group, values)
        for group in batch.seen:
            self.progress.history.observe(group)

    def _inputs(self, groups: Sequence[Group]) -> AdvantageInputs:
        config, tokenizer = self.session.config, self.session.policy.tokenizer
        progress = self.progress
        done = run_fraction(
            config, progress.step / config.grpo.steps, progress.verifier_calls, progress.seconds
        )
        steps = STEPS[config.advantage.states](lambda ids: str(tokenizer.decode(ids)))
        return AdvantageInputs(groups, config.advantage, done, progress.history, steps)

    def save_files(self, folder: Path) -> None:
        """Write what is no JSON value into a checkpoint's folder: here there is nothing."""

    def load_files(self, folder: Path) -> None:
        """Read what ``save_files`` wrote."""

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "num_draws": self.progress.num_draws,
            "verifier_calls": self.progress.verifier_calls,
            "seconds": self.progress.seconds,
            "curriculum": self.curriculum.state_dict(),
            "proofs": self.store.state_dict(),
            "rewards": self.progress.history.state_dict(),
            "restarts": self.progress.restarts.state_dict(),
            "injectable": self.progress.injectable.state_dict(),
            "audits": self.auditor.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` wrote; ``state`` also names the ``step``."""
        progress = self.progress
        progress.step, progress.num_draws = state["step"], state["num_draws"]
        progress.verifier_calls, progress.seconds = state["verifier_calls"], state["seconds"]
        progress.restarts.load_state_dict(state["restarts"])
        progress.injectable.load_state_dict(state["injectable"])
        self.curriculum.load_state_dict(state["curriculum"])
        self.store.load_state_dict(state["proofs"])
        self.progress.history.load_state_dict(state["rewards"])
        self.auditor.load_state_dict(state["audits"])
