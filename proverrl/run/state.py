"""The state of a run beside its weights, and its checkpoints.

Flows in: judged draws, in the order in which they are learned from. Flows out: rewarded groups, the
next orders, proofs to imitate, checkpoints, lines of metrics. Not handled here: where draws come
from and when (``pipeline``, ``overlap``), which groups are compared and the update (``grpo``).
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from proverrl.curriculum.sampler import open_curriculum
from proverrl.errors import VerifierError
from proverrl.learner.learner import TorchLearner
from proverrl.rewards import RewardFn
from proverrl.rollout.extract import SameMode
from proverrl.rollout.proofs import Conditions, ProofStore, describe_conditions
from proverrl.rollout.samples import TrainingSample, build_replay_sample
from proverrl.rollout.whole_proof import build_group
from proverrl.run.checkpoint import latest_checkpoint, read_state, restoring, save_checkpoint
from proverrl.run.experiments import open_experiments
from proverrl.run.pairs import PairSource, proof_sources, reference_sources
from proverrl.run.pipeline import Judged, Order, open_reviewer
from proverrl.run.session import Session, budget_spent, seconds_left
from proverrl.run.tally import Tally
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Group, Hint, Problem, Rollout

_MANY_REFUSED = 8
"""So many problems, or all there are, are refused before a run without any verdict ends."""


class Stateful(Protocol):
    """A part that has a state in the checkpoint."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Extension(Stateful, Protocol):
    """Values and files that a loop adds to the checkpoint of a ``RunState``."""

    def save_files(self, folder: Path) -> None: ...
    def load_files(self, folder: Path) -> None: ...


@dataclass
class Progress:
    """The progress of a run; ``step`` counts rounds where the loop has rounds."""

    step: int = 0
    num_draws: int = 0
    verifier_calls: int = 0
    seconds: float = 0.0


KEPT_PROOFS = 2
"""Distinct proved bodies that a run keeps of a problem, the shortest, to learn from; comments and
white space do not count. Longer ones teach detours, and many of one crowd out the others."""


class RunState:
    """Progress, curriculum, proofs found, appeals; ``parts`` have their names in the checkpoint."""

    def __init__(self, session: Session) -> None:
        config = session.config
        self.session = session
        self.progress = Progress()
        self.store = ProofStore(KEPT_PROOFS, self._conditions)
        self.reviewer = open_reviewer(session)
        self.curriculum = open_curriculum(
            session.leave_out_long(),
            config.curriculum,
            derive_seed(config.seed, "curriculum"),
        )
        self.extension: Extension | None = None
        self._judged = False
        self._refused: set[str] = set()
        self.parts: dict[str, Stateful] = {
            "curriculum": self.curriculum,
            "proofs": self.store,
            "appeals": self.reviewer,
        }

    def number_draw(self) -> int:
        """The number of the next draw, which is given once."""
        self.progress.num_draws += 1
        return self.progress.num_draws - 1

    def _conditions(self, problem: Problem) -> Conditions:
        """The conditions by which proofs are judged now."""
        judge = self.session.verifier.identify(Candidate(problem, ""))
        return describe_conditions(problem, judge)

    def spent(self) -> str:
        """The reason why the run's budget lets it make no further step, or an empty string."""
        progress = self.progress
        return budget_spent(self.session.config, progress.verifier_calls, progress.seconds)

    def reward(self, judged: Judged, reward: RewardFn, tally: Tally) -> list[Group]:
        """Reward draws by groups of one problem, and count them. Their proofs are kept; curriculum
        and reviewer learn what became of them. Raises ``VerifierError``: none can be judged."""
        for draw in judged.draws:
            self._check_judged(draw.rollouts)
        tally.add_draw(judged.draws, judged.seconds)
        tally.num_stale += len(judged.draws) if judged.use == "stale" else 0
        groups = []
        for draw in judged.draws:
            group = None
            if judged.use != "set_aside":
                for rollout in draw.rollouts:
                    self.store.add(rollout)
                group = build_group(draw.rollouts, reward)
            # What was proved with help says nothing of what the policy can do alone.
            if group is not None and group.rollouts[0].hint is None:
                self.curriculum.observe(group)
            # After the reward, which is to read one rate for the whole group.
            tally.add_group(draw, group, num_appeals=self.reviewer.observe(draw))
            if group is not None:
                groups.append(group)
        return groups

    def _check_judged(self, rollouts: Sequence[Rollout]) -> None:
        """A bad problem costs its own rollouts; where every problem is one, nothing is learned."""
        most = min(_MANY_REFUSED, len(self.session.problems.without_reference))
        for rollout in rollouts:
            verdict = rollout.turns[-1].verdict
            self._judged |= verdict is not None and verdict.status.judged
            if self._judged or verdict is None or verdict.cause != "problem":
                continue
            self._refused.add(rollout.problem.id)
            if len(self._refused) >= most:
                raise VerifierError(
                    f"nothing was judged: the verifier refuses all {len(self._refused)} problems "
                    f"drawn so far; it says: {verdict.diagnostics[0].message}"
                )

    def log(
        self,
        unit: str,
        tally: Tally,
        figures: Mapping[str, Any],
        *,
        started: float,
        seconds: float | None = None,
    ) -> None:
        """Write down a step or round that began at ``started``; rates are over ``seconds`` of it,
        by default over all."""
        progress, monitor = self.progress, self.session.monitor
        took = time.monotonic() - started
        progress.seconds += took
        monitor.write_rollouts(progress.step, tally.rows(progress.step))
        values = tally.metrics(took if seconds is None else seconds)
        values |= self.curriculum.metrics() | self.reviewer.metrics()
        values |= {"verifier_calls_total": progress.verifier_calls, **figures}
        values |= seconds_left(self.session.config, progress.seconds)
        monitor.log(unit, progress.step, values)

    async def save(self, save_learner: Callable[[Path], None] | None = None, **more: Any) -> None:
        """Write a checkpoint; ``more`` values stand beside the state's own."""
        # Taken at one moment: a source may go on while the files are written.
        state = copy.deepcopy({**self.state_dict(), **more})
        await asyncio.to_thread(
            save_checkpoint,
            self.session.checkpoints,
            self.progress.step,
            state,
            save_policy=self.session.policy.save_trained,
            save_learner=save_learner,
            save_files=self.extension.save_files if self.extension is not None else None,
        )
        place = str(latest_checkpoint(self.session.checkpoints))
        self.session.monitor.tell("checkpoint", {"step": self.progress.step, "path": place})

    def restore(self, learner: TorchLearner | None = None) -> None:
        """Become what the newest checkpoint holds, if there is one; the session has its weights."""
        session = self.session
        checkpoint = latest_checkpoint(session.checkpoints)
        if checkpoint is None:
            return
        state = read_state(checkpoint)
        version = state["step"]
        if learner is not None:
            learner.load(checkpoint / "learner.pt")
            version = session.policy.version = learner.version
        session.sampler.push(version)
        if self.extension is not None:
            self.extension.load_files(checkpoint)
        with restoring(checkpoint):
            self.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.progress),
            **{name: part.state_dict() for name, part in self.parts.items()},
            **(self.extension.state_dict() if self.extension is not None else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = Progress(**{field.name: state[field.name] for field in fields(Progress)})
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        if self.extension is not None:
            self.extension.load_state_dict(state)


class GrpoState(RunState):
    """A run's state with the experiments. ``other_role`` holds what else the weights were
    taught and must not forget; some of it is in each replay. ``in_flight`` is the part of the
    checkpoint that the source left, None in a new run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.experiments = open_experiments(session.config)
        self.other_role: list[PairSource] = []
        self.in_flight: dict[str, Any] | None = None
        self.parts |= {f"experiment {name}": each for name, each in self.experiments.items()}
        if session.mode.describe():
            self.parts["mode"] = SameMode(session.mode)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.in_flight = state["in_flight"]

    def end(self) -> str:
        """The reason why no further step is to be made, or an empty string."""
        step = self.progress.step
        done = f"all {step} steps made" if step >= self.session.config.grpo.steps else ""
        return done or self.spent()

    def reward(self, judged: Judged, reward: RewardFn, tally: Tally) -> list[Group]:
        """See ``RunState.reward``; experiments learn of the draws, and the display of the queue."""
        groups = super().reward(judged, reward, tally)
        for each in self.experiments.values() if judged.use != "set_aside" else ():
            tally.figures |= each.observe(self.session, judged.draws)
        if stats := self.session.verifier.stats():
            self.session.monitor.display(verifier_queue=stats.queued)
        return groups

    def choose(self, num_groups: int | None = None) -> Order:
        """The order of the next draw: ``num_groups`` groups, ``grpo.groups_per_draw`` by
        default."""
        if num_groups is None:
            num_groups = self.session.config.grpo.groups_per_draw
        number = self.number_draw()
        hinted: list[tuple[Problem, Hint]] = []
        for each in self.experiments.values():
            hinted += each.choose(self.session, self.store.view(), num_groups - len(hinted))
        problems = self.curriculum.draw(num_groups - len(hinted))
        return Order(
            number,
            (*problems, *(problem for problem, _ in hinted)),
            (*(None for _ in problems), *(hint for _, hint in hinted)),
        )

    def make_replay(self, version: int) -> Callable[[], list[TrainingSample]]:
        """Gives proofs to imitate, drawn anew each time: half of them the run's own, the rest
        references, so that nothing is forgotten; and a quarter as many of another role."""
        session, other = self.session, self.other_role
        num = session.config.learner.replay_samples
        references = reference_sources(session) if num else []
        own = proof_sources(session, self.store.pairs()) if num else []
        rng = random.Random(derive_seed(session.config.seed, "replay", version))

        def draw() -> list[TrainingSample]:
            chosen = rng.sample(own, min((num + 1) // 2, len(own)))
            chosen += rng.sample(references, min(num - len(chosen), len(references)))
            chosen += rng.sample(other, min(num // 4, len(other)))
            pairs = [source() for source in chosen]
            return [build_replay_sample(pair.prompt_ids, pair.target_ids) for pair in pairs]

        return draw
