"""The curricula by name, and the simplest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.curriculum.bandits import DumpCurriculum, SecCurriculum
from proverrl.curriculum.base import BeliefCurriculum, Curriculum, choose_weighted
from proverrl.curriculum.beliefs import Beliefs
from proverrl.curriculum.cbrl import CbrlCurriculum
from proverrl.curriculum.mopps import MoppsCurriculum
from proverrl.curriculum.pools import PoolsCurriculum
from proverrl.curriculum.sws import SwsCurriculum
from proverrl.types import Problem


class UniformCurriculum(Curriculum):
    """Every problem once in random order, then again in another order. A problem that is added
    takes a random place among those that are left."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._left: list[str] = []
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        for _ in range(n):
            if not self._left:
                self._left = sorted(self._problems)
                self._rng.shuffle(self._left)
            yield self._left.pop()

    def _admit(self, problem: Problem) -> None:
        # With an empty list the next pass, which has all problems, is not shuffled yet.
        if self._left:
            self._left.insert(self._rng.randrange(len(self._left) + 1), problem.id)

    def _dump(self) -> dict[str, Any]:
        return {"left": list(self._left)}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._left = [name for name in state["left"] if name in self._problems]


class PosteriorCurriculum(Curriculum):
    """Draws families whose solve rate is near one half, and in them the least visited problem. Each
    family carries a Beta posterior over its solve rate, discounted so that it follows the policy
    (MoPPS, Qu et al. 2025, arXiv 2507.04632). A draw samples one rate p per family and takes
    families in proportion to p (1 - p) + floor: the expected share of mixed groups is largest
    there, and no family is ever left behind. It suits many problems of few kinds, where a single
    problem is visited too rarely to have a posterior of its own."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._families: dict[str, list[str]] = {}
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        families = list(self._families)
        taken: set[str] = set()
        for _ in range(n):
            rates = [self._rng.betavariate(*self._posterior[family]) for family in families]
            weights = [rate * (1.0 - rate) + self._config.floor for rate in rates]
            names = self._families[self._rng.choices(families, weights)[0]]
            name = self._least_visited([m for m in names if m not in taken] or names)
            taken.add(name)
            yield name

    def _admit(self, problem: Problem) -> None:
        self._families.setdefault(problem.family, []).append(problem.id)


class PrioritisedCurriculum(BeliefCurriculum):
    """Draws a problem in proportion to 1 - p (Kimi k1.5, Kimi Team 2025, arXiv 2501.12599). p is
    the mean of a Beta belief with ``curriculum.discount``, 1/2 for a problem that was never tried.
    Problems that nobody can solve come most often of all, which ``pools`` and ``sws`` avoid."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._beliefs = Beliefs(config.discount)
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        weights = {name: 1.0 - self._beliefs.mean(name) for name in self._problems}
        return choose_weighted(weights, n, self._rng)


CURRICULA: dict[
    CurriculumName, Callable[[Sequence[Problem], CurriculumConfig, int], Curriculum]
] = {
    "uniform": UniformCurriculum,
    "posterior": PosteriorCurriculum,
    "prioritised": PrioritisedCurriculum,
    "mopps": MoppsCurriculum,
    "sec": SecCurriculum,
    "dump": DumpCurriculum,
    "cbrl": CbrlCurriculum,
    "sws": SwsCurriculum,
    "pools": PoolsCurriculum,
}
