"""The curriculum that prefers nothing. Flows in: problems. Flows out: each of them in turn.

Not handled here: what became of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import ProblemCurriculum
from proverrl.types import Problem


class UniformCurriculum(ProblemCurriculum):
    """Every problem once in random order, then again in another order.

    A problem that is added takes a random place among those that are left.
    """

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
