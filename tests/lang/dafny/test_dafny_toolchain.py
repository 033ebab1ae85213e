"""Which Dafny judges, of those that are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proverrl.config.base import DafnyVersion
from proverrl.errors import ToolchainError
from proverrl.lang.dafny.install import default_folder
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from tests.two_dafnys import DAFNY_2

PINNED = os.environ["PROVERRL_DAFNY"]
TOLD = {"4.11.0": "4.11.0+abc", "4.0.0": "4.0.0.50303", "2.3.0": "Dafny 2.3.0.10506"}


def write(place: Path, version: str) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\necho {TOLD.get(version, version)}\n")
    place.chmod(0o755)
    return str(place)


@pytest.fixture(autouse=True)
def z3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A z3, and no Dafny."""
    place = tmp_path / "z3"
    place.write_text("#!/bin/sh\necho Z3 version 4.12.1 - 64 bit\n")
    place.chmod(0o755)
    monkeypatch.setenv("PROVERRL_Z3", str(place))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PROVERRL_DAFNY", raising=False)
    return str(place)


def choose(version: DafnyVersion) -> str:
    return find_dafny_toolchain(version).dafny


def test_dafny_4_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = write(tmp_path / "bin" / "dafny", "2.3.0")
    assert choose("auto") == choose("2.3") == older
    ours = write(default_folder() / "dafny", "4.11.0")
    assert (choose("auto"), choose("4"), choose("2.3")) == (ours, ours, older)
    tool = write(tmp_path / "tools" / "dafny", "4.0.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tmp_path / 'tools'}")
    assert (choose("auto"), choose("4"), choose("2.3")) == (tool, tool, older)
    monkeypatch.setenv("PROVERRL_DAFNY", older)
    assert (choose("auto"), choose("4"), choose("2.3")) == (older, tool, older)
    monkeypatch.setenv("PROVERRL_DAFNY", ours)
    assert (choose("auto"), choose("4"), choose("2.3")) == (ours, ours, older)


def test_the_name_tells_the_z3_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = write(tmp_path / "bin" / "dafny", "4.11.0")
    assert find_dafny_toolchain().name == "dafny 4.11.0 (language server), z3 4.12.1"
    brought = tmp_path / "bin" / "z3" / "bin"
    brought.mkdir(parents=True)
    for version in ("4.12.1", "4.8.5"):
        place = brought / f"z3-{version}"
        place.write_text(f"#!/bin/sh\necho Z3 version {version}\n")
        place.chmod(0o755)
    monkeypatch.delenv("PROVERRL_Z3")
    found = find_dafny_toolchain("4")
    assert (found.dafny, found.z3, found.z3_version) == (
        command,
        str(brought / "z3-4.12.1"),
        "4.12.1",
    )


@pytest.mark.parametrize(
    ("version", "there", "said"),
    [
        ("auto", "", r"^Dafny is not installed; run: dotnet tool .*install\) or, for Dafny 2\.3, "),
        ("4", "2.3.0", r"^Dafny 4 is not installed \(.*is Dafny 2\.3\.0\); run: dotnet tool "),
        ("2.3", "4.11.0", r"^Dafny 2\.3 is not installed \(.*4\.11\.0\); run: sudo apt-get"),
        ("auto", "3.13.1", r"dafny is Dafny 3\.13\.1, which is untested; supported are Dafny 4 "),
        ("auto", "2.2.0", r"dafny is Dafny 2\.2\.0, which is untested"),
        ("4", "5.0.0", r"dafny is Dafny 5\.0\.0, which is untested"),
        ("auto", "no number", r"dafny does not answer as Dafny \(no number\)"),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, version: DafnyVersion, there: str, said: str
) -> None:
    if there:
        write(tmp_path / "bin" / "dafny", there)
    with pytest.raises(ToolchainError, match=said):
        find_dafny_toolchain(version)


def test_a_named_dafny_that_does_not_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "bin" / "dafny", "4.11.0")
    monkeypatch.setenv("PROVERRL_DAFNY", "/nonexistent/dafny")
    with pytest.raises(ToolchainError, match="cannot run /nonexistent/dafny"):
        find_dafny_toolchain()


def test_other_tests_judge_with_dafny_2() -> None:
    assert DAFNY_2 is None or DAFNY_2.dafny == PINNED
