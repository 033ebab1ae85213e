"""The simulated learner, and which curricula beat uniform draws on it."""

from __future__ import annotations

import math
import statistics

import pytest

from proverrl.config import CurriculumConfig
from tests.builders import build_test_group
from tests.lab.simulated_learner import (
    WORLDS,
    SimulatedLearner,
    SimulatedWorld,
    compare_curricula,
    run_learner,
)

SEEDS = range(6)
MOPPS = "proverrl.lab.curricula:MoppsCurriculum"
BETTER = ("posterior", MOPPS, "proverrl.lab.curricula:CbrlCurriculum")


def test_learning_is_largest_at_one_half() -> None:
    world = SimulatedWorld(categories=2, gain=0.1, transfer=0.5, skill_low=0.0, skill_high=0.0)
    learner = SimulatedLearner(world, 0)
    problem = next(p for p in learner.problems if p.metadata["category"] == 0)
    built = build_test_group(problem.id, [1, 0, 0, 0])
    group = learner.attempt(problem)
    learner.learn([type(group)(group.key, group.rollouts[:4], built.rewards)])
    # 0.1 * 4 * 1/4 * 3/4 * (1 - 0/10), and half of that for the other category.
    assert learner.skills == pytest.approx([0.075, 0.0375])
    before = list(learner.skills)
    full = build_test_group(problem.id, [1, 1, 1, 1])
    learner.learn([type(group)(group.key, group.rollouts[:4], full.rewards)])
    assert learner.skills == before


def test_a_proof_is_as_likely_as_skill_and_difficulty_say() -> None:
    learner = SimulatedLearner(
        SimulatedWorld(noise=0.0, skill_low=1.5, skill_high=1.5, false=0.25), 0
    )
    by_level: dict[int, list[float]] = {}
    for problem in learner.problems:
        by_level.setdefault(problem.level, []).append(learner.rate(problem))
    # Level 2 has difficulty 1.5, which is the skill; a quarter of 12 cannot be proved.
    assert sorted(by_level[2][:12]) == pytest.approx([0.0] * 3 + [0.5] * 9)
    assert max(by_level[1]) == pytest.approx(1 / (1 + math.exp(-1.5)))
    attempts = [learner.attempt(p) for p in learner.problems if learner.rate(p) == 0.0]
    assert len(attempts) == 3 * 6 * 5
    assert not any(reward.total for group in attempts for reward in group.rewards)


def test_a_run_repeats_bit_for_bit() -> None:
    config = CurriculumConfig(name=MOPPS)
    world = SimulatedWorld(draws=5)
    assert run_learner(world, config, 3) == run_learner(world, config, 3)
    assert run_learner(world, config, 3) != run_learner(world, config, 4)


@pytest.mark.parametrize("world", ["mostly_easy", "with_false"])
@pytest.mark.parametrize("name", BETTER)
def test_each_beats_uniform(name: str, world: str) -> None:
    (row,) = compare_curricula(
        [CurriculumConfig(name=name)], worlds={world: WORLDS[world]}, seeds=SEEDS
    )
    assert row.difference is not None
    assert row.difference.low > 0.0


def test_a_difference_has_an_interval_over_seeds() -> None:
    world = {"with_false": WORLDS["with_false"]}
    configs = [CurriculumConfig(name="uniform"), CurriculumConfig(name=MOPPS)]
    uniform, mopps = compare_curricula(configs, worlds=world, seeds=SEEDS)
    assert uniform.difference is None
    assert mopps.difference is not None
    # Student's t over six seeds: the half-width is t(0.975; 5) = 2.5706 standard errors.
    gaps = [
        run_learner(world["with_false"], configs[1], seed).solved
        - run_learner(world["with_false"], configs[0], seed).solved
        for seed in SEEDS
    ]
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    assert mopps.difference.value == pytest.approx(statistics.fmean(gaps))
    half = mopps.difference.high - mopps.difference.value
    assert half == pytest.approx(2.5706 * error, rel=1e-4)
    assert mopps.mixed > uniform.mixed
