"""Solve rate against what was spent, by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.evaluation.attempts import AttemptRow, read_attempt
from proverrl.evaluation.budgets import (
    BudgetUnit,
    Spending,
    choose_budgets,
    measure_spending,
    paired_difference,
    solve_curve,
)
from proverrl.evaluation.tally import tally_rows
from proverrl.files.seal import add_seal
from tests import report_runs as made


def attempt(
    problem: str, number: int, status: str, *turns: tuple[str | None, int | None]
) -> AttemptRow:
    row = {
        "problem_id": problem,
        "attempt": number,
        "status": status,
        "turns": [
            {"candidate": key, "num_tokens": tokens, "finish_reason": "stop"}
            for key, tokens in turns
        ],
    }
    return read_attempt(add_seal(row), "a row")


def spend(rows: Sequence[AttemptRow], unit: BudgetUnit) -> dict[str, Spending]:
    spending = measure_spending(tally_rows(enumerate(rows)).problems, unit)
    assert spending is not None
    return spending


# Problem a: the first rollout fails twice, the second writes what is known and then a proof.
# Problem b: nothing proves it; one answer has no candidate in it, one attempt is unjudged.
# Problem c: proved at once.
ROWS = [
    attempt("a", 1, "proved", ("x", 10), ("z", 7)),
    attempt("a", 0, "rejected", ("x", 10), ("y", 20)),
    attempt("a", 2, "proved", ("z", 7)),
    attempt("b", 0, "rejected", (None, 5), ("p", 6)),
    attempt("b", 1, "timeout", ("q", 100), ("r", 100)),
    attempt("b", 2, "rejected", ("p", 6), ("s", 4)),
    attempt("c", 0, "proved", ("u", 3)),
]


def test_what_each_problem_cost() -> None:
    # a: turns 2, then the proof at the 4th; 5 in all. b: 2 + 2, the unjudged attempt left out.
    assert spend(ROWS, "turns") == {
        "a": Spending(4, 5),
        "b": Spending(None, 4),
        "c": Spending(1, 1),
    }
    # a: x, y; x again is free; z is the 3rd. b: p, then s.
    assert spend(ROWS, "calls") == {
        "a": Spending(3, 3),
        "b": Spending(None, 2),
        "c": Spending(1, 1),
    }
    # a: 10 + 20 + 10 + 7 = 47, then 7 more. b: 5 + 6 + 6 + 4 = 21.
    assert spend(ROWS, "tokens") == {
        "a": Spending(47, 54),
        "b": Spending(None, 21),
        "c": Spending(3, 3),
    }


def test_the_curve() -> None:
    points = solve_curve(spend(ROWS, "calls"), [1, 2, 3, 4])
    assert [p.solved for p in points] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    # Spent of a, b, c: 1 1 1; 2 2 1; 3 2 1; 3 2 1.
    assert [p.spent for p in points] == pytest.approx([1, 5 / 3, 2, 2])
    # b has only two candidates; from a budget of 3 on its attempts have run out.
    assert [p.ran_out for p in points] == pytest.approx([0, 0, 1 / 3, 1 / 3])
    assert all(p.low <= p.solved <= p.high for p in points)


def test_two_turns_against_two_samples() -> None:
    # The same four answers, as two rollouts of two turns and as four samples: at equal turns the
    # curves agree, since only what is spent counts.
    rollouts = [
        attempt("a", 0, "rejected", ("1", 5), ("2", 5)),
        attempt("a", 1, "proved", ("3", 5), ("4", 5)),
    ]
    statuses = ["rejected", "rejected", "rejected", "proved"]
    samples = [attempt("a", n, s, (str(n + 1), 5)) for n, s in enumerate(statuses)]
    for unit in get_args(BudgetUnit):
        assert spend(rollouts, unit) == spend(samples, unit)


def test_differences_are_paired() -> None:
    one = {"a": Spending(1, 4), "b": Spending(2, 4), "c": Spending(None, 4)}
    other = {"a": Spending(3, 4), "b": Spending(2, 4), "c": Spending(None, 4)}
    assert paired_difference(one, other, 2).value == pytest.approx(1 / 3)
    gap = paired_difference(one, other, 3)
    # Three problems that agree: none of 3 is up to 1 - 0.025^(1/3) at 95 %, on either side.
    edge = 1 - 0.025 ** (1 / 3)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.0, -edge, edge))
    with pytest.raises(UsageError, match="not on the same problems"):
        paired_difference(one, {"a": Spending(1, 1)}, 1)


def test_budgets_reach_what_all_have_spent() -> None:
    spendings = [{"a": Spending(None, 16), "b": Spending(1, 1)}, {"a": Spending(None, 11)}]
    assert choose_budgets(spendings) == [1, 2, 4, 8, 11]
    assert choose_budgets(spendings[:1]) == [1, 2, 4, 8, 16]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 5), min_size=1, max_size=3)), max_size=8
    )
)
@settings(deadline=None)
def test_a_larger_budget_never_solves_less(attempts: list[tuple[bool, list[int]]]) -> None:
    rows = [
        attempt("a", n, "proved" if p else "rejected", *((str(k), k) for k in keys))
        for n, (p, keys) in enumerate(attempts)
    ] + [attempt("z", 0, "rejected", ("k", 1))]
    turns = spend(rows, "turns")
    calls = spend(rows, "calls")
    assert all(calls[name].total <= turns[name].total for name in turns)
    solved = [p.solved for p in solve_curve(calls, range(1, 30))]
    assert solved == sorted(solved)


def test_tokens_that_were_not_counted_are_refused(tmp_path: Path) -> None:
    row = {**attempt("a", 0, "rejected", ("x", None))}
    command = ["compare", str(write(tmp_path, "one", [row])), "--budget"]
    with pytest.raises(UsageError, match="endpoint did not say how many tokens it wrote; compare"):
        raise_from([*command, "tokens"])
    assert CliRunner().invoke(cli, [*command, "calls"]).exception is None


def write(folder: Path, name: str, rows: Sequence[Mapping[str, Any]], **labels: str) -> Path:
    made.write_attempts(folder / f"{name}.jsonl", list(map(dict, rows)))
    summary = folder / f"{name}.json"
    samples = max(row["attempt"] for row in rows) + 1
    levels = [{"level": "all", "num_problems": len({row["problem_id"] for row in rows})}]
    known = {"benchmark_sha256": "b", "samples_per_problem": samples, "levels": levels}
    made.write_summary(summary, known | {"toolchain": "t"} | labels)
    return summary


def test_the_command_compares_and_refuses(tmp_path: Path) -> None:
    samples = [attempt(p, 0, "rejected", (p, 1)) for p in "abc"]
    one, two = write(tmp_path, "one", samples), write(tmp_path, "two", ROWS)
    command = ["compare", str(one), str(two), "--budget", "calls", "--budgets", "1,3"]
    # c was attempted once, a and b three times.
    with pytest.raises(UsageError, match="missing attempts: 2, the first is 1 of 'c'"):
        raise_from(command)
    rest = [attempt("c", number, "rejected") for number in (1, 2)]
    two = write(tmp_path, "two", [*ROWS, *rest])
    result = CliRunner().invoke(cli, command)
    assert result.exception is None
    # A long path in a heading may leave "3 problems" at the beginning of a line.
    rows = [line.split() for line in re.findall(r"^ *[13] +\d.*", result.stdout, re.MULTILINE)]
    assert [row[:2] for row in rows] == [["1", "0.0"], ["3", "0.0"], ["1", "33.3"], ["3", "66.7"]]
    # Two of three gained: 1 and 1 against 0 (and -1), turned as often as not: p 0.5; one of three
    # ran out of attempts.
    assert (rows[3][4], rows[3][-2:]) == ("+66.7", ["0.5", "33.3"])
    other = write(tmp_path, "other", [*ROWS, *rest], benchmark_sha256="c")
    with pytest.raises(UsageError, match="benchmark_sha256 is 'c' and 'b'"):
        raise_from(["compare", str(one), str(other), "--budget", "calls"])
    with pytest.raises(UsageError, match=r"none\.json: no such file"):
        raise_from(["compare", str(tmp_path / "none.json"), "--budget", "calls"])
    with pytest.raises(UsageError, match="--budgets '1,x'"):
        raise_from(["compare", str(one), "--budget", "calls", "--budgets", "1,x"])


def raise_from(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is not None
    raise result.exception
