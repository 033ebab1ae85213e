"""Every preset of the lab's objectives trains from end to end at tiny size, and says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.test_presets import check_training

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lab" / "objectives.md").read_text("utf-8")
PRESETS = sorted(set(re.findall(r"`(configs/lab/\w+\.toml)`", PAGE)))


@pytest.mark.slow
@pytest.mark.parametrize("path", PRESETS)
def test_a_preset_trains_and_evaluates(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_training(ROOT / path, tmp_path, monkeypatch)


@pytest.mark.parametrize("path", PRESETS)
def test_a_preset_names_its_source(path: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert re.search(r"^# .*arXiv \d{4}\.\d{5}", text, re.MULTILINE)
