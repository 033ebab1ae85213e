"""MoPPS's posterior with families as arms: the default curriculum.

Flows in: groups. Flows out: problems of families whose solve rate is near one half. It differs
from ``mopps`` in two ways that suit many problems of few kinds. A single problem is visited too
rarely to have a posterior of its own, so a family has one; and instead of the nearest to one half
of a pool of candidates, families are drawn in proportion, so that none is ever left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import ProblemCurriculum
from proverrl.types import Problem


class PosteriorCurriculum(ProblemCurriculum):
    """Draws families whose solve rate is near one half, and in them the least visited problem.

    Each family carries a Beta posterior over its solve rate, updated with a discount so that it
    follows the policy (MoPPS, Qu et al. 2025, arXiv 2507.04632). A draw samples one rate p a
    family and takes families in proportion to p (1 - p) + floor: the expected share of mixed
    groups is largest there, and the floor keeps every family alive.
    """

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
