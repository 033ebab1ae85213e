"""What ``proverrl init`` writes."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.config import load_config
from proverrl.config.keys import USUAL_KEYS


def test_the_usual_keys_stand_there_with_the_values_that_they_have(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["init", str(tmp_path), "--per-level", "4"])
    assert done.exit_code == 0, done.output
    mine = tmp_path / "mine.toml"
    config = load_config(mine)
    assert config.problems.train == tmp_path / "problems" / "train.jsonl"
    assert config.warm_start.references_per_level == dict.fromkeys("12345", 2)
    text = mine.read_text("utf-8")
    assert len(re.findall(r"^#?\w+ = ", text, re.MULTILINE)) == len(USUAL_KEYS) + len(["extends"])
    mine.write_text(re.sub(r"^#(\w+ = )", r"\1", text, flags=re.MULTILINE), "utf-8")
    assert load_config(mine) == config
