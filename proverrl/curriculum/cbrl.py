"""CBRL's controller: difficulty goes up while more than half is solved, and down while less is."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum, Batch
from proverrl.types import Problem


def difficulty_of(problem: Problem) -> float:
    """``difficulty`` of the metadata where it is a number, else the level."""
    value = problem.metadata.get("difficulty")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(problem.level)


class CbrlCurriculum(ArmCurriculum):
    """A closed loop on difficulty (InternGeometry's CBRL, 2025, arXiv 2512.10534). After a batch
    (what came back between two draws) the difficulty rises by ``step`` if more than ``target`` of
    its rollouts was proved, and falls by it if less was, within the difficulties that exist. A draw
    takes the two that are nearest on either side, each in proportion to how near it is. The paper's
    knob is the number of proof steps; ours is the level, or ``difficulty`` in a problem's metadata.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self.inside = config.cbrl.inside
        self._steps: list[float] = []
        self._knob = config.cbrl.start
        super().__init__(problems, config, seed)

    @property
    def difficulty(self) -> float:
        """Where the controller stands; what a composer should aim at."""
        if not self._steps:
            return self._knob
        return min(max(self._knob, self._steps[0]), self._steps[-1])

    def _arm(self, problem: Problem) -> str:
        return repr(difficulty_of(problem))

    def _shares(self) -> Mapping[str, float]:
        difficulty = self.difficulty
        place = bisect.bisect_left(self._steps, difficulty)
        above = self._steps[place]
        if above == difficulty:
            return {arm: float(arm == repr(above)) for arm in self._arms}
        below = self._steps[place - 1]
        share = (difficulty - below) / (above - below)
        near = {repr(below): 1.0 - share, repr(above): share}
        return {arm: near.get(arm, 0.0) for arm in self._arms}

    def _settle(self, batches: Mapping[str, Batch]) -> None:
        settings = self._config.cbrl
        rollouts = sum(batch.rollouts for batch in batches.values())
        rate = sum(batch.solved for batch in batches.values()) / rollouts
        self._knob = self.difficulty
        if rate != settings.target:
            self._knob += settings.step if rate > settings.target else -settings.step

    def _admit(self, problem: Problem) -> None:
        super()._admit(problem)
        difficulty = difficulty_of(problem)
        if difficulty not in self._steps:
            bisect.insort(self._steps, difficulty)

    def _dump(self) -> dict[str, Any]:
        return super()._dump() | {"knob": self._knob}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._knob = float(state["knob"])

    def _figures(self) -> dict[str, Any]:
        return {"curriculum_difficulty": self.difficulty}
