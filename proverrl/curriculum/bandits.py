"""Bandits over categories: SEC by the size of their advantages, DUMP by an upper bound on it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum, Batch, softmax
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
        rewards = [reward.total for reward in group.rewards]
        mean = sum(rewards) / len(rewards)
        self._windows[arm].extend(abs(reward - mean) for reward in rewards)
        self._counts[arm] += len(rewards)

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
