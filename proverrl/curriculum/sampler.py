"""The curricula by name, and those in which every problem stands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.config.curriculum import PoolsConfig
from proverrl.curriculum.base import BeliefCurriculum, Curriculum, choose_weighted
from proverrl.curriculum.beliefs import Beliefs, open_beliefs, pick_problems
from proverrl.curriculum.categories import (
    CbrlCurriculum,
    DumpCurriculum,
    SecCurriculum,
    SwsCurriculum,
)
from proverrl.plugins import choose, refuse
from proverrl.types import Group, Problem


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


PoolName = Literal["normal", "easy", "hard", "retired", "parked"]


@dataclass
class Record:
    """A problem's latest solve rate, how many groups in a row were all proved or all failed, and
    the number of groups that had come back, of any problem, when this one's last did."""

    rate: float
    run: int = 0
    seen: int = 0


def name_pool(record: Record | None, num_seen: int, settings: PoolsConfig) -> PoolName:
    """The pool of a problem when ``num_seen`` groups have come back. By its latest rate: ``hard``
    up to ``hard``, ``normal`` up to ``easy``, else ``easy``, as prime-rl's pools are (thresholds
    0.25 and 0.75); ``normal`` before it was tried. Ours: after ``retire_after`` groups in a row
    that were all proved it is ``retired``, after ``park_after`` that all failed ``parked``, neither
    of which is drawn, until ``rest`` more groups have come back. 0 of the first two never lets a
    problem rest, 0 of the last never wakes one."""
    if record is None:
        return "normal"
    resting = settings.rest == 0 or num_seen - record.seen < settings.rest
    if resting and record.rate == 1.0 and 0 < settings.retire_after <= record.run:
        return "retired"
    if resting and record.rate == 0.0 and 0 < settings.park_after <= record.run:
        return "parked"
    if record.rate <= settings.hard:
        return "hard"
    return "normal" if record.rate <= settings.easy else "easy"


class MoppsCurriculum(BeliefCurriculum):
    """The problems of ``pick_problems``; expects of each the mean of its belief."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._beliefs = open_beliefs(config.mopps)
        super().__init__(problems, config, seed)

    def _choose(self, n: int) -> Iterator[str]:
        names = list(self._problems)
        while n > 0:
            chosen = pick_problems(names, n, self._beliefs, self._config.mopps, self._rng)
            yield from chosen
            n -= len(chosen)


class PoolsCurriculum(Curriculum):
    """Draws each problem with the weight of its pool (``name_pool``). When all rest, all count as
    ``normal``."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._records: dict[str, Record] = {}
        self._num_seen = 0
        settings = config.pools
        self._weights: dict[PoolName, float] = {
            "normal": settings.normal_weight,
            "easy": settings.easy_weight,
            "hard": settings.hard_weight,
            "retired": 0.0,
            "parked": 0.0,
        }
        super().__init__(problems, config, seed)

    def predict(self, problem: Problem) -> float:
        record = self._records.get(problem.id)
        return super().predict(problem) if record is None else record.rate

    def pool_of(self, name: str) -> PoolName:
        return name_pool(self._records.get(name), self._num_seen, self._config.pools)

    def _choose(self, n: int) -> Iterator[str]:
        weights = {name: self._weights[self.pool_of(name)] for name in self._problems}
        if not any(weights.values()):
            weights = dict.fromkeys(weights, 1.0)
        return choose_weighted(weights, n, self._rng)

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        rate = solved / len(group.rollouts)
        self._num_seen += 1
        before = self._records.get(problem.id)
        same = before is not None and before.rate == rate
        run = (before.run if before is not None and same else 0) + 1 if rate in (0.0, 1.0) else 0
        self._records[problem.id] = Record(rate, run, self._num_seen)

    def _dump(self) -> dict[str, Any]:
        records = {name: [r.rate, r.run, r.seen] for name, r in self._records.items()}
        return {"records": records, "num_seen": self._num_seen}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._records = {name: Record(*values) for name, values in state["records"].items()}
        self._num_seen = int(state["num_seen"])

    def _figures(self) -> dict[str, Any]:
        counts = Counter(self.pool_of(name) for name in self._problems)
        return {"curriculum_pools": {pool: counts[pool] for pool in self._weights}}


def open_curriculum(problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> Curriculum:
    """The configured curriculum. Raises ``UsageError`` for a plug-in that cannot be used or gives
    something else."""
    name = config.name
    found = choose("curriculum", CURRICULA, name, config.options)(problems, config, seed)
    if not isinstance(found, Curriculum):
        wanted = "a proverrl.curriculum.base.Curriculum"
        raise refuse("curriculum", name, found, f"{len(problems)} problems", wanted)
    return found


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
