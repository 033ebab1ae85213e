"""Candidates that ended the verifier: rejected, and counted apart wherever unjudged ones are."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from proverrl.errors import Cause
from proverrl.evaluation.evaluate import evaluate
from proverrl.monitor.display import LiveDisplay, describe_step
from proverrl.monitor.watch import describe_verdicts
from proverrl.report import build_page, headline_table
from proverrl.report.headline import make_benchmark_table
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.tally import Tally
from proverrl.types import Candidate, Completion, Rollout, Status, Turn, Verdict
from tests import report_runs as made
from tests.builders import build_problem
from tests.evaluation.test_evaluate import CountingPolicy, build_evaluation
from tests.fake_verifier import FakeVerifier
from tests.report_page import Page
from tests.verifier.test_verify_batch import fake_router, verify, write_codes

__all__ = ["fake_router"]


def judge(candidate: Candidate) -> Verdict | Status:
    """Of four tries at each problem: a proof, one that ends the verifier, a rejection, one that
    somebody else ended."""
    if candidate.body == "try 0":
        return Status.PROVED
    if candidate.body == "try 1":
        return Verdict(Status.REJECTED, cause="out-of-memory")
    if candidate.body == "try 2":
        return Status.REJECTED
    return Verdict(Status.CRASHED, cause="killed")


def render(renderable: Any) -> str:
    console = Console(width=220, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_an_evaluation_counts_them_and_a_report_shows_it(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=2)
    steps = [
        {"kind": "step", "step": 1, "rollouts": 60, "unjudged": {"timeout": 1}, "fatal": 2},
        {"kind": "step", "step": 2, "rollouts": 40, "unjudged": {"timeout": 0}},
    ]
    made.write_lines(run / "metrics.jsonl", steps)
    for path in (run / "evals").glob("after.*"):
        path.unlink()
    plan = build_evaluation(run / "evals", name="after")
    written: dict[str, int] = {}
    first = build_evaluation(run / "evals", name="after", samples=2, ks=(1,))
    asyncio.run(evaluate(first, CountingPolicy(None, written), FakeVerifier(judge)))
    # The attempts that are stored are counted with those that come later.
    summary = asyncio.run(evaluate(plan, CountingPolicy(None, written), FakeVerifier(judge)))
    everything, odd, even = summary["levels"]
    assert (everything["attempts"], everything["unjudged"], everything["fatal"]) == (160, 40, 40)
    assert (odd["fatal"], even["fatal"]) == (20, 20)
    # They are failures: one of three judged attempts is a proof.
    assert everything["pass"]["1"]["value"] == pytest.approx(1 / 3)
    rows = [json.loads(line) for line in (run / "evals" / "after.jsonl").open()]
    kinds = [(row["status"], row.get("cause")) for row in rows if row["problem_id"] == "0"]
    assert kinds == [
        ("proved", None),
        ("rejected", "out-of-memory"),
        ("rejected", None),
        ("crashed", "killed"),
    ]
    cells = render(make_benchmark_table([run / "evals" / "after.json"])).splitlines()[2].split()
    assert cells[2:5] == ["160", "40", "40"]
    notes = [line.strip() for line in render(headline_table([run])).splitlines()]
    assert "Before: 3 of 192 attempts unjudged" in notes
    assert "After: 40 of 160 attempts unjudged, 40 fatal" in notes
    page = Page(build_page([run])).text
    assert "Where Attempts Timeout Crashed Share Fatal" in page
    assert "GRPO: training 100 1 0 1.00 % 2" in page
    assert "evaluation “after” 160 0 40 25.00 % 40" in page


def build_rollout(number: int, *verdicts: Verdict) -> Rollout:
    problem = build_problem("p")
    completion = Completion("x", (1,), (5,), (-1.0,), "stop", 0)
    turns = tuple(Turn(completion, Candidate(problem, "x"), verdict) for verdict in verdicts)
    return Rollout(str(number), problem, "solver", turns)


def test_a_steps_metrics_and_rows_have_them() -> None:
    plain = Verdict(Status.REJECTED)
    causes: tuple[Cause, ...] = ("died", "out-of-memory", "protocol")
    ended = [Verdict(Status.REJECTED, cause=cause) for cause in causes]
    lost = Verdict(Status.CRASHED, cause="died")
    # Only the last turn counts, as for the status.
    turns = [[plain], [ended[0]], [ended[1]], [plain, ended[2]], [ended[0], plain], [lost]]
    rollouts = tuple(build_rollout(i, *verdicts) for i, verdicts in enumerate(turns))
    tally = Tally()
    draw = JudgedDraw(rollouts, 6)
    tally.add_draw([draw], 1.0)
    tally.add_group(draw, None, num_appeals=0)
    metrics = tally.metrics(1.0)
    assert (metrics["fatal"], metrics["unjudged"]) == (3, {"timeout": 0, "crashed": 1})
    assert metrics["verdicts"] == {"rejected": 5, "crashed": 1}
    assert [row.get("cause") for row in tally.rows(1)] == [
        *(None, "died", "out-of-memory", "protocol", None, "died"),
    ]
    # What watch makes of it: nothing is counted twice.
    assert describe_verdicts(metrics) == "5 rejected (3 fatal), 1 crashed"
    assert "  unjudged 1  fatal 3" in describe_step({"step": 1, **metrics}, None, "")
    display = LiveDisplay(io.StringIO(), lambda: 0.0)
    display.show_step("", {"step": 1, **metrics})
    assert "unjudged  1, 3 fatal " in render(display._render())
    display.show_step("", {"step": 1, **metrics, "fatal": 0})
    assert "unjudged  1 " in render(display._render())
    display.close()


def test_verify_says_how_many_there_were_also_of_an_earlier_run(
    tmp_path: Path, fake_router: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = ("// fine", "crash 1", "killed", "crash 2")
    lines, out = write_codes(tmp_path / "in.jsonl", *codes), tmp_path / "out.jsonl"
    assert verify(lines, out) == 1
    assert "1 crashed, 1 proved, 2 rejected (2 fatal)\n" in capsys.readouterr().err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row.get("cause") for row in rows] == [None, "died", "killed", "died"]
    assert verify(lines, out, resume=True) == 1
    told = "1 crashed, 1 proved, 2 rejected (2 fatal) (4 of them by an earlier run)\n"
    assert told in capsys.readouterr().err
