"""Credit within a rollout: turns, obligations, prefix trees and shared steps, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.advantages.base import (
    AdvantageInputs,
    GroupAdvantages,
    ProofStep,
    carries_signal,
    mean_credit,
)
from proverrl.advantages.credit import (
    line_steps,
    obligations,
    prefix_values,
    salt,
    tempo,
    turn_credit,
    weigh_entries,
)
from proverrl.advantages.group import dr_grpo, grpo
from proverrl.advantages.methods import ADMITS
from proverrl.config import AdvantageConfig
from proverrl.errors import RecordError
from proverrl.rollout.samples import build_samples
from proverrl.types import Group, Obligations, Reward, Status, Turn
from tests.builders import build_problem, build_turn, build_turns_group

PROBLEM = build_problem("p")
P, R, T = Status.PROVED, Status.REJECTED, Status.TIMEOUT
NEWLINE = 0


def by_status(*rollouts: Sequence[Status]) -> Group:
    return build_turns_group([[build_turn(PROBLEM, s) for s in turns] for turns in rollouts])


def by_tokens(*rollouts: tuple[Sequence[int], Status]) -> Group:
    return build_turns_group([[build_turn(PROBLEM, s, tokens)] for tokens, s in rollouts])


def decode(ids: list[int]) -> str:
    return "".join("\n" if i == NEWLINE else chr(96 + i) for i in ids)


def inputs(group: Group, **settings: float) -> AdvantageInputs:
    return AdvantageInputs(
        [group], AdvantageConfig.model_validate(settings), steps=line_steps(decode)
    )


def tokens_of(values: GroupAdvantages) -> list[list[float]]:
    """Per rollout the credits of its only turn's tokens."""
    found = []
    for (credit,) in values:
        assert isinstance(credit, tuple)
        found.append(list(credit))
    return found


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


def test_tempo_by_hand() -> None:
    # Three rollouts: 1 2 3 proved, 1 2 4 failed, 5 failed. Values: root 1/3, [1] and [1 2] 1/2,
    # [1 2 3] 1, [1 2 4] 0, [5] 0. std sqrt(2)/3.
    group = by_tokens(([1, 2, 3], P), ([1, 2, 4], R), ([5], R))
    assert prefix_values(group, [1, 0, 0]) == [
        [pytest.approx([1 / 3, 1 / 2, 1 / 2, 1])],
        [pytest.approx([1 / 3, 1 / 2, 1 / 2, 0])],
        [pytest.approx([1 / 3, 0])],
    ]
    root = 3 / math.sqrt(2)  # 1 / std
    first, second, third = tokens_of(tempo(inputs(group))[0])
    proved, failed = math.sqrt(2), -1 / math.sqrt(2)
    assert first == pytest.approx([proved + root / 6, proved, proved + root / 2], rel=1e-5)
    assert second == pytest.approx([failed + root / 6, failed, failed - root / 2], rel=1e-5)
    assert third == pytest.approx([failed - root / 3], rel=1e-5)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 2), min_size=1, max_size=5), st.sampled_from([P, R])),
        min_size=2,
        max_size=6,
    )
)
def test_tempo_off_branches_is_grpo(rollouts: list[tuple[list[int], Status]]) -> None:
    group = by_tokens(*rollouts)
    base = [mean_credit(turns[0]) for turns in grpo(inputs(group))[0]]
    for i, credit in enumerate(tokens_of(tempo(inputs(group))[0])):
        own = rollouts[i][0]
        for t, value in enumerate(credit):
            here = {j for j, (ids, _) in enumerate(rollouts) if ids[:t] == own[:t]}
            there = {j for j in here if rollouts[j][0][: t + 1] == own[: t + 1]}
            if here == there:
                assert value == pytest.approx(base[i], abs=1e-9)


def test_a_later_turn_is_compared_with_turns_of_the_same_prompt_only() -> None:
    group = build_turns_group(
        [
            [build_turn(PROBLEM, R, [1]), build_turn(PROBLEM, P, [7], prompt=[1, 9])],
            [build_turn(PROBLEM, R, [1]), build_turn(PROBLEM, R, [7], prompt=[1, 9])],
            [build_turn(PROBLEM, R, [2]), build_turn(PROBLEM, R, [7], prompt=[2, 9])],
        ]
    )
    values = prefix_values(group, [1, 0, 0])
    assert values[0] == [pytest.approx([1 / 3, 1 / 2]), [0.5, 0.5]]
    assert values[2] == [pytest.approx([1 / 3, 0]), [0.0, 0.0]]


def test_salt_shares_lines_by_hand() -> None:
    # Lines "a", then "b" (proved) or "c" (failed, twice). GRPO: sqrt(2), and -1/sqrt(2) twice.
    group = by_tokens(([1, NEWLINE, 2], P), ([1, NEWLINE, 3], R), ([3], R))
    first, second, third = tokens_of(salt(inputs(group))[0])
    proved, failed = math.sqrt(2), -1 / math.sqrt(2)
    shared = (proved + failed) / 2
    assert first == pytest.approx([shared, shared, proved], rel=1e-5)
    # The last line "c" stands behind "a" here and alone in the third: two different steps.
    assert second == pytest.approx([shared, shared, failed], rel=1e-5)
    assert third == pytest.approx([failed], rel=1e-5)


def test_salt_with_goals_as_keys_merges_what_reads_differently() -> None:
    group = by_tokens(([1, 2], P), ([3], R))

    def to_the_goal(turn: Turn) -> list[ProofStep]:
        return [ProofStep("x = x", len(turn.completion.token_ids))]

    given_inputs = replace(inputs(group), steps=to_the_goal)
    assert tokens_of(salt(given_inputs)[0]) == [[0.0, 0.0], [0.0]]
    # Nothing tells the two apart, so there is nothing to learn.
    assert ADMITS["salt"](given_inputs) == [False]


def test_line_steps_ignore_layout_and_empty_lines() -> None:
    def keys(*tokens: int) -> list[object]:
        turn = build_turn(PROBLEM, R, tokens)
        return [step.key for step in line_steps(lambda ids: decode(ids).replace("z", " "))(turn)]

    z = 26  # a blank
    assert keys(1, NEWLINE, 2) == [((1, 2, 3), (), "a"), ((1, 2, 3), ("a",), "b")]
    assert keys(z, 1, z, NEWLINE, NEWLINE, 2)[0] == keys(1)[0]
    assert keys(z, 1, z, NEWLINE, NEWLINE, 2)[-1] == keys(1, NEWLINE, 2)[-1]
    assert [s.end for s in line_steps(decode)(build_turn(PROBLEM, R, [1, 0, 2, 3, 0]))] == [2, 5]


def test_salt_refuses_steps_that_do_not_fit() -> None:
    group = by_tokens(([1, 2], P), ([3], R))
    with pytest.raises(RecordError, match="must say what a step is"):
        salt(AdvantageInputs([group], AdvantageConfig()))
    with pytest.raises(RecordError, match=r"steps end at \[1\] in a turn of 2 tokens"):
        salt(replace(inputs(group), steps=lambda _: [ProofStep("x", 1)]))


def test_samples_carry_one_advantage_a_token() -> None:
    group = by_tokens(([1, 2], P), ([1, 3], R))
    (values,) = tempo(inputs(group))
    samples = build_samples(group, values)
    assert [sample.advantages for sample in samples] == [
        (0.0, 0.0, 0.0, *credit) for credit in tokens_of(values)
    ]
    assert samples[0].advantages[3] != samples[0].advantages[4]
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
    for method in (tempo, salt, obligations, turn_credit, dr_grpo):
        assert method(together)[0] == method(inputs(solver))[0]
        assert carries_signal(method(together)[0])
