"""The measurements of ``scripts.bench``: what they count, never how fast anything was."""

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.errors import ProblemError, UsageError
from proverrl.types import ANNOTATE
from scripts.bench.__main__ import bench
from scripts.bench.faults import Fault, measure_faults
from scripts.bench.grpo import StepCost, Work, join_costs, measure_grpo
from scripts.bench.pool import make_table, measure_overhead, measure_utilisation
from scripts.bench.search import METHODS, measure_search
from scripts.bench.search import make_table as make_search_table
from scripts.bench.serve import Load, measure_serve
from scripts.bench.serve import make_table as make_serve_table
from scripts.bench.warm_speed import load_dafnybench, load_generated, measure_dafny
from tests import ROOT

HELDOUT = ROOT / "dafny/curriculum/heldout.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_faults_lose_nothing_and_change_no_neighbour(fault: Fault) -> None:
    # The good candidates of the same run have the same deadline: it must be far above their 20 ms.
    found = asyncio.run(measure_faults(fault, candidates=200, workers=4, deadline_seconds=3.0))
    counts = (found.candidates, found.faults, found.lost, found.changed, found.faults_named)
    assert counts == (200, 2, 0, 0, 2)


def test_overhead_makes_every_call_it_reports() -> None:
    found = asyncio.run(measure_overhead(workers=2, callers=4, calls=300))
    assert (found.workers, found.callers, found.calls) == (2, 4, 300)
    assert found.cpu_ms_per_call > 0


def test_utilisation_counts_busy_time_within_the_time_there_was() -> None:
    found = asyncio.run(measure_utilisation(2.0, workers=2, callers=4, calls=60))
    assert found.calls == 60
    assert 0 < found.share_of_nominal < 1
    assert found.share_of_nominal < found.share_busy <= 1


@pytest.mark.slow
@pytest.mark.dafny
def test_dafny_is_measured_both_ways_on_the_same_programs() -> None:
    candidates = load_generated(HELDOUT, 3)
    assert len(candidates) == 3
    found = asyncio.run(measure_dafny("generated", candidates, workers=1))
    assert (found.programs, found.statuses, found.disagreements) == (3, {"proved": 3}, 0)
    assert found.ratio == pytest.approx(found.warm_per_second / found.cold_per_second)


def test_dafnybench_tasks_become_annotate_problems(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": f"t{n}", "hints_removed": "lemma L() {}", "ground_truth": "x"} for n in range(5)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    found = load_dafnybench(path, 2)
    assert [(c.problem.id, c.problem.kind, c.body) for c in found] == [
        ("t0", ANNOTATE, "x"),
        ("t2", ANNOTATE, "x"),
    ]
    path.write_text('{"id": "a"}\n')
    with pytest.raises(ProblemError, match="not a file of DafnyBench tasks"):
        load_dafnybench(path, 2)


def test_the_command_writes_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "new" / "pool.json"
    done = CliRunner().invoke(
        bench, ["pool", "--part", "overhead", "--calls", "200", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text())
    assert results["overhead"]["calls"] == 200
    assert [row["service_ms"] for row in results["utilisation"]] == [5.0, 50.0]
    names = list(make_table(results).columns[0].cells)
    assert names[:3] == ["CPU per call", "calls per second", "utilisation at 5 ms"]


def test_the_module_is_a_command_line() -> None:
    for words, status, told in (
        (["--help"], 0, "grpo, lean, pool, report, scale, search, serve"),
        (["report", "--folder", "tests"], 2, "error: tests is not empty"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.bench", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = done.stdout + done.stderr
        names = ", ".join(re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE))
        assert done.returncode == status, shown
        assert told in (names or shown)


@pytest.mark.slow
def test_search_trees_are_measured_at_their_size() -> None:
    results = measure_search(methods=METHODS[:2], nodes=100, expansions=50)
    found = {(row["method"], row["nodes"] >= 100) for row in results["rows"]}
    assert found == {(name, large) for name in METHODS[:2] for large in (False, True)}
    assert all(row["bytes_per_node"] > 200 and row["deepest"] >= 2 for row in results["rows"])
    assert make_search_table(results).row_count == 4


def test_the_server_answers_every_load_and_says_what_faults_may_cost() -> None:
    loads = (
        Load("plain", 2, 0, batch=8, in_flight=5),
        Load("sleeping", 2, 5, batch=8, in_flight=2),
        Load("crash", 2, 5, batch=8, in_flight=2, fault="crash"),
    )
    rows = asyncio.run(measure_serve(checks=200, say=lambda _: None, loads=loads))
    assert [(row.lost, row.accepted) for row in rows] == [(0, 0)] * 3
    plain, sleeping, crash = rows
    # An interpreter with the server in it; what it keeps of 200 checks is far less than that.
    assert all(r.memory_mb[0] > 20 and r.memory_mb[1] < 2 * r.memory_mb[0] for r in rows)
    assert plain.bound is None
    # Two workers that never wait end 400 sleeps of 5 ms in a second; no sleep is shorter.
    assert sleeping.bound == 400
    assert sleeping.per_second <= 400
    # Two crashes, each with three new workers, take time from what the same load does without.
    assert crash.bound is not None
    assert crash.bound < 400
    assert ["%" in str(cell) for cell in make_serve_table(rows).columns[-1].cells] == [
        False,
        True,
        True,
    ]


def test_a_step_of_several_processes_takes_the_slowest_and_counts_the_tokens_of_all() -> None:
    parts = [
        StepCost("trl", 2.0, 1.5, 30.0, 15.0, 700.0),
        StepCost("trl", 1.0, 0.5, 20.0, 20.0, 900.0),
    ]
    assert join_costs(parts) == StepCost("trl", 2.0, 2.0, 50.0, 25.0, 900.0)


def test_groups_that_cannot_be_dealt_out_are_refused() -> None:
    with pytest.raises(UsageError, match="--prompts 3 cannot be shared by 2 processes"):
        measure_grpo(Work(prompts=3, processes=2), model="x", rounds=1, sides=(), say=print)


def test_what_a_side_says_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"^the side proverrl failed: policy\.path .*") as caught:
        measure_grpo(Work(), model=str(tmp_path), rounds=1, sides=("proverrl",), say=print)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_two_processes_write_as_many_tokens_as_one_at_a_larger_vocabulary() -> None:
    sizes = Work(
        prompts=2, group_size=2, max_new_tokens=4, steps=2, micro_batch=4, vocab_size=50_000
    )
    for processes in (1, 2):
        # Of 50,000 tokens one ends a text, so that all completions are as long as they may be.
        work = replace(sizes, processes=processes)
        found = measure_grpo(work, model="", rounds=1, sides=("proverrl",), say=print)
        assert found["costs"]["proverrl"]["tokens"] == 2 * 2 * 4
