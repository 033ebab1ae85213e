"""``proverrl search``: its folder, resuming after a kill, exit statuses, real Dafny throughout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proverrl.problems.load import write_problems

ROOT = Path(__file__).resolve().parents[1]

LOOP = {
    "id": "loop/38",
    "language": "dafny",
    "kind": "invariants",
    "statement": """method Val(x: nat) returns (n: int)
  ensures n == x * 38
{
  n := 0;
  var m := 0;
  while m < x
    /*{HOLE}*/
  {
    m := m + 1;
    n := n + 38;
  }
}
""",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file of one problem and a configuration."""
    write_problems(tmp_path / "loop.jsonl", [LOOP])
    (tmp_path / "search.toml").write_text(
        '[policy]\npath = "policy"\n[pool]\nworkers = 1\ncanary_rate = 0.0\n'
    )
    return tmp_path


def run(place: Path, *arguments: str, event: tuple[str, int] = ("none", 0)) -> tuple[int, str, str]:
    """Exit status, output and errors; the signal arrives before so many-th writing."""
    name, number = event
    done = subprocess.run(
        [sys.executable, "-m", "tests.search_process", name, str(number), *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env=_environment(),
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}


def search(
    place: Path, out: str, *more: str, event: tuple[str, int] = ("none", 0)
) -> tuple[int, str, str]:
    given = ("search", "loop.jsonl", "--config", "search.toml", "--out", out)
    return run(place, *given, *more, event=event)


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


FOLDER = Path("loop_38")
LONG = ("--set", "search.calls=16", "--set", "search.stop_after=99", "--minimise", "0")
