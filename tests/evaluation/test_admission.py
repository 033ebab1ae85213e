"""Which groups may train, by their verdicts."""

from __future__ import annotations

import pytest

from proverrl.advantages import (
    AdvantageInputs,
    GroupAdvantages,
    admit_groups,
    pass_rate,
    spread,
    within_pass_rates,
)
from proverrl.config import (
    AdvantageConfig,
    GrpoConfig,
    RewardConfig,
    load_config,
)
from proverrl.rewards import build_reward
from proverrl.rollout.whole_proof import build_group
from proverrl.types import Group, Status
from tests import ROOT
from tests.builders import build_problem, build_rollout, build_test_group

PRESETS = ROOT / "configs" / "presets"
# 0, 2, 6, 7 and 8 proofs of 8: rates 0, 0.25, 0.75, 0.875, 1.
GROUPS = [build_test_group(f"p{k}", [1] * k + [0] * (8 - k)) for k in (0, 2, 6, 7, 8)]


def test_pass_rates_by_hand() -> None:
    assert [pass_rate(group) for group in GROUPS] == [0.0, 0.25, 0.75, 0.875, 1.0]


@pytest.mark.parametrize(
    ("high", "mixed_only", "admitted"),
    [
        (1.0, False, [True, True, True, True, True]),
        (1.0, True, [False, True, True, True, False]),
        (0.75, True, [False, True, True, False, False]),
        (0.75, False, [True, True, True, False, False]),
    ],
)
def test_the_bound_is_included(high: float, mixed_only: bool, admitted: list[bool]) -> None:
    assert within_pass_rates(GROUPS, high, mixed_only=mixed_only) == admitted


def penalised(*statuses: Status) -> Group:
    """Rollouts of 18, 19, 20 tokens under a limit of 20, the penalty's buffer 4 of them."""
    problem = build_problem("p")
    rollouts = [
        build_rollout(problem, i, status, tokens=18 + i) for i, status in enumerate(statuses)
    ]
    reward = build_reward(RewardConfig(overlong_weight=1.0), max_new_tokens=20)
    group = build_group(rollouts, reward)
    assert group is not None
    return group


def admit(name: str, groups: list[Group], settings: GrpoConfig) -> list[bool]:
    return admit_groups(AdvantageInputs(groups), AdvantageConfig(name=name), settings)


def test_a_penalty_for_length_alone_admits_no_group_under_dapo() -> None:
    failed = penalised(Status.REJECTED, Status.REJECTED, Status.REJECTED)
    proved = penalised(Status.PROVED, Status.PROVED, Status.PROVED)
    both = penalised(Status.PROVED, Status.REJECTED, Status.REJECTED)
    # Half of the buffer, three quarters, all: rewards that differ, and no proof among them.
    assert [reward.total for reward in failed.rewards] == [-0.5, -0.75, -1.0]
    groups = [failed, proved, both]
    assert admit("grpo", groups, GrpoConfig()) == [True, True, True]
    assert admit("grpo", groups, GrpoConfig(mixed_verdicts=True)) == [False, False, True]
    # A third proved: above a bound of 0.3, on the bound of 1/3 itself within.
    assert admit("grpo", [both], GrpoConfig(max_pass_rate=0.3)) == [False]
    assert admit("grpo", [both], GrpoConfig(max_pass_rate=1 / 3)) == [True]


def learn_all(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    return [spread(group, [1.0] * len(group.rollouts)) for group in inputs.groups]


def test_a_range_takes_nothing_in_that_the_method_is_silent_on() -> None:
    assert admit("grpo", [GROUPS[0], GROUPS[4]], GrpoConfig()) == [False, False]
    plug_in = "tests.evaluation.test_admission:learn_all"
    assert admit(plug_in, [GROUPS[0], GROUPS[4]], GrpoConfig()) == [True, True]
    assert admit(plug_in, [GROUPS[0]], GrpoConfig(mixed_verdicts=True)) == [False]


def test_dapo_admits_as_its_paper_says() -> None:
    dapo = load_config(PRESETS / "dapo.toml", [])
    assert (dapo.reward.overlong_weight, dapo.advantage.name) == (1.0, "grpo")
    assert admit("grpo", GROUPS, dapo.grpo) == [False, True, True, True, False]
    # A bound on proofs, as in Goedel-Prover-V2.
    bounded = GrpoConfig(mixed_verdicts=True, max_pass_rate=0.75)
    assert admit("dr_grpo", GROUPS, bounded) == [False, True, True, False, False]
