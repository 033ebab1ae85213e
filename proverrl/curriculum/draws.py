"""What a curriculum drew: counts by level, family and operator, and the solve rates it expected."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proverrl.types import Problem


def operator_of(problem: Problem) -> str:
    """The operator that composed a problem, empty for a given one: ``operator`` in the metadata's
    ``lineage`` or, where the metadata has ``parents``, its ``family``."""
    lineage = problem.metadata.get("lineage")
    if isinstance(lineage, Mapping):
        return str(lineage.get("operator", ""))
    return problem.family if problem.metadata.get("parents") else ""


def entropy(counts: Iterable[int]) -> float:
    """Shannon entropy in nats of shares given as counts; 0 of nothing and of a single share."""
    kept = [count for count in counts if count > 0]
    total = sum(kept)
    # 0.0 - x, so that a single share gives 0.0 and not -0.0.
    return 0.0 - sum(count / total * math.log(count / total) for count in kept)


@dataclass
class DrawLog:
    """Counts since they were last taken. ``num_new`` are problems that were never drawn before."""

    num: int = 0
    num_new: int = 0
    predicted: float = 0.0
    levels: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)

    def note(self, problem: Problem, predicted: float, *, new: bool) -> None:
        """Count one drawn problem, of which a share ``predicted`` of attempts is expected to be
        proved."""
        self.num += 1
        self.num_new += new
        self.predicted += predicted
        self.levels[str(problem.level)] += 1
        self.families[problem.family] += 1
        if operator := operator_of(problem):
            self.operators[operator] += 1

    def take(self) -> dict[str, Any]:
        """The figures since the last call, and begin again; nothing when nothing was drawn. Means
        of level and expected solve rate; the entropy is that of the families drawn, in nats."""
        if self.num == 0:
            return {}
        levels = sum(int(level) * count for level, count in self.levels.items())
        figures: dict[str, Any] = {
            "curriculum_drawn": self.num,
            "curriculum_new": self.num_new,
            "curriculum_level": levels / self.num,
            "curriculum_predicted": self.predicted / self.num,
            "curriculum_entropy": entropy(self.families.values()),
            "curriculum_levels": dict(sorted(self.levels.items())),
            "curriculum_families": dict(sorted(self.families.items())),
        }
        if self.operators:
            figures["curriculum_operators"] = dict(sorted(self.operators.items()))
        self.load(DrawLog().dump())
        return figures

    def dump(self) -> dict[str, Any]:
        counts = {"levels": self.levels, "families": self.families, "operators": self.operators}
        figures = {"num": self.num, "num_new": self.num_new, "predicted": self.predicted}
        return figures | {name: dict(counter) for name, counter in counts.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, Counter(value) if isinstance(value, Mapping) else value)
