"""The report's section on what was drawn: shares by hand, and a run without such figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proverrl.report import build_page
from proverrl.report.figures import build_curriculum_charts, count_shares
from proverrl.report.run import load_runs
from tests import report_runs as made


def make_row(step: int, levels: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "kind": "step",
        "step": step,
        "seconds": 60.0 * step,
        "verifier_calls_total": 100 * step,
        "solve_rate": 0.25 * step,
        "curriculum_drawn": sum(levels.values()),
        "curriculum_levels": levels,
        "curriculum_families": {f"f{level}": n for level, n in levels.items()},
        "curriculum_predicted": 0.5,
        **more,
    }


def test_shares_of_what_was_drawn(tmp_path: Path) -> None:
    rows = [
        make_row(1, {"1": 3, "2": 1}),
        make_row(2, {"2": 1, "10": 1}, curriculum_operators={"negate": 1}),
    ]
    made.write_lines(tmp_path / "metrics.jsonl", rows)
    charts = {chart["title"]: chart for chart in build_curriculum_charts(load_runs([tmp_path]))}
    assert {chart["holder"] for chart in charts.values()} == {"curriculum-charts"}
    levels = charts["Levels drawn"]["series"]
    assert [(s["name"], s["y"]) for s in levels] == [
        ("level 1", [0.75, 0.0]),
        ("level 2", [0.25, 0.5]),
        ("level 10", [0.0, 0.5]),
    ]
    assert levels[0]["x"]["calls"] == [100, 200]
    assert all(s["stacked"] for s in levels)
    # Four of four were given in step 1, one of two in step 2.
    assert [(s["name"], s["y"]) for s in charts["Composed by"]["series"]] == [
        ("given", [1.0, 0.5]),
        ("negate", [0.0, 0.5]),
    ]
    assert [(s["name"], s["y"]) for s in charts["Expected solve rate"]["series"]] == [
        ("expected when drawn", [0.5, 0.5]),
        ("measured", [0.25, 0.5]),
    ]


def test_rare_names_are_one_and_shares_are_of_the_window() -> None:
    # Nine names: the two that came once are one. The window of the second row holds both rows.
    common = {f"f{i}": 4 for i in range(7)}
    rows = [{"x": {**common, "rare": 1}}, {"x": {"f0": 2, "odd": 1}}]
    names, shares = count_shares(rows, "x", width=2)
    assert names == [*sorted(common), "others"]
    assert shares[0]["f0"] == 4 / 29
    assert shares[0]["others"] == 1 / 29
    assert shares[1]["f0"] == 6 / 32
    assert shares[1]["others"] == 2 / 32


def test_a_run_without_such_figures_has_no_such_section(tmp_path: Path) -> None:
    made.write_lines(tmp_path / "metrics.jsonl", [{"kind": "step", "step": 1, "solve_rate": 0.5}])
    page = build_page([tmp_path])
    assert 'id="curriculum' not in page
    assert build_curriculum_charts(load_runs([tmp_path])) == []
