"""What a run knows beside its weights.

Flows in: judged draws, in the order in which they are learned from. Flows out: rewarded groups, the
next orders, the state for the checkpoint. Everything here changes between steps or when a draw is
learned from. Not handled here: where draws come from and when (``pipeline``, ``overlap``), which
groups are compared and the update (``grpo``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proverrl.advantages.base import RewardHistory
from proverrl.curriculum.sampler import CURRICULA
from proverrl.loops.audit import build_auditor
from proverrl.loops.pairs import PairSource
from proverrl.loops.pipeline import Judged, Order
from proverrl.loops.restarts import observe_draw, open_restarts, plan_restarts
from proverrl.loops.session import Session, budget_spent
from proverrl.loops.tally import Tally
from proverrl.rewards.verdicts import RewardFn
from proverrl.rollout.inject import InjectStore
from proverrl.rollout.proofs import Conditions, ProofStore, describe_conditions
from proverrl.rollout.whole_proof import build_group
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Group, Problem


class Part(Protocol):
    """What has a state in the checkpoint."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Extension(Part, Protocol):
    """What a loop knows beside a ``RunState``: values that stand beside its own in the checkpoint,
    and what is no JSON value, in files of the checkpoint's folder."""

    def save_files(self, folder: Path) -> None: ...
    def load_files(self, folder: Path) -> None: ...


@dataclass
class Progress:
    """How far a run is; ``step`` counts rounds where the loop has rounds."""

    step: int = 0
    num_draws: int = 0
    verifier_calls: int = 0
    seconds: float = 0.0


class RunState:
    """Progress, curriculum, proofs found, audits; ``parts`` are all but the first, by the names
    that they have in the checkpoint."""

    def __init__(self, session: Session, keep_shortest: int) -> None:
        config = session.config
        self.session = session
        self.progress = Progress()
        self.store = ProofStore(keep_shortest, self._conditions)
        self.auditor = build_auditor(session)
        self.curriculum = CURRICULA[config.curriculum.name](
            session.problems.without_reference,
            config.curriculum,
            derive_seed(config.seed, "curriculum"),
        )
        self.extension: Extension | None = None
        self.parts: dict[str, Part] = {
            "curriculum": self.curriculum,
            "proofs": self.store,
            "audits": self.auditor,
        }

    def number_draw(self) -> int:
        """The number of the next draw, which is given once."""
        self.progress.num_draws += 1
        return self.progress.num_draws - 1

    def _conditions(self, problem: Problem) -> Conditions:
        """What proofs are judged by now."""
        judge = self.session.verifier.identify(Candidate(problem, ""))
        return describe_conditions(problem, judge)

    def spent(self) -> str:
        """Why the run's budget lets it make no further step, or an empty string."""
        progress = self.progress
        return budget_spent(self.session.config, progress.verifier_calls, progress.seconds)

    def reward(self, judged: Judged, reward: RewardFn, tally: Tally) -> list[Group]:
        """Reward draws by groups of one problem, and count them. Their proofs are kept; curriculum
        and auditor learn what became of them."""
        tally.add_draw(judged.draws, judged.seconds)
        tally.num_stale += len(judged.draws) if judged.use == "stale" else 0
        groups = []
        for draw in judged.draws:
            group = None
            if judged.use != "counted":
                for rollout in draw.rollouts:
                    self.store.add(rollout)
                group = build_group(draw.rollouts, reward)
            # What was proved with help says nothing of what the policy can do alone.
            if group is not None and group.rollouts[0].hint is None:
                self.curriculum.observe(group)
            # After the reward, which is to read one rate for the whole group.
            tally.add_group(draw, group, num_audits=self.auditor.observe(draw))
            if group is not None:
                groups.append(group)
        return groups

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON values, but for the step."""
        progress = self.progress
        return {
            "num_draws": progress.num_draws,
            "verifier_calls": progress.verifier_calls,
            "seconds": progress.seconds,
            **{name: part.state_dict() for name, part in self.parts.items()},
            **(self.extension.state_dict() if self.extension is not None else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become what ``state_dict`` wrote; ``state`` also names the ``step``."""
        self.progress = Progress(
            state["step"], state["num_draws"], state["verifier_calls"], state["seconds"]
        )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        if self.extension is not None:
            self.extension.load_state_dict(state)


class GrpoState(RunState):
    """Beside that what problems earned before, restarts and proofs to put in. ``other_role`` is
    what else the weights were taught and must not forget; some of it is in each replay."""

    def __init__(self, session: Session) -> None:
        settings = session.config.grpo
        super().__init__(session, settings.keep_shortest)
        self.history = RewardHistory()
        self.restarts = open_restarts(session)
        self.injectable = InjectStore(settings.inject_max_rate)
        self.other_role: list[PairSource] = []
        self.parts |= {
            "rewards": self.history,
            "restarts": self.restarts,
            "injectable": self.injectable,
        }

    def end(self) -> str:
        """Why no further step is to be made, or an empty string."""
        step = self.progress.step
        done = f"all {step} steps made" if step >= self.session.config.grpo.steps else ""
        return done or self.spent()

    def reward(self, judged: Judged, reward: RewardFn, tally: Tally) -> list[Group]:
        """See ``RunState.reward``; restarts learn of the draws, and the display of the queue."""
        groups = super().reward(judged, reward, tally)
        if judged.use != "counted":
            observe_draw(self.session, self.restarts, judged.draws)
        if stats := self.session.verifier.stats():
            self.session.monitor.display(verifier_queue=stats.queued)
        return groups

    def choose(self, num_groups: int | None = None) -> Order:
        """What the next draw is of: ``num_groups`` groups, ``grpo.groups_per_draw`` by default."""
        if num_groups is None:
            num_groups = self.session.config.grpo.groups_per_draw
        number = self.number_draw()
        restarts = plan_restarts(self.session, self.restarts, self.store, num_groups)
        problems = self.curriculum.draw(num_groups - len(restarts))
        return Order(
            number,
            (*problems, *(problem for problem, _ in restarts)),
            (*(None for _ in problems), *(hint for _, hint in restarts)),
        )
