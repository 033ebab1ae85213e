"""Every curriculum's update against sequences worked out by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from proverrl.config import CurriculumConfig
from proverrl.curriculum.base import Curriculum
from proverrl.curriculum.sampler import open_curriculum
from proverrl.lab.curricula import (
    CbrlCurriculum,
    CbrlOptions,
    MoppsCurriculum,
    MoppsOptions,
    difficulty_of,
    pick_problems,
)
from proverrl.types import Group, Problem
from tests.builders import build_problem, build_test_group
from tests.curriculum.test_curriculum import check_state

FAMILIES = {"a": 1, "b": 2, "c": 3}
PROBLEMS = [
    build_problem(f"{family}{i}", family=family, level=level)
    for family, level in FAMILIES.items()
    for i in range(20)
]


def group(problem_id: str, solved: int, total: int = 8) -> Group:
    """A group on one of ``PROBLEMS``."""
    family = problem_id[0]
    built = build_test_group(problem_id, [1] * solved + [0] * (total - solved), family=family)
    problem = next((p for p in PROBLEMS if p.id == problem_id), None)
    assert problem is not None
    rollouts = tuple(replace(rollout, problem=problem) for rollout in built.rollouts)
    return replace(built, rollouts=rollouts)


def families(problems: Sequence[Problem]) -> Counter[str]:
    return Counter(problem.family for problem in problems)


def test_mopps_believes_in_each_problem() -> None:
    curriculum = MoppsCurriculum(PROBLEMS, 0, options=MoppsOptions(discount=0.5))
    curriculum.observe(group("a0", 3))
    curriculum.observe(group("a0", 8))
    curriculum.observe(group("b1", 0))
    assert curriculum.state_dict()["beliefs"] == {"a0": [10.5, 3.5], "b1": [1.0, 9.0]}
    assert curriculum.predict(PROBLEMS[0]) == 10.5 / 14.0
    assert curriculum.predict(PROBLEMS[1]) == 0.5


def test_mopps_takes_those_nearest_to_the_target() -> None:
    # Means of about 0.1, 0.2, ..., 0.9 with a deviation below 0.001.
    beliefs = {f"p{i}": [100_000.0 * (i + 1), 100_000.0 * (9 - i)] for i in range(9)}
    names = [f"p{number}" for number in range(9)]
    closest = MoppsOptions(candidates=0)
    assert pick_problems(names, 1, beliefs, closest, random.Random(0)) == ["p4"]
    assert set(pick_problems(names, 3, beliefs, closest, random.Random(0))) == {"p3", "p4", "p5"}
    high = MoppsOptions(candidates=0, target=0.8)
    assert pick_problems(names, 1, beliefs, high, random.Random(0)) == ["p7"]
    # One candidate a place leaves no choice: any name comes.
    single = MoppsOptions(candidates=1)
    seen = {pick_problems(names, 1, beliefs, single, random.Random(s))[0] for s in range(200)}
    assert seen == set(names)


def test_cbrl_steers_towards_half() -> None:
    curriculum = CbrlCurriculum(PROBLEMS, 0, options=CbrlOptions(step=0.5))
    assert curriculum.difficulty == 1.0
    assert families(curriculum.draw(8)) == {"a": 8}
    # 9 of 16 are more than half: up, once a batch.
    curriculum.observe(group("a0", 8))
    curriculum.observe(group("a1", 1))
    drawn = families([p for _ in range(100) for p in curriculum.draw(10)])
    assert curriculum.difficulty == 1.5
    # Half way between levels 1 and 2: each in half of the draws; the deviation is 16.
    assert drawn["a"] == pytest.approx(500, abs=60)
    assert drawn["c"] == 0
    # Exactly half stays.
    curriculum.observe(group("a1", 4))
    curriculum.draw(1)
    assert curriculum.difficulty == 1.5
    for _ in range(6):
        curriculum.observe(group("b1", 8))
        curriculum.draw(1)
    assert curriculum.difficulty == 3.0
    # It does not run beyond what exists: one bad batch brings it down at once.
    curriculum.observe(group("c1", 0))
    curriculum.draw(1)
    assert curriculum.difficulty == 2.5
    # A harder problem that is added later can be reached.
    curriculum.add([replace(build_problem("d0", family="d"), metadata={"difficulty": 4.5})])
    for _ in range(9):
        curriculum.observe(group("c1", 8))
        curriculum.draw(1)
    assert curriculum.difficulty == 4.5
    assert [problem.id for problem in curriculum.draw(1)] == ["d0"]


def test_difficulty_is_the_level_unless_it_is_given() -> None:
    assert difficulty_of(PROBLEMS[0]) == 1.0
    given = replace(PROBLEMS[0], metadata={"level": 1, "difficulty": 7})
    assert difficulty_of(given) == 7.0
    assert difficulty_of(replace(given, metadata={"level": 2, "difficulty": "hard"})) == 2.0


def test_state_and_problems_that_arrive_later_survive() -> None:
    for name in ("MoppsCurriculum", "CbrlCurriculum"):
        config = CurriculumConfig(name=f"proverrl.lab.curricula:{name}")

        def make(
            problems: Sequence[Problem], seed: int, config: CurriculumConfig = config
        ) -> Curriculum:
            return open_curriculum(problems, config, seed)

        check_state(make)
