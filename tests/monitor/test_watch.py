"""A run followed from outside: half lines, runs not begun, resumed runs, and the end."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from proverrl.cli.main import cli
from proverrl.monitor import Monitor
from proverrl.monitor.interrupt import ctrl_c_while_asleep
from proverrl.monitor.metrics import MetricsTail, RunLimits
from proverrl.monitor.watch import (
    RunView,
    describe_flow,
    describe_lines,
    describe_verdicts,
    render_view,
    watch_run,
)
from tests import report_runs as made

CONFIG = {
    "loop": "grpo",
    "max_verifier_calls": 1000,
    "grpo": {"steps": 40},
    "warm_start": {"steps": 20},
}


def step(number: int, **values: Any) -> dict[str, Any]:
    return {
        "kind": "step",
        "step": number,
        "seconds": 10.0 * number,
        "solve_rate": 0.25,
        "verifier_calls_total": 50 * number,
        **values,
    }


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def follow(run: Path, actions: list[Callable[[], None]], *, live: bool = False) -> str:
    """What is printed while one action happens between each two looks."""
    stream = io.StringIO()
    left = iter(actions)

    def act(seconds: float) -> None:
        assert seconds == 2.0
        next(left)()

    watch_run(run, stream, live=live, sleep=act)
    assert next(left, None) is None  # it did not end early
    return stream.getvalue()


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert tail.read() == ([], False)  # no file yet
    append(path, '{"a":1}\n{"a":')
    assert tail.read() == ([{"a": 1}], True)
    assert tail.read() == ([], False)
    append(path, "2}")
    assert tail.read() == ([], False)
    append(path, '\n\n[1]\n{"a"\n')
    assert tail.read() == ([{"a": 2}], False)
    assert tail.bad_lines == 2


def test_a_file_that_was_replaced_or_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append(path, '{"a":1}\n{"a":2}\n')
    tail = MetricsTail(path)
    tail.read()
    made.write_lines(tmp_path / "other", [{"a": 1}])
    (tmp_path / "other").replace(path)  # as a resumed run does it
    assert tail.read() == ([{"a": 1}], True)
    append(path, '{"a":3}\n')
    assert tail.read() == ([{"a": 3}], False)
    path.write_text('{"b":1}\n')  # shorter, the same file
    assert tail.read() == ([{"b": 1}], True)


def test_a_run_is_followed_from_before_its_beginning_to_its_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    metrics = run / "metrics.jsonl"
    whole = json.dumps(step(2, verdicts={"rejected": 3, "proved": 1}))
    output = follow(
        run,
        [
            lambda: made.write_json(run / "resolved.json", {"config": CONFIG}),
            lambda: append(metrics, '{"kind":"sft","step":10,"seconds":1,"loss":1.5}\n'),
            lambda: append(metrics, json.dumps(step(1)) + "\n" + whole[:30]),
            lambda: append(metrics, whole[30:] + "\n"),
            lambda: append(metrics, '{"kind":"eval","step":2,"name":"after"}\n'),
            lambda: made.write_json(run / "policy" / "config.json", {}),
        ],
    )
    # 10 s a step. 38 steps are left, but (1000 - 100) / 50 = 18 steps' worth of verifier calls.
    assert output.splitlines() == [
        f"{run}: not begun yet",
        f"{run}: begun",
        f"{run}: warm start 10/20, loss 1.5000",
        "step 1  50 of 1,000 verifier calls  solved 0.250",
        "step 2  100 of 1,000 verifier calls  solved 0.250  left 3m00s  1 proved, 3 rejected",
        "evaluated: after",
        f"{run}: finished",
    ]


def test_a_resumed_run_goes_on_without_its_lost_steps(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", {"config": CONFIG})
    with Monitor(run, limits=RunLimits(40), live=False, stream=io.StringIO()) as monitor:
        for number in (1, 2, 3):
            monitor.log("step", number, {"solve_rate": 0.5})

    def resume() -> None:
        with Monitor(
            run, limits=RunLimits(40), live=False, stream=io.StringIO(), resume_step=1
        ) as monitor:
            monitor.log("step", 2, {"solve_rate": 0.75})

    output = follow(run, [resume, lambda: made.write_json(run / "policy" / "config.json", {})])
    lines = output.splitlines()
    assert lines[0].startswith("step 3/40  solved 0.500")
    assert lines[1] == f"{run}: continues from step 2"
    assert lines[2] == f"{run}: finished"
    assert len(lines) == 3


def test_the_guard_speaks_through_checkpoints_and_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    append(run / "metrics.jsonl", json.dumps(step(5)) + "\n")
    view = RunView(run)
    view.look()
    assert view.warnings == {}
    for number, count in ((4, 1), (5, 3)):
        state = {"guard": {"warnings": {"ratio": count}}}
        made.write_json(run / "checkpoints" / f"step_00000{number}" / "state.json", state)
    made.write_json(run / "guard" / "entropy.json", {})
    view.look()
    assert view.warnings == {"ratio": 3}
    console = Console(file=io.StringIO(), width=100)
    console.print(render_view(view))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ratio 3x, stopped: entropy" in text
    assert "step 5 " in text  # no configuration says how many there will be


def test_verdicts_and_flow_are_told_as_far_as_they_are_there() -> None:
    row = {
        "verdicts": {"unsound": 1, "rejected": 1200, "proved": 2, "timeout": 4},
        "unjudged": {"timeout": 4, "crashed": 0},
        "staleness_mean": 0.5,
        "staleness_max": 2,
        "idle_pool_seconds": 1.25,
    }
    assert describe_verdicts(row) == "2 proved, 1,200 rejected, 4 timeout, 1 unsound"
    assert describe_flow(row) == "staleness 0.50 (most 2)  idle seconds pool 1.2"
    assert (describe_verdicts({}), describe_flow({})) == ("", "")


def test_self_play_says_what_became_of_its_statements(tmp_path: Path) -> None:
    row = step(
        3,
        statements_written=12,
        statements_kept=9,
        solve_rates={"0": 5, "0-0.25": 1, "1": 2},
        composer_reward=0.0625,
        compose_warnings=["none_solved: 82% of the problems", "overlap: 95%"],
        idle_composer_seconds=1.5,
    )
    append(tmp_path / "metrics.jsonl", json.dumps(row) + "\n")
    view = RunView(tmp_path)
    view.look()
    text = "9/12 kept, p=0 5, p=1 2 of 8, reward 0.062, warns of none_solved, overlap"
    assert f"composed {text}" in describe_lines(view, row)
    assert "idle seconds composer 1.5" in describe_flow(row)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_view(view))
    assert text in console.export_text()
    assert "composed" not in describe_lines(view, step(4))
    counts = {"statements_written": 48, "statements_kept": 42, "statements_proved": 16}
    loop = step(5, **counts, statements_disproved=2)
    assert "composed 42/48 kept, 16 proved, 2 disproved" in describe_lines(view, loop)


def test_one_step_shows_no_pace_and_an_end_leaves_no_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", {"config": CONFIG})
    append(run / "metrics.jsonl", json.dumps(step(1)) + "\n")
    view = RunView(run)
    console = Console(width=120, record=True, file=io.StringIO())
    view.look()
    console.print(render_view(view))
    made.write_json(run / "policy" / "config.json", {})
    console.print(render_view(view))
    assert re.findall(r"time left +(\S+)", console.export_text()) == ["unknown", "-"]


def test_the_panel_is_drawn_until_the_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made.write_json(run / "resolved.json", {"config": CONFIG})
    append(run / "metrics.jsonl", json.dumps(step(1)) + "\n")
    end = [lambda: made.write_json(run / "policy" / "config.json", {})]
    text = follow(run, end, live=True)
    assert "50 of 1,000 verifier calls" in text
    assert "finished" in text


@pytest.mark.parametrize("begun", [False, True])
def test_once_prints_and_stops(tmp_path: Path, begun: bool) -> None:
    run = tmp_path / "run"
    if begun:
        append(run / "metrics.jsonl", json.dumps(step(7)) + "\n")
    done = CliRunner().invoke(cli, ["watch", str(run), "--once"])
    assert done.exit_code == 0, done.output
    expected = "step 7  solved 0.250" if begun else f"{run}: not begun yet"
    assert done.output.strip() == expected
    assert not (run / "report.html").exists()


def test_a_finished_run_ends_at_once(tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", steps=3)
    made.write_json(run / "policy" / "config.json", {})
    done = CliRunner().invoke(cli, ["watch", str(run)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"{run}: finished"
    assert done.output.startswith("step 3/3")


def test_ctrl_c_between_writing_a_panel_and_forgetting_it_draws_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            # rich forgets what it wrote after the flush.
            if "begun" in self.getvalue() and not pressed:
                pressed.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setenv("TERM", "xterm")
    # Whoever runs the tests in the background has them ignore the key.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed: list[bool] = []
    stream = Terminal()
    try:
        with pytest.raises(KeyboardInterrupt), ctrl_c_while_asleep() as sleep:
            watch_run(tmp_path, stream, live=True, sleep=sleep)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert pressed
    # On leaving it is drawn over itself: three lines, two steps up, and nothing is left twice.
    before, after = stream.getvalue().split("\x1b[1A\x1b[2K" * 2)
    assert before.count("begun") == after.count("begun") == 1
