"""The timeline of a run: a file that is whole at any time, whose spans are those of the metrics."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import Config
from proverrl.errors import RunError
from proverrl.monitor import trace
from proverrl.monitor.trace import TRACE_FILE, TraceFile
from proverrl.run.tally import IdleClock
from proverrl.timeline import Timeline, TimeSpan
from tests.learner.test_parallel import train_by_two
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    verifiers,
)

ROUNDED = 0.0005
"""Figures of the metrics have three decimals."""


def read_trace(run_folder: Path) -> list[dict[str, Any]]:
    """The spans of a run, each checked against the format's rules."""
    events = json.loads((run_folder / TRACE_FILE).read_text())
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["ph"] for event in events} == {"M", "X"}
    for event in spans:
        assert event["dur"] >= 0
        assert names[event["pid"], event["tid"]] == event["name"]
        assert event["args"]["step"] >= 0
    return spans


def sum_seconds(spans: list[dict[str, Any]], name: str, rank: int = 0) -> float:
    return float(sum(e["dur"] for e in spans if (e["pid"], e["name"]) == (rank, name))) / 1e6


def check_against_metrics(run_folder: Path, spans: list[dict[str, Any]], steps: int) -> None:
    """In a run with nothing written ahead each part is at work or idle all the time of a step, so
    that both together are the same for all parts; and a step is as long as its figures say."""
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "step"]
    assert len(rows) == steps
    took = [e for e in spans if e["name"] == "step"]
    assert [e["args"]["step"] for e in took] == [row["step"] for row in rows]
    for event, row in zip(took, rows, strict=True):
        assert event["dur"] / 1e6 == pytest.approx(row["step_seconds"], abs=2 * ROUNDED)
    whole = [
        sum(row[f"idle_{part}_seconds"] for row in rows) + sum_seconds(spans, activity)
        for part, activity in {
            "generator": "generate",
            "pool": "verify",
            "learner": "update",
        }.items()
    ]
    assert whole[1:] == [pytest.approx(whole[0], abs=2 * steps * ROUNDED)] * 2
    # What is no figure of its own lies within what is.
    assert 0 < sum_seconds(spans, "update") < sum_seconds(spans, "step") < whole[0] + steps


def test_busy_parts_are_spans_that_end_with_the_step() -> None:
    now = [0.0]
    timeline = Timeline(is_on=True)
    timeline._start = 100.0
    usage = IdleClock(lambda: now[0], timeline=timeline)
    with usage.busy("generator"):
        now[0] = 2.0
        # A second one beside it is the same work.
        with usage.busy("generator"):
            now[0] = 3.0
        with usage.busy("pool"):
            now[0] = 5.0
            timeline.step = 1
            idle = usage.take_idle()
            assert (idle["idle_generator_seconds"], idle["idle_pool_seconds"]) == (0.0, 3.0)
            timeline.step = 2
            now[0] = 6.5
        now[0] = 7.0
    assert timeline.take() == [
        TimeSpan("generate", 100.0, 5.0, 1, ""),
        TimeSpan("verify", 103.0, 2.0, 1, ""),
        TimeSpan("verify", 105.0, 1.5, 2, ""),
        TimeSpan("generate", 105.0, 2.0, 2, ""),
    ]
    assert timeline.take() == []
    assert usage.take_idle() == {
        "idle_generator_seconds": 0.0,
        "idle_pool_seconds": 0.5,
        "idle_learner_seconds": 2.0,
    }


def test_the_file_is_whole_after_each_addition_and_survives_a_cut(tmp_path: Path) -> None:
    path = tmp_path / TRACE_FILE
    file = TraceFile(path)
    assert json.loads(path.read_text()) == []
    file.add([[TimeSpan("generate", 10.0, 0.25, 1, "")], []])
    first = json.loads(path.read_text())
    file.add([[], [TimeSpan("wait", 11.0, 0.5, 1, "World.share")]])
    events = json.loads(path.read_text())
    assert events[: len(first)] == first
    assert [e for e in events if e["ph"] == "X"] == [
        {"name": "generate", "ph": "X", "pid": 0, "tid": 1, "ts": 1e7, "dur": 250000.0}
        | {"args": {"step": 1}},
        {"name": "wait", "ph": "X", "pid": 1, "tid": 9, "ts": 1.1e7, "dur": 500000.0}
        | {"args": {"step": 1, "place": "World.share"}},
    ]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    # A process that was killed while it wrote: the whole lines stay.
    text = path.read_text()
    path.write_text(text[: text.index('"ts":11')])
    TraceFile(path).add([[TimeSpan("update", 12.0, 1.0, 2, "")]])
    after = [e["name"] for e in json.loads(path.read_text()) if e["ph"] == "X"]
    assert after == ["generate", "update"]


def test_a_file_that_another_program_saved_is_kept(tmp_path: Path) -> None:
    path = tmp_path / TRACE_FILE
    TraceFile(path).add([[TimeSpan("generate", 10.0, 0.25, 1, "")]])
    events = json.loads(path.read_text())
    path.write_text(json.dumps(events, indent=1))
    TraceFile(path)
    assert json.loads(path.read_text()) == events


def test_a_write_without_room_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / TRACE_FILE
    file = TraceFile(path)
    file.add([[TimeSpan("generate", 10.0, 0.25, 1, "")]])
    before = path.read_text()

    def write_half(stream: FileIO, data: bytes) -> None:
        stream.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trace, "_write_whole", write_half)
    with pytest.raises(RunError, match=r"trace\.json.*No space left"):
        file.add([[TimeSpan("update", 12.0, 1.0, 2, "")]])
    assert path.read_text() == before


def test_a_timeline_that_is_off_notes_nothing() -> None:
    timeline = Timeline()
    with timeline.span("update"):
        pass
    assert timeline.take() == []


@pytest.mark.slow
def test_a_run_of_one_process(
    tmp_path: Path,
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    changes = {"logging__trace": True, "grpo__max_staleness": 0}
    config = make_config("traced", logging={}, **changes)
    folder = run(config)
    spans = read_trace(folder)
    assert {e["pid"] for e in spans} == {0}
    check_against_metrics(folder, spans, steps=4)
    counts = {name: sum(e["name"] == name for e in spans) for name in {e["name"] for e in spans}}
    assert counts["supervised"] == 120
    assert counts["step"] == counts["push weights"] == counts["update"] == 4
    assert counts["checkpoint"] == 2
    assert [e["args"]["place"] for e in spans if e["name"] == "evaluate"] == ["before", "after"]
    # Nothing is written without the key.
    assert not (run(make_config("plain")) / TRACE_FILE).exists()


@pytest.mark.slow
@pytest.mark.dafny
def test_a_run_of_two_processes_on_real_dafny(tmp_path: Path) -> None:
    changes = {"logging.trace": True, "grpo.max_staleness": 0}
    changes |= {"warm_start.references_per_level.1": 6}
    folder = train_by_two(tmp_path, "traced", 3, changes)
    spans = read_trace(folder)
    check_against_metrics(folder, spans, steps=3)
    for rank in (0, 1):
        mine = [e for e in spans if e["pid"] == rank]
        assert sum(e["name"] == "supervised" for e in mine) == 30
        assert [e["args"]["step"] for e in mine if e["name"] == "update"] == [1, 2, 3]
        assert sum(e["name"] == "wait" for e in mine) > 30
        assert {e["args"]["step"] for e in mine if e["name"] == "generate"} == {1, 2, 3}
    # The clocks are one: what rank 1 computes of an update lies within what rank 0 waits for.
    updates = {r: [e for e in spans if (e["pid"], e["name"]) == (r, "update")] for r in (0, 1)}
    for first, second in zip(updates[0], updates[1], strict=True):
        assert first["ts"] <= second["ts"] <= first["ts"] + first["dur"]
