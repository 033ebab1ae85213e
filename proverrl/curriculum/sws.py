"""SwS: the weaker a category, the larger its part of the draws and of what is composed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.config import CurriculumConfig
from proverrl.curriculum.arms import ArmCurriculum
from proverrl.types import Group, Problem


def split_budget(weights: Mapping[str, float], n: int) -> dict[str, int]:
    """``n`` in whole parts in proportion to weights: the floors first, then one more to the
    largest remainders, the earlier of equal ones first."""
    total = sum(weights.values())
    exact = {name: n * weight / total for name, weight in weights.items()}
    parts = {name: int(value) for name, value in exact.items()}
    order = sorted(exact, key=lambda name: parts[name] - exact[name])
    for name in order[: n - sum(parts.values())]:
        parts[name] += 1
    return parts


class SwsCurriculum(ArmCurriculum):
    """Budgets by weakness (SwS, Liang et al. 2025, arXiv 2506.08989). A problem fails while less
    than ``weak`` of its latest group was proved. A category weighs its failure ratio, (failing + 1)
    / (tried + 2). Of its problems those may be drawn that were never tried or whose latest rate
    lies in [``low``, ``high``]; a share ``recheck`` of draws goes to the others, since the policy
    changes. The paper fixes weaknesses in a first run; here they follow the policy."""

    def __init__(self, problems: Sequence[Problem], config: CurriculumConfig, seed: int) -> None:
        self._latest: dict[str, float] = {}
        super().__init__(problems, config, seed)

    def keeps(self, rate: float) -> bool:
        """Whether a problem that is solved at this rate is worth training on."""
        return self._config.sws.low <= rate <= self._config.sws.high

    def budgets(self, n: int) -> dict[str, int]:
        """How many of ``n`` new problems each category should get."""
        return split_budget(self._shares(), n)

    def _shares(self) -> Mapping[str, float]:
        return {arm: self._failure_ratio(names) for arm, names in self._arms.items()}

    def _failure_ratio(self, names: Sequence[str]) -> float:
        rates = [self._latest[name] for name in names if name in self._latest]
        failing = sum(rate < self._config.sws.weak for rate in rates)
        return (failing + 1) / (len(rates) + 2)

    def _choose_arm(
        self, shares: Mapping[str, float], taken: dict[str, set[str]]
    ) -> tuple[str, list[str]]:
        """Of what is worth drawing, or of the rest in a share ``recheck`` of draws; of the other
        where there is none of the one."""
        kept, rest = [], []
        for arm, names in self._arms.items():
            free = [name for name in names if name not in taken[arm]]
            worth = [n for n in free if n not in self._latest or self.keeps(self._latest[n])]
            if worth:
                kept.append((arm, worth))
            if len(worth) < len(free):
                chosen = set(worth)
                rest.append((arm, [name for name in free if name not in chosen]))
        rechecks = self._rng.random() < self._config.sws.recheck
        left = (rest or kept) if rechecks else (kept or rest)
        if not left:
            for used in taken.values():
                used.clear()
            return self._choose_arm(shares, taken)
        return self._rng.choices(left, [shares[arm] for arm, _ in left])[0]

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:
        super()._learn(problem, solved, group)
        self._latest[problem.id] = solved / len(group.rollouts)

    def _dump(self) -> dict[str, Any]:
        return super()._dump() | {"latest": dict(self._latest)}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._latest = {name: float(rate) for name, rate in state["latest"].items()}

    def _figures(self) -> dict[str, Any]:
        shares = self._shares()
        if not shares:
            return {}
        weakest = max(shares, key=shares.__getitem__)
        kept = sum(self.keeps(rate) for rate in self._latest.values())
        return {
            "curriculum_weakest": weakest,
            "curriculum_failure_ratio": shares[weakest],
            "curriculum_kept": kept,
        }
