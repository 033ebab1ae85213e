"""Curricula: what is drawn, and that their state survives."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from proverrl.config import CurriculumConfig, CurriculumName
from proverrl.curriculum.sampler import CURRICULA, PosteriorCurriculum, UniformCurriculum
from proverrl.errors import RunError
from proverrl.types import Group, Reward
from tests.builders import build_problem, build_test_group

PROBLEMS = [build_problem(f"{family}{i}", family=family) for family in "abc" for i in range(30)]


def test_uniform_draws_each_once_before_any_again() -> None:
    curriculum = UniformCurriculum(PROBLEMS, CurriculumConfig(), 0)
    counts = Counter(problem.id for problem in curriculum.draw(180))
    assert set(counts.values()) == {2}


def test_posterior_prefers_families_near_one_half() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, CurriculumConfig(floor=0.02, discount=1.0), 0)
    for _ in range(40):
        curriculum.observe(build_test_group("a0", [1] * 8, family="a"))
        curriculum.observe(build_test_group("b0", [1] * 4 + [0] * 4, family="b"))
        curriculum.observe(build_test_group("c0", [0] * 8, family="c"))
    counts = Counter(problem.family for problem in curriculum.draw(1000))
    # Rates near 1, 1/2, 0: weights about 0.023, 0.27, 0.023, so that b gets 0.27 / 0.316 = 85 %.
    assert counts["b"] == pytest.approx(853, abs=45)
    assert min(counts["a"], counts["c"]) > 30


def test_partial_credit_is_not_a_proof() -> None:
    group = build_test_group("a0", [1, 0, 0, 0], family="a")
    shaped = Group(group.key, group.rollouts, tuple(Reward(r) for r in (0.7, 0.3, 0.1, -0.2)))
    curricula = [PosteriorCurriculum(PROBLEMS, CurriculumConfig(), 0) for _ in range(2)]
    for curriculum, seen in zip(curricula, (group, shaped), strict=True):
        curriculum.observe(seen)
    assert curricula[0].state_dict() == curricula[1].state_dict()
    assert curricula[0].state_dict()["posterior"]["a"] == [2.0, 4.0]


def test_posterior_draws_least_visited_and_no_problem_twice() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, CurriculumConfig(), 0)
    drawn = curriculum.draw(20)
    assert len({problem.id for problem in drawn}) == 20
    for _ in range(20):
        curriculum.draw(20)
    visits = curriculum.state_dict()["visits"]
    for family in "abc":
        counts = [visits[f"{family}{i}"] for i in range(30)]
        assert max(counts) - min(counts) <= 1


def test_discount_forgets() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, CurriculumConfig(discount=0.5), 0)
    for _ in range(30):
        curriculum.observe(build_test_group("a0", [0] * 8, family="a"))
    # The fixed point of b = b/2 + 1/2 + 8 is 17, that of a = a/2 + 1/2 is 1.
    assert curriculum.state_dict()["posterior"]["a"] == pytest.approx([1.0, 17.0], abs=1e-6)


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_state_survives_json(name: CurriculumName) -> None:
    first = CURRICULA[name](PROBLEMS, CurriculumConfig(), 3)
    first.draw(25)
    first.observe(build_test_group("a0", [1, 0], family="a"))
    second = CURRICULA[name](PROBLEMS, CurriculumConfig(), 99)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [p.id for p in first.draw(40)] == [p.id for p in second.draw(40)]
    assert first.metrics() == second.metrics()


def test_other_families_are_refused() -> None:
    state = PosteriorCurriculum(PROBLEMS, CurriculumConfig(), 0).state_dict()
    other = PosteriorCurriculum(PROBLEMS[:30], CurriculumConfig(), 0)
    with pytest.raises(RunError, match="other problem families"):
        other.load_state_dict(state)
