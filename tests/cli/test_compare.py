"""Two evaluations set against each other, by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.evaluation.compare import (
    EXPECTED_TO_AGREE,
    check_comparable,
    compare_evaluations,
    read_evaluation,
)
from tests import report_runs as made

NONE = {"value": None, "num_problems": 0}
SETTINGS: dict[str, Any] = {
    "benchmark_sha256": "b",
    "toolchain": "Dafny 2.3",
    "temperature": 1.0,
    "samples_per_problem": 4,
    "levels": [{"level": "all", "num_problems": 5, "pass": {"1": NONE, "4": NONE}}],
}


def write(folder: Path, name: str, attempts: dict[str, str], **settings: Any) -> Path:
    """Attempts as letters, a problem each: p proved, r rejected, t timed out. Problems whose names
    begin with an a are of level 1, others of level 2."""
    letters = {"p": "proved", "r": "rejected", "t": "timeout"}
    rows = [
        {
            "problem_id": problem,
            "level": 1 if problem.startswith("a") else 2,
            "family": problem,
            "attempt": number,
            "status": letters[letter],
            "turns": [
                {"candidate": f"{problem}{number}", "num_tokens": 5, "finish_reason": "stop"}
            ],
        }
        for problem, line in attempts.items()
        for number, letter in enumerate(line)
    ]
    made.write_attempts(folder / f"{name}.jsonl", rows)
    path = folder / f"{name}.json"
    made.write_summary(path, SETTINGS | settings)
    return path


FIRST = {"a1": "prrr", "a2": "rrrr", "b1": "pppp", "b2": "rrpr", "b3": "ttpr"}
SECOND = {"a1": "pprr", "a2": "prrr", "b1": "prpp", "b2": "rrrr", "b3": "prrr"}


def test_groups_differences_and_left_out_problems(tmp_path: Path) -> None:
    first = read_evaluation(write(tmp_path, "first", FIRST))
    second = read_evaluation(write(tmp_path, "second", SECOND))
    assert check_comparable(first, second) == []
    assert check_comparable(first, first) == [f"{first.path} is compared with itself"]
    names = sorted(first.problems)
    rows = {(row.group, row.k): row for row in compare_evaluations(first, second, names, ks=(1, 4))}
    assert list(rows) == [(g, k) for g in ("all", "1", "2") for k in (1, 4)]
    whole = rows["all", 1]
    # First: 1/4 + 0 + 1 + 1/4 + 1/2 of 2 judged = 2; second: 1/2 + 1/4 + 3/4 + 0 + 1/4 = 7/4.
    assert whole.first["value"] == pytest.approx(2 / 5)
    assert whole.second["value"] == pytest.approx(7 / 4 / 5)
    assert whole.difference is not None
    assert whole.difference.value == pytest.approx(-1 / 20)
    # Differences 1/4, 1/4, -1/4, -1/4, and of b3 that of 2 attempts on both sides: 0 where the
    # second's proof is among those of it that are drawn, else -1/2. In the first case the sum is 0;
    # in the second -1/2, which 12 of 16 ways to turn the others reach with either sign.
    assert whole.difference.p in (1.0, 0.75)
    assert whole.unjudged == (2, 0)
    # At k = 1 the first judged attempt counts: p r p r p against p p p r p.
    assert (whole.solved.only_first, whole.solved.only_second, whole.solved.both) == (0, 1, 3)
    # At k = 4 b3 has 2 judged attempts on one side, and is left out on both.
    most = rows["all", 4]
    assert (most.num_problems, most.num_paired) == (5, 4)
    assert most.first["value"] == most.second["value"] == pytest.approx(3 / 4)
    # b2 only the first, a2 only the second: 2 (1 + ...) / 4 is above 1.
    assert (most.solved.only_first, most.solved.only_second, most.solved.p) == (1, 1, 1.0)
    level = rows["1", 1].difference
    assert level is not None
    assert level.value == pytest.approx(1 / 4)
    assert level.p == 0.5
    assert rows["2", 4].unjudged == (2, 0)


@pytest.mark.parametrize("key", EXPECTED_TO_AGREE)
def test_what_differs_is_said_with_both_values(tmp_path: Path, key: str) -> None:
    first, second = (
        replace(side, summary={**side.summary, key: value})
        for side, value in (
            (read_evaluation(write(tmp_path, "first", FIRST)), "this"),
            (read_evaluation(write(tmp_path, "second", SECOND)), "that"),
        )
    )
    (line,) = check_comparable(first, second)
    assert line.startswith(f"{key} differs: 'this' in")
    assert "'that' in" in line


def test_other_problems_are_refused(tmp_path: Path) -> None:
    first = read_evaluation(write(tmp_path, "first", FIRST))
    other = read_evaluation(write(tmp_path, "other", SECOND, benchmark_sha256="c"))
    with pytest.raises(UsageError, match="benchmark_sha256 is 'c' and 'b'"):
        check_comparable(first, other)
    assert "the files of problems differ" in check_comparable(first, other, common=True)[0]
    levels = [{"level": "all", "num_problems": 1}]
    fewer = read_evaluation(write(tmp_path, "fewer", {"a1": "rrrr"}, levels=levels))
    with pytest.raises(UsageError, match="4 of them were evaluated on one side only, such as 'a2'"):
        check_comparable(first, fewer)


def test_the_command(tmp_path: Path) -> None:
    first = str(write(tmp_path, "first", FIRST))
    second = str(write(tmp_path, "second", SECOND, temperature=0.5))
    result = CliRunner().invoke(cli, ["compare", first, second])
    assert result.exception is None
    assert "warning: temperature differs: 1.0 in" in result.stderr
    assert "4 of 5" in result.stdout
    assert "-5.0" in result.stdout
    result = CliRunner().invoke(cli, ["compare", first, second, "-k", "2", "--json"])
    read = json.loads(result.stdout)
    assert len(read["warnings"]) == 1
    (row, *_) = read["comparisons"][0]["groups"]
    # pass@2, first: 1/2, 0, 1, 1/2, 1; second: 5/6, 1/2, 1, 0, 1/2.
    assert row["k"] == 2
    assert row["first"]["value"] == pytest.approx(3 / 5)
    assert row["second"]["value"] == pytest.approx((5 / 6 + 2) / 5)
    budget = ["compare", first, second, "--budget", "calls", "--json"]
    read = json.loads(CliRunner().invoke(cli, budget).stdout)
    assert [point["budget"] for point in read["curves"][0]["points"]] == [1, 2, 4]
    for arguments, message in (
        (["compare", first], "two evaluations or more"),
        (["compare", first, second, "--budgets", "1"], "--budgets needs --budget"),
        (["compare", first, second, "-k", "x"], "-k 'x'"),
    ):
        error = CliRunner().invoke(cli, arguments).exception
        assert isinstance(error, UsageError)
        assert message in str(error)
