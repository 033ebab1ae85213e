"""Difficulty pools: problems that are neither easy nor hard come five times as often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proverrl.config import CurriculumConfig
from proverrl.config.curriculum import PoolsConfig
from proverrl.curriculum.base import Curriculum, choose_weighted
from proverrl.types import Group, Problem

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
