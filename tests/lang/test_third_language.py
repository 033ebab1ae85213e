"""A language that is one file and one line of registration goes through the whole house."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import parse_config
from proverrl.jobs.train import train
from proverrl.lang import LANGUAGES, find_language
from proverrl.problems.load import make_row, write_problems
from tests.sums import make_sum

PROBLEMS = [(f"s{one}{other}", one, other) for one in range(4) for other in range(4)]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(LANGUAGES, "sums", "tests.sums:SUMS")
    yield
    find_language.cache_clear()


def write(path: Path) -> Path:
    rows = [
        make_row(make_sum(name, one, other)) | {"reference": str(one + other)}
        for name, one, other in PROBLEMS
    ]
    write_problems(path, rows)
    return path


def make_config(folder: Path) -> dict[str, Any]:
    path = str(write(folder / "sums.jsonl"))
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 16}
    return {
        "loop": "grpo",
        "run": str(folder / "run"),
        "problems": {"train": path, "heldout": path},
        "policy": {"layout": "plain", "vocab_size": 300, **sizes},
        "warm_start": {"references_per_level": {"1": 8}, "steps": 30},
        "sampling": {"max_new_tokens": 4},
        "grpo": {"steps": 1, "groups_per_step": 1, "groups_per_draw": 2, "group_size": 4},
        "evaluation": {"samples": 2, "ks": [1]},
    }


def test_files_and_lines_are_verified(tmp_path: Path) -> None:
    (tmp_path / "good.sum").write_text("1 + 1 = 2\n2 + 2 = 4\n")
    (tmp_path / "bad.sum").write_text("1 + 1 = 3\n")
    rows = [
        {"id": "right", "problem": make_row(make_sum("p", 2, 3)), "body": "5"},
        {"id": "wrong", "problem": make_row(make_sum("p", 2, 3)), "body": "6"},
        {"id": "cheat", "problem": make_row(make_sum("p", 2, 3)), "body": "5\n1 + 1 = 2"},
    ]
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = CliRunner().invoke(cli, ["verify", "--json", str(tmp_path)])
    assert done.exit_code == 1, done.output
    found = {row["id"]: row["status"] for row in map(json.loads, done.stdout.splitlines())}
    assert {Path(name).name: status for name, status in found.items()} == {
        "bad.sum": "rejected",
        "good.sum": "proved",
    }
    done = CliRunner().invoke(cli, ["verify", "--json", str(lines)])
    assert {row["id"]: row["status"] for row in map(json.loads, done.stdout.splitlines())} == {
        "right": "proved",
        "wrong": "rejected",
        "cheat": "rejected",
    }


@pytest.mark.slow
def test_a_step_of_grpo_an_evaluation_and_a_search(tmp_path: Path) -> None:
    config = parse_config(make_config(tmp_path), source="x")
    asyncio.run(train(config, live=False))
    metrics = [json.loads(line) for line in (config.run / "metrics.jsonl").open()]
    assert [row["step"] for row in metrics if "groups" in row] == [1]
    evaluation = json.loads((config.run / "evals/after.json").read_text())
    assert evaluation["num_problems"] == len(PROBLEMS)
    words = ["search", str(tmp_path / "sums.jsonl"), "--run", str(config.run)]
    words += ["--set", "search.name=best_of_n", "--set", "search.calls=4"]
    done = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "found")])
    assert done.exit_code in (0, 1), done.output
    assert len(list((tmp_path / "found").glob("s*"))) >= len(PROBLEMS)
