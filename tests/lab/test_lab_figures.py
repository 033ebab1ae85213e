"""The commands of the lab's figures."""

from __future__ import annotations

import pytest

from scripts.reproduce import FIGURES
from tests import ROOT
from tests.house.test_scripts import check_keys, needs_lab


@pytest.mark.parametrize("name", [name for name in FIGURES if needs_lab(name)])
def test_the_commands_set_keys_that_there_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    check_keys(name)
