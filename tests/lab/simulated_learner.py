"""A simulated learner with known difficulties, to hold curricula against each other.

Flows in: a world (categories, difficulties, how learning works) and curricula. Flows out: what the
learner could do at the end under each, paired by seed with uniform draws. No figure is a claim
about a model: the world assumes that a learner gains most from problems that it solves half of the
time, and shows whether a curriculum finds those. Not handled here: forgetting, noise of verdicts,
lengths.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from scipy import stats

from proverrl.config import CurriculumConfig
from proverrl.curriculum.sampler import open_curriculum
from proverrl.seeds import derive_seed
from proverrl.statistics import Difference
from proverrl.types import (
    HOLE,
    Candidate,
    Completion,
    Group,
    Problem,
    Reward,
    Rollout,
    Status,
    Turn,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """Problems and a learner. The learner has a skill for each category; it proves a problem of
    difficulty d with probability 1 / (1 + exp(d - skill)), or never if the problem is false.

    A group of which a share p was proved adds ``gain`` * 4 p (1 - p) * (1 - skill / ``ceiling``)
    to its category's skill, and ``transfer`` of that to every other (logistic growth). A batch is
    ``groups_per_draw`` groups; the learner learns after it. Level L has difficulties around
    ``spacing`` * (L - 1), with deviation ``noise``; first skills are spread evenly over
    [``skill_low``, ``skill_high``]; a share ``false`` of each level cannot be proved.
    """

    categories: int = 6
    levels: int = 5
    per_level: int = 12
    spacing: float = 1.5
    noise: float = 0.5
    skill_low: float = -1.0
    skill_high: float = 1.0
    ceiling: float = 10.0
    gain: float = 0.05
    transfer: float = 0.02
    false: float = 0.0
    draws: int = 60
    groups_per_draw: int = 12
    group_size: int = 8


WORLDS: dict[str, SimulatedWorld] = {
    "graded": SimulatedWorld(),
    "with_false": SimulatedWorld(false=0.2),
    "mostly_easy": SimulatedWorld(skill_low=3.0, skill_high=6.0),
}
"""A learner at the foot of the levels; the same where a fifth of each level cannot be proved; a
learner that solves most of what there is."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What became of one learner: the share of attempts that it would prove at the end, over all
    problems that can be proved, the mean of that share over the run, and the share of mixed groups.
    """

    solved: float
    mean_solved: float
    mixed: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A curriculum against uniform: means over seeds, and the paired difference of ``solved`` by
    Student's t, since means over many problems are near normal; None for one seed, and for uniform
    itself."""

    world: str
    name: str
    solved: float
    mean_solved: float
    mixed: float
    difference: Difference | None


class SimulatedLearner:
    """The simulated learner on the problems of a world; both depend on the seed alone."""

    def __init__(self, world: SimulatedWorld, seed: int) -> None:
        self._world = world
        rng = random.Random(derive_seed(seed, "world"))
        self._rng = random.Random(derive_seed(seed, "outcomes"))
        step = (world.skill_high - world.skill_low) / max(1, world.categories - 1)
        self.skills = [world.skill_low + step * place for place in range(world.categories)]
        rng.shuffle(self.skills)
        self.problems: list[Problem] = []
        self._difficulties: dict[str, float] = {}
        self._rollouts: dict[str, tuple[Rollout, Rollout]] = {}
        num_false = round(world.false * world.per_level)
        sizes = (world.categories, world.levels, world.per_level)
        for category, level, number in itertools.product(*map(range, sizes)):
            problem = _make_problem(category, level + 1, number)
            difficulty = rng.gauss(world.spacing * level, world.noise)
            self._difficulties[problem.id] = math.inf if number < num_false else difficulty
            self._rollouts[problem.id] = _make_rollouts(problem)
            self.problems.append(problem)

    def rate(self, problem: Problem) -> float:
        gap = self._difficulties[problem.id] - self.skills[problem.metadata["category"]]
        return 0.0 if gap == math.inf else 1.0 / (1.0 + math.exp(gap))

    def solved(self) -> float:
        """Mean probability over the problems that can be proved."""
        rates = [self.rate(p) for p in self.problems if self._difficulties[p.id] != math.inf]
        return sum(rates) / len(rates)

    def attempt(self, problem: Problem) -> Group:
        """A group of attempts at the skill of now."""
        rate, size = self.rate(problem), self._world.group_size
        solved = sum(self._rng.random() < rate for _ in range(size))
        proved, failed = self._rollouts[problem.id]
        return Group(
            key=("solver", problem.id),
            rollouts=(proved,) * solved + (failed,) * (size - solved),
            rewards=(Reward(1.0),) * solved + (Reward(0.0),) * (size - solved),
        )

    def learn(self, groups: Sequence[Group]) -> None:
        """Gain from a batch of groups, all judged at the skill before it."""
        world = self._world
        gains = [0.0] * world.categories
        for group in groups:
            share = sum(reward.total for reward in group.rewards) / len(group.rewards)
            gain = world.gain * 4.0 * share * (1.0 - share)
            category = group.rollouts[0].problem.metadata["category"]
            for other in range(world.categories):
                gains[other] += gain if other == category else gain * world.transfer
        self.skills = [
            skill + gain * (1.0 - skill / world.ceiling)
            for skill, gain in zip(self.skills, gains, strict=True)
        ]


def run_learner(world: SimulatedWorld, config: CurriculumConfig, seed: int) -> SimulatedRun:
    """One learner under one curriculum, from first draw to last."""
    learner = SimulatedLearner(world, seed)
    curriculum = open_curriculum(learner.problems, config, derive_seed(seed, "curriculum"))
    solved, mixed = [], 0
    for _ in range(world.draws):
        groups = [learner.attempt(p) for p in curriculum.draw(world.groups_per_draw)]
        for group in groups:
            curriculum.observe(group)
            mixed += group.mixed
        learner.learn(groups)
        solved.append(learner.solved())
    num_groups = world.draws * world.groups_per_draw
    return SimulatedRun(solved[-1], sum(solved) / len(solved), mixed / num_groups)


def compare_curricula(
    configs: Sequence[CurriculumConfig],
    *,
    worlds: Mapping[str, SimulatedWorld],
    seeds: Sequence[int],
) -> list[Comparison]:
    """Every curriculum in every world, each seed with the same problems and first skills as under
    uniform; uniform's own row comes first."""
    rows = []
    for title, world in worlds.items():
        uniform = [run_learner(world, CurriculumConfig(name="uniform"), seed) for seed in seeds]
        for config in configs:
            own = [run_learner(world, config, seed) for seed in seeds]
            pairs = zip(uniform, own, strict=True)
            gain = _compare_seeds([run.solved - other.solved for other, run in pairs])
            columns = zip(*map(astuple, own), strict=True)
            solved, over_run, mixed = (sum(column) / len(own) for column in columns)
            rows.append(Comparison(title, config.name, solved, over_run, mixed, gain))
    return rows


def _compare_seeds(gaps: Sequence[float]) -> Difference | None:
    if len(gaps) < 2 or not any(gaps):
        return None
    test = stats.ttest_1samp(gaps, 0.0)
    low, high = test.confidence_interval(0.95)
    return Difference(sum(gaps) / len(gaps), float(low), float(high), float(test.pvalue))


def _make_problem(category: int, level: int, number: int) -> Problem:
    return Problem(
        id=f"c{category}-l{level}-{number}",
        language="dafny",
        kind="invariants",
        preamble="",
        statement=f"method M() {{ {HOLE} }}",
        metadata={"level": level, "family": f"c{category}_l{level}", "category": category},
    )


def _make_rollouts(problem: Problem) -> tuple[Rollout, Rollout]:
    """A proof and a failure; made once, since making them costs more than all else."""
    completion = Completion("body", (1,), (2,), (0.0,), "stop", 0)
    candidate = Candidate(problem, completion.text)
    proved, failed = (
        Rollout(
            f"{problem.id}-{status}",
            problem,
            "solver",
            (Turn(completion, candidate, Verdict(status, checks=("simulated",))),),
        )
        for status in (Status.PROVED, Status.REJECTED)
    )
    return proved, failed
