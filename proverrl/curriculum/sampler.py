"""The curricula by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.curriculum.base import Curriculum
from proverrl.plugins import choose, refuse
from proverrl.types import Problem

FLOOR = 0.02
"""Added to every family's weight, so that none is forgotten."""


class UniformCurriculum(Curriculum):
    """Every problem once in random order, then again in another order. A problem that is added
    takes a random place among those that are left."""

    def __init__(self, problems: Sequence[Problem], seed: int) -> None:
        self._left: list[str] = []
        super().__init__(problems, seed)

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

    def __init__(self, problems: Sequence[Problem], seed: int) -> None:
        self._families: dict[str, list[str]] = {}
        super().__init__(problems, seed)

    def _choose(self, n: int) -> Iterator[str]:
        families = list(self._families)
        taken: set[str] = set()
        for _ in range(n):
            rates = [self._rng.betavariate(*self._posterior[family]) for family in families]
            weights = [rate * (1.0 - rate) + FLOOR for rate in rates]
            names = self._families[self._rng.choices(families, weights)[0]]
            name = self._least_visited([m for m in names if m not in taken] or names)
            taken.add(name)
            yield name

    def _admit(self, problem: Problem) -> None:
        self._families.setdefault(problem.family, []).append(problem.id)


def open_curriculum(problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> Curriculum:
    """The configured curriculum. Raises ``UsageError`` for a plug-in that cannot be used or gives
    something else."""
    name = config.name
    found = choose("curriculum", CURRICULA, name, config.options)(problems, seed)
    if not isinstance(found, Curriculum):
        wanted = "a proverrl.curriculum.base.Curriculum"
        raise refuse("curriculum", name, found, f"{len(problems)} problems", wanted)
    return found


CURRICULA: dict[CurriculumName, Callable[[Sequence[Problem], int], Curriculum]] = {
    "uniform": UniformCurriculum,
    "posterior": PosteriorCurriculum,
}
