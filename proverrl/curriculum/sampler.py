"""Curricula that draw from a fixed set of problems.

Flows in: problems, and the groups that came back. Flows out: the problems of the next draw.
State is a few counts, saved in the checkpoint. Not handled here: problems that are composed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.errors import RunError
from proverrl.types import Group, Problem, Status


class Curriculum(Protocol):
    """Draws problems and learns from what became of them."""

    def draw(self, n: int) -> list[Problem]: ...
    def observe(self, group: Group) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def metrics(self) -> dict[str, float]: ...


class UniformCurriculum:
    """Every problem once in random order, then again in another order."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._problems = {problem.id: problem for problem in problems}
        self._rng = random.Random(seed)
        self._left: list[str] = []

    def draw(self, n: int) -> list[Problem]:
        """``n`` problems; repeats only when fewer exist."""
        drawn = []
        for _ in range(n):
            if not self._left:
                self._left = sorted(self._problems)
                self._rng.shuffle(self._left)
            drawn.append(self._problems[self._left.pop()])
        return drawn

    def observe(self, group: Group) -> None:
        """Nothing is learned from a group."""

    def state_dict(self) -> dict[str, Any]:
        return {"rng": dump_rng(self._rng), "left": list(self._left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_rng(self._rng, state["rng"])
        self._left = list(state["left"])

    def metrics(self) -> dict[str, float]:
        return {"curriculum_left": float(len(self._left))}


class PosteriorCurriculum:
    """Draws families whose solve rate is near one half, and in them the least visited problem.

    Each family carries a Beta posterior over its solve rate, updated with a discount so that it
    follows the policy (MoPPS, Qu et al. 2025, arXiv 2507.04632, with families as arms: a single
    problem is visited too rarely to have a posterior of its own). A draw samples one rate p a
    family and takes families in proportion to p (1 - p) + floor: the expected share of mixed
    groups is largest there, and the floor keeps every family alive.
    """

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._families: dict[str, list[Problem]] = {}
        for problem in problems:
            self._families.setdefault(problem.family, []).append(problem)
        self._config = config
        self._rng = random.Random(seed)
        self._posterior = {family: [1.0, 1.0] for family in self._families}
        self._visits: dict[str, int] = {}

    def draw(self, n: int) -> list[Problem]:
        """``n`` problems, each at most once a draw while its family has others."""
        families = list(self._families)
        drawn: list[Problem] = []
        taken: set[str] = set()
        for _ in range(n):
            rates = [self._rng.betavariate(*self._posterior[family]) for family in families]
            weights = [rate * (1.0 - rate) + self._config.floor for rate in rates]
            family = self._rng.choices(families, weights)[0]
            problem = self._pick(family, taken)
            taken.add(problem.id)
            self._visits[problem.id] = self._visits.get(problem.id, 0) + 1
            drawn.append(problem)
        return drawn

    def observe(self, group: Group) -> None:
        """Discount the family's counts towards (1, 1), then add the group's outcomes."""
        solved = sum(rollout.status is Status.PROVED for rollout in group.rollouts)
        posterior = self._posterior[group.rollouts[0].problem.family]
        keep = self._config.discount
        posterior[0] = keep * posterior[0] + (1 - keep) + solved
        posterior[1] = keep * posterior[1] + (1 - keep) + len(group.rewards) - solved

    def state_dict(self) -> dict[str, Any]:
        return {
            "rng": dump_rng(self._rng),
            "posterior": self._posterior,
            "visits": self._visits,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state["posterior"]) != set(self._families):
            raise RunError("the checkpoint's curriculum has other problem families than this run")
        load_rng(self._rng, state["rng"])
        self._posterior = {family: list(ab) for family, ab in state["posterior"].items()}
        self._visits = dict(state["visits"])

    def metrics(self) -> dict[str, float]:
        rates = [a / (a + b) for a, b in self._posterior.values()]
        return {
            "curriculum_visited": float(len(self._visits)),
            "curriculum_mean_rate": sum(rates) / len(rates),
        }

    def _pick(self, family: str, taken: set[str]) -> Problem:
        pool = [p for p in self._families[family] if p.id not in taken] or self._families[family]
        fewest = min(self._visits.get(problem.id, 0) for problem in pool)
        return self._rng.choice([p for p in pool if self._visits.get(p.id, 0) == fewest])


CURRICULA: dict[
    CurriculumName, Callable[[Sequence[Problem], CurriculumConfig, int], Curriculum]
] = {
    "uniform": UniformCurriculum,
    "posterior": PosteriorCurriculum,
}


def dump_rng(rng: random.Random) -> list[Any]:
    """A generator's state as JSON values."""
    version, internal, gauss = rng.getstate()
    return [version, list(internal), gauss]


def load_rng(rng: random.Random, state: list[Any]) -> None:
    """Set a generator to what ``dump_rng`` wrote."""
    version, internal, gauss = state
    rng.setstate((version, tuple(internal), gauss))
