"""Verdicts in the forms that continuous integration reads.

Flows in: rows of ``proverrl verify``. Flows out: a JUnit report (as Jenkins, GitLab and others read
it; it has all that the schemas of Ant's and of Jenkins' reports ask for), a SARIF log (OASIS,
version 2.1.0), lines that GitHub Actions shows beside the code. Not handled here: judging, exit
statuses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from proverrl.files.lines import write_whole
from proverrl.problems.includes import find_checkout
from proverrl.verifier.base import AT_LIMIT
from proverrl.version import __version__

Row = Mapping[str, Any]
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_SECOND_JUDGE = "second-judge"
_NOTES = {
    "believed": "rests on what is believed",
    "at-the-limit": "hangs on the resource limit; raise --rlimit",
}
"""Rules of a log that are no errors, and what they mean."""
_INCLUDED = re.compile(r"in (.+?), line (\d+): ")
_ILLEGAL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535))
"""Characters that no XML may hold."""


def passes(row: Row, *, strict: bool) -> bool:
    """True for a row that is no reason to complain."""
    return row["status"] == "proved" or (bool(row.get("nothing_to_prove")) and not strict)


def describe_believed(counts: Mapping[str, int]) -> str:
    """The assumptions that the user let a verdict rest on, counted, for a person to read."""
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _list_remarks(row: Row) -> dict[str, str]:
    """Remarks on a verdict: its assumptions, the resource limit, and the second judge."""
    believed = row.get("believed", {}).items()
    remarks = {f"believed:{word}": str(count) for word, count in believed}
    if row.get("at_limit"):
        remarks[AT_LIMIT] = "true"
    told = (check.partition(": ") for check in row.get("checks", ()))
    return remarks | {name: value for name, _, value in told if name == _SECOND_JUDGE}


class Complaint(NamedTuple):
    """``line`` counts from 1 (0: the whole), ``column`` from 1; ``notes`` are the places that it is
    about, such as the postcondition that might not hold."""

    line: int
    column: int
    text: str
    notes: tuple[Complaint, ...] = ()

    def __str__(self) -> str:
        place = f"{self.line}:{self.column} " if self.line else ""
        notes = f" ({'; '.join(map(str, self.notes))})" if self.notes else ""
        return f"{place}{self.text}{notes}"


def find_errors(row: Row) -> list[Complaint]:
    """Each error of a row with its notes; one at least."""
    found: list[Complaint] = []
    may_note = False
    for one in row.get("diagnostics", ()):
        said = Complaint(int(one["line"]), int(one["column"]) + 1, str(one["message"]))
        if may_note and one["severity"] == "info":
            found[-1] = found[-1]._replace(notes=(*found[-1].notes, said))
            continue
        # A note of Dafny belongs to the error before it; Lean's stand for themselves.
        may_note = one["severity"] == "error" and row.get("toolchain", "").startswith("dafny")
        found += [said] if one["severity"] == "error" else []
    if len(found) > 1 and not found[0].line and found[0].text.endswith(found[1].text):
        # The message of another judge, and the same with its place.
        found[:2] = [found[1]._replace(text=found[0].text)]
    if found:
        return found
    line, text = int(row.get("line", 0)), str(row.get("message", row["status"]))
    # The place stands beside the text.
    text = text.removeprefix(f"{row.get('file')}{f':{line}' if line else ''}: ")
    return [Complaint(line, 1, text)]


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
        if remarks := _list_remarks(row):
            properties = ElementTree.SubElement(case, "properties")
            for remark, value in remarks.items():
                ElementTree.SubElement(properties, "property", name=remark, value=value)
        if row["status"] == "proved":
            continue
        if passes(row, strict=strict):
            kind = "skipped"
        else:
            kind = "error" if row["status"] in ("error", "timeout", "crashed") else "failure"
        counts[kind] += 1
        said = find_errors(row)
        outcome = ElementTree.SubElement(case, kind, message=_clean(said[0].text))
        if kind != "skipped":
            outcome.set("type", row["status"])
            outcome.text = _clean("\n".join(map(str, said)))
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
    """A result for each error of each row that does not pass; its rule is the status. A note for
    each row that rests on what is believed, or is proved at the limit."""
    complained = [row for row in rows if not passes(row, strict=strict)]
    rules = sorted({row["status"] for row in complained})
    told = [(row, row["status"], found) for row in complained for found in find_errors(row)]
    noted = [(row, rule, note) for row in rows for rule, note in _list_notes(row)]
    rules += sorted({rule for _, rule, _ in noted})
    results = [
        {
            "ruleId": rule,
            "ruleIndex": rules.index(rule),
            "level": "note" if rule in _NOTES else "error",
            "message": {"text": found.text},
            "locations": [_locate(row, found)],
            "relatedLocations": [
                {"id": number, "message": {"text": note.text}, **_locate(of, note)}
                for number, (of, note) in enumerate(_list_related(row, found))
            ],
        }
        for row, rule, found in told + noted
    ]
    driver = {
        "name": "ProverRL",
        "version": __version__,
        "rules": [
            {"id": rule, "shortDescription": {"text": _NOTES.get(rule, f"not proved: {rule}")}}
            for rule in rules
        ],
    }
    log = {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    write_whole(path, json.dumps(log, indent=2) + "\n")


def _list_notes(row: Row) -> Iterator[tuple[str, Complaint]]:
    """The notes of a log on a row beside its errors, each with its rule."""
    if counts := row.get("believed"):
        places = tuple(
            Complaint(int(one["line"]), int(one["column"]) + 1, str(one["message"]))
            for one in row["diagnostics"]
            if one["severity"] == "info" and "(believed: " in one["message"]
        )
        said = f"believed, not proved: {describe_believed(counts)}"
        line, column = places[0][:2] if places else (0, 1)
        yield "believed", Complaint(line, column, said, places)
    if row["status"] == "proved" and row.get("at_limit"):
        yield "at-the-limit", Complaint(0, 1, f"proved, but {_NOTES['at-the-limit']}")


def _list_related(row: Row, found: Complaint) -> Iterator[tuple[Row, Complaint]]:
    """The other places that a complaint names, each with what names its file."""
    if included := _INCLUDED.match(found.text):
        there = Complaint(int(included[2]), 1, found.text[included.end() :])
        yield {**row, "file": included[1]}, there
    for note in found.notes:
        yield row, note


def annotate(row: Row) -> Iterator[str]:
    """GitHub's workflow commands for the errors of a row."""
    for found in find_errors(row):
        place = f"file={_escape(_find_place(row), more=True)}"
        if found.line:
            place += f",line={found.line},col={found.column}"
        text = str(found._replace(line=0))
        yield f"::error {place},title={row['status']}::{_escape(text)}"


def _locate(row: Row, found: Complaint) -> dict[str, Any]:
    # A region begins in line 1 where the whole file is meant.
    region = {"startLine": max(1, found.line), "startColumn": max(1, found.column)}
    file = {"uri": quote(_find_place(row))}
    return {"physicalLocation": {"artifactLocation": file, "region": region}}


def _find_file(row: Row) -> str:
    return str(row.get("file") or row["id"])


def _find_place(row: Row) -> str:
    """The row's file as its repository calls it, which is where such reports are read."""
    name = _find_file(row)
    path = Path(os.path.abspath(name))
    root = find_checkout(path) if os.path.lexists(path) else None
    return (Path(name) if root is None else path.relative_to(root)).as_posix()


def _escape(text: str, *, more: bool = False) -> str:
    for sign, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, code)
    return text.replace(":", "%3A").replace(",", "%2C") if more else text


def _clean(text: str) -> str:
    return text.translate(_ILLEGAL).encode("utf-8", "replace").decode("utf-8")
