"""Ctrl-C at a terminal: what is saved, what is said, how the terminal is left; real Dafny."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proverrl.config import Config
from proverrl.errors import StoppedError
from proverrl.jobs.train import describe_unsaved
from proverrl.lang.dafny.verify.workers.toolchain import run_for_version
from proverrl.monitor import Monitor
from proverrl.monitor.interrupt import stop_at_once, stop_on_signals
from proverrl.monitor.metrics import RunLimits
from proverrl.run.checkpoint import save_checkpoint
from tests.run.test_grpo import step_lines, weights
from tests.terminal import ROOT, Terminal
from tests.warm import WARM

CURRICULUM = ROOT / "dafny" / "curriculum"
STEPS = 24
"""A step takes a tenth of a second once its verdicts are stored: so many that none can all be over
before a key that is pressed after the second one arrives."""
CONFIG = f"""
loop = "grpo"
run = "run"
checkpoint_every = 100
[problems]
train = "train.jsonl"
heldout = "heldout.jsonl"
[policy]
layout = "canonical"
num_layers = 2
hidden_size = 32
num_heads = 2
intermediate_size = 64
vocab_size = 400
[warm_start]
references_per_level = {{ 1 = 6 }}
steps = 60
optimizer = "adamw"
learning_rate = 5e-3
[sampling]
max_new_tokens = 24
[pool]
workers = 1
cache = "verdicts.sqlite"
[grpo]
steps = {STEPS}
groups_per_step = 2
groups_per_draw = 2
group_size = 3
max_draws_per_step = 1
[evaluation]
samples = 2
ks = [1]
before = false
after = false
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny training on real problems; verdicts are shared in it."""
    folder = tmp_path_factory.mktemp("interrupt")
    rows = [json.loads(line) for line in (CURRICULUM / "train.jsonl").open()]
    easy = [row for row in rows if row["metadata"]["level"] == 1][:20]
    for name, some in (("train", easy), ("heldout", easy[12:])):
        text = "".join(json.dumps(row) + "\n" for row in some)
        (folder / f"{name}.jsonl").write_text(text)
    (folder / "tiny.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    """The same training, never interrupted."""
    run(place, "train", "tiny.toml", "--run", "whole")
    return place / "whole"


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*WARM, "-m", "proverrl", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def read_steps(folder: Path) -> list[dict[str, Any]]:
    return step_lines(folder) if (folder / "metrics.jsonl").exists() else []


def assert_terminal_is_sane(terminal: Terminal) -> None:
    assert not terminal.screen.cursor.hidden
    assert terminal.flags_after == terminal.flags_before
    assert [line[:11] for line in terminal.lines].count("╭─ ProverRL") == 1
    # What is typed next stands below the last line.
    assert terminal.screen.display[terminal.screen.cursor.y].strip() == ""


@pytest.mark.slow
def test_ctrl_c_in_a_training_saves_its_step_and_loses_nothing(place: Path, whole: Path) -> None:
    folder = place / "stopped"
    terminal = Terminal(["train", "tiny.toml", "--run", "stopped"], place)
    terminal.wait_until(lambda: len(read_steps(folder)) >= 2)
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    made = len(read_steps(folder))
    assert 2 <= made < STEPS
    # Checkpoints come every 100 steps otherwise.
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"step_{made:06d}"]
    assert terminal.lines[-1] == f"stopped; step {made} is saved; the same command continues"
    said = "Ctrl-C: finishing what is under way; press it again to end at once"
    assert terminal.lines.count(said) == 1
    assert f"step {made}/{STEPS}" in terminal.text
    assert_terminal_is_sane(terminal)
    run(place, "train", "tiny.toml", "--run", "stopped")
    assert read_steps(folder) == read_steps(whole)
    ours, theirs = weights(folder), weights(whole)
    assert all(ours[name].equal(theirs[name]) for name in theirs)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_and_says_what_is_lost(place: Path) -> None:
    # A step of a minute and more: 1,024 completions of up to 900 tokens.
    slow = ("grpo.groups_per_draw=64", "grpo.group_size=16", "sampling.max_new_tokens=900")
    changes = [word for change in slow for word in ("--set", change)]
    terminal = Terminal(["train", "tiny.toml", "--run", "ended", *changes], place)
    terminal.wait_until(lambda: (place / "ended" / "warm_start" / "policy").exists())
    terminal.wait_until(lambda: "groups: in order" in terminal.text)
    terminal.press_ctrl_c()
    terminal.wait_until(lambda: "to end at once" in terminal.text)
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    assert terminal.lines[-1] == (
        "ended at once; lost: what was under way; the same command continues from step 0"
    )
    assert_terminal_is_sane(terminal)
    assert not (place / "ended" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("made", "saved", "lost"),
    [
        (7, 4, "steps 5 to 7 and what was under way; the same command continues from step 4"),
        (5, 4, "step 5 and what was under way; the same command continues from step 4"),
        (4, 4, "what was under way; the same command continues from step 4"),
        (2, 0, "steps 1 to 2 and what was under way; the same command continues from step 0"),
    ],
)
def test_what_is_lost_is_what_came_after_the_checkpoint(
    tmp_path: Path, made: int, saved: int, lost: str
) -> None:
    session = cast("Any", SimpleNamespace())
    session.config = Config()
    session.checkpoints = tmp_path / "checkpoints"
    session.warm_policy = tmp_path / "policy"
    session.warm_policy.mkdir()
    if saved:
        save_checkpoint(session.checkpoints, saved, {}, save_policy=lambda _: None)
    stream = io.StringIO()
    with Monitor(tmp_path, live=False, limits=RunLimits(9), stream=stream) as session.monitor:
        for step in range(1, made + 1):
            session.monitor.log("step", step, {})
        assert describe_unsaved(session) == f"ended at once; lost: {lost}"
        session.warm_policy.rmdir()
        assert describe_unsaved(session).endswith("continues from the beginning")


@pytest.fixture
def listened_to() -> Iterator[None]:
    """Whoever runs the tests in the background has them ignore the key."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listened_to")
def test_ctrl_c_in_a_set_up_ends_it_where_it_stands_and_says_how_to_go_on() -> None:
    closed: list[str] = []

    async def set_up() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            closed.append("what comes after the key")
        finally:
            await asyncio.sleep(0)
            closed.append("verifier")

    with pytest.raises(StoppedError) as stopped, stop_at_once("do it again"):
        asyncio.run(set_up())
    assert (str(stopped.value), stopped.value.exit_status) == ("interrupted; do it again", 130)
    assert closed == ["verifier"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("listened_to")
def test_ctrl_c_after_a_set_up_is_that_of_the_run() -> None:
    done: list[str] = []

    async def run_all() -> None:
        stop = asyncio.Event()
        with stop_on_signals(stop.set, lambda: ""):
            os.kill(os.getpid(), signal.SIGINT)
            await stop.wait()
            done.append("step")

    with stop_at_once("do it again"):
        asyncio.run(run_all())
    assert done == ["step"]


@pytest.mark.slow
def test_ctrl_c_in_a_warm_start_says_that_it_begins_anew(place: Path) -> None:
    arguments = ["train", "tiny.toml", "--run", "warm", "--set", "warm_start.steps=100000"]
    terminal = Terminal(arguments, place)
    terminal.wait_until(lambda: "warm start: 1" in terminal.text)
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    said = r"stopped; the warm start was at step \d+ and begins again; the same command continues"
    assert re.fullmatch(said, terminal.lines[-1])
    assert_terminal_is_sane(terminal)


@pytest.mark.slow
def test_ctrl_c_in_an_evaluation_keeps_what_was_judged(place: Path, whole: Path) -> None:
    more = ("--set", "evaluation.samples=4096", "--set", "evaluation.ks=[1]")
    terminal = Terminal(["eval", "--run", "whole", "--name", "long", *more], place)
    attempts = whole / "evals" / "long.jsonl"
    terminal.wait_until(lambda: attempts.exists() and attempts.stat().st_size > 0)
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    assert terminal.lines[-1] == (
        "interrupted; the attempts that were judged are stored, the same command continues"
    )
    assert_terminal_is_sane(terminal)
    stored = attempts.read_text().splitlines()
    assert 8 <= len(stored) < 8 * 4096
    # Whole blocks: each attempt of every problem, as ``--resume`` would have it.
    assert len(stored) % 8 == 0
    # Gone on with, only what is missing is made: of 64 attempts those that are stored stay.
    few = ("--set", "evaluation.samples=16", "--set", "evaluation.ks=[1]")
    run(place, "eval", "--run", "whole", "--name", "long", *few)
    assert attempts.read_text().splitlines()[: len(stored)] == stored
    assert not (whole / "evals" / "long.json.partial").exists()


def test_ctrl_c_in_watch_touches_nothing(place: Path) -> None:
    (place / "begun").mkdir(exist_ok=True)
    terminal = Terminal(["watch", "begun"], place)
    terminal.wait_until(lambda: "begun" in terminal.text)
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    assert terminal.lines[-1] == "no longer watching; the run itself is not touched"
    assert_terminal_is_sane(terminal)
    assert list((place / "begun").iterdir()) == []


def test_a_version_is_asked_out_of_reach_of_ctrl_c() -> None:
    """A terminal sends its Ctrl-C to a whole session; a version cut short looks like none."""
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert run_for_version([sys.executable, "-c", code]) == "True\n"
