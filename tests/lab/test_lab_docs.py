"""What the lab's pages say exists, by the checks of the core's pages."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from proverrl import plugins
from proverrl.problems.check import check_file
from proverrl.problems.load import write_problems
from tests import ROOT
from tests.house.test_docs import (
    COMMANDS,
    LAB_PAGES,
    explain_command_line,
    iter_command_lines,
    walk_commands,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
KNOWN = dict(COMMANDS)
for name, place in PROJECT["entry-points"]["proverrl.command"].items():
    KNOWN |= dict(walk_commands(plugins.load("command", place), f"proverrl {name}"))
LAB = ROOT / "proverrl" / "lab"
SHARED = {"beside"}
"""Parts that two experiments share, and that are none."""


def list_experiments() -> set[str]:
    """The modules and folders of the lab."""
    modules = {path.stem for path in LAB.glob("*.py") if path.name != "__init__.py"}
    return (modules | {path.parent.name for path in LAB.glob("*/__init__.py")}) - SHARED


@pytest.mark.parametrize("page", LAB_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_command_lines_refer_to_what_exists(page: Path) -> None:
    lines = iter_command_lines(page.read_text("utf-8"))
    assert [reason for line in lines if (reason := explain_command_line(line, KNOWN))] == []


def test_the_table_names_every_experiment_and_no_other() -> None:
    text = (ROOT / "docs" / "lab" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:\[)?`(\w+)`", text, re.MULTILINE)
    assert sorted(rows) == sorted(list_experiments())


@pytest.mark.parametrize("name", ["deciding", "answering"])
def test_the_example_of_a_kind_is_at_no_fault(name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "lab" / f"{name}.md").read_text("utf-8")
    rows = [json.loads(row) for row in re.findall(r"```json\n(.*?)\n```", text)]
    write_problems(tmp_path / "p.jsonl", rows)
    found = check_file(tmp_path / "p.jsonl")
    assert (len(rows), list(found.faults)) == (1, [])


def test_every_entry_point_of_the_lab_leads_somewhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    places = [
        place
        for points in project.get("entry-points", {}).values()
        for place in points.values()
        if place.startswith("proverrl.lab.")
    ]
    named = {place.partition(":")[0].split(".")[2] for place in places}
    assert named <= list_experiments()
