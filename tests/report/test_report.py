"""The report holds exactly the figures that the run folder holds, and nothing hostile runs."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from proverrl.errors import RunError, UsageError
from proverrl.report import build_page, headline_table, write_report
from proverrl.report.embedded import embed_json, pack_json
from proverrl.report.figures import build_charts, smoothing_width, trailing_mean
from proverrl.report.headline import find_cell, list_columns, signed
from proverrl.report.run import load_runs
from proverrl.report.sections import describe_state
from tests import report_runs as made
from tests.report_page import Page, unpack_json

HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>&amp;"
NETWORK_ATTRIBUTES = ("src", "href", "srcset", "poster", "data", "action", "background")


def rows_of(page: str, k: int) -> list[list[str]]:
    """The results table of one k, as text: a row is its header and its cells."""
    table = page.split(f"<h3>pass@{k}</h3>")[1].split("</table>")[0]
    rows = []
    for row in re.findall(r"<tr.*?</tr>", table.split("<tbody>")[1], re.S):
        cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.S)
        rows.append(
            [re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", cell))).strip() for cell in cells]
        )
    return rows


def test_the_table_holds_exactly_the_given_figures(tmp_path: Path) -> None:
    page = build_page([made.make_run(tmp_path / "run")])
    assert rows_of(page, 1) == [
        ["All 24 problems", "31.2 25.0–37.0 3 unjudged", "46.5 40.3–52.3 5 unjudged", "+15.3"],
        ["Level 1 6 problems", "61.0 54.8–66.8", "86.0 79.8–91.8", "+25.0"],
        ["Level 2 6 problems", "40.0 33.8–45.8", "58.0 51.8–63.8", "+18.0"],
        ["Level 3 6 problems", "19.0 12.8–24.8", "31.0 24.8–36.8", "+12.0"],
        ["Level 4 6 problems", "4.8 0.0–10.6", "11.0 4.8–16.8", "+6.2"],
    ]
    assert rows_of(page, 8)[1] == [
        "Level 1 6 problems",
        "90.0 83.8–95.8",
        "98.0 91.8–100.0",
        "+8.0",
    ]


def test_several_runs_stand_beside_one_before_column(tmp_path: Path) -> None:
    grpo = made.make_run(tmp_path / "a")
    lower = {**made.AFTER, "all": (0.28, 0.5)}
    expert = made.make_run(tmp_path / "b", loop="expert_iteration", steps=4, after=lower)
    page = build_page([grpo, expert])
    head = re.findall(r"<th>(.*?)</th>", page.split("<thead>")[1].split("</thead>")[0])
    assert head == ["", "Before", "After GRPO", "After expert iteration"]
    assert rows_of(page, 1)[0] == [
        "All 24 problems",
        "31.2 25.0–37.0 3 unjudged",
        "46.5 40.3–52.3 5 unjudged +15.3",
        "28.0 21.8–33.8 5 unjudged −3.2",
    ]
    assert "<h1>GRPO and expert iteration</h1>" in page


def test_different_starting_points_get_a_before_column_each(tmp_path: Path) -> None:
    one, two = made.make_run(tmp_path / "a"), made.make_run(tmp_path / "b")
    made.write_summary(two / "evals" / "before.json", made.make_eval("before", {"all": (0.2, 0.4)}))
    columns = list_columns(load_runs([one, two]))
    assert [column.title for column in columns] == [
        "Before, a",
        "After a",
        "Before, b",
        "After b",
    ]
    cell = find_cell(columns[3], "all", 1)
    assert cell is not None
    assert cell.difference == pytest.approx(26.5)


def test_figures_on_another_benchmark_stand_in_a_table_of_their_own(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run")
    other = {**made.make_eval("bench", {"all": (0.7, 0.9)}), "benchmark_sha256": "b" * 64}
    made.write_summary(run / "evals" / "bench.json", other)
    page = build_page([run])
    assert page.count("<h3>pass@1</h3>") == 2
    second = page.split("<h3>pass@1</h3>")[2].split("</table>")[0]
    assert ">70.0<" in second
    assert "chip" not in second


@pytest.mark.parametrize("changed", [{"mode": "search"}, {"num_problems": 6}])
def test_a_search_or_a_part_of_the_problems_shows_no_change(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    run = made.make_run(tmp_path / "run")
    same = made.make_eval("same", {"all": (0.7, 0.9)})
    made.write_summary(run / "evals" / "same.json", same)
    made.write_summary(run / "evals" / "other.json", same | {"name": "other"} | changed)
    columns = {column.title: column for column in list_columns(load_runs([run]))}
    shown = {title: find_cell(column, "all", 1) for title, column in columns.items()}
    differences = {title: cell and cell.difference for title, cell in shown.items()}
    assert differences["same"] == pytest.approx(38.8)
    assert differences["other"] is None


def test_a_table_has_its_title_on_one_line(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run")
    (run / "evals" / "before.json").unlink()
    with (screen := Console(width=100)).capture() as shown:
        screen.print(headline_table([run]))
    (title, head, *_) = shown.get().splitlines()
    assert title.rstrip() == "Solved on heldout, %, with 95 % intervals"
    assert head.split() == ["level", "pass@", "After"]


def test_each_tile_names_its_evaluation(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run")
    made.write_summary(run / "evals" / "own.json", made.make_eval("own", {"all": (0.5, 0.75)}))
    page = build_page([run])
    tiles = re.findall(r'<div class="name">(.*?)</div>\s*<div class="big">([\d.]+)', page)
    assert tiles == [
        ("pass@1 · After", "46.5"),
        ("pass@8 · After", "68.2"),
        ("pass@1 · own", "50.0"),
        ("pass@8 · own", "75.0"),
    ]


def test_the_setup_is_told(tmp_path: Path) -> None:
    page = Page(build_page([made.make_run(tmp_path / "run", steps=5, rollout_steps=1)]))
    calls = [row["verifier_calls_total"] for row in load_runs([tmp_path / "run"])[0].steps][-1]
    for part in (
        "Commit unknown (not a git checkout) ",
        "Toolchain dafny 2.3.0, z3 4.8.5",
        "Device cpu",
        "Engine transformers",
        "Seed 7",
        f"{calls:,} of 40,000 verifier calls",
        "5 of 5 steps in",
    ):
        assert part in page.text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2, rollout_steps=1)
    rollouts = made.make_rollouts(2, random.Random(1), count=2)
    for row in rollouts:
        row["body"] = row["status"] = HOSTILE
        row["problem"]["family"] = row["problem"]["statement"] = HOSTILE
        row["diagnostics"] = [{"severity": HOSTILE, "message": HOSTILE, "line": 1, "column": 2}]
    made.write_lines(run / "rollouts" / "step_2.jsonl", rollouts)
    attempts = made.make_attempts(random.Random(1), 0.6)
    for row in attempts:
        row["body"] = row["family"] = HOSTILE
        row["problem_id"] = HOSTILE + row["problem_id"]
        row["diagnostics"] = [{"severity": HOSTILE, "message": HOSTILE, "line": 13}]
    made.write_attempts(run / "evals" / "after.jsonl", attempts)
    resolved = made.make_resolved("grpo", 2)
    made.write_json(run / "resolved.json", resolved | {"commit": HOSTILE, "command": HOSTILE})

    page = Page(build_page([run]))
    assert len(page.scripts) == 3
    [group] = page.piece("rollouts-0-2")["groups"]
    assert group["rollouts"][0]["body"] == HOSTILE
    # Hostile attempts are of other problems than those before: the last of the shelf.
    names = page.piece("problems-0")["ids"]
    place = next(number for number, name in enumerate(names) if HOSTILE in name)
    _, after = page.piece("problems-0-0")[place]["columns"]
    assert after["examples"][0]["body"] == HOSTILE
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert not [name for _, values in page.elements for name in values if name.startswith("on")]
    assert "window.owned = 1" in page.text


def test_embedded_json_cannot_leave_its_element() -> None:
    text = embed_json({"a": HOSTILE, "b": "<!--", "c": "\u2028\ud800"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": HOSTILE, "b": "<!--", "c": "\u2028\ud800"}
    packed = pack_json({"a": HOSTILE, "c": "\u2028\ud800"})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)
    assert unpack_json(packed) == {"a": HOSTILE, "c": "\u2028\ud800"}


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2, rollout_steps=1)
    attempts = made.make_attempts(random.Random(1), 0.6)
    attempts[0]["body"] = attempts[1]["body"] = "assert \ud800;"
    made.write_attempts(run / "evals" / "after.jsonl", attempts)
    assert "assert" in write_report([run]).read_text(encoding="utf-8")


def test_nothing_is_loaded_and_only_known_scripts_may_run(tmp_path: Path) -> None:
    page = Page(build_page([made.make_run(tmp_path / "run", steps=3)]))
    loads = [
        (tag, name, values[name])
        for tag, values in page.elements
        for name in NETWORK_ATTRIBUTES
        if name in values and not values[name].startswith("#")
    ]
    assert loads == []
    assert not [tag for tag, _ in page.elements if tag in ("link", "iframe", "object", "base")]
    policy = next(v["content"] for t, v in page.elements if t == "meta" and "http-equiv" in v)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy
    for script in page.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


@pytest.mark.slow
def test_a_run_of_300_steps_stays_under_8_megabytes(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=300, rollout_steps=300)
    path = write_report([run])
    assert path == run / "report.html"
    assert path.stat().st_size < 8_000_000
    page = Page(path.read_text(encoding="utf-8"))
    rollouts = page.data["rollouts"]
    assert [(item["steps"], item["rollouts"]) for item in rollouts["totals"]] == [(300, 38_400)]
    steps = [entry["step"] for entry in rollouts["steps"]]
    assert len(steps) == 40
    # The newest, the oldest, and the middles: (0 + 299) // 2 = 149 is the place of step 150.
    assert {1, 150, 300} <= set(steps)
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 300 // 32 + 1
    assert {(e["rollouts"], e["groups"]) for e in rollouts["steps"]} == {(128, 16)}


def test_the_page_of_several_runs_goes_into_the_first(tmp_path: Path) -> None:
    one = made.make_run(tmp_path / "a", steps=2)
    two = made.make_run(tmp_path / "b", steps=2)
    assert write_report([one, two]) == one / "report.html"
    assert write_report([one, two], out=two / "report_of_both.html").is_file()
    before = {path: path.read_bytes() for path in two.rglob("*") if path.is_file()}
    for place in ("resolved.html", "evals/report.html", f"../{two.name}/new.html"):
        with pytest.raises(UsageError, match="own files it could overwrite; name a file elsewhere"):
            write_report([one, two], out=two / place)
    for name in ("problems.jsonl", "report", "metrics.jsonl"):
        with pytest.raises(UsageError, match=r"report is written as \.html; give such a name"):
            write_report([one, two], out=two / name)
    assert {path: path.read_bytes() for path in two.rglob("*") if path.is_file()} == before
    assert write_report([one, two], out=tmp_path / "x.html") == tmp_path / "x.html"


def test_a_warm_start_alone_is_finished_with_its_weights(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", made.make_resolved("warm_start", 300))
    rows = [{"kind": "sft", "step": step, "loss": 1.0, "seconds": 1.0} for step in (10, 20)]
    made.write_lines(run / "metrics.jsonl", rows)
    assert "No step taken yet, warm start under way." in Page(build_page([run])).text
    (run / "policy").mkdir()
    assert "Warm start of 20 steps, finished." in Page(build_page([run])).text


def test_a_run_that_has_only_begun_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", made.make_resolved("grpo", 300))
    page = Page(build_page([run]))
    assert "No step taken yet." in page.text
    # Its sections are those that hold something.
    assert re.findall(r'<section id="(\w+)"', build_page([run])) == ["setup"]
    assert re.findall(r'href="#(\w+)"', build_page([run])) == ["setup"]
    assert page.data["charts"] == []
    assert page.data["rollouts"]["steps"] == []
    assert page.data["problems"] == []
    assert page.pieces == {}


@pytest.mark.parametrize(
    ("config", "row", "said"),
    [
        ({"grpo": {"steps": 40}}, {}, "14 of 40 steps in 1m40s, 900 verifier calls."),
        (
            {"grpo": {"steps": 2000}, "max_minutes": 1.5},
            {"seconds_left": 0.0},
            "14 steps in 1m40s, 900 verifier calls; its limit of 1.5 minutes ended the loop.",
        ),
        (
            {"grpo": {"steps": 2000}, "max_minutes": 2.0, "max_verifier_calls": 1200},
            {"seconds_left": 60.0},
            "14 steps in 1m40s, 900 verifier calls; the loop has used 900 of 1,200 verifier calls.",
        ),
    ],
)
def test_the_limit_that_ends_a_run_is_named(
    tmp_path: Path, config: dict[str, Any], row: dict[str, Any], said: str
) -> None:
    made.write_json(tmp_path / "resolved.json", {"config": {"loop": "grpo", **config}})
    step = {"kind": "step", "step": 14, "seconds": 100.0, "verifier_calls_total": 900, **row}
    made.write_lines(tmp_path / "metrics.jsonl", [step])
    (run,) = load_runs([tmp_path])
    assert describe_state(run) == f"{said} Not evaluated since."


def test_a_run_still_going_on_shows_what_there_is(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=40)
    (run / "evals" / "after.json").unlink()
    made.write_json(run / "resolved.json", made.make_resolved("grpo", 300))
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind":"step","step":41,"solv')
    page = build_page([run])
    assert "40 of 300 steps" in Page(page).text
    assert "Not evaluated since." in page
    assert rows_of(page, 1)[0] == ["All 24 problems", "31.2 25.0–37.0 3 unjudged"]


def test_an_evaluation_under_way_is_counted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", made.make_resolved("grpo", 300))
    made.write_attempts(run / "evals" / "before.jsonl", made.make_attempts(random.Random(0), 0.3))
    assert "“before” has 192 attempts so far." in Page(build_page([run])).text


def test_metrics_without_resolved_json_still_give_a_page(tmp_path: Path) -> None:
    made.write_lines(tmp_path / "metrics.jsonl", made.make_metrics("grpo", 3, random.Random(0)))
    page = Page(build_page([tmp_path]))
    assert "resolved.json is missing" in page.text
    assert "Commit not recorded" in page.text
    assert "3 steps in" in page.text


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_that_is_no_run_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    expected = "no such run folder" if name == "missing" else r"expected resolved\.json and metrics"
    with pytest.raises(RunError, match=f"{name}.*{expected}"):
        write_report([tmp_path / name])


def test_a_damaged_evaluation_is_named(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    (run / "evals" / "after.json").write_text("{")
    with pytest.raises(RunError, match=r"after\.json: cannot be read as JSON"):
        build_page([run])


def test_unjudged_attempts_are_counted_by_kind_with_their_reasons(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    rows = [
        {"kind": "step", "step": 1, "rollouts": 128, "unjudged": {"timeout": 3, "crashed": 0}},
        {"kind": "step", "step": 2, "rollouts": 72, "unjudged": {"timeout": 1, "crashed": 2}},
    ]
    made.write_lines(run / "metrics.jsonl", rows)
    attempts = made.make_attempts(random.Random(0), 0.5)
    lost = sum(row["status"] == "timeout" for row in attempts)
    made.write_attempts(run / "evals" / "after.jsonl", attempts)
    page = Page(build_page([run])).text
    assert lost > 0
    assert "GRPO: training 200 4 2 3.00 %" in page
    assert f"evaluation “after” 192 {lost} 0" in page
    assert f"evaluation “after”: {lost} × timeout: no answer in 20 s" in page


def test_an_estimate_over_no_problem_is_not_shown_as_zero(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    after = made.make_eval("after", made.AFTER)
    after["levels"][4]["pass"]["8"] = {"value": 0.0, "low": 0.0, "high": 0.0, "num_problems": 0}
    made.write_summary(run / "evals" / "after.json", after)
    assert rows_of(build_page([run]), 8)[4] == ["Level 4 6 problems", "18.0 11.8–23.8", "–", "–"]


def test_curves_hold_the_logged_values(tmp_path: Path) -> None:
    rows = [
        {
            "kind": "step",
            "step": step,
            "seconds": 60.0 * step,
            "verifier_calls_total": 100 * step,
            "solve_rate": rate,
            "loss": loss,
            "groups": 10,
            "groups_solved": 1,
            "groups_mixed": 6,
            "groups_failed": 3,
            "rollouts": 80,
            "unjudged": {"timeout": 2},
            "levels": {"1": {"attempts": 40, "solved": 10 * step}},
        }
        for step, rate, loss in ((1, 0.25, 0.5), (2, 0.5, None), (3, 0.75, 0.125))
    ]
    made.write_lines(tmp_path / "metrics.jsonl", rows)
    charts = {chart["title"]: chart for chart in build_charts(load_runs([tmp_path]))}
    solve = charts["Solve rate"]
    assert solve["series"][0]["y"] == [0.25, 0.5, 0.75]
    assert solve["series"][0]["x"] == {
        "step": [1, 2, 3],
        "calls": [100, 200, 300],
        "minutes": [1, 2, 3],
    }
    assert solve["note"] == "6 of 240 rollouts unjudged, left out; band: 95 % interval"
    assert charts["Loss"]["series"][0]["y"] == [0.5, None, 0.125]
    assert charts["Loss"]["note"].endswith("not finite at 1 steps, first 2")
    assert [(s["name"], s["y"][0]) for s in charts["Groups"]["series"]] == [
        ("all solved", 0.1),
        ("mixed", 0.6),
        ("all failed", 0.3),
    ]
    assert charts["Solve rate per level"]["series"][0]["y"] == [0.25, 0.5, 0.75]
    assert charts["Unjudged"]["series"][0]["y"] == [0.025, 0.025, 0.025]
    assert "Entropy" not in charts


def test_smoothing_is_a_trailing_mean() -> None:
    assert trailing_mean([1.0, 3.0, None, 5.0], 2) == [1.0, 2.0, 3.0, 5.0]
    assert (smoothing_width(40), smoothing_width(41), smoothing_width(300)) == (1, 3, 15)


def test_differences_carry_a_sign() -> None:
    assert (signed(15.34), signed(-3.21), signed(0.04)) == ("+15.3", "−3.2", "0.0")


def render(runs: list[Path]) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(headline_table(runs))
    return capture.get()


def test_the_terminal_table_holds_figures_and_cost(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=3)
    made.write_lines(
        run / "metrics.jsonl",
        [{"kind": "step", "step": 3, "seconds": 245.0, "verifier_calls_total": 1234}],
    )
    text = render([run])
    assert "31.2 (25.0–37.0)" in text
    assert "46.5 (40.3–52.3) +15.3" in text
    assert (
        "GRPO: 3 of 3 steps, 1,234 verifier calls in the loop, 2,800 in evaluations, 245 s (4m05s)"
        in text
    )
    assert "After: 5 of 192 attempts unjudged" in text


def test_the_terminal_says_when_nothing_was_evaluated(tmp_path: Path) -> None:
    made.write_json(tmp_path / "resolved.json", made.make_resolved("grpo", 9))
    assert render([tmp_path]).splitlines()[0].strip() == "No evaluation has finished yet."
