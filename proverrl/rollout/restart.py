"""Which problems are tried again from part of an answer, and how much of it is given.

Flows in: judged rollouts. Flows out: problems that are due, each with the share to give. Problems
whose group was not good enough are queued; the next restart is a pure function of the problem's
trials so far. Not handled here: making the hint (``proverrl.rollout.hints``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from proverrl.config import RestartConfig, RestartName
from proverrl.rollout.hints import Failure
from proverrl.types import Rollout, Status

_SAME = 1e-9
_STARTS = tuple(itertools.product((3.0, 8.0, 20.0), (0.1, 0.3, 0.5, 0.7, 0.9), (0.02, 0.2)))
_BOUNDS = ((0.01, -1.0, 0.0), (100.0, 2.0, 0.95))
"""Of slope, centre and floor."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy over the share that is given: acc(l) = c + (1 - c) / (1 + exp(-a (l - b))), as in
    SEELE (Li et al. 2025, arXiv 2509.06923). The floor c is the accuracy without a hint, the centre
    b the length of the steepest rise."""

    slope: float
    centre: float
    floor: float

    def length_for(self, target: float) -> float:
        """The length with this accuracy; 0 if the floor is not below it. It may exceed 1. With s =
        (target - c) / (1 - c) it is b + ln(s / (1 - s)) / a; for 0.5, b + ln(1 - 2c) / a."""
        if self.floor >= target:
            return 0.0
        share = (target - self.floor) / (1.0 - self.floor)
        return max(0.0, self.centre + math.log(share / (1.0 - share)) / self.slope)


def fit_curve(
    lengths: Sequence[float], accuracies: Sequence[float], weights: Sequence[float]
) -> Curve:
    """The least squares fit, weighted by the number of attempts, from the best point of a grid. The
    slope is at most 100."""
    x, y, w = (np.asarray(v, dtype=np.float64) for v in (lengths, accuracies, weights))

    def residuals(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        slope, centre, floor = theta
        rise = special.expit(slope * (x - centre))
        return np.asarray(np.sqrt(w) * (y - floor - (1.0 - floor) * rise))

    start = min(_STARTS, key=lambda theta: float(np.sum(residuals(np.array(theta)) ** 2)))
    found = optimize.least_squares(
        residuals, start, jac="3-point", bounds=_BOUNDS, x_scale=(10.0, 1.0, 1.0), xtol=1e-12
    )
    return Curve(*map(float, found.x))


@dataclass(frozen=True, slots=True)
class Trial:
    """A judged group: the share of an answer that was given, attempts, and proofs among them."""

    ratio: float
    attempts: int
    solved: int

    @property
    def rate(self) -> float:
        return self.solved / self.attempts


ChooseFn = Callable[[Sequence[Trial], RestartConfig], float]
"""From a problem's trials, at least one, to the share to give next; 0 when no hint is due."""


def escalate(trials: Sequence[Trial], settings: RestartConfig) -> float:
    """The next higher of ``ratios`` while a group has no proof, nothing once it has one (GHPO, Liu
    et al. 2025, arXiv 2507.10628); the highest is given again."""
    last = trials[-1]
    return 0.0 if last.solved else _above(last.ratio, settings)


def levels(trials: Sequence[Trial], settings: RestartConfig) -> float:
    """One level up where at most ``light`` of a group is proved, else one down, the weakest level
    first and none below it (the light form of SAGE, Liao et al. 2026, arXiv 2602.03143, whose
    levels are words of the policy's own; here they are ``ratios`` of a proof)."""
    last = trials[-1]
    if last.rate <= settings.light:
        return _above(last.ratio, settings)
    level = sum(ratio <= last.ratio + _SAME for ratio in settings.ratios)
    return settings.ratios[level - 2] if level > 1 else 0.0


def logistic(trials: Sequence[Trial], settings: RestartConfig) -> float:
    """The share for which a logistic curve through all trials gives ``target`` (SEELE, Li et al.
    2025, arXiv 2509.06923), from the third share that was tried on; before, the next higher of
    ``ratios`` below ``target`` and halfway back above it. A group with a proof and no hint needs
    none."""
    last = trials[-1]
    if last.ratio <= _SAME and last.solved:
        return 0.0
    tried = sorted({trial.ratio for trial in trials})
    if len(tried) < 3 or not any(trial.solved for trial in trials):
        if last.rate < settings.target:
            return _above(last.ratio, settings)
        lower = [ratio for ratio in tried if ratio < last.ratio - _SAME]
        return (last.ratio + (lower[-1] if lower else 0.0)) / 2.0
    curve = fit_curve(*zip(*((t.ratio, t.rate, float(t.attempts)) for t in trials), strict=True))
    return min(curve.length_for(settings.target), settings.ratios[-1])


CHOOSERS: dict[RestartName, ChooseFn] = {
    "none": lambda trials, settings: 0.0,
    "escalate": escalate,
    "levels": levels,
    "logistic": logistic,
}


def _above(ratio: float, settings: RestartConfig) -> float:
    return next((r for r in settings.ratios if r > ratio + _SAME), settings.ratios[-1])


@dataclass
class Restarts:
    """The problems that wait for a restart, what was tried on them, and their last failures.
    ``references`` are the bodies that may be shown, of which ``shown`` names those that were."""

    settings: RestartConfig
    references: Mapping[str, str] = field(default_factory=dict)
    queue: dict[str, float] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    @property
    def active(self) -> bool:
        return self.settings.name != "none"

    @property
    def keeps_failures(self) -> bool:
        return self.active and self.settings.source.startswith("failed")

    def room(self, num_groups: int) -> int:
        return int(self.settings.share * num_groups + _SAME) if self.active else 0

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
        if not self.active:
            return
        first = rollouts[0]
        name = first.problem.id
        judged = [rollout for rollout in rollouts if rollout.status.judged]
        ratio = 0.0 if first.hint is None else first.hint.ratio
        if not judged:
            if first.hint is not None:
                self.queue.setdefault(name, ratio)
            return
        trial = Trial(ratio, len(judged), sum(r.status is Status.PROVED for r in judged))
        known = self.trials.get(name, []) if first.hint is not None else []
        trials = [*known, trial]
        self.queue.pop(name, None)
        due = CHOOSERS[self.settings.name](trials, self.settings)
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
        if not self.active:
            return {}
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
