"""A curriculum over difficulty, which goes up while more than half is solved (CBRL)."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import Curriculum
from proverrl.types import Group, Problem


def difficulty_of(problem: Problem) -> float:
    """``difficulty`` of the metadata where it is a number, else the level."""
    value = problem.metadata.get("difficulty")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(problem.level)


class CbrlCurriculum(Curriculum):
    """A closed loop on difficulty (InternGeometry's CBRL, 2025, arXiv 2512.10534). After a batch
    (what came back between two draws) the difficulty rises by ``step`` if more than ``target`` of
    its rollouts was proved, and falls by it if less was, within the difficulties that exist. A draw
    takes the two that are nearest on either side, each in proportion to how near it is, and of one
    the least visited problem; none comes twice in a draw while there are others. The paper's knob
    is the number of proof steps; ours is the level, or ``difficulty`` in a problem's metadata.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._names: dict[float, list[str]] = {}
        self._steps: list[float] = []
        self._knob = config.cbrl.start
        self._solved = self._rollouts = 0
        super().__init__(problems, config, seed)

    @property
    def difficulty(self) -> float:
        """Where the controller stands."""
        if not self._steps:
            return self._knob
        return min(max(self._knob, self._steps[0]), self._steps[-1])

    def _choose(self, n: int) -> Iterator[str]:
        self._settle()
        shares, taken = self._share(), set[str]()
        for _ in range(n):
            left = [step for step in shares if not taken.issuperset(self._names[step])]
            if not left:
                taken.clear()
                left = list(shares)
            step = self._rng.choices(left, [shares[step] for step in left])[0]
            name = self._least_visited([name for name in self._names[step] if name not in taken])
            taken.add(name)
            yield name

    def _settle(self) -> None:
        """Learn from what came back since the last draw."""
        if not self._rollouts:
            return
        settings, rate = self._config.cbrl, self._solved / self._rollouts
        self._solved = self._rollouts = 0
        self._knob = self.difficulty
        if rate != settings.target:
            self._knob += settings.step if rate > settings.target else -settings.step

    def _share(self) -> dict[float, float]:
        """The difficulties of the next draw, with their weights."""
        difficulty = self.difficulty
        place = bisect.bisect_left(self._steps, difficulty)
        above = self._steps[place]
        if above == difficulty:
            return {above: 1.0}
        below = self._steps[place - 1]
        share = (difficulty - below) / (above - below)
        return {below: 1.0 - share, above: share}

    def _admit(self, problem: Problem) -> None:
        difficulty = difficulty_of(problem)
        if difficulty not in self._names:
            bisect.insort(self._steps, difficulty)
        self._names.setdefault(difficulty, []).append(problem.id)

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        self._solved += solved
        self._rollouts += len(group.rollouts)

    def _dump(self) -> dict[str, Any]:
        return {"knob": self._knob, "batch": [self._solved, self._rollouts]}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._knob = float(state["knob"])
        self._solved, self._rollouts = state["batch"]

    def _figures(self) -> dict[str, Any]:
        return {"curriculum_difficulty": self.difficulty}
