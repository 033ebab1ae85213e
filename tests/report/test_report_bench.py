"""The made-up run has the size that was asked for, and its real report says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.errors import RunError
from scripts.bench.__main__ import bench
from scripts.bench.report import Size, build_report, measure_report, write_run
from tests.report_page import Page, unpack_json


@pytest.mark.slow
def test_the_report_of_a_made_up_run_counts_everything(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(Size(attempts=1000, problems=30, steps=3, rollouts=16, tokens=20), run)
    cost = build_report(run)
    text = (run / "report.html").read_text("utf-8")
    assert cost.page_mb == (run / "report.html").stat().st_size / 1e6
    assert min(cost.seconds, cost.cpu_seconds, cost.peak_mb, cost.stored_mb) > 0
    page = Page(text)
    [entry] = page.data["problems"]
    # 1000 attempts at 30 problems: 34 each, so that the last one has 1000 - 29 * 34 = 14.
    assert (entry["problems"], entry["detailed"]) == (30, 30)
    assert [column["attempts"] for column in entry["columns"]] == [1000]
    assert unpack_json(page.pieces["problems-0"])["attempts"] == [[34] * 29 + [14]]
    steps = page.data["rollouts"]["steps"]
    assert [(e["step"], e["rollouts"], e["groups"], e["detailed"]) for e in steps] == [
        (step, 16, 2, 16) for step in (1, 2, 3)
    ]
    assert page.data["rollouts"]["totals"][0]["rollouts"] == 48
    tokens = page.piece("rollouts-0-3")["groups"][1]["rollouts"][7]["turns"]
    assert [len(turn["ids"]) for turn in tokens] == [10, 10]


@pytest.mark.slow
def test_the_command_writes_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    size = ["--attempts", "40", "--problems", "4", "--steps", "2", "--rollouts", "8"]
    done = CliRunner().invoke(bench, ["report", *size, "--out", str(out)])
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text())
    assert results["size"]["attempts"] == 40
    assert results["cost"]["page_mb"] < 20


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(RunError, match="is not empty"):
        measure_report(Size(), tmp_path, say=print)
