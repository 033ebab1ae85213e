"""Evaluations side by side, by hand: differences, overlaps, budgets, calibration, tables."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from proverrl.cli.main import cli
from proverrl.evaluation.attempts import AttemptRow, read_attempt
from proverrl.evaluation.budgets import UNITS, Spending, measure_spending
from proverrl.evaluation.tally import tally_rows
from proverrl.files.seal import add_seal
from proverrl.report import build_page, problem_data, write_tables
from proverrl.report.budgets import build_tables
from proverrl.report.calibration import Bin, bin_problems, measure_calibrations
from proverrl.report.comparison import (
    Shelf,
    count_overlap,
    list_differences,
    list_pairs,
    list_shelves,
    list_warnings,
)
from proverrl.report.formats import (
    BUDGET_COLUMNS,
    DIFFERENCE_COLUMNS,
    HEADLINE_COLUMNS,
    PROBLEM_COLUMNS,
)
from proverrl.report.headline import list_columns
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
    assert count_overlap(shelf, 0, 1) == McNemar(1, 1, 1, 0, 1.0)
    assert count_overlap(shelf, 1, 0) == McNemar(1, 1, 1, 0, 1.0)
    # On the diagonal: one solved a and b of three judged; two solved b, c and d of four.
    assert count_overlap(shelf, 0, 0) == McNemar(0, 0, 2, 1, 1.0)
    assert count_overlap(shelf, 1, 1) == McNemar(0, 0, 3, 1, 1.0)
    page = build_page([tmp_path / "one", tmp_path / "two"])
    text = Page(page).text
    assert "both solved 1, only the first 1, only the second 1, neither 0; 1 have no judged" in text
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


def test_solved_within_a_budget(tmp_path: Path) -> None:
    tables, notes = build_tables(shelf_of(tmp_path))
    assert notes == []
    calls = next(table for table in tables if table.unit == "calls")
    assert (calls.budgets, calls.problems, calls.unjudged) == ([1, 2, 3], 4, 3)
    # one: a and b at once, c never, d unjudged; two: b and d at once, c at the second.
    assert [[cell.solved for cell in row] for row in calls.cells] == [[0.5] * 3, [0.5, 0.75, 0.75]]
    # c ran out of its 3 attempts at no budget, d (nothing judged) at every one.
    assert [cell.ran_out for cell in calls.cells[0]] == [0.25] * 3
    gaps = [cell.against_first for cell in calls.cells[1]]
    differences = [gap.value for gap in gaps if gap is not None]
    # At 1: a -1, d +1; from 2 on c +1 too, over four problems.
    assert differences == pytest.approx([0.0, 0.25, 0.25])
    tokens = next(table for table in tables if table.unit == "tokens")
    assert tokens.budgets == [1, 2, 4, 8, 16, 30]


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
        for unit in UNITS:
            at = None if solved is None else solved[unit]
            assert measure_spending(problems, unit) == {"a": Spending(at, costs[unit])}


def test_attempts_without_a_known_cost_are_named(tmp_path: Path) -> None:
    turn = {"candidate": "x", "num_tokens": None}
    run = made.make_run(tmp_path / "run", steps=2)
    for name in ("before", "after"):
        rows = [
            row | {"turns": [turn | STOPPED]} for row in made.make_attempts(random.Random(0), 0.5)
        ]
        made.write_attempts(run / "evals" / f"{name}.jsonl", rows)
    [shelf] = list_shelves(load_runs([run]))
    tables, notes = build_tables(shelf)
    assert [table.unit for table in tables] == ["turns", "calls"]
    assert notes == ["Before, After: the endpoint did not report how many tokens it wrote."]
    [file] = write_tables([run], "json", out=tmp_path / "r.json")
    assert notes[0] in json.loads(file.read_text())["warnings"]
    problems = tally_rows([(0, make_attempt(0, "rejected", [turn]))]).problems
    assert measure_spending(problems, "tokens") is None
    assert measure_spending(problems, "calls") == {"a": Spending(None, 1)}


def test_bins_hold_the_means_of_their_problems() -> None:
    bins = bin_problems([(0.12, 0.0, 8), (0.18, 0.5, 4), (1.0, 1.0, 8)])
    assert bins[0].predicted == pytest.approx(0.15)
    assert (bins[0].low, bins[0].high, bins[0].problems, bins[0].attempts) == (0.1, 0.2, 2, 12)
    assert bins[0].measured == 0.25
    # Of 0 and 1/2: at the low end 0 has the weight of two, so that half of 1 - 0.975^0.5 is left.
    assert bins[0].interval[0] == pytest.approx(0.5 * (1 - 0.975**0.5))
    # One problem of 1: 2.5 % at least.
    assert bins[1] == Bin(0.9, 1.0, 1, 8, 1.0, 1.0, bins[1].interval)
    assert bins[1].interval == pytest.approx((0.025, 1.0))


def test_the_curriculum_and_the_levels_are_held_against_the_evaluation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ONE)
    levels = {"1": {"attempts": 30, "solved": 12}, "2": {"attempts": 10, "solved": 1}}
    made.write_lines(
        run / "metrics.jsonl", [{"kind": "step", "step": s, "levels": levels} for s in (1, 2)]
    )
    posterior = {"fa": [1.0, 3.0], "fb": [3.0, 1.0]}
    for step in (1, 2):
        made.write_json(
            run / "checkpoints" / f"step_00000{step}" / "state.json",
            add_seal({"curriculum": {"posterior": posterior if step == 2 else {}}}),
        )
    curriculum, level = measure_calibrations(load_runs([run]))
    # fa 1 / 4 against 1 / 3, fb 3 / 4 against 1; c and d have no prediction or no judged attempt.
    assert (curriculum.problems, curriculum.without, curriculum.unjudged) == (2, 2, 3)
    assert curriculum.error == pytest.approx((1 / 12 + 1 / 4) / 2)
    # Their mean is 2 / 3, which is off by 1 / 3 at both.
    assert curriculum.spread == pytest.approx(1 / 3)
    # 24 of 60 at level 1: 0.4 for a (1 / 3), b (1) and c (0).
    assert [part.predicted for part in level.bins] == pytest.approx([0.4])
    assert level.error == pytest.approx((0.4 - 1 / 3 + 0.6 + 0.4) / 3)
    assert (level.problems, level.without) == (3, 1)


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
    *_, file = write_tables([run], "csv", out=tmp_path / "r.csv")
    assert [row["warning"] for row in read_csv(file)] == found


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_tables_hold_the_figures_of_the_page(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "one", ONE), write_run(tmp_path / "two", TWO)]
    out = tmp_path / "tables" / "r.csv"
    files = write_tables(runs, "csv", out=out)
    parts = ("", "_differences", "_budgets", "_problems", "_completions", "_warnings")
    assert [file.name for file in files] == [f"r{part}.csv" for part in parts]
    headline, differences, budgets, problems, _, warnings = map(read_csv, files)
    assert warnings == [{"warning": text} for text in list_warnings(load_runs(runs))]
    assert tuple(headline[0]) == HEADLINE_COLUMNS
    assert tuple(differences[0]) == DIFFERENCE_COLUMNS
    assert tuple(problems[0]) == PROBLEM_COLUMNS
    assert tuple(budgets[0]) == BUDGET_COLUMNS
    # As in test_solved_within_a_budget: 3 budgets of turns and of calls, 6 of tokens.
    assert len(budgets) == 2 * (3 + 3 + 6)
    [row] = [
        row for row in budgets if (row["unit"], row["budget"]) == ("calls", "2") and row["against"]
    ]
    found = [
        row[key] for key in ("column", "against", "solved", "difference", "ran_out", "problems")
    ]
    assert found == ["After two", "After one", "0.75", "0.25", "0.0", "4"]

    page = Page(build_page(runs))
    index = page.piece("problems-0")
    for row in problems:
        place = index["ids"].index(row["problem"])
        column = ["After one", "After two"].index(row["column"])
        counts = [index[key][column][place] for key in ("attempts", "judged", "solved")]
        assert [int(row[key]) for key in ("attempts", "judged", "proved")] == counts
        assert int(row["unjudged"]) == counts[0] - counts[1]
        if counts[1]:
            assert float(row["solve_rate"]) == counts[2] / counts[1]
        else:
            assert row["solve_rate"] == ""
    assert len(problems) == 8
    for row in headline:
        shown = f"{100 * float(row['pass']):.1f} {100 * float(row['low']):.1f}"
        assert shown in page.text
    [difference] = differences
    assert f"{100 * abs(float(difference['difference'])):.1f}" in page.text

    [file] = write_tables(runs, "json", out=tmp_path / "r.json")
    stored = json.loads(file.read_text())
    assert [str(row["proved"]) for row in stored["problems"]] == [row["proved"] for row in problems]
    assert [str(row["pass"]) for row in stored["headline"]] == [row["pass"] for row in headline]
    assert stored["warnings"] == []
    titles = [column.title for column in list_columns(load_runs(runs))]
    assert [row["column"] for row in stored["headline"]] == [t for t in titles for _ in (1, 8)]


def test_markdown_cannot_be_broken_by_a_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a|b\n<i>": "pr"})
    done = CliRunner().invoke(cli, ["report", str(run), "--format", "md"])
    assert done.output.strip() == str(run / "report.md")
    lines = (run / "report.md").read_text().splitlines()
    assert (
        "| a\\|b \\<i\\> | 1 | fa\\|b \\<i\\> | After | after | 2 | 2 | 0 | 1 | 0.5000 |" in lines
    )


def test_only_the_first_attempts_have_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = load_runs([write_run(tmp_path / "one", ONE)])
    for most, expected in ((400, ["prr", "ppp", "rrr", "ttt"]), (2, ["pr", "pp", "rr", "tt"])):
        monkeypatch.setattr(problem_data, "MARKS_KEPT", most)
        _, details = problem_data.build_problems(runs, list_shelves(runs)).pieces
        columns = [row["columns"][0] for row in unpack_json(details.packed)]
        assert [column["marks"] for column in columns] == expected
