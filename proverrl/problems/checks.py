"""Verdicts in the forms that continuous integration reads.

Flows in: rows of ``proverrl verify``. Flows out: a JUnit report (as Jenkins, GitLab and others read
it; it has all that the schemas of Ant's and of Jenkins' reports ask for), a SARIF log (OASIS,
version 2.1.0), lines that GitHub Actions shows beside the code. Not handled here: judging, exit
statuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from proverrl.files.lines import write_whole
from proverrl.version import __version__

Row = Mapping[str, Any]
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_ILLEGAL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535))
"""Characters that no XML may hold."""


def passes(row: Row, *, strict: bool) -> bool:
    """Whether a row is no reason to complain."""
    return row["status"] == "proved" or (bool(row.get("nothing_to_prove")) and not strict)


def find_errors(row: Row) -> Iterator[tuple[int, int, str]]:
    """Line (from 1; 0 for the whole), column (from 1) and text of each error; one at least."""
    found = [d for d in row.get("diagnostics", ()) if d["severity"] == "error"]
    if not found:
        line, text = int(row.get("line", 0)), str(row.get("message", row["status"]))
        # The place stands beside the text.
        yield line, 1, text.removeprefix(f"{row.get('file')}{f':{line}' if line else ''}: ")
    for one in found:
        yield int(one["line"]), int(one["column"]) + 1, str(one["message"])


def write_junit(path: Path, rows: Sequence[Row], *, strict: bool) -> None:
    """A test for each row: passed, skipped where there is nothing to prove, failed where a text is
    no proof, and in error where nothing was judged."""
    suite = ElementTree.Element("testsuite", name="proverrl verify", package="proverrl", id="0")
    suite.set("hostname", "localhost")
    suite.set("timestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    ElementTree.SubElement(suite, "properties")
    counts = {"failure": 0, "error": 0, "skipped": 0}
    for row in rows:
        seconds = f"{row.get('seconds', 0.0):.3f}"
        # A line that cannot be read has no name of its own.
        name = row["id"] or f"{_find_file(row)}:{row['line']}"
        case = ElementTree.SubElement(
            suite, "testcase", classname="proverrl", name=_clean(name), time=seconds
        )
        if row["status"] == "proved":
            continue
        if passes(row, strict=strict):
            kind = "skipped"
        else:
            kind = "error" if row["status"] in ("error", "timeout", "crashed") else "failure"
        counts[kind] += 1
        said = list(find_errors(row))
        outcome = ElementTree.SubElement(case, kind, message=_clean(said[0][2]))
        if kind != "skipped":
            outcome.set("type", row["status"])
            lines = (f"{line}:{column} {text}" if line else text for line, column, text in said)
            outcome.text = _clean("\n".join(lines))
    ElementTree.SubElement(suite, "system-out")
    ElementTree.SubElement(suite, "system-err")
    suite.set("tests", str(len(rows)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(counts[kind]))
    suite.set("time", f"{sum(row.get('seconds', 0.0) for row in rows):.3f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    write_whole(path, ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n")


def write_sarif(path: Path, rows: Sequence[Row], *, strict: bool) -> None:
    """A result for each error of each row that does not pass; its rule is the status."""
    complained = [row for row in rows if not passes(row, strict=strict)]
    rules = sorted({row["status"] for row in complained})
    results = [
        {
            "ruleId": row["status"],
            "ruleIndex": rules.index(row["status"]),
            "level": "error",
            "message": {"text": text},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(Path(_find_file(row)).as_posix())},
                        # A region begins in line 1 where the whole file is meant.
                        "region": {"startLine": max(1, line), "startColumn": max(1, column)},
                    }
                }
            ],
        }
        for row in complained
        for line, column, text in find_errors(row)
    ]
    driver = {
        "name": "ProverRL",
        "version": __version__,
        "rules": [
            {"id": rule, "shortDescription": {"text": f"not proved: {rule}"}} for rule in rules
        ],
    }
    log = {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    write_whole(path, json.dumps(log, indent=2) + "\n")


def annotate(row: Row) -> Iterator[str]:
    """GitHub's workflow commands for the errors of a row."""
    for line, column, text in find_errors(row):
        place = f"file={_escape(_find_file(row), more=True)}"
        if line:
            place += f",line={line},col={column}"
        yield f"::error {place},title={row['status']}::{_escape(text)}"


def _find_file(row: Row) -> str:
    return str(row.get("file") or row["id"])


def _escape(text: str, *, more: bool = False) -> str:
    for sign, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, code)
    return text.replace(":", "%3A").replace(",", "%2C") if more else text


def _clean(text: str) -> str:
    return text.translate(_ILLEGAL).encode("utf-8", "replace").decode("utf-8")
