"""Prioritised sampling: the less a problem is solved, the more often it comes.

Flows in: groups. Flows out: problems. Not handled here: problems that nobody can solve; they come
most often of all, which ``pools`` and ``sws`` avoid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import ProblemCurriculum, choose_weighted
from proverrl.curriculum.beliefs import Beliefs
from proverrl.types import Group, Problem


class PrioritisedCurriculum(ProblemCurriculum):
    """Draws a problem in proportion to 1 - p (Kimi k1.5, Kimi Team 2025, arXiv 2501.12599).

    p is the mean of a Beta belief with ``curriculum.discount``, so that it is never quite 0 or 1,
    and 1/2 for a problem that was never tried.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._beliefs = Beliefs(config.discount)
        super().__init__(problems, config, seed)

    def predict(self, problem: Problem) -> float:
        """The mean of the problem's belief."""
        return self._beliefs.mean(problem.id)

    def _choose(self, n: int) -> Iterator[str]:
        weights = {name: 1.0 - self._beliefs.mean(name) for name in self._problems}
        return choose_weighted(weights, n, self._rng)

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        self._beliefs.observe(problem.id, solved, len(group.rollouts))

    def _dump(self) -> dict[str, Any]:
        return {"beliefs": self._beliefs.dump()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._beliefs.load(state["beliefs"])
