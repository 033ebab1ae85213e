"""The lab's configurations of experiments train from end to end at tiny size."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import load_config
from proverrl.jobs import train as train_module
from proverrl.jobs.train import train
from proverrl.run.run_folder import is_ended
from proverrl.types import Candidate, Diagnostic, Status, Verdict
from tests.house.test_presets import TINY
from tests.run.test_grpo import StubVerifier, judge, write_split

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "lab"


def tell(candidate: Candidate) -> Verdict:
    """A verdict with a message, which a teacher reads."""
    error = Diagnostic("error", "no", 1, 0)
    status = judge(candidate)
    return Verdict(status, () if status is Status.PROVED else (error,), checks=("audit",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hints", "goedel_v2", "sdpo"])
def test_it_trains_and_evaluates(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_stub(*_: Any, **__: Any) -> StubVerifier:
        return StubVerifier(tell)

    monkeypatch.setattr(train_module, "open_configured", open_stub)
    places = [
        f'problems.train="{write_split(tmp_path / "train.jsonl", range(60))}"',
        f'problems.heldout="{write_split(tmp_path / "heldout.jsonl", range(60, 72))}"',
        f'run="{tmp_path / "run"}"',
    ]
    config = load_config(CONFIGS / f"{name}.toml", [*TINY, *places])
    folder = asyncio.run(train(config, live=False))
    assert is_ended(config)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "step"]
    figure = "distill_loss" if name == "sdpo" else "restarts_waiting"
    assert [row["step"] for row in steps] == [1, 2]
    assert any(figure in row for row in steps)
