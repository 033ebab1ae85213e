"""Verdicts in the forms that continuous integration reads.

Flows in: rows of ``proverrl verify``. Flows out: a JUnit report (as Jenkins, GitLab and others read
it; it has all that the schemas of Ant's and of Jenkins' reports ask for), and lines that GitHub
Actions shows beside the code. Not handled here: judging, exit statuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from proverrl.files.lines import write_whole
from proverrl.problems.includes import find_checkout
from proverrl.verifier.base import AT_LIMIT

Row = Mapping[str, Any]
_SECOND_JUDGE = "second-judge"
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


def find_warnings(row: Row) -> list[Complaint]:
    """The warnings of a proved row; of another its errors say enough."""
    return [
        Complaint(int(one["line"]), int(one["column"]) + 1, str(one["message"]))
        for one in row.get("diagnostics", ())
        if row["status"] == "proved" and one["severity"] == "warning"
    ]


def count_warnings(row: Row) -> str:
    """How many they are, for a person to read; empty where there is none."""
    count = len(find_warnings(row))
    return f"{count} warning{'s' if count > 1 else ''}" if count else ""


def write_junit(path: Path, rows: Sequence[Row], *, strict: bool) -> None:
    """A test for each row: passed, skipped where there is nothing to prove, failed where a text is
    no proof, and in error where nothing was judged. What is printed are the warnings."""
    suite = ElementTree.Element("testsuite", name="proverrl verify", package="proverrl", id="0")
    suite.set("hostname", "localhost")
    suite.set("timestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    ElementTree.SubElement(suite, "properties")
    counts = {"failure": 0, "error": 0, "skipped": 0}
    warned: list[str] = []
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
        warned += [f"{row['id']}: warning: {' '.join(str(w).split())}" for w in find_warnings(row)]
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
    ElementTree.SubElement(suite, "system-out").text = _clean("\n".join(warned)) or None
    ElementTree.SubElement(suite, "system-err")
    suite.set("tests", str(len(rows)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(counts[kind]))
    suite.set("time", f"{sum(row.get('seconds', 0.0) for row in rows):.3f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    write_whole(path, ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n")


def annotate(row: Row) -> Iterator[str]:
    """GitHub's workflow commands for the errors of a row, or the warnings of a proved one."""
    kind = "warning" if row["status"] == "proved" else "error"
    for found in find_warnings(row) if kind == "warning" else find_errors(row):
        place = f"file={_escape(_find_place(row), more=True)}"
        if found.line:
            place += f",line={found.line},col={found.column}"
        text = str(found._replace(line=0))
        yield f"::{kind} {place},title={row['status']}::{_escape(text)}"


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
