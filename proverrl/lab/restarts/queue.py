"""The problems that are tried again from part of an answer, and the part that is given.

Flows in: judged rollouts. Flows out: problems that are due, each with the share to give. Problems
whose group was not good enough are queued; the next restart is a pure function of the problem's
trials so far. Not handled here: making the hint (``hints``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from proverrl.lab.restarts.hints import Failure, RestartOptions
from proverrl.types import Rollout, Status

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Trial:
    """A judged group: the share of an answer that was given, and its proofs."""

    ratio: float
    solved: int


def escalate(trials: Sequence[Trial], settings: RestartOptions) -> float:
    """From a problem's trials, at least one, to the share to give next. It is the next higher of
    ``ratios`` while a group has no proof, and 0, no hint, once it has one (GHPO, Liu et al. 2025,
    arXiv 2507.10628); the highest is given again."""
    last = trials[-1]
    if last.solved:
        return 0.0
    higher = (ratio for ratio in settings.ratios if ratio > last.ratio + _SAME)
    return next(higher, settings.ratios[-1])


@dataclass
class Queue:
    """The problems that wait for a restart, what was tried on them, and their last failures.
    ``shown`` names the problems whose reference was shown."""

    settings: RestartOptions
    queue: dict[str, float] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    @property
    def keeps_failures(self) -> bool:
        return self.settings.source.startswith("failed")

    def room(self, num_groups: int) -> int:
        return int(self.settings.share * num_groups + _SAME)

    def waiting(self) -> Iterator[tuple[str, float]]:
        """Problem id and share to give: problems that had a hint before, so that a few go through
        all shares where many fail, and of each kind the one that waited longest first."""
        return iter(sorted(self.queue.items(), key=lambda item: not self._was_helped(item[0])))

    def _was_helped(self, problem_id: str) -> bool:
        return any(trial.ratio > _SAME for trial in self.trials.get(problem_id, ()))

    def take(self, problem_id: str) -> None:
        """A problem is being restarted; it comes back when its group was judged."""
        del self.queue[problem_id]
        if self.settings.source == "reference":
            self.shown.add(problem_id)

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Note what a group earned, and whether and how its problem is restarted. A group without a
        hint resets the problem's trials. Rollouts that were not judged do not count; with none
        judged, a restart is repeated as it was."""
        first = rollouts[0]
        name = first.problem.id
        judged = [rollout for rollout in rollouts if rollout.status.judged]
        ratio = 0.0 if first.hint is None else first.hint.ratio
        if not judged:
            if first.hint is not None:
                self.queue.setdefault(name, ratio)
            return
        trial = Trial(ratio, sum(r.status is Status.PROVED for r in judged))
        known = self.trials.get(name, []) if first.hint is not None else []
        trials = [*known, trial]
        self.queue.pop(name, None)
        due = escalate(trials, self.settings)
        if due <= _SAME or sum(t.ratio > _SAME for t in trials) >= self.settings.patience:
            self.trials.pop(name, None)
            return
        self.trials[name] = trials
        self.queue[name] = due

    def add_failure(self, problem_id: str, failure: Failure) -> None:
        """Keep a failed attempt that got at least as far as the stored one."""
        known = self.failures.get(problem_id)
        if known is None or failure.verified >= known.verified:
            self.failures[problem_id] = failure

    def metrics(self) -> dict[str, float]:
        return {
            "restarts_waiting": float(len(self.queue)),
            "restart_references_shown": float(len(self.shown)),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "queue": list(self.queue.items()),
            "trials": {
                name: [list(astuple(trial)) for trial in trials]
                for name, trials in self.trials.items()
            },
            "failures": {name: asdict(failure) for name, failure in self.failures.items()},
            "shown": sorted(self.shown),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.queue = dict(state["queue"])
        self.trials = {
            name: [Trial(*values) for values in trials] for name, trials in state["trials"].items()
        }
        self.failures = {
            name: Failure(**{**row, "token_ids": tuple(row["token_ids"])})
            for name, row in state["failures"].items()
        }
        self.shown = set(state["shown"])
