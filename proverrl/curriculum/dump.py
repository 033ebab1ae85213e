"""DUMP: an upper confidence bound on what a source still teaches.

Flows in: groups. Flows out: problems. Not handled here: which problem of a source (``arms``).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum, softmax
from proverrl.types import Group, Problem


def upper_bound(mean: float, num: int, total: int) -> float:
    """``mean`` + sqrt(2 ln(total + 1) / (num + 1)): ``num`` of ``total`` rollouts are the
    source's own."""
    return mean + math.sqrt(2.0 * math.log(total + 1) / (num + 1))


class DumpCurriculum(ArmCurriculum):
    """A bandit over sources (DUMP, Wang et al. 2025, arXiv 2504.09710).

    A source scores the mean |A| of its last ``window`` rollouts, plus the bound's bonus for being
    seldom drawn; a draw takes sources by softmax(score / temperature). Advantages are not
    normalised. A source is a category of ``curriculum.categories``; with many of them the bonus,
    which shrinks with the root of a source's rollouts, outweighs |A| for a long time.
    """

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
        scores = {}
        for arm in self._arms:
            window = self._windows[arm]
            mean = sum(window) / len(window) if window else 0.0
            scores[arm] = upper_bound(mean, self._counts[arm], total)
        return scores

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
