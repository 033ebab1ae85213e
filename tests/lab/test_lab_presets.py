"""Every preset of the lab trains from end to end at tiny size, and says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_presets import check_training

ROOT = Path(__file__).resolve().parents[2]
PRESETS = sorted((ROOT / "configs" / "lab").glob("*.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_trains_and_evaluates(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_training(path, tmp_path, monkeypatch)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_names_its_source_and_stands_on_a_page(path: Path) -> None:
    assert re.search(r"^# .*arXiv \d{4}\.\d{5}", path.read_text("utf-8"), re.MULTILINE)
    pages = [page.read_text("utf-8") for page in (ROOT / "docs" / "lab").glob("*.md")]
    assert any(f"configs/lab/{path.name}" in page for page in pages)
