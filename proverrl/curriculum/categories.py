"""Curricula over categories of problems: SEC and DUMP (bandits), CBRL (difficulty goes up while
more than half is solved) and SwS (the weaker a category, the larger its part of the draws)."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum, Batch, softmax
from proverrl.curriculum.base import list_advantages
from proverrl.types import Group, Problem


class SecCurriculum(ArmCurriculum):
    """A bandit over categories (SEC, Chen et al. 2025, arXiv 2505.14970). Each category has a value
    Q, 0 at first. A batch (what came back between two draws) with groups of it sets Q <- (1 - rate)
    Q + rate * (mean |A| of its rollouts in the batch), with advantages that are not normalised; a
    draw takes categories by softmax(Q / temperature). Binary rewards give |A| = 2 p (1 - p), 1/2 at
    most, so that the default temperature of 1/2 prefers the best category at most e times to the
    worst."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self.inside = config.sec.inside
        self._values: dict[str, float] = {}
        super().__init__(problems, config, seed)

    def _shares(self) -> Mapping[str, float]:
        shares = softmax([self._values[a] for a in self._arms], self._config.sec.temperature)
        return dict(zip(self._arms, shares, strict=True))

    def _settle(self, batches: Mapping[str, Batch]) -> None:
        rate = self._config.sec.rate
        for arm, batch in batches.items():
            self._values[arm] = (1.0 - rate) * self._values[arm] + rate * batch.mean_advantage

    def _admit(self, problem: Problem) -> None:
        super()._admit(problem)
        self._values.setdefault(self._arm(problem), 0.0)

    def _dump(self) -> dict[str, Any]:
        return super()._dump() | {"values": dict(self._values)}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self.check_arms(state["values"])
        self._values = {arm: float(state["values"][arm]) for arm in self._arms}

    def _figures(self) -> dict[str, Any]:
        values = self._values.values() or [0.0]
        return {"curriculum_value_max": max(values), "curriculum_value_min": min(values)}


def upper_bound(mean: float, num: int, total: int) -> float:
    """``mean`` + sqrt(2 ln(total + 1) / (num + 1)): ``num`` of ``total`` rollouts are the
    source's own."""
    return mean + math.sqrt(2.0 * math.log(total + 1) / (num + 1))


class DumpCurriculum(ArmCurriculum):
    """A bandit over sources, which are categories (DUMP, Wang et al. 2025, arXiv 2504.09710). A
    source scores the mean |A|, not normalised, of its last ``window`` rollouts, plus the bound's
    bonus for being seldom drawn; a draw takes sources by softmax(score / temperature). With many
    sources the bonus, which shrinks with the root of a source's rollouts, outweighs |A| for a long
    time."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self.inside = config.dump.inside
        self._windows: dict[str, deque[float]] = {}
        self._counts: dict[str, int] = {}
        super().__init__(problems, config, seed)

    def _shares(self) -> Mapping[str, float]:
        scores = self._scores()
        shares = softmax(list(scores.values()), self._config.dump.temperature)
        return dict(zip(scores, shares, strict=True))

    def _scores(self) -> dict[str, float]:
        total = sum(self._counts.values())
        means = {arm: sum(w) / len(w) if w else 0.0 for arm, w in self._windows.items()}
        return {arm: upper_bound(means[arm], self._counts[arm], total) for arm in self._arms}

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        super()._learn(problem, solved, group)
        arm = self._arm(problem)
        self._windows[arm].extend(list_advantages(group))
        self._counts[arm] += len(group.rewards)

    def _admit(self, problem: Problem) -> None:
        super()._admit(problem)
        arm = self._arm(problem)
        self._windows.setdefault(arm, deque(maxlen=self._config.dump.window))
        self._counts.setdefault(arm, 0)

    def _dump(self) -> dict[str, Any]:
        windows = {arm: list(window) for arm, window in self._windows.items()}
        return super()._dump() | {"windows": windows, "counts": dict(self._counts)}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self.check_arms(state["counts"])
        for arm in self._arms:
            self._windows[arm] = deque(state["windows"][arm], maxlen=self._config.dump.window)
            self._counts[arm] = int(state["counts"][arm])

    def _figures(self) -> dict[str, Any]:
        scores = self._scores().values() or [0.0]
        return {"curriculum_score_max": max(scores), "curriculum_score_min": min(scores)}


def difficulty_of(problem: Problem) -> float:
    """``difficulty`` of the metadata where it is a number, else the level."""
    value = problem.metadata.get("difficulty")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(problem.level)


class CbrlCurriculum(ArmCurriculum):
    """A closed loop on difficulty (InternGeometry's CBRL, 2025, arXiv 2512.10534). After a batch
    (what came back between two draws) the difficulty rises by ``step`` if more than ``target`` of
    its rollouts was proved, and falls by it if less was, within the difficulties that exist. A draw
    takes the two that are nearest on either side, each in proportion to how near it is. The paper's
    knob is the number of proof steps; ours is the level, or ``difficulty`` in a problem's metadata.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self.inside = config.cbrl.inside
        self._steps: list[float] = []
        self._knob = config.cbrl.start
        super().__init__(problems, config, seed)

    @property
    def difficulty(self) -> float:
        """Where the controller stands."""
        if not self._steps:
            return self._knob
        return min(max(self._knob, self._steps[0]), self._steps[-1])

    def _arm(self, problem: Problem) -> str:
        return repr(difficulty_of(problem))

    def _shares(self) -> Mapping[str, float]:
        difficulty = self.difficulty
        place = bisect.bisect_left(self._steps, difficulty)
        above = self._steps[place]
        if above == difficulty:
            return {arm: float(arm == repr(above)) for arm in self._arms}
        below = self._steps[place - 1]
        share = (difficulty - below) / (above - below)
        near = {repr(below): 1.0 - share, repr(above): share}
        return {arm: near.get(arm, 0.0) for arm in self._arms}

    def _settle(self, batches: Mapping[str, Batch]) -> None:
        settings = self._config.cbrl
        rollouts = sum(batch.rollouts for batch in batches.values())
        rate = sum(batch.solved for batch in batches.values()) / rollouts
        self._knob = self.difficulty
        if rate != settings.target:
            self._knob += settings.step if rate > settings.target else -settings.step

    def _admit(self, problem: Problem) -> None:
        super()._admit(problem)
        difficulty = difficulty_of(problem)
        if difficulty not in self._steps:
            bisect.insort(self._steps, difficulty)

    def _dump(self) -> dict[str, Any]:
        return super()._dump() | {"knob": self._knob}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._knob = float(state["knob"])

    def _figures(self) -> dict[str, Any]:
        return {"curriculum_difficulty": self.difficulty}


class SwsCurriculum(ArmCurriculum):
    """Draws by weakness (SwS, Liang et al. 2025, arXiv 2506.08989). A problem fails while less
    than ``weak`` of its latest group was proved. A category weighs its failure ratio, (failing + 1)
    / (tried + 2). Of its problems those may be drawn that were never tried or whose latest rate
    lies in [``low``, ``high``]; a share ``recheck`` of draws goes to the others, since the policy
    changes. The paper fixes weaknesses in a first run; here they follow the policy."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._latest: dict[str, float] = {}
        super().__init__(problems, config, seed)

    def keeps(self, rate: float) -> bool:
        """Whether a problem that is solved at this rate is worth training on."""
        return self._config.sws.low <= rate <= self._config.sws.high

    def _shares(self) -> Mapping[str, float]:
        return {arm: self._failure_ratio(names) for arm, names in self._arms.items()}

    def _failure_ratio(self, names: Sequence[str]) -> float:
        rates = [self._latest[name] for name in names if name in self._latest]
        failing = sum(rate < self._config.sws.weak for rate in rates)
        return (failing + 1) / (len(rates) + 2)

    def _choose_arm(
        self, shares: Mapping[str, float], taken: dict[str, set[str]]
    ) -> tuple[str, list[str]]:
        """Of what is worth drawing, or of the rest in a share ``recheck`` of draws; of the other
        where there is none of the one."""
        kept, rest = [], []
        for arm, names in self._arms.items():
            free = [name for name in names if name not in taken[arm]]
            worth = [n for n in free if n not in self._latest or self.keeps(self._latest[n])]
            if worth:
                kept.append((arm, worth))
            if len(worth) < len(free):
                chosen = set(worth)
                rest.append((arm, [name for name in free if name not in chosen]))
        rechecks = self._rng.random() < self._config.sws.recheck
        left = (rest or kept) if rechecks else (kept or rest)
        if not left:
            for used in taken.values():
                used.clear()
            return self._choose_arm(shares, taken)
        return self._rng.choices(left, [shares[arm] for arm, _ in left])[0]

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        super()._learn(problem, solved, group)
        self._latest[problem.id] = solved / len(group.rollouts)

    def _dump(self) -> dict[str, Any]:
        return super()._dump() | {"latest": dict(self._latest)}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._latest = {name: float(rate) for name, rate in state["latest"].items()}

    def _figures(self) -> dict[str, Any]:
        shares = self._shares()
        if not shares:
            return {}
        weakest = max(shares, key=shares.__getitem__)
        kept = sum(self.keeps(rate) for rate in self._latest.values())
        return {
            "curriculum_weakest": weakest,
            "curriculum_failure_ratio": shares[weakest],
            "curriculum_kept": kept,
        }
