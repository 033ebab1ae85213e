"""Evaluations side by side, by hand: differences, overlaps, costs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.evaluation.attempts import AttemptRow, read_attempt
from proverrl.evaluation.budgets import BudgetUnit, Spending, measure_spending
from proverrl.evaluation.tally import tally_rows
from proverrl.files.seal import add_seal
from proverrl.report import build_page, problem_data
from proverrl.report.comparison import (
    Shelf,
    count_overlap,
    list_differences,
    list_pairs,
    list_shelves,
    list_warnings,
)
from proverrl.report.run import load_runs
from proverrl.statistics import McNemar, compare_paired
from tests import report_runs as made
from tests.report_page import Page, unpack_json

# Status letters of each attempt: p proved, r rejected, t timeout.
ONE = {"a": "prr", "b": "ppp", "c": "rrr", "d": "ttt"}
TWO = {"a": "rrr", "b": "prr", "c": "rpr", "d": "ppp"}
STOPPED = {"finish_reason": "stop"}
STATUSES = {"p": "proved", "r": "rejected", "t": "timeout"}


def write_run(path: Path, attempts: dict[str, str], **labels: Any) -> Path:
    """A run with one evaluation; every attempt is a new candidate of ten tokens."""
    made.write_json(path / "resolved.json", made.make_resolved("grpo", 3))
    made.write_lines(path / "metrics.jsonl", made.make_metrics("grpo", 3, random.Random(0)))
    rows = [
        {
            "problem_id": name,
            "level": 1,
            "family": f"f{name}",
            "attempt": number,
            "body": "x",
            "status": STATUSES[letter],
            "diagnostics": [],
            "turns": [{"candidate": f"{name}{number}", "num_tokens": 10} | STOPPED],
        }
        for name, letters in attempts.items()
        for number, letter in enumerate(letters)
    ]
    made.write_attempts(path / "evals" / "after.jsonl", rows)
    samples = max(map(len, attempts.values()))
    figures = {"all": (0.5, 0.5)}
    summary = made.make_eval("after", figures, problems=len(attempts), samples=samples) | labels
    made.write_summary(path / "evals" / "after.json", summary)
    return path


def shelf_of(tmp_path: Path) -> Shelf:
    runs = [write_run(tmp_path / "one", ONE), write_run(tmp_path / "two", TWO)]
    [shelf] = list_shelves(load_runs(runs))
    return shelf


def test_differences_are_paired_by_problem(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    assert list_pairs(shelf.columns) == [(1, 0)]
    [found] = list_differences(shelf)
    assert (found.title, found.base, found.k) == ("After two", "After one", 1)
    # pass@1 of a 0 - 1/3, b 1/3 - 1, c 1/3 - 0; d has no judged attempt in one of them.
    assert found.gap.value == pytest.approx((-1 / 3 - 2 / 3 + 1 / 3) / 3)
    assert (found.problems, found.excluded) == (3, 1)
    # The same as `proverrl compare` says of the same values.
    gap = compare_paired([(3, 1), (3, 3), (3, 0)], [(3, 0), (3, 1), (3, 1)], 1)
    assert found.gap == gap
    # -2/3 and -1/3 against 1/3: of 8 ways to turn them 6 are 2/3 or more from 0.
    assert found.gap.p == 0.75


def test_who_solved_what(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    # a only one, b both, c only two, d unknown.
    assert count_overlap(shelf, 0, 1) == McNemar(1, 1, 1, 1.0)
    assert count_overlap(shelf, 1, 0) == McNemar(1, 1, 1, 1.0)
    # On the diagonal: one solved a and b of three judged; two solved b, c and d of four.
    assert count_overlap(shelf, 0, 0) == McNemar(0, 0, 2, 1.0)
    assert count_overlap(shelf, 1, 1) == McNemar(0, 0, 3, 1.0)
    page = build_page([tmp_path / "one", tmp_path / "two"])
    assert page.count('class="count"') == 4


def test_before_and_after_of_one_run_are_compared_with_each_other(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    [shelf] = list_shelves(load_runs([run]))
    assert [column.title for column in shelf.columns] == ["Before", "After"]
    assert [(d.title, d.base, d.k) for d in list_differences(shelf)] == [
        ("After", "Before", 1),
        ("After", "Before", 8),
    ]


def test_evaluations_of_one_name_are_compared_with_each_other(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "one", ONE), write_run(tmp_path / "two", TWO)]
    for run in runs:
        for ending in ("json", "jsonl", "settings"):
            text = (run / "evals" / f"after.{ending}").read_text()
            (run / "evals" / f"late.{ending}").write_text(text)
    [shelf] = list_shelves(load_runs(runs))
    titles = [column.title for column in shelf.columns]
    assert [(titles[a], titles[b]) for a, b in list_pairs(shelf.columns)] == [
        ("late, one", "After one"),
        ("After two", "After one"),
        ("late, two", "late, one"),
    ]


def make_attempt(number: int, status: str, turns: list[dict[str, Any]]) -> AttemptRow:
    turns = [turn | STOPPED for turn in turns]
    row = {"problem_id": "a", "attempt": number, "status": status, "turns": turns}
    return read_attempt(add_seal(row), "a row")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["proved", "rejected", "timeout"]),
            st.lists(st.tuples(st.sampled_from([None, "x", "y", "z"]), st.integers(0, 9))),
        ),
        min_size=1,
    )
)
def test_costs_count_in_the_order_of_the_numbers(draws: list[Any]) -> None:
    """Against a plain count; lines may lie in any order, as where lost attempts were made again."""
    rows = [
        make_attempt(number, status, [{"candidate": key, "num_tokens": n} for key, n in turns])
        for number, (status, turns) in enumerate(draws)
    ]
    costs = {"turns": 0, "calls": 0, "tokens": 0}
    solved: dict[str, int] | None = None
    seen: set[str] = set()
    for status, turns in draws:
        if status == "timeout":
            continue
        seen |= {key for key, _ in turns if key is not None}
        costs["turns"] += len(turns)
        costs["tokens"] += sum(n for _, n in turns)
        costs["calls"] = len(seen)
        if status == "proved" and solved is None:
            solved = dict(costs)
    for order in (rows, rows[::-1], random.Random(0).sample(rows, len(rows))):
        problems = tally_rows(enumerate(order)).problems
        for unit in get_args(BudgetUnit):
            at = None if solved is None else solved[unit]
            assert measure_spending(problems, unit) == {"a": Spending(at, costs[unit])}


def test_an_attempt_without_a_known_number_of_tokens_has_no_cost_in_tokens() -> None:
    turn = {"candidate": "x", "num_tokens": None}
    problems = tally_rows([(0, make_attempt(0, "rejected", [turn]))]).problems
    assert measure_spending(problems, "tokens") is None
    assert measure_spending(problems, "calls") == {"a": Spending(None, 1)}


def test_unlike_conditions_are_said(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", ONE, top_p=1.0)
    unlike = {"toolchain": "dafny 4.9.0", "temperature": 0.6, "top_p": 0.95}
    two = write_run(tmp_path / "two", TWO, **unlike)
    found = list_warnings(load_runs([one, two]))
    assert found == [
        "Compare with care, the verifier (toolchain) differs: dafny 2.3.0: After one; "
        "dafny 4.9.0: After two.",
        "Compare with care, the temperature differs: 1.0: After one; 0.6: After two.",
        "Compare with care, the top-p differs: 1.0: After one; 0.95: After two.",
    ]
    assert found[0] in Page(build_page([one, two])).text
    three = write_run(tmp_path / "three", TWO, benchmark_sha256="c" * 64)
    [other] = list_warnings(load_runs([one, three]))
    assert other.startswith("Different benchmarks, never set side by side: After one on heldout")
    assert list_warnings(load_runs([one])) == []


def test_missing_doubled_and_cut_attempts_are_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ONE | {"b": "pp"})
    where = run / "evals" / "after.jsonl"
    lines = where.read_text().splitlines(keepends=True)
    where.write_text("".join([*lines, lines[0], lines[1][:-9]]))
    again = "; the same `proverrl eval` again (same --name) puts that right."
    found = list_warnings(load_runs([run]))
    assert found == [
        f"After, {where}, line 12: attempt 0 of problem 'a' occurs twice{again}",
        f"After, {where}, line 13: the last line was cut off{again}",
        f"After, {where}: missing attempts: 1, the first is 2 of 'b'{again}",
    ]
    page = Page(build_page([run])).text
    assert all(text in page for text in found)


def test_only_the_first_attempts_have_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = load_runs([write_run(tmp_path / "one", ONE)])
    for most, expected in ((400, ["prr", "ppp", "rrr", "ttt"]), (2, ["pr", "pp", "rr", "tt"])):
        monkeypatch.setattr(problem_data, "MARKS_KEPT", most)
        _, details = problem_data.build_problems(runs, list_shelves(runs)).pieces
        columns = [row["columns"][0] for row in unpack_json(details.packed)]
        assert [column["marks"] for column in columns] == expected
