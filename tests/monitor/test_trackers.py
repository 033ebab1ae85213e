"""Figures in TensorBoard, read back from its event files, and in tools that fail or are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from proverrl.config import Config
from proverrl.config.load import parse_config
from proverrl.errors import UsageError
from proverrl.files import extras
from proverrl.monitor import Monitor, read_metrics
from proverrl.monitor.metrics import RunLimits
from proverrl.monitor.trackers import TrackerSet, open_trackers


def make_config(*backends: str) -> Config:
    return parse_config({"logging": {"backends": list(backends)}}, source="test")


def read_back(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_holds_what_metrics_hold(tmp_path: Path) -> None:
    opened = open_trackers(make_config("jsonl", "tensorboard"), tmp_path)
    with Monitor(tmp_path, live=False, limits=RunLimits(2), trackers=opened) as monitor:
        monitor.log("sft", 7, {"loss": 2.5})
        monitor.log("step", 1, {"solve_rate": 0.25, "levels": {"3": {"solved": 4}}, "name": "x"})
        monitor.log("step", 2, {"solve_rate": 0.5, "loss": float("nan"), "limits": [1, 2]})
    found = read_back(tmp_path)
    assert found["sft/loss"] == [(7, 2.5)]
    assert found["step/solve_rate"] == [(1, 0.25), (2, 0.5)]
    assert found["step/levels/3/solved"] == [(1, 4.0)]
    assert "step/loss" not in found
    assert "step/name" not in found
    assert [row["kind"] for row in read_metrics(tmp_path)] == ["sft", "step", "step"]


def test_a_resumed_run_adds_to_its_curves(tmp_path: Path) -> None:
    for step, resume_step in ((1, None), (2, 1)):
        opened = open_trackers(make_config("tensorboard"), tmp_path)
        how: dict[str, Any] = {"resume_step": resume_step, "trackers": opened}
        with Monitor(tmp_path, live=False, limits=RunLimits(2), **how) as monitor:
            monitor.log("step", step, {"solve_rate": step / 4})
    assert read_back(tmp_path)["step/solve_rate"] == [(1, 0.25), (2, 0.5)]


class FakeTool:
    """A tracker of accelerate's that keeps what it is told, and fails when it is told to."""

    made: list[FakeTool]
    breaks = False

    def __init__(self, project: str, **options: Any) -> None:
        self.project, self.options = project, options
        self.lines: list[tuple[dict[str, float], dict[str, int]]] = []
        self.is_finished = False
        FakeTool.made.append(self)

    def start(self) -> None:
        if self.project == "offline-land":
            raise ConnectionError("no network")

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        assert values["seed"] == 0

    def log(self, values: dict[str, float], **options: int) -> None:
        if self.breaks:
            raise ConnectionError("gone")
        self.lines.append((values, options))

    def finish(self) -> None:
        self.is_finished = True


@pytest.fixture
def fake_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate import tracking

    FakeTool.made = []
    FakeTool.breaks = False
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "wandb", FakeTool)
    monkeypatch.setattr(extras, "find_spec", lambda name: name)


@pytest.mark.usefixtures("fake_wandb")
def test_wandb_goes_on_under_the_id_that_the_run_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    open_trackers(make_config("wandb"), tmp_path)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    open_trackers(make_config("wandb"), tmp_path)
    first, second = (tool.options for tool in FakeTool.made)
    assert first == second
    assert first["id"] == json.loads((tmp_path / "trackers.json").read_text())["wandb"]
    assert len(first["id"]) == 8
    assert {k: v for k, v in first.items() if k != "id"} == {
        "name": tmp_path.name,
        "resume": "allow",
        "dir": str(tmp_path),
    }
    assert [tool.project for tool in FakeTool.made] == ["proverrl", "mine"]


@pytest.mark.usefixtures("fake_wandb")
def test_a_tool_with_one_axis_gets_the_step_as_a_figure(tmp_path: Path) -> None:
    opened = open_trackers(make_config("wandb"), tmp_path)
    with Monitor(tmp_path, live=False, limits=RunLimits(2), trackers=opened) as monitor:
        monitor.log("sft", 9, {"loss": 1.0})
        monitor.log("step", 1, {"loss": 2.0})
    [tool] = FakeTool.made
    kept = [{k: v for k, v in line.items() if "seconds" not in k} for line, _ in tool.lines]
    assert kept == [{"sft/step": 9, "sft/loss": 1.0}, {"step/step": 1, "step/loss": 2.0}]
    assert [options for _, options in tool.lines] == [{}, {}]
    assert tool.is_finished


def test_a_tool_that_fails_is_left_out_and_said(tmp_path: Path) -> None:
    FakeTool.made = []
    said: list[tuple[str, str]] = []
    tool, other = FakeTool("p"), FakeTool("q")
    tool.breaks = True
    tools = TrackerSet({"wandb": tool, "tensorboard": other}, lambda *words: said.append(words))
    for step in (1, 2):
        tools.log({"kind": "step", "step": step, "loss": 1.0})
    tools.close()
    text = "wandb is left out from here: gone; wandb lacks what metrics.jsonl holds"
    assert said == [("wandb", text)]
    assert (len(tool.lines), len(other.lines)) == (0, 2)
    assert (tool.is_finished, other.is_finished) == (False, True)


def test_a_tool_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"needs wandb, which is not installed; run: .*wandb"):
        open_trackers(make_config("wandb"), tmp_path)


@pytest.mark.usefixtures("fake_wandb")
def test_a_tool_that_does_not_begin_is_an_error_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "offline-land")
    with pytest.raises(UsageError, match=r"^wandb does not begin: no network; see to its settings"):
        open_trackers(make_config("wandb"), tmp_path)
