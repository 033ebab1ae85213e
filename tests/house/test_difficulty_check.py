"""GAR's difficulty check: rates by hand, what counts as kept, a tiny run, and going on."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proverrl.compose.archive import Composed, ProblemArchive
from proverrl.config import Config
from proverrl.errors import RunError, UsageError
from proverrl.jobs import evaluate as evaluate_module
from proverrl.statistics import mean_interval
from proverrl.types import HOLE, Problem
from scripts import check_difficulty as module
from scripts.check_difficulty import (
    Rate,
    check_difficulty,
    find_kept,
    find_start,
    measure_rates,
    render_table,
    tabulate,
)
from tests import ROOT
from tests import report_runs as made
from tests.curriculum.test_selfplay import make_play
from tests.run.test_grpo import StubVerifier, judge, make_config, run, verifiers

__all__ = ["make_config", "make_play", "verifiers"]


def make_problem(name: str) -> Problem:
    return Problem(name, "dafny", "statements", "", f"lemma {name}() {{ {HOLE} }}\n")


def test_kept_are_those_that_no_filter_stopped() -> None:
    archive = ProblemArchive()
    for name, number in (("a", 1), ("b", 0), ("c", 0), ("d", 0), ("e", 3)):
        archive.add(Composed(make_problem(name), ("base",), "negate", number, 7))
    archive.note("c", stopped_by="refuted", reason="n = 0")
    archive.note("d", negation_of="c")
    archive.note("b", solve_rate=0.5)
    names = {n: [p.id for p in problems] for n, problems in find_kept(archive).items()}
    assert names == {0: ["b"], 1: ["a"], 3: ["e"]}
    assert list(names) == [0, 1, 3]
    assert list(find_kept(archive, [1, 2])) == [1]


def test_rates_leave_out_what_was_not_judged(tmp_path: Path) -> None:
    statuses = {"a": ["proved", "rejected", "timeout", "proved"], "b": ["crashed", "timeout"]}
    rows = [
        {"problem_id": name, "attempt": number, "status": status, "turns": []}
        for name, found in statuses.items()
        for number, status in enumerate(found)
    ]
    made.write_attempts(tmp_path / "x.jsonl", rows)
    made.write_summary(tmp_path / "x.json", {})
    # Two of three were proved; none of b was judged.
    assert measure_rates(tmp_path / "x.json") == {"a": 2 / 3, "b": None}


def test_rows_are_means_over_problems() -> None:
    kept = {0: [make_problem("a"), make_problem("b")], 2: [make_problem("c")]}
    rates: dict[str, dict[str, float | None]] = {
        "untrained": {"a": 1.0, "b": 0.5, "c": None},
        "then": {"a": 0.25, "b": None, "c": 0.25},
        "trained": {"a": 1.0, "b": 1.0, "c": 1.0},
    }
    first, second = tabulate(kept, rates, 1)
    assert (first.first, first.last, first.num_problems) == (0, 0, 2)
    assert first.rates["untrained"] == Rate(0.75, *mean_interval([1.0, 0.5]), 2)
    assert first.rates["then"] == Rate(0.25, *mean_interval([0.25]), 1)
    assert second.rates["untrained"] == Rate(None, 0.0, 1.0, 0)
    (both,) = tabulate(kept, rates, 2)
    assert (both.first, both.last, both.num_problems) == (0, 2, 3)
    assert both.rates["trained"].value == 1.0
    # 3 of 3: 0.025^(1/3) = 0.292.
    assert both.rates["trained"].low == pytest.approx(0.025 ** (1 / 3))
    # Of 1 and 0.5, with a 0 or a 1 that was not seen: at the high end 1 has the weight of two, and
    # 1 - 0.5 w is 0.975 quantile where w is 1 - 0.975^0.5 = 0.0126: 0.994.
    assert both.rates["untrained"].high == pytest.approx(1 - 0.5 * (1 - 0.975**0.5))
    # 0.25 twice: sqrt(0.025) = 0.158 of it at least, and 1 - 0.75 * 0.158 = 0.881 at most.
    assert render_table([both]).splitlines()[-1] == (
        "| 0-2 | 3 | 75.0 (11-99) | 25.0 (4-88) | 100.0 (29-100) |"
    )
    assert "not judged" in render_table([second])


@pytest.mark.slow
def test_a_tiny_run_is_measured_once(
    make_play: Callable[..., Config],
    verifiers: list[StubVerifier],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = run(make_play("play"))
    asked: list[StubVerifier] = []

    def open_stub(*_: object, **__: object) -> StubVerifier:
        asked.append(StubVerifier(judge))
        return asked[-1]

    monkeypatch.setattr(evaluate_module, "open_configured", open_stub)
    rows = asyncio.run(check_difficulty(folder, samples=2))
    archive = ProblemArchive.read(folder / "archive.jsonl")
    kept = find_kept(archive)
    assert [row.first for row in rows] == list(kept)
    assert [row.num_problems for row in rows] == [len(problems) for problems in kept.values()]
    first = [archive.facts(p.id)["solve_rate"] for p in kept[rows[0].first]]
    assert rows[0].rates["then"].value == pytest.approx(sum(first) / len(first))
    for name in ("untrained", "trained"):
        attempts = (folder / "difficulty" / "evals" / f"{name}.jsonl").read_text().splitlines()
        assert len(attempts) == 2 * sum(map(len, kept.values()))
    policies = [
        json.loads((folder / "difficulty" / "evals" / f"{name}.json").read_text())["policy_sha256"]
        for name in ("untrained", "trained")
    ]
    assert policies[0] != policies[1]
    # A second time nothing is sampled or asked, and the table is the same.
    monkeypatch.setattr(StubVerifier, "verify", None)
    assert asyncio.run(check_difficulty(folder, samples=2)) == rows
    # One row of all rounds.
    (whole,) = asyncio.run(check_difficulty(folder, samples=2, per_row=99))
    assert (whole.first, whole.last) == (rows[0].first, rows[-1].last)
    # Other rounds are other problems: they need a folder of their own.
    with pytest.raises(UsageError, match="holds attempts at other problems"):
        asyncio.run(check_difficulty(folder, samples=2, rounds=[rows[0].first]))


def test_what_is_missing_is_named(tmp_path: Path, make_play: Callable[..., Config]) -> None:
    with pytest.raises(RunError, match="give the folder of a self-play run"):
        asyncio.run(check_difficulty(tmp_path))
    ProblemArchive(tmp_path / "archive.jsonl").add(
        Composed(make_problem("a"), ("base",), "negate", 0, 7)
    )
    with pytest.raises(RunError, match="no problem of these rounds"):
        asyncio.run(check_difficulty(tmp_path, rounds=[5]))
    with pytest.raises(UsageError, match="at least 1"):
        asyncio.run(check_difficulty(tmp_path, samples=0))
    with pytest.raises(RunError, match="name some with --policy"):
        find_start(tmp_path, make_play("play"))


def test_the_script_says_how_it_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ROOT / "scripts" / "check_difficulty.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for option in ("--policy", "--samples", "--rounds", "--per-row", "--out", "--set"):
        assert option in said
    assert module.SOLVERS == ("untrained", "then", "trained")
