"""The monitor: figures round trip through the disk, survive a kill, and read well as plain text."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyte
import pytest
from rich.console import Console, ConsoleRenderable

from proverrl.errors import RunError
from proverrl.monitor import Monitor, can_draw_live, read_metrics
from proverrl.monitor.console import open_console, open_table
from proverrl.monitor.display import (
    LiveDisplay,
    describe_place,
    format_seconds,
    render_steps,
    sparkline,
)
from proverrl.monitor.metrics import RunLimits


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


STEP: dict[str, Any] = {
    "solve_rate": 0.3125,
    "groups": 8,
    "groups_mixed": 5,
    "unjudged": {"timeout": 2, "crashed": 1},
    "verified_per_second": 12.34,
    "tokens_per_second": 1840.4,
    "loss": 0.02126,
}


def open_monitor(run_dir: Path, **options: Any) -> tuple[Monitor, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    options.setdefault("limits", RunLimits(4))
    return Monitor(run_dir, stream=stream, clock=clock, **options), stream, clock


def test_figures_round_trip_with_seconds_since_the_start(tmp_path: Path) -> None:
    monitor, _, clock = open_monitor(tmp_path / "run")
    clock.now += 1.5
    monitor.log("sft", 0, {"loss": 2.25})
    clock.now += 2.25
    monitor.log("step", 1, STEP)
    assert read_metrics(tmp_path / "run") == [
        {"kind": "sft", "step": 0, "seconds": 1.5, "loss": 2.25},
        {"kind": "step", "step": 1, "seconds": 3.75, **STEP},
    ]
    monitor.close()


def test_figures_that_are_not_finite_become_null(tmp_path: Path) -> None:
    monitor, stream, _ = open_monitor(tmp_path)
    monitor.log(
        "step", 1, {"loss": float("nan"), "solve_rate": 0.5, "levels": {1: {"attempts": 2}}}
    )
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["loss"] is None
    assert read_metrics(tmp_path)[0]["levels"] == {"1": {"attempts": 2}}
    assert stream.getvalue() == "step 1/4  solved 0.500  loss nan\n"
    monitor.close()


def test_plain_lines_are_exact_and_hold_no_control_codes(tmp_path: Path) -> None:
    monitor, stream, clock = open_monitor(tmp_path)
    monitor.phase("warm start", "10/400 loss 3.10")
    clock.now += 1
    monitor.phase("warm start", "20/400 loss 2.90")
    clock.now += 1
    monitor.phase("warm start", "400/400 loss 1.23")
    monitor.phase("evaluation before", "312/1600 attempts")
    monitor.log("step", 1, STEP)
    clock.now += 90
    monitor.display(verifier_queue=12)
    monitor.log("step", 2, {"solve_rate": 0.5, "loss": 0.1})
    monitor.close()
    assert stream.getvalue().splitlines() == [
        "warm start: 10/400 loss 3.10",
        "warm start: 400/400 loss 1.23",
        "evaluation before: 312/1600 attempts",
        "step 1/4  solved 0.312  loss 0.0213  verified/s 12.3  tokens/s 1,840  mixed 5/8  "
        "unjudged 3",
        "step 2/4  solved 0.500  loss 0.1000  left 3m00s",
    ]


def test_phase_lines_come_again_after_five_seconds(tmp_path: Path) -> None:
    monitor, stream, clock = open_monitor(tmp_path)
    for done in range(7):
        monitor.phase("warm start", f"{done}/7")
        clock.now += 2
    monitor.close()
    assert stream.getvalue().splitlines() == [
        "warm start: 0/7",
        "warm start: 3/7",
        "warm start: 6/7",
    ]


def test_resume_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    monitor, _, clock = open_monitor(tmp_path)
    monitor.log("sft", 400, {"loss": 1.0})
    monitor.log("eval", 0, {"name": "before", "path": "evals/before.json"})
    for step in (1, 2, 3):
        clock.now += 10
        monitor.log("step", step, STEP)
        monitor.write_rollouts(step, [{"step": step, "body": "assert true;"}])
    monitor.close()
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind":"step","step":4,"sol')  # what SIGKILL leaves
    (tmp_path / "rollouts" / "step_4.jsonl.partial").write_text("{")

    monitor, plain, clock = open_monitor(tmp_path, resume_step=2)
    clock.now += 5
    monitor.log("step", 3, {"solve_rate": 0.75})
    monitor.close()

    rows = read_metrics(tmp_path)
    assert [(row["kind"], row["step"], row["seconds"]) for row in rows] == [
        ("sft", 400, 0.0),
        ("eval", 0, 0.0),
        ("step", 1, 10.0),
        ("step", 2, 20.0),
        ("step", 3, 25.0),
    ]
    assert rows[-1]["solve_rate"] == 0.75
    names = sorted(path.name for path in (tmp_path / "rollouts").iterdir())
    assert names == ["step_1.jsonl", "step_2.jsonl"]
    assert plain.getvalue() == "step 3/4  solved 0.750\n"


def test_resume_from_before_any_checkpoint_drops_everything(tmp_path: Path) -> None:
    monitor, _, _ = open_monitor(tmp_path)
    monitor.log("sft", 10, {"loss": 1.0})
    monitor.close()
    monitor, _, _ = open_monitor(tmp_path, resume_step=-1)
    monitor.close()
    assert read_metrics(tmp_path) == []


def test_a_fresh_monitor_refuses_a_folder_that_holds_a_run(tmp_path: Path) -> None:
    monitor, _, _ = open_monitor(tmp_path)
    monitor.log("step", 1, STEP)
    monitor.close()
    with pytest.raises(RunError, match="already holds a run"):
        open_monitor(tmp_path)


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind":"step","step":1}\n{"ki\n{"kind":"step"}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


def test_a_killed_writer_leaves_every_logged_line(tmp_path: Path) -> None:
    """The line is on disk when log returns: the process then dies without closing anything."""
    code = (
        "import os, sys; from pathlib import Path; from proverrl.monitor import Monitor\n"
        "from proverrl.monitor.metrics import RunLimits\n"
        "m = Monitor(Path(sys.argv[1]), limits=RunLimits(9), live=False)\n"
        "for step in range(1, 6): m.log('step', step, {'solve_rate': step / 10})\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True)
    assert done.returncode == -9
    assert [row["solve_rate"] for row in read_metrics(tmp_path)] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert done.stdout.count(b"\n") == 5


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    monitor, _, _ = open_monitor(tmp_path)
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl: No space left on device"):
        monitor.log("step", 1, STEP)
    with pytest.raises(RunError, match="No space left"):
        monitor.close()


def test_rollouts_that_cannot_be_written_are_a_clear_error(tmp_path: Path) -> None:
    monitor, _, _ = open_monitor(tmp_path)
    (tmp_path / "rollouts").write_text("a file where the folder should be")
    with pytest.raises(RunError, match=r"step_1\.jsonl"):
        monitor.write_rollouts(1, [{"body": ""}])
    monitor.close()


def test_a_lone_surrogate_in_a_body_is_written(tmp_path: Path) -> None:
    monitor, _, _ = open_monitor(tmp_path)
    path = monitor.write_rollouts(3, [{"body": "x\ud800y"}, {"body": "é"}])
    monitor.close()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["body"] for row in rows] == ["x?y", "é"]


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("no_color", "term", "expected"),
    [("", "xterm", True), ("1", "xterm", False), ("", "dumb", False), ("", "", False)],
)
def test_plain_when_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, no_color: str, term: str, expected: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    assert can_draw_live(FakeTerminal()) is expected
    assert can_draw_live(io.StringIO()) is False


def test_the_live_panel_shows_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream, clock = FakeTerminal(), Clock()
    with Monitor(tmp_path, live=True, limits=RunLimits(4), stream=stream, clock=clock) as monitor:
        assert isinstance(monitor._display, LiveDisplay)
        monitor.log("step", 1, {**STEP, "solve_rate": 0.1})
        clock.now += 60
        monitor.log("step", 2, STEP)
        monitor.display(verifier_queue=12)
    text = stream.getvalue()
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text[text.rindex("ProverRL") :])
    for part in ("2/4", "0.312", "▁▃", "12.3", "1,840", "0.0213", "2m00s", "5/8"):
        assert part in last
    assert " 12 " in last


def test_what_is_said_while_a_panel_grows_leaves_one_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread has time to draw one more row between the choice of where to write a line, and
    its writing."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = FakeTerminal()
    panel = LiveDisplay(stream, clock=lambda: 0.0)
    panel._live.refresh()
    place = panel._live.process_renderables
    main = threading.current_thread()
    drawings: list[threading.Thread] = []

    def place_slowly(rows: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        placed = place(rows)
        if threading.current_thread() is main and rows:
            panel.show_warning("late", "a second row")
            drawing = threading.Thread(target=panel._live.refresh, daemon=True)
            drawing.start()
            drawing.join(0.3)
            drawings.append(drawing)
        return placed

    with monkeypatch.context() as patches:
        patches.setattr(panel._live, "process_renderables", place_slowly)
        panel._console.print("said aloud")
    for drawing in drawings:
        drawing.join()
    panel.close()
    screen = pyte.Screen(100, 20)
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    lines = [line[:11].strip() for line in screen.display]
    assert lines[:2] == ["said aloud", "╭─ ProverRL"]
    assert lines.count("╭─ ProverRL") == 1


def test_a_sparkline_shows_shares_of_its_top() -> None:
    # Eighths: 0.002 is in the first of eight, whatever else is shown.
    assert sparkline([0.002]) == "▁"
    assert sparkline([0.0, 0.124, 0.125, 0.5, 0.874, 0.875, 1.0]) == "▁▁▂▅▇██"
    assert sparkline([0.1, 0.2, 0.4], width=2) == "▂▄"
    assert sparkline([1.0, 3.0, 8.0], top=8) == "▂▄█"
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.4, "7s"), (245, "4m05s"), (7384, "2h03m"), (-1, "0s")]
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def row(step: int, seconds: float, calls: int, left: float | None = None) -> dict[str, Any]:
    used = {"verifier_calls_total": calls} | ({} if left is None else {"seconds_left": left})
    return {"kind": "step", "step": step, "seconds": seconds, **used}


@pytest.mark.parametrize(
    ("limits", "left", "place", "seconds"),
    [
        # Two steps take 20 s; 37 are left.
        (RunLimits(40), None, ["step 3/40"], 370.0),
        # They take 100 of the calls; 350 are left: 70 s.
        (RunLimits(40, 500), None, ["step 3", "150 of 500 verifier calls"], 70.0),
        # A clock needs no pace.
        (RunLimits(40, 500, 1.5), 45.0, ["step 3", "0.8 of 1.5 minutes"], 45.0),
        (RunLimits(4, 500, 1.5), 45.0, ["step 3/4"], 10.0),
        (RunLimits(minutes=1.5), 45.0, ["step 3", "0.8 of 1.5 minutes"], 45.0),
        (RunLimits(0, 150), None, ["step 3", "150 of 150 verifier calls"], 0.0),
        (RunLimits(), None, ["step 3"], None),
    ],
)
def test_the_limit_that_ends_the_run_is_named_and_counted(
    limits: RunLimits, left: float | None, place: list[str], seconds: float | None
) -> None:
    first, last = row(1, 10.0, 50, left and left + 20.0), row(3, 30.0, 150, left)
    assert describe_place(last, limits.find_nearest(last)) == place
    assert limits.seconds_left(first, last) == seconds
    # Without a pace nothing is known but the clock, and that only where nothing else ends the run.
    alone = limits == RunLimits(minutes=1.5)
    assert limits.seconds_left(last, last) == (left if alone else None)


def test_a_bar_is_filled_by_the_limit_that_ends_the_run(tmp_path: Path) -> None:
    monitor, stream, clock = open_monitor(tmp_path, limits=RunLimits(2000, minutes=7.0))
    monitor.log("step", 1, {"seconds_left": 400.0})
    with (screen := Console(width=80)).capture() as shown:
        screen.print(render_steps(monitor._state))
    assert re.search(r"time left +unknown yet", shown.get())
    clock.now += 60.0
    # 2 of 2000 steps at a minute each would be 33 hours.
    monitor.log("step", 2, {"seconds_left": 315.0})
    monitor.close()
    assert stream.getvalue().splitlines() == [
        "step 1  0.3 of 7 minutes",
        "step 2  1.8 of 7 minutes  left 5m15s",
    ]
    group: Any = render_steps(monitor._state)
    (bar,) = [item for table in group.renderables[:1] for item in table.columns[1]._cells]
    assert bar.completed / bar.total == pytest.approx(105 / 420)


def test_time_left_is_bounded_by_the_budget(tmp_path: Path) -> None:
    now = 0.0
    stream = io.StringIO()
    with Monitor(
        tmp_path, live=False, limits=RunLimits(100), stream=stream, clock=lambda: now
    ) as monitor:
        monitor.log("step", 1, {"seconds_left": 55.0})
        now = 10.0
        monitor.log("step", 2, {"seconds_left": 45.0})
        now = 20.0
        monitor.log("step", 3, {})
    lines = [line.rpartition("left ")[2] for line in stream.getvalue().splitlines()]
    # No pace is known at first; 97 steps at ten seconds each when nothing bounds them.
    assert lines == ["step 1/100", "45s", "16m10s"]


def test_a_title_is_not_wrapped_at_the_width_of_its_columns() -> None:
    table = open_table("Solved, %, with 95 % intervals")
    table.add_column("k")
    table.add_row("1")
    stream = io.StringIO()
    open_console(stream).print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert lines == ["Solved, %, with 95 % intervals", "k", "1"]
