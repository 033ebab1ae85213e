"""Curricula over arms: problems of one category are one arm, and a draw chooses arms. What groups
say is kept until the next draw, so that a batch counts as one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.config.curriculum import CategoryField, InsideName
from proverrl.curriculum.base import Curriculum, list_advantages, operator_of
from proverrl.curriculum.beliefs import Beliefs, open_beliefs, pick_problems
from proverrl.errors import RunError
from proverrl.types import Group, Problem

FIELDS: dict[CategoryField, Callable[[Problem], str]] = {
    "language": lambda problem: problem.language,
    "kind": lambda problem: problem.kind,
    "origin": lambda problem: problem.origin,
    "operator": operator_of,
    "family": lambda problem: problem.family,
    "level": lambda problem: str(problem.level),
}


def name_category(problem: Problem, fields: Sequence[CategoryField]) -> str:
    """The category of a problem, such as ``dafny/l1_acc/1``."""
    return "/".join(FIELDS[field](problem) for field in fields)


def softmax(values: Sequence[float], temperature: float) -> list[float]:
    """Shares in proportion to exp(value / temperature)."""
    highest = max(values)
    weights = [math.exp((value - highest) / temperature) for value in values]
    total = sum(weights)
    return [weight / total for weight in weights]


@dataclass
class Batch:
    """What an arm's groups since the last draw came to."""

    advantage: float = 0.0
    solved: int = 0
    rollouts: int = 0

    @property
    def mean_advantage(self) -> float:
        """Over rollouts, not divided by any deviation."""
        return self.advantage / self.rollouts


class ArmCurriculum(Curriculum):
    """Draws an arm by its share, then a problem of the arm: the least visited one, or with ``inside
    = "mopps"`` the one that MoPPS would take. No problem comes twice in a draw as long as an arm
    with a share has others."""

    inside: InsideName = "uniform"

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._arms: dict[str, list[str]] = {}
        self._pending: dict[str, Batch] = {}
        self._beliefs: Beliefs | None = (
            open_beliefs(config.mopps) if self.inside == "mopps" else None
        )
        super().__init__(problems, config, seed)

    def predict(self, problem: Problem) -> float:
        return self._beliefs.mean(problem.id) if self._beliefs else super().predict(problem)

    def _choose(self, n: int) -> Iterator[str]:
        if self._pending:
            self._settle(self._pending)
            self._pending = {}
        taken: dict[str, set[str]] = {arm: set() for arm in self._arms}
        shares = self._shares()
        for _ in range(n):
            arm, names = self._choose_arm(shares, taken)
            name = self._pick(names)
            taken[arm].add(name)
            yield name

    def _choose_arm(
        self, shares: Mapping[str, float], taken: dict[str, set[str]]
    ) -> tuple[str, list[str]]:
        """An arm by its share, and those of its problems that are not taken in this draw; when
        every arm with a share is exhausted, all may be taken again."""
        arms = [arm for arm in self._arms if shares[arm] > 0.0]
        left = [arm for arm in arms if len(taken[arm]) < len(self._arms[arm])]
        if not left:
            for arm in arms:
                taken[arm].clear()
            left = arms
        arm = self._rng.choices(left, [shares[arm] for arm in left])[0]
        return arm, [name for name in self._arms[arm] if name not in taken[arm]]

    def _pick(self, names: list[str]) -> str:
        if self._beliefs is None:
            return self._least_visited(names)
        return pick_problems(names, 1, self._beliefs, self._config.mopps, self._rng)[0]

    def _arm(self, problem: Problem) -> str:
        return name_category(problem, self._config.categories)

    @abstractmethod
    def _shares(self) -> Mapping[str, float]:
        """The weight of every arm in the next draw."""

    def _settle(self, batches: Mapping[str, Batch]) -> None:
        """Learn from what came back since the last draw."""

    def _admit(self, problem: Problem) -> None:
        self._arms.setdefault(self._arm(problem), []).append(problem.id)

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        total = len(group.rollouts)
        if self._beliefs is not None:
            self._beliefs.observe(problem.id, solved, total)
        batch = self._pending.setdefault(self._arm(problem), Batch())
        batch.advantage += sum(list_advantages(group))
        batch.solved += solved
        batch.rollouts += total

    def check_arms(self, stored: Iterable[str]) -> None:
        """Raise ``RunError`` when a checkpoint knows other arms than this run's problems make."""
        differ = sorted({*stored} ^ {*self._arms})
        if differ:
            raise RunError(
                f"the checkpoint's curriculum has other categories than this run: {differ[0]!r}; "
                "give the run its problem file back, or start a new run"
            )

    def _dump(self) -> dict[str, Any]:
        pending = {a: [b.advantage, b.solved, b.rollouts] for a, b in self._pending.items()}
        return {"pending": pending, "beliefs": self._beliefs.dump() if self._beliefs else {}}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._pending = {arm: Batch(*values) for arm, values in state["pending"].items()}
        if self._beliefs is not None:
            self._beliefs.load(state["beliefs"])
