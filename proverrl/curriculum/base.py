"""The common part of all curricula, and beliefs about solve rates.

Flows in: problems, at the start and later (composed ones), and the groups that came back. Flows
out: the problems of the next draw, and figures of what was drawn. The state holds everything that
decides the next draw, added problems included, so that a resumed run draws the same.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proverrl.errors import ProblemError, RunError
from proverrl.problems.load import make_row
from proverrl.types import Group, Problem, Status

DISCOUNT = 0.9
"""The share of the past that still counts after each new group, for a family's solve rate."""

Belief = list[float]
"""The two parameters of a Beta distribution, for proofs and failures; [1, 1] knows nothing."""


def update_belief(belief: Belief, solved: int, total: int, discount: float) -> None:
    """Let a belief fade towards [1, 1], then count a group: with discount d, each parameter x
    becomes d x + (1 - d) plus the new proofs or failures (MoPPS, Qu et al. 2025,
    arXiv 2507.04632). d = 1 forgets nothing; below 1 it follows a policy that changes."""
    belief[0] = discount * belief[0] + (1.0 - discount) + solved
    belief[1] = discount * belief[1] + (1.0 - discount) + total - solved


def mean_rate(belief: Belief) -> float:
    """The expected solve rate."""
    return belief[0] / (belief[0] + belief[1])


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


class Curriculum(ABC):
    """Draws problems and learns from what became of them. A curriculum says what comes next
    (``_choose``), and may learn from groups (``_learn``), from new problems (``_admit``) and
    predict solve rates. Fields that ``_admit`` reads are set before this class's ``__init__`` is
    called."""

    def __init__(self, problems: Sequence[Problem], seed: int) -> None:
        self._rng = random.Random(seed)
        self._problems: dict[str, Problem] = {}
        self._added: list[str] = []
        self._posterior: dict[str, Belief] = {}
        self._visits: dict[str, int] = {}
        self._log = DrawLog()
        for problem in problems:
            self._take(problem)
        self._first_families = sorted(self._posterior)

    def draw(self, n: int) -> list[Problem]:
        """``n`` problems; repeats within a draw only where a choice leaves no other. Raises
        ``RunError`` if there is no problem to draw."""
        if n == 0:
            return []
        if not self._problems:
            raise RunError("the curriculum has no problems; check problems.train")
        drawn = []
        for name in self._choose(n):
            problem, visits = self._problems[name], self._visits.get(name, 0)
            self._log.note(problem, self.predict(problem), new=visits == 0)
            self._visits[name] = visits + 1
            drawn.append(problem)
        return drawn

    def observe(self, group: Group) -> None:
        """Count a group's proofs. Raises ``RunError`` if the curriculum was never given the group's
        problem."""
        name = group.rollouts[0].problem.id
        problem = self._problems.get(name)
        if problem is None:
            raise RunError(f"problem {name!r} is not in the curriculum; add it before a draw")
        solved = sum(rollout.status is Status.PROVED for rollout in group.rollouts)
        total = len(group.rollouts)
        update_belief(self._posterior[problem.family], solved, total, DISCOUNT)
        self._learn(problem, solved, group)

    def add(self, problems: Iterable[Problem]) -> None:
        """Problems that arrive during a run; one that is known already, text and all, is left out.
        Raises ``ProblemError`` if another problem has the same id."""
        for problem in problems:
            known = self._problems.get(problem.id)
            if known is None:
                self._take(problem)
                self._added.append(problem.id)
            elif make_row(known) != make_row(problem):
                raise ProblemError(
                    f"problem {problem.id!r} is in the curriculum with another text; "
                    "give every problem its own id"
                )

    def predict(self, problem: Problem) -> float:
        """The solve rate that is expected of a problem: by default its family's."""
        return mean_rate(self._posterior[problem.family])

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON values. ``posterior`` holds each family's Beta parameters."""
        return {
            "families": self._first_families,
            "added": [make_row(self._problems[name]) for name in self._added],
            "rng": dump_rng(self._rng),
            "posterior": {family: list(belief) for family, belief in self._posterior.items()},
            "visits": dict(self._visits),
            "draws": self._log.dump(),
            **self._dump(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the state that ``state_dict`` wrote, before any ``add``. Problems that are gone from
        the run's file are forgotten. Raises ``RunError`` if the run has other families of problems
        than the checkpoint, or some were added first."""
        if state["families"] != self._first_families:
            raise RunError(
                "the checkpoint's curriculum was given other problems than this run has: their "
                "families differ; give the run its problem file back, or start a new run"
            )
        if self._added:
            raise RunError("load the curriculum's state before adding problems; it holds them")
        self.add(Problem(**row) for row in state["added"])
        load_rng(self._rng, state["rng"])
        # In the order of the problems, which decides what a random number chooses.
        self._posterior = {
            family: [float(value) for value in state["posterior"][family]]
            for family in self._posterior
        }
        self._visits = dict(state["visits"])
        self._log.load(state["draws"])
        self._load(state)

    def metrics(self) -> dict[str, Any]:
        """The number of problems, and the draws since the last call."""
        rates = [mean_rate(belief) for belief in self._posterior.values()]
        return {
            "curriculum_problems": len(self._problems),
            "curriculum_added": len(self._added),
            "curriculum_visited": len(self._visits),
            "curriculum_mean_rate": sum(rates) / len(rates) if rates else 0.0,
            **self._log.take(),
            **self._figures(),
        }

    def _take(self, problem: Problem) -> None:
        self._problems[problem.id] = problem
        self._posterior.setdefault(problem.family, [1.0, 1.0])
        self._admit(problem)

    def _least_visited(self, names: Sequence[str]) -> str:
        fewest = min(self._visits.get(name, 0) for name in names)
        return self._rng.choice([n for n in names if self._visits.get(n, 0) == fewest])

    @abstractmethod
    def _choose(self, n: int) -> Iterator[str]:
        """Ids of the next ``n`` problems; each counts as visited before the next is asked for."""

    def _admit(self, problem: Problem) -> None:  # noqa: B027
        """A problem is there, from the start or later."""

    def _learn(self, problem: Problem, solved: int, group: Group) -> None:  # noqa: B027
        """A group on the problem came back with so many proofs."""

    def _dump(self) -> dict[str, Any]:
        """The state that a subclass adds."""
        return {}

    def _load(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back the state that ``_dump`` gave."""

    def _figures(self) -> dict[str, Any]:
        """Figures of the curriculum's own."""
        return {}


def dump_rng(rng: random.Random) -> list[Any]:
    """A generator's state as JSON values."""
    version, internal, gauss = rng.getstate()
    return [version, list(internal), gauss]


def load_rng(rng: random.Random, state: list[Any]) -> None:
    """Set a generator to the state that ``dump_rng`` wrote."""
    version, internal, gauss = state
    rng.setstate((version, tuple(internal), gauss))
