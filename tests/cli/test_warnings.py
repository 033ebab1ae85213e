"""Warnings of what is proved are seen: in plain lines, on GitHub and in JUnit reports."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli

NO_TRIGGER = "lemma L()\n  ensures forall x: int :: x == x\n{ }\n"


@pytest.mark.dafny
def test_warnings_of_a_proof_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("a.dfy").write_text(NO_TRIGGER)
    Path("b.dfy").write_text(NO_TRIGGER + "lemma M() ensures 1 == 2 { }\n")
    Path("c.dfy").write_text("lemma C() ensures 1 + 1 == 2 { }\n")
    words = ["verify", "-j", "1", "--plain", "--github", "--junit", "j.xml", "."]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1
    proved, rejected, other = done.stdout.splitlines()
    assert (proved, other) == ("a.dfy: proved (1 warning)", "c.dfy: proved")
    assert "rejected" in rejected
    assert "warning" not in rejected
    kinds = [line.split(",col=")[0] for line in done.stderr.splitlines() if line.startswith("::")]
    assert kinds == ["::warning file=a.dfy,line=2", "::error file=b.dfy,line=4"]
    said = ElementTree.parse("j.xml").findtext(".//testsuite/system-out")
    assert said is not None
    assert said.startswith("a.dfy: warning: 2:11 ")
    assert "\n" not in said
