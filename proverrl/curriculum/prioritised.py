"""Prioritised sampling: the less a problem is solved, the more often it comes.

Flows in: groups. Flows out: problems. Not handled here: problems that nobody can solve; they come
most often of all, which ``pools`` and ``sws`` avoid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import BeliefCurriculum, choose_weighted
from proverrl.curriculum.beliefs import Beliefs
from proverrl.types import Problem


class PrioritisedCurriculum(BeliefCurriculum):
    """Draws a problem in proportion to 1 - p (Kimi k1.5, Kimi Team 2025, arXiv 2501.12599).

    p is the mean of a Beta belief with ``curriculum.discount``, so that it is never quite 0 or 1,
    and 1/2 for a problem that was never tried.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._beliefs = Beliefs(config.discount)
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        weights = {name: 1.0 - self._beliefs.mean(name) for name in self._problems}
        return choose_weighted(weights, n, self._rng)
