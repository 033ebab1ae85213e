"""Credit within a rollout: turns and obligations, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages.base import (
    AdvantageInputs,
    carries_signal,
    mean_credit,
)
from proverrl.advantages.credit import obligations, turn_credit, weigh_entries
from proverrl.advantages.group import dr_grpo
from proverrl.advantages.methods import ADMITS
from proverrl.config import AdvantageConfig
from proverrl.errors import RecordError
from proverrl.rollout.samples import build_samples
from proverrl.types import Group, Obligations, Reward, Status
from tests.builders import build_problem, build_turn, build_turns_group

PROBLEM = build_problem("p")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT


def by_status(*rollouts: Sequence[Status]) -> Group:
    return build_turns_group([[build_turn(PROBLEM, s) for s in turns] for turns in rollouts])


def by_tokens(*rollouts: tuple[Sequence[int], Status]) -> Group:
    return build_turns_group([[build_turn(PROBLEM, s, tokens)] for tokens, s in rollouts])


def inputs(group: Group, **settings: float) -> AdvantageInputs:
    return AdvantageInputs([group], AdvantageConfig.model_validate(settings))


def test_turn_credit_is_centred_per_turn_index() -> None:
    # Returns with discount 0.9: P gives [1]; R P gives [0.9, 1]; R R gives [0, 0].
    # Turn 0: 1, 0.9, 0 with mean 19/30. Turn 1: 1, 0 with mean 1/2.
    (values,) = turn_credit(inputs(by_status([P], [R, P], [R, R])))
    assert values[0] == pytest.approx([11 / 30])
    assert values[1] == pytest.approx([0.9 - 19 / 30, 0.5])
    assert values[2] == pytest.approx([-19 / 30, -0.5])


def test_a_turn_that_one_rollout_reached_has_no_comparison() -> None:
    (values,) = turn_credit(inputs(by_status([P], [R, P])))
    assert values == [[pytest.approx(0.05)], [pytest.approx(-0.05), 0.0]]


def test_turn_credit_learns_from_a_group_that_was_proved_sooner_or_later() -> None:
    group = by_status([P], [R, P])
    assert not group.mixed
    assert ADMITS["turn_credit"](inputs(group)) == [True]
    assert ADMITS["turn_credit"](inputs(by_status([R, P], [R, P]))) == [False]
    # Without discount sooner is not better.
    assert ADMITS["turn_credit"](inputs(group, turn_discount=1.0)) == [False]


def test_a_turn_that_was_not_judged_is_no_failure_of_its_own() -> None:
    (values,) = turn_credit(inputs(by_status([T, P], [R, P])))
    assert values == [[0.0, 0.0], [0.0, 0.0]]


def entries(**pairs: tuple[int, int]) -> list[Obligations]:
    return [Obligations(name, total, proved) for name, (total, proved) in pairs.items()]


def with_entries(*rollouts: tuple[Status, Sequence[Obligations]]) -> Group:
    return build_turns_group(
        [[build_turn(PROBLEM, status, obligations=found)] for status, found in rollouts]
    )


def test_obligations_by_hand() -> None:
    group = with_entries(
        (P, entries(A=(3, 3), B=(2, 2))),
        (R, entries(A=(3, 3), B=(2, 1))),
        (R, entries(A=(3, 2), B=(2, 1))),
        (R, []),
    )
    # Credits: A 1, 1, 1/2, 0 with mean 5/8; B 1, 1/2, 1/2, 0 with mean 1/2.
    # Weights 3/8 + 0.05 = 0.425 and 0.5 + 0.05 = 0.55, whole 0.975.
    credit = [1.0, (0.425 + 0.275) / 0.975, 0.5, 0.0]
    assert weigh_entries(group, 0.05) == pytest.approx(credit)
    dense = [1.0, 0.5 * credit[1], 0.25, 0.0]
    mean = sum(dense) / 4
    expected = [r - 0.25 + 0.3 * (d - mean) for r, d in zip([1, 0, 0, 0], dense, strict=True)]
    (values,) = obligations(inputs(group))
    assert [turns[0] for turns in values] == pytest.approx(expected)


def test_obligations_gate_and_guards() -> None:
    group = with_entries(
        (R, entries(A=(2, 1))),
        # A cheat gets nothing, however much it proved.
        (Status.UNSOUND, entries(A=(2, 2))),
        # More obligations that hold are not more credit.
        (R, entries(A=(99, 98))),
        # A declaration that others do not have is not weighed.
        (R, entries(A=(2, 1), Mine=(50, 50))),
    )
    assert weigh_entries(group, 0.05) == [0.5, 0.0, 0.5, 0.5]


def test_obligations_without_any_count_keep_the_order_of_rewards() -> None:
    (values,) = obligations(inputs(by_status([P], [R])))
    assert values == [[pytest.approx(0.5 + 0.15)], [pytest.approx(-0.5 - 0.15)]]


def test_obligations_learn_from_failures_that_got_further() -> None:
    group = with_entries((R, entries(A=(4, 3))), (R, entries(A=(4, 1))))
    # 1/2 and 1/4 times 0.5 are 0.25 and 0.125; 0.3 times half their distance is 0.01875.
    (values,) = obligations(inputs(group))
    assert values == [[pytest.approx(0.01875)], [pytest.approx(-0.01875)]]
    assert ADMITS["obligations"](inputs(group)) == [True]


@st.composite
def judged(draw: st.DrawFn) -> tuple[Status, list[Obligations]]:
    status = draw(st.sampled_from([P, R, Status.EXHAUSTED, Status.UNSOUND, Status.INCOMPLETE]))
    totals = draw(st.lists(st.integers(0, 5), max_size=3))
    found = []
    for i, total in enumerate(totals):
        proved = total if status is P else draw(st.integers(0, total))
        found.append(Obligations(f"E{i}", total, proved))
    return status, found


@settings(deadline=None)
@given(
    st.lists(judged(), min_size=2, max_size=5),
    st.floats(0.0, 10.0),
    st.floats(0.0, 0.99),
)
def test_a_failed_proof_never_outranks_a_proved_one(
    rollouts: list[tuple[Status, list[Obligations]]], weight: float, share: float
) -> None:
    group = with_entries(*rollouts)
    (values,) = obligations(inputs(group, obligation_weight=weight, obligation_share=share))
    proved = [mean_credit(v[0]) for v, (s, _) in zip(values, rollouts, strict=True) if s is P]
    failed = [mean_credit(v[0]) for v, (s, _) in zip(values, rollouts, strict=True) if s is not P]
    if proved and failed:
        assert min(proved) >= max(failed) + 1.0 - 1e-9


def test_samples_carry_one_advantage_a_token() -> None:
    group = by_tokens(([1, 2], P), ([1, 3], R))
    samples = build_samples(group, [[(0.5, -0.25)], [0.75]])
    assert [sample.advantages for sample in samples] == [
        (0.0, 0.0, 0.0, 0.5, -0.25),
        (0.0, 0.0, 0.0, 0.75, 0.75),
    ]
    with pytest.raises(RecordError, match="1 advantages for a turn of 2 tokens"):
        build_samples(group, [[(1.0,)], [0.0]])


def test_credit_methods_keep_to_one_role() -> None:
    solver = by_tokens(([1, 2], P), ([1, 3], R))
    composer = Group(
        ("composer", "p"),
        tuple(replace(rollout, role="composer") for rollout in solver.rollouts),
        (Reward(0.0), Reward(1.0)),
    )
    together = replace(inputs(solver), groups=[solver, composer])
    for method in (obligations, turn_credit, dr_grpo):
        assert method(together)[0] == method(inputs(solver))[0]
        assert carries_signal(method(together)[0])
