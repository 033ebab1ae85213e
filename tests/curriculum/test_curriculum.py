"""Curricula: what is drawn, and that their state survives."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from proverrl.config import CurriculumName
from proverrl.curriculum.base import Curriculum, entropy, update_belief
from proverrl.curriculum.sampler import CURRICULA, PosteriorCurriculum, UniformCurriculum
from proverrl.errors import ProblemError, RunError
from proverrl.types import Group, Problem, Reward
from tests.builders import build_problem, build_test_group

PROBLEMS = [build_problem(f"{family}{i}", family=family) for family in "abc" for i in range(30)]


def test_uniform_draws_each_once_before_any_again() -> None:
    curriculum = UniformCurriculum(PROBLEMS, 0)
    counts = Counter(problem.id for problem in curriculum.draw(180))
    assert set(counts.values()) == {2}


def test_a_belief_fades_and_counts() -> None:
    belief = [1.0, 1.0]
    update_belief(belief, 3, 8, 0.5)
    # a = 0.5 * 1 + 0.5 + 3, b = 0.5 * 1 + 0.5 + 5.
    assert belief == [4.0, 6.0]
    update_belief(belief, 8, 8, 0.5)
    # a = 0.5 * 4 + 0.5 + 8, b = 0.5 * 6 + 0.5 + 0.
    assert belief == [10.5, 3.5]
    update_belief(belief, 1, 8, 1.0)
    assert belief == [11.5, 10.5]


def test_posterior_prefers_families_near_one_half() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, 0)
    for _ in range(40):
        curriculum.observe(build_test_group("a0", [1] * 8, family="a"))
        curriculum.observe(build_test_group("b0", [1] * 4 + [0] * 4, family="b"))
        curriculum.observe(build_test_group("c0", [0] * 8, family="c"))
    counts = Counter(problem.family for problem in curriculum.draw(1000))
    # Beliefs (81, 1), (41, 41) and (1, 81): with the floor, weights of 0.032, 0.267 and 0.032, so
    # that b gets 0.267 / 0.331 = 81 %.
    assert counts["b"] == pytest.approx(807, abs=45)
    assert min(counts["a"], counts["c"]) > 30


def test_partial_credit_is_not_a_proof() -> None:
    group = build_test_group("a0", [1, 0, 0, 0], family="a")
    shaped = Group(group.key, group.rollouts, tuple(Reward(r) for r in (0.7, 0.3, 0.1, -0.2)))
    curricula = [PosteriorCurriculum(PROBLEMS, 0) for _ in range(2)]
    for curriculum, seen in zip(curricula, (group, shaped), strict=True):
        curriculum.observe(seen)
    assert curricula[0].state_dict() == curricula[1].state_dict()
    assert curricula[0].state_dict()["posterior"]["a"] == [2.0, 4.0]


def test_posterior_draws_least_visited_and_no_problem_twice() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, 0)
    drawn = curriculum.draw(20)
    assert len({problem.id for problem in drawn}) == 20
    for _ in range(20):
        curriculum.draw(20)
    visits = curriculum.state_dict()["visits"]
    for family in "abc":
        counts = [visits[f"{family}{i}"] for i in range(30)]
        assert max(counts) - min(counts) <= 1


def test_discount_forgets() -> None:
    curriculum = PosteriorCurriculum(PROBLEMS, 0)
    for _ in range(30):
        curriculum.observe(build_test_group("a0", [0] * 8, family="a"))
    # The fixed point of b = 0.9 b + 0.1 + 8 is 81, that of a = 0.9 a + 0.1 is 1; of the way there
    # 0.9^30 is left.
    left = 80.0 * 0.9**30
    assert curriculum.state_dict()["posterior"]["a"] == pytest.approx([1.0, 81.0 - left])


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_state_survives_json(name: CurriculumName) -> None:
    first = CURRICULA[name](PROBLEMS, 3)
    first.draw(25)
    first.observe(build_test_group("a0", [1, 0], family="a"))
    second = CURRICULA[name](PROBLEMS, 99)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [p.id for p in first.draw(40)] == [p.id for p in second.draw(40)]
    assert first.metrics() == second.metrics()


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_problems_that_arrive_later_survive_too(name: CurriculumName) -> None:
    check_state(CURRICULA[name])


def check_state(make: Callable[[Sequence[Problem], int], Curriculum]) -> None:
    """A curriculum that takes over the state of another goes on as that one does."""
    first = make(PROBLEMS, 3)
    first.draw(25)
    lineage = {"parents": ["a0", "b0"], "operator": "chain_calls", "round": 1}
    metadata = {"level": 1, "family": "n", "lineage": lineage}
    new = [replace(build_problem(f"n{i}"), metadata=metadata) for i in range(20)]
    first.add(new)
    first.observe(build_test_group("n0", [1, 0, 0, 0], family="n"))
    first.observe(build_test_group("a0", [1, 1, 1, 0], family="a"))
    first.draw(7)
    first.observe(build_test_group("c3", [0, 0, 0, 0], family="c"))
    second = make(PROBLEMS, 99)
    text = json.dumps(first.state_dict())
    second.load_state_dict(json.loads(text))
    assert json.dumps(second.state_dict()) == text
    ids = [[p.id for p in curriculum.draw(60)] for curriculum in (first, second)]
    assert ids[0] == ids[1]
    # 110 problems: 440 draws reach the new ones, which are what they were.
    drawn = {}
    for _ in range(40):
        for problem in second.draw(11):
            drawn[problem.id] = problem
            second.observe(build_test_group(problem.id, [1, 0, 0, 0], family=problem.family))
    assert next(drawn[p.id].metadata for p in new if p.id in drawn) == metadata
    assert first.metrics()["curriculum_added"] == second.metrics()["curriculum_added"] == 20


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_a_draw_repeats_nothing_while_there_is_more(name: CurriculumName) -> None:
    problems = [build_problem(f"p{i}", family="f", level=1) for i in range(12)]
    curriculum = CURRICULA[name](problems, 0)
    assert len({p.id for p in curriculum.draw(12)}) == 12
    assert len({p.id for p in curriculum.draw(30)}) == 12


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_it_may_begin_with_nothing_and_live_on_what_arrives(name: CurriculumName) -> None:
    curriculum = CURRICULA[name]([], 0)
    assert curriculum.metrics()["curriculum_problems"] == 0
    assert curriculum.draw(0) == []
    curriculum.add(PROBLEMS)
    assert len({problem.id for problem in curriculum.draw(8)}) == 8
    curriculum.observe(build_test_group("a0", [1, 0], family="a"))
    assert curriculum.metrics()["curriculum_added"] == 90


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_a_problem_that_is_gone_is_forgotten(name: CurriculumName) -> None:
    first = CURRICULA[name](PROBLEMS, 0)
    for problem in first.draw(40):
        first.observe(build_test_group(problem.id, [1, 0], family=problem.family))
    fewer = CURRICULA[name](PROBLEMS[1:], 0)
    fewer.load_state_dict(json.loads(json.dumps(first.state_dict())))
    drawn = {problem.id for _ in range(4) for problem in fewer.draw(30)}
    assert PROBLEMS[0].id not in drawn
    assert drawn <= {problem.id for problem in PROBLEMS}


def test_other_problems_are_refused() -> None:
    state = PosteriorCurriculum(PROBLEMS, 0).state_dict()
    other = PosteriorCurriculum(PROBLEMS[:30], 0)
    with pytest.raises(RunError, match="other problems than this run"):
        other.load_state_dict(state)
    early = PosteriorCurriculum(PROBLEMS, 0)
    early.add([build_problem("new")])
    with pytest.raises(RunError, match="before adding"):
        early.load_state_dict(state)


def test_what_is_unknown_or_ambiguous_is_refused() -> None:
    curriculum = UniformCurriculum(PROBLEMS, 0)
    curriculum.add([PROBLEMS[0]])
    assert curriculum.metrics()["curriculum_added"] == 0
    with pytest.raises(ProblemError, match="'a0' is in the curriculum with another text"):
        curriculum.add([build_problem("a0", family="a", n=7)])
    with pytest.raises(RunError, match="'z' is not in the curriculum"):
        curriculum.observe(build_test_group("z", [1, 0]))
    with pytest.raises(RunError, match="has no problems"):
        UniformCurriculum([], 0).draw(1)


def test_a_late_problem_takes_a_place_in_this_pass_of_uniform() -> None:
    curriculum = UniformCurriculum(PROBLEMS, 0)
    curriculum.draw(10)
    curriculum.add([build_problem("new")])
    # 90 - 10 problems and the new one are left.
    assert "new" in {p.id for p in curriculum.draw(81)}


def test_metrics_say_what_was_drawn_since_they_were_asked() -> None:
    problems = [build_problem("x", family="a", level=1), build_problem("y", family="b", level=3)]
    curriculum = UniformCurriculum(problems, 0)
    curriculum.draw(2)
    curriculum.observe(build_test_group("x", [1, 1, 0, 0, 0, 0], family="a"))
    curriculum.draw(2)
    figures = curriculum.metrics()
    # Families a and b twice each: entropy ln 2. Levels 1, 3, 1, 3: mean 2. Expected before the
    # group: 1/2 each; after it 3/8 for a: (1/2 + 1/2 + 3/8 + 1/2) / 4.
    assert figures == {
        "curriculum_problems": 2,
        "curriculum_added": 0,
        "curriculum_visited": 2,
        "curriculum_mean_rate": pytest.approx((3 / 8 + 1 / 2) / 2),
        "curriculum_drawn": 4,
        "curriculum_new": 2,
        "curriculum_level": 2.0,
        "curriculum_predicted": pytest.approx(1.875 / 4),
        "curriculum_entropy": pytest.approx(math.log(2)),
        "curriculum_levels": {"1": 2, "3": 2},
        "curriculum_families": {"a": 2, "b": 2},
    }
    assert "curriculum_drawn" not in curriculum.metrics()


def test_entropy_is_that_of_shares() -> None:
    assert entropy([]) == entropy([5]) == 0.0
    # 1/4 and 3/4: -(1/4 ln 1/4 + 3/4 ln 3/4) = 0.5623.
    assert entropy([1, 3, 0]) == pytest.approx(0.5623351446)
