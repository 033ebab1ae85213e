"""``proverrl verify`` on a tree of files, and what continuous integration reads of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from proverrl.cli.ci_reports import (
    Complaint,
    annotate,
    find_errors,
    passes,
    write_junit,
)
from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.problems.input_paths import expand_paths
from proverrl.problems.inputs import Unusable

Run = Callable[..., Result]
FILES = {
    "good.dfy": "lemma L() ensures 1 + 1 == 2 {}\n",
    "deep/bad.dfy": "lemma L()\n  ensures 1 + 1 == 3\n{}\n",
    "deep/types.dfy": "datatype T = A | B\n",
    "deep/notes.txt": "no program\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


def verify(*words: str) -> Result:
    return CliRunner().invoke(cli, ["verify", "--no-cache", "-j", "1", *words])


@pytest.mark.dafny
@pytest.mark.slow
def test_a_tree_and_its_reports(tree: Path) -> None:
    reports = ("--junit", "j.xml", "--github")
    done = verify("**/*.dfy", *reports)
    assert done.exit_code == 1
    rows = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    # An emptied file is nothing that was proved, whatever the exit status says of it.
    assert {name: row["status"] for name, row in rows.items()} == {
        "deep/bad.dfy": "rejected",
        "deep/types.dfy": "rejected",
        "good.dfy": "proved",
    }
    assert [name for name, row in rows.items() if row.get("nothing_to_prove")] == ["deep/types.dfy"]
    assert "1 proved, 1 rejected, 1 with nothing to prove" in done.stderr
    said = "A postcondition might not hold on this return path."
    assert f"::error file=deep/bad.dfy,line=3,col=1,title=rejected::{said}" in done.stderr
    suite = ElementTree.parse("j.xml").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert verify("deep/types.dfy", "good.dfy").exit_code == 0
    assert verify("deep/types.dfy").exit_code == 0
    assert verify("deep/types.dfy", "good.dfy", "--strict").exit_code == 1


def test_patterns(tree: Path) -> None:
    assert expand_paths(["**/*.dfy", "-"]) == ["deep/bad.dfy", "deep/types.dfy", "good.dfy", "-"]
    (tree / "a[1].dfy").write_text("")
    # A file of that very name is meant, not a pattern.
    assert expand_paths(["a[1].dfy", "nowhere.dfy"]) == ["a[1].dfy", "nowhere.dfy"]
    with pytest.raises(UsageError, match=r"no file matches the pattern \*\.lean"):
        expand_paths(["*.lean"])
    assert "name what is to be verified" in str(verify().exception)


def make_row(name: str, status: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "status": status, "diagnostics": [], "seconds": 0.25, **more}


def test_what_the_reports_say(tmp_path: Path) -> None:
    found = {"severity": "error", "message": "bad\x01 <&> %\nmore", "line": 4, "column": 2}
    empty = {"severity": "error", "message": "nothing", "line": 0, "column": 0}
    rows = [
        make_row("a.dfy", "proved"),
        make_row("b.dfy", "rejected", diagnostics=[found, found | {"line": 9}]),
        make_row("c.dfy", "timeout"),
        make_row("d.dfy", "rejected", diagnostics=[empty], nothing_to_prove=True),
        Unusable("", "malformed", "e,f.jsonl", 7, "no JSON").to_json(),
    ]
    assert [passes(row, strict=False) for row in rows] == [True, False, False, True, False]
    assert [passes(row, strict=True) for row in rows] == [True, False, False, False, False]
    write_junit(tmp_path / "j.xml", rows, strict=False)
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    cases = suite.findall("testcase")
    kinds = [[child.tag for child in case] for case in cases]
    assert kinds == [[], ["failure"], ["error"], ["skipped"], ["error"]]
    assert [case.get("name") for case in cases] == [
        "a.dfy",
        "b.dfy",
        "c.dfy",
        "d.dfy",
        "e,f.jsonl:7",
    ]
    # In the order of the schema of Ant's reports, which wants all of these.
    assert [suite[place].tag for place in (0, -2, -1)] == ["properties", "system-out", "system-err"]
    assert {"id", "package", "hostname", "timestamp"} <= suite.attrib.keys()
    assert "type" not in cases[3][0].attrib
    # The place is said once.
    assert [(case[0].get("message"), case[0].text) for case in cases[2:]] == [
        ("timeout", "timeout"),
        ("nothing", None),
        ("no JSON", "7:1 no JSON"),
    ]
    assert (cases[1][0].text or "").count("<&> %") == 2
    assert suite.attrib["time"] == "1.000"
    assert next(annotate(rows[1])) == (
        "::error file=b.dfy,line=4,col=3,title=rejected::bad\x01 <&> %25%0Amore"
    )
    assert list(annotate(rows[4])) == ["::error file=e%2Cf.jsonl,line=7,col=1,title=error::no JSON"]
    assert list(annotate(rows[2])) == ["::error file=c.dfy,title=timeout::timeout"]


CLAUSES = """method M(x: int) returns (r: int)
  requires x > 0
  ensures r > 0
  ensures r == 2 * x
{
  r := x;
}
method N() { var r := M(0); }
method O() { var r := M(-1); }
"""
MISSED = "A postcondition might not hold on this return path."
CLAUSE = "This is the postcondition that might not hold."
CALLED = "A precondition for this call might not hold."
DEMAND = "This is the precondition that might not hold."


@pytest.mark.dafny
@pytest.mark.slow
def test_which_clause_failed_is_said(tree: Path) -> None:
    """Each error names it, wherever the verdict is read, also where two name the same."""
    (tree / "deep" / "two.dfy").write_text(CLAUSES)
    (tree / "deep" / "loose.dfy").write_text("predicate R() { forall x: int :: true }\n")
    # The reports call a file as its repository does.
    (tree / ".git").mkdir()
    os.chdir("deep")
    done = verify("two.dfy", "loose.dfy", "--plain", "--junit", "j.xml")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"two.dfy:5:1: rejected: {MISSED} (4:13 {CLAUSE}); 8:24 {CALLED} (2:14 {DEMAND}); "
        f"9:24 {CALLED} (2:14 {DEMAND})",
        # A warning beside it changes nothing.
        "loose.dfy: nothing to prove",
    ]
    case = ElementTree.parse("j.xml").getroot()[0].findall("testcase")[0]
    assert (case[0].text or "").splitlines()[0] == f"5:1 {MISSED} (4:13 {CLAUSE})"
    assert verify("loose.dfy").exit_code == 0


def test_reports_say_what_a_verdict_rests_and_hangs_on(tmp_path: Path) -> None:
    def say(severity: str, message: str, line: int = 0, column: int = 0) -> dict[str, Any]:
        return {"severity": severity, "message": message, "line": line, "column": column}

    trusted = say("info", "keywords: 'assume' assumes it (believed: --allow assume)", 3, 6)
    more = {
        "believed": {"assume": 1},
        "at_limit": True,
        "checks": ["audit", "second-judge: dafny 4.11.0"],
    }
    doubted = "a second Dafny does not confirm the proof: no"
    errors = [say("error", doubted), say("error", "no", 5, 2), say("error", "nor", 6, 0)]
    rows = [
        make_row("a.dfy", "proved", diagnostics=[trusted], **more),
        make_row("b.dfy", "unconfirmed", diagnostics=errors),
        make_row("c.dfy", "rejected", diagnostics=[say("error", "in lib/d.dfy, line 7: no", 2)]),
    ]
    # A fault is said once, with its place.
    assert find_errors(rows[1]) == [Complaint(5, 3, doubted), Complaint(6, 1, "nor")]
    write_junit(tmp_path / "j.xml", rows, strict=True)
    found = ElementTree.parse(tmp_path / "j.xml").findall(".//testcase[@name='a.dfy']//property")
    assert [(one.get("name"), one.get("value")) for one in found] == [
        ("believed:assume", "1"),
        ("at the limit", "true"),
        ("second-judge", "dafny 4.11.0"),
    ]


def test_notes_belong_to_the_error_before_them() -> None:
    def say(severity: str, line: int) -> dict[str, Any]:
        return {"severity": severity, "message": severity, "line": line, "column": 0}

    said = [("info", 1), ("error", 2), ("info", 3), ("warning", 4), ("info", 5), ("error", 6)]
    row = make_row("a", "rejected", diagnostics=[say(*one) for one in said])
    note = Complaint(3, 1, "info")
    dafny = [Complaint(2, 1, "error", (note,)), Complaint(6, 1, "error")]
    assert find_errors(row | {"toolchain": "dafny 2.3.0"}) == dafny
    assert find_errors(row | {"toolchain": "lean 4"}) == [one._replace(notes=()) for one in dafny]
    assert [line.rpartition("::")[2] for line in annotate(row | {"toolchain": "dafny 2.3.0"})] == [
        "error (3:1 info)",
        "error",
    ]
