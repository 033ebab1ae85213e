"""Every curriculum's update against sequences worked out by hand."""

from __future__ import annotations

import json
import random
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.config import CurriculumConfig, parse_config
from proverrl.config.curriculum import (
    CbrlConfig,
    DumpConfig,
    MoppsConfig,
    PoolsConfig,
    SecConfig,
    SwsConfig,
)
from proverrl.curriculum.arms import FIELDS, name_category, softmax
from proverrl.curriculum.base import list_advantages
from proverrl.curriculum.beliefs import Beliefs, pick_problems, read_counts, update_belief
from proverrl.curriculum.categories import (
    CbrlCurriculum,
    DumpCurriculum,
    SecCurriculum,
    SwsCurriculum,
    difficulty_of,
    upper_bound,
)
from proverrl.curriculum.sampler import (
    MoppsCurriculum,
    PoolsCurriculum,
    PrioritisedCurriculum,
    Record,
    name_pool,
)
from proverrl.errors import ConfigError, ProblemError
from proverrl.types import Group, Problem, Reward
from tests.builders import build_problem, build_test_group

FAMILIES = {"a": 1, "b": 2, "c": 3}
PROBLEMS = [
    build_problem(f"{family}{i}", family=family, level=level)
    for family, level in FAMILIES.items()
    for i in range(20)
]
ARMS = ["dafny/a/1", "dafny/b/2", "dafny/c/3"]


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


def test_mopps_believes_in_each_problem() -> None:
    config = CurriculumConfig(name="mopps", mopps=MoppsConfig(discount=0.5))
    curriculum = MoppsCurriculum(PROBLEMS, config, 0)
    curriculum.observe(group("a0", 3))
    curriculum.observe(group("a0", 8))
    curriculum.observe(group("b1", 0))
    assert curriculum.state_dict()["beliefs"] == {"a0": [10.5, 3.5], "b1": [1.0, 9.0]}
    assert curriculum.predict(PROBLEMS[0]) == 10.5 / 14.0
    assert curriculum.predict(PROBLEMS[1]) == 0.5


def test_mopps_takes_those_nearest_to_the_target() -> None:
    beliefs = Beliefs(1.0)
    # Means of about 0.1, 0.2, ..., 0.9 with a deviation below 0.001.
    beliefs.start({f"p{n}": (100_000 * (n + 1), 1_000_000) for n in range(9)}, 1.0)
    names = [f"p{number}" for number in range(9)]
    closest = MoppsConfig(candidates=0)
    assert pick_problems(names, 1, beliefs, closest, random.Random(0)) == ["p4"]
    assert set(pick_problems(names, 3, beliefs, closest, random.Random(0))) == {"p3", "p4", "p5"}
    high = MoppsConfig(candidates=0, target=0.8)
    assert pick_problems(names, 1, beliefs, high, random.Random(0)) == ["p7"]
    within = MoppsConfig(pick="threshold", candidates=0, low=0.35, high=0.65)
    for seed in range(5):
        assert set(pick_problems(names, 2, beliefs, within, random.Random(seed))) <= {
            "p3",
            "p4",
            "p5",
        }
    # Three lie within; the fourth is p2 (0.3, off by 0.05) or p6 (0.7, off by 0.05).
    four = set(pick_problems(names, 4, beliefs, within, random.Random(0)))
    assert {"p3", "p4", "p5"} < four
    assert four - {"p3", "p4", "p5"} <= {"p2", "p6"}
    # One candidate a place leaves no choice: any name comes.
    single = MoppsConfig(candidates=1)
    seen = {pick_problems(names, 1, beliefs, single, random.Random(s))[0] for s in range(200)}
    assert seen == set(names)


def test_mopps_starts_warm_from_counts_of_an_earlier_run(tmp_path: Path) -> None:
    file = tmp_path / "counts.jsonl"
    rows = [
        {"id": "a0", "solved": 2, "attempts": 3},
        {"problem_id": "b0", "status": "proved"},
        {"problem_id": "b0", "status": "rejected"},
        {"problem_id": "b0", "status": "timeout"},
        {"problem": {"id": "a0"}, "status": "proved"},
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert read_counts(file) == {"a0": (3, 4), "b0": (1, 2)}
    config = CurriculumConfig(name="mopps", mopps=MoppsConfig(warm_start=str(file)))
    curriculum = MoppsCurriculum(PROBLEMS, config, 0)
    # 1 + 3 * 3 and 1 + 3 * 1; 1 + 3 * 1 and 1 + 3 * 1.
    assert curriculum.state_dict()["beliefs"] == {"a0": [10.0, 4.0], "b0": [4.0, 4.0]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: no attempt"),
        ('{"id": "a"}', "line 1: no attempt"),
        ('{"problem_id": "a", "status": "fine"}', "line 1: no attempt"),
        ('{"id": "a", "solved": 3, "attempts": 2}', "3 of 2 attempts solved"),
        ('{"id": "a", "solved": 2.9, "attempts": 5}', "2.9 of 5 attempts solved; correct"),
        ('{"id": "a", "solved": 2, "attempts": "5"}', "2 of '5' attempts solved; correct"),
        ("[]", "line 1: no attempt"),
    ],
)
def test_counts_that_cannot_be_read_are_refused(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "counts.jsonl"
    file.write_text(line)
    with pytest.raises(ProblemError, match=message):
        read_counts(file)
    with pytest.raises(ProblemError, match="cannot read"):
        read_counts(tmp_path / "missing.jsonl")


def test_prioritised_weighs_what_is_not_solved() -> None:
    config = CurriculumConfig(name="prioritised", discount=1.0)
    curriculum = PrioritisedCurriculum(PROBLEMS[:2], config, 0)
    curriculum.observe(group("a0", 8))
    # 1 - 9/10 against 1 - 1/2 for the other: it comes first in 1/6 of draws.
    first = sum(curriculum.draw(1)[0].id == "a0" for _ in range(3000))
    assert first == pytest.approx(500, abs=80)
    assert curriculum.predict(PROBLEMS[0]) == 0.9


def test_advantages_are_not_divided() -> None:
    # Mean 1/4; the mean of these is 3/8, which is 2 p (1 - p).
    assert list_advantages(build_test_group("x", [1, 0, 0, 0])) == [0.75, 0.25, 0.25, 0.25]
    shaped = build_test_group("x", [1, 0])
    shaped = Group(shaped.key, shaped.rollouts, (Reward(0.7), Reward(0.5)))
    assert list_advantages(shaped) == pytest.approx([0.1, 0.1])


def test_sec_moves_values_by_batches() -> None:
    config = CurriculumConfig(name="sec", sec=SecConfig(rate=0.5, temperature=0.5))
    curriculum = SecCurriculum(PROBLEMS, config, 0)
    curriculum.observe(group("a0", 4))
    curriculum.observe(group("a1", 0))
    curriculum.observe(group("b0", 2))
    assert curriculum.state_dict()["values"] == dict.fromkeys(ARMS, 0.0)
    curriculum.draw(1)
    # a: mean |A| of 16 rollouts = (8 * 1/2 + 8 * 0) / 16 = 1/4, Q = 1/8.
    # b: 2 * 1/4 * 3/4 = 3/8, Q = 3/16. c had no group.
    assert curriculum.state_dict()["values"] == {ARMS[0]: 0.125, ARMS[1]: 0.1875, ARMS[2]: 0.0}
    curriculum.observe(group("b1", 8))
    curriculum.draw(1)
    curriculum.draw(1)
    # Q = 3/32 for b after a batch without a difference, once and not at every draw.
    assert curriculum.state_dict()["values"] == {ARMS[0]: 0.125, ARMS[1]: 0.09375, ARMS[2]: 0.0}


def test_softmax_shares_and_sec_draws_by_them() -> None:
    # e^(0.4/0.2) = e^2: shares 1 / (1 + e^2) and its rest.
    assert softmax([0.0, 0.4], 0.2) == pytest.approx([0.1192029, 0.8807971])
    config = CurriculumConfig(name="sec", sec=SecConfig(rate=1.0, temperature=0.25))
    curriculum = SecCurriculum(PROBLEMS, config, 0)
    curriculum.observe(group("b0", 4))
    drawn = families([curriculum.draw(1)[0] for _ in range(3000)])
    # Q = (0, 1/2, 0): b has e^2 / (e^2 + 2) = 0.787.
    assert drawn["b"] == pytest.approx(2361, abs=90)


def test_sec_asks_mopps_inside_a_category() -> None:
    config = CurriculumConfig(
        name="sec",
        sec=SecConfig(inside="mopps"),
        mopps=MoppsConfig(candidates=0),
        categories=("language",),
    )
    curriculum = SecCurriculum(PROBLEMS, config, 0)
    for _ in range(100):
        for problem in PROBLEMS:
            curriculum.observe(group(problem.id, 4 if problem.id in ("a3", "b7") else 8))
    assert {problem.id for problem in curriculum.draw(2)} == {"a3", "b7"}
    assert curriculum.predict(PROBLEMS[3]) == 0.5


def test_dump_scores_the_last_rollouts_and_a_bonus() -> None:
    # 0.25 + sqrt(2 ln 25 / 9).
    assert upper_bound(0.25, 8, 24) == pytest.approx(0.25 + 0.8457575)
    config = CurriculumConfig(name="dump", dump=DumpConfig(window=12, temperature=0.1))
    curriculum = DumpCurriculum(PROBLEMS, config, 0)
    curriculum.observe(group("a0", 4))
    curriculum.observe(group("a1", 2))
    curriculum.observe(group("b0", 0))
    state = curriculum.state_dict()
    # The last 12 of 16: four of the first group (1/2 each), then 3/4, 3/4 and six of 1/4.
    assert state["windows"][ARMS[0]] == [0.5] * 4 + [0.75] * 2 + [0.25] * 6
    assert state["counts"] == {ARMS[0]: 16, ARMS[1]: 8, ARMS[2]: 0}
    figures = curriculum.metrics()
    # N = 24: c scores 0 + sqrt(2 ln 25); b 0 + sqrt(2 ln 25 / 9), less than
    # a: 5/12 + sqrt(2 ln 25 / 17) = 0.4167 + 0.6154.
    assert figures["curriculum_score_max"] == pytest.approx(2.5372724)
    assert figures["curriculum_score_min"] == pytest.approx(0.8457575)
    assert families(curriculum.draw(15))["c"] == 15


def test_cbrl_steers_towards_half() -> None:
    config = CurriculumConfig(name="cbrl", cbrl=CbrlConfig(step=0.5))
    curriculum = CbrlCurriculum(PROBLEMS, config, 0)
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


def test_sws_gives_weak_categories_more() -> None:
    curriculum = SwsCurriculum(PROBLEMS, CurriculumConfig(name="sws"), 0)
    for problem_id, solved in (("a0", 8), ("a1", 7), ("a2", 3), ("b0", 0), ("b1", 0), ("a2", 4)):
        curriculum.observe(group(problem_id, solved))
    # a: none of 3 fails any more (4 of 8 is not below a half): 1/5. b: 2 of 2: 3/4. c: 1/2.
    assert curriculum._shares() == {ARMS[0]: 0.2, ARMS[1]: 0.75, ARMS[2]: 0.5}
    figures = curriculum.metrics()
    assert figures["curriculum_weakest"] == ARMS[1]
    assert figures["curriculum_failure_ratio"] == 0.75
    # 7/8 and 4/8 are kept, 8/8 and 0/8 are not.
    assert figures["curriculum_kept"] == 2
    assert [curriculum.keeps(rate) for rate in (0.0, 0.125, 0.875, 1.0)] == [
        False,
        True,
        True,
        False,
    ]


def test_sws_leaves_out_what_teaches_nothing_but_looks_again() -> None:
    problems = PROBLEMS[:4]
    config = CurriculumConfig(name="sws", sws=SwsConfig(recheck=0.0))
    curriculum = SwsCurriculum(problems, config, 0)
    for problem_id, solved in (("a0", 8), ("a1", 0), ("a2", 4)):
        curriculum.observe(group(problem_id, solved))
    drawn = {p.id for _ in range(50) for p in curriculum.draw(2)}
    assert drawn == {"a2", "a3"}
    looks = SwsCurriculum(problems, CurriculumConfig(name="sws", sws=SwsConfig(recheck=0.2)), 0)
    for problem_id, solved in (("a0", 8), ("a1", 0), ("a2", 4)):
        looks.observe(group(problem_id, solved))
    counts = Counter(looks.draw(1)[0].id for _ in range(2000))
    # A fifth of draws looks again; the deviation is 18.
    assert counts["a0"] + counts["a1"] == pytest.approx(400, abs=70)


@pytest.mark.parametrize(
    ("record", "seen", "pool"),
    [
        (None, 5, "normal"),
        (Record(0.25, 0, 0), 1, "hard"),
        (Record(0.375, 0, 0), 1, "normal"),
        (Record(0.75, 0, 0), 1, "normal"),
        (Record(0.875, 0, 0), 1, "easy"),
        (Record(1.0, 2, 0), 1, "easy"),
        (Record(1.0, 3, 0), 1, "retired"),
        (Record(0.0, 2, 0), 1, "hard"),
        (Record(0.0, 3, 0), 1, "parked"),
        (Record(0.0, 3, 10), 109, "parked"),
        (Record(0.0, 3, 10), 110, "hard"),
    ],
)
def test_the_pool_follows_the_latest_rate(record: Record | None, seen: int, pool: str) -> None:
    assert name_pool(record, seen, PoolsConfig(rest=100)) == pool


def test_zeros_switch_rest_off() -> None:
    never = PoolsConfig(retire_after=0, park_after=0)
    assert name_pool(Record(1.0, 99), 1, never) == "easy"
    assert name_pool(Record(0.0, 99), 1, never) == "hard"
    assert name_pool(Record(0.0, 3), 10**6, PoolsConfig(rest=0)) == "parked"


def test_pools_draw_normal_five_times_as_often() -> None:
    curriculum = PoolsCurriculum(PROBLEMS[:3], CurriculumConfig(name="pools"), 0)
    curriculum.observe(group("a0", 7))
    for solved in (3, 0, 0, 0):
        curriculum.observe(group("a2", solved))
    assert [curriculum.pool_of(f"a{i}") for i in range(3)] == ["easy", "normal", "parked"]
    counts = Counter(curriculum.draw(1)[0].id for _ in range(3000))
    # 1.0 against 0.2: 5/6 of 3000; the deviation is 20.
    assert counts["a1"] == pytest.approx(2500, abs=80)
    assert counts["a2"] == 0
    assert curriculum.metrics()["curriculum_pools"] == {
        "normal": 1, "easy": 1, "hard": 0, "retired": 0, "parked": 1,
    }  # fmt: skip
    # A proof ends the run of failures: 1 of 8 is hard, not parked.
    curriculum.observe(group("a2", 1))
    assert curriculum.pool_of("a2") == "hard"


def test_pools_draw_even_when_all_rest() -> None:
    curriculum = PoolsCurriculum(PROBLEMS[:2], CurriculumConfig(name="pools"), 0)
    for problem_id in ("a0", "a1") * 3:
        curriculum.observe(group(problem_id, 8))
    assert {p.id for p in curriculum.draw(2)} == {"a0", "a1"}


def test_categories_are_named_by_fields() -> None:
    lineage = {"lineage": {"operator": "negate"}, "level": 2, "family": "f"}
    composed = replace(PROBLEMS[0], origin="self", metadata=lineage)
    assert name_category(composed, tuple(FIELDS)) == "dafny/invariants/self/negate/f/2"
    assert name_category(PROBLEMS[0], ("operator", "level")) == "/1"
    named = replace(PROBLEMS[0], metadata={"family": "chain_calls", "parents": ["a", "b"]})
    assert name_category(named, ("operator",)) == "chain_calls"


def test_settings_that_contradict_are_refused() -> None:
    for text, words in (
        ("[curriculum.mopps]\nlow = 0.8\nhigh = 0.2", "low is above high"),
        ("[curriculum.sws]\nlow = 0.8\nhigh = 0.2", "low is above high"),
        ("[curriculum.pools]\nhard = 0.8\neasy = 0.2", "hard must be below easy"),
        ("[curriculum]\ncategories = []", "at least 1 item"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse_config(tomllib.loads(text), source="a test")
