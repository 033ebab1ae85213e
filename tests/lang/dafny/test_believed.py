"""False claims that Dafny 2.3 proves and that no rule of ours refuses yet (docs/verifiers.md).

Each line of ``believed/dafny_2_3.jsonl`` has the number of Dafny's issue, and a line for ``proverrl
verify``. Whoever closes one moves it to ``attacks/``; the list is to become empty.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from tests import ROOT

ROWS = [
    json.loads(line)
    for line in (ROOT / "tests" / "believed" / "dafny_2_3.jsonl").read_text().splitlines()
]


def test_every_line_names_its_bug() -> None:
    page = (ROOT / "docs" / "verifiers.md").read_text()
    for row in ROWS:
        number = re.match(r"#\d+", row["why"])
        assert number is not None
        assert f"| {number[0]} |" in page


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_what_is_still_believed(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(row["line"]) + "\n" for row in ROWS))
    done = CliRunner().invoke(cli, ["verify", str(lines), "--json"])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in found if row["status"] != "proved"] == []
    assert len(found) == len(ROWS)
