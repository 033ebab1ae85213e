"""The report's section on self-play: counts by hand, and what filters stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.errors import RunError
from proverrl.report import build_page
from proverrl.report.run import load_runs
from proverrl.report.selfplay import (
    MAX_TEXT_CHARS,
    build_selfplay_charts,
    count_outcomes,
    list_played,
    list_stopped,
)
from proverrl.types import HOLE, Problem
from tests import report_runs as made
from tests.report_page import Page

HOSTILE = "</script><script>window.owned = 1</script>"
NO_BINS = {"0": 0, "0-0.25": 0, "0.25-0.5": 0, "0.5-0.75": 0, "0.75-1": 0, "1": 0}


def make_row(step: int, kept: int, stops: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "kind": "step",
        "step": step,
        "seconds": 60.0 * step,
        "verifier_calls_total": 100 * step,
        "statements_written": kept + sum(stops.values()) + 1,
        "statements_malformed": 1,
        "statements_kept": kept,
        "filter_stops": stops,
        "filter_calls": 30,
        "solve_rates": {**NO_BINS, "0": kept},
        "composer_reward": 0.25 * step,
        "step_seconds": 10.0,
        "idle_composer_seconds": 9.0,
        "idle_pool_seconds": 1.0 * step,
        **more,
    }


def compose(name: str, *parents: str, statement: str = "", round_number: int = 0) -> Composed:
    text = statement or f"lemma {name}()\n{{\n  {HOLE}\n}}\n"
    problem = Problem(name, "dafny", "statements", "// before\n", text)
    return Composed(problem, parents, "negate", round_number, 7)


def make_play(folder: Path) -> Path:
    """Two rounds: one problem kept and tried, one stopped, one made of the first."""
    rows = [
        make_row(1, 3, {"trivial": 2}),
        make_row(2, 1, {"trivial": 1, "leak": 1}, solve_rates={**NO_BINS, "0.25-0.5": 1}),
    ]
    made.write_lines(folder / "metrics.jsonl", rows)
    made.write_json(folder / "resolved.json", {"config": {"loop": "selfplay"}})
    archive = ProblemArchive(folder / "archive.jsonl")
    archive.add(compose("one", "b1", "b2"))
    archive.note("one", solve_rate=0.5, modified=0.0, reward=0.5)
    archive.add(compose("two", "b1", statement=f"lemma Two() {HOSTILE} {HOLE}"))
    archive.note("two", stopped_by="trivial", reason=f"an empty body {HOSTILE}")
    archive.add(compose("three", "one", round_number=1))
    return folder


def test_what_became_of_statements() -> None:
    row = make_row(1, 3, {"trivial": 2, "leak": 0})
    assert count_outcomes(row) == {"kept": 3, "trivial": 2, "no statement in it": 1}
    assert count_outcomes({"step": 1}) == {}
    row = make_row(1, 1, {"trivial": 1}, statements_unchecked=4)
    counts = {"kept": 1, "trivial": 1, "no statement in it": 1, "not asked about": 4}
    assert count_outcomes(row) == counts


def test_charts_hold_the_shares_of_each_step(tmp_path: Path) -> None:
    runs = load_runs([make_play(tmp_path)])
    charts = {chart["title"]: chart for chart in build_selfplay_charts(runs)}
    assert {chart["holder"] for chart in charts.values()} == {"selfplay-charts"}
    # Round 1: 3 kept, 2 trivial, 1 unreadable of 6. Round 2: 1, 1 trivial, 1 leak, 1 of 4.
    assert [(s["name"], s["y"]) for s in charts["Statements"]["series"]] == [
        ("kept", [0.5, 0.25]),
        ("leak", [0.0, 0.25]),
        ("no statement in it", [0.166667, 0.25]),
        ("trivial", [0.333333, 0.25]),
    ]
    rates = {s["name"]: s["y"] for s in charts["Solve rates of composed problems"]["series"]}
    assert rates["p = 0"] == [1.0, 0.0]
    assert rates["p in 0.25-0.5"] == [0.0, 1.0]
    assert len(rates) == 6
    assert charts["Composer's reward"]["series"][0]["y"] == [0.25, 0.5]
    idle = {s["name"]: s["y"] for s in charts["Idle"]["series"]}
    assert idle == {"composer": [9.0, 9.0], "pool": [1.0, 2.0]}


def test_a_round_in_which_nothing_was_tried_has_no_rates(tmp_path: Path) -> None:
    rows = [make_row(1, 0, {"leak": 1}), make_row(2, 0, {}, statements_malformed=0)]
    made.write_lines(tmp_path / "metrics.jsonl", rows)
    charts = {chart["title"] for chart in build_selfplay_charts(load_runs([tmp_path]))}
    assert "Solve rates of composed problems" not in charts
    assert "Statements" in charts


def test_figures_of_the_collapse_watch_and_its_warnings(tmp_path: Path) -> None:
    figures = {"compose_variety": 0.4, "compose_never": 0.9}
    hostile = "one_template: <script>60%"
    rows = [
        make_row(1, 1, {}),
        make_row(2, 1, {}, compose_warnings=["none_solved: 90%", hostile], **figures),
    ]
    made.write_lines(tmp_path / "metrics.jsonl", rows)
    runs = load_runs([tmp_path])
    charts = {chart["title"]: chart for chart in build_selfplay_charts(runs)}
    assert [(s["name"], s["x"]["step"], s["y"]) for s in charts["Composed problems"]["series"]] == [
        ("skeletons a problem", [2], [0.4]),
        ("solved by none", [2], [0.9]),
    ]
    html = build_page([tmp_path])
    assert "<li>step 2: none_solved: 90%</li>" in html
    assert "<script>60%" not in html
    assert "&lt;script&gt;60%" in html


def test_a_table_counts_stops(tmp_path: Path) -> None:
    folder = make_play(tmp_path)
    text = Page(build_page([folder])).text
    assert (
        "2 rounds: 10 statements written, 2 unreadable, 4 stopped by filters, 4 kept. Of 4 tried, "
        "3 were solved by no attempt, 0 by every one. The filters took 60 verifier calls."
    ) in text
    # Trivial: 3 of 10 in 2 steps.
    assert "trivial 3 30.0 % 1.50" in text
    assert "leak 1 10.0 % 0.50" in text
    assert "leak: no example" in text
    assert "two, negate of b1, round 0" in text


def test_what_no_late_filter_was_asked_about_was_not_stopped(tmp_path: Path) -> None:
    made.write_lines(
        tmp_path / "metrics.jsonl",
        [make_row(1, 1, {"trivial": 2}, statements_unchecked=3, statements_written=7)],
    )
    html = build_page([tmp_path])
    # 7 - 1 kept - 1 unreadable - 3 not asked about = 2.
    assert "2 stopped by filters, 1 kept, 3 too easy or too hard for the late filters" in html
    assert '<th scope="row">not asked about</th>' not in html


def test_each_filter_has_its_newest_problem(tmp_path: Path) -> None:
    folder = make_play(tmp_path)
    archive = ProblemArchive(folder / "archive.jsonl")
    archive.add(compose("long", "one", statement=HOLE + "x" * (MAX_TEXT_CHARS + 5), round_number=1))
    archive.note("long", stopped_by="leak")
    before = (folder / "archive.jsonl").read_bytes()
    html = build_page([folder])
    assert (folder / "archive.jsonl").read_bytes() == before
    (run,) = load_runs([folder])
    examples = list_stopped(run)
    assert set(examples) == {"trivial", "leak"}
    assert examples["trivial"] == {
        "id": "two",
        "operator": "negate",
        "parents": ["b1"],
        "round": 0,
        "reason": f"an empty body {HOSTILE}",
        "preamble": "// before\n",
        "statement": f"lemma Two() {HOSTILE} {HOLE}",
    }
    # The hole and 5 characters more than fit, and the whole preamble.
    assert examples["leak"]["cut"] == len(HOLE) + 5 + len("// before\n")
    assert "two, negate of b1, round 0" in html
    assert "long, negate of one, round 1" in html


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    page = build_page([make_play(tmp_path)])
    assert HOSTILE not in page
    assert "an empty body &lt;/script&gt;" in page


def test_a_damaged_archive_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    folder = make_play(tmp_path)
    path = folder / "archive.jsonl"
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(RunError, match=r"archive\.jsonl, line 1"):
        list_played(load_runs([folder]))


def test_a_run_that_composed_nothing_has_no_such_section(tmp_path: Path) -> None:
    made.write_lines(tmp_path / "metrics.jsonl", [{"kind": "step", "step": 1, "solve_rate": 0.5}])
    page = build_page([tmp_path])
    assert 'id="selfplay' not in page
