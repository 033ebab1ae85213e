"""SEC: categories whose groups carry the largest advantages come more often.

Flows in: groups. Flows out: problems. Not handled here: which problem of a category (``arms``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum, Batch, softmax
from proverrl.types import Problem


class SecCurriculum(ArmCurriculum):
    """A bandit over categories (SEC, Chen et al. 2025, arXiv 2505.14970).

    Each category has a value Q, 0 at first. A batch with groups of it sets
    Q <- (1 - rate) Q + rate * (mean |A| of its rollouts in the batch), with advantages that are
    not normalised; a draw takes categories by softmax(Q / temperature). A batch is what came back
    between two draws. Binary rewards give |A| = 2 p (1 - p), 1/2 at most, so that the default
    temperature of 1/2 prefers the best category at most e times to the worst.
    """

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
