"""Reads what ``dafny verify`` of Dafny 4 left behind about one program.

Flows in: exit code, standard output, and the JSON log of ``--log-format``. Flows out: the same
``Reply`` as Dafny 2.3's, so that one verdict rule serves both. What is proved comes from the log
and the exit code; the printed text only gives messages to show.
Not covered: Dafny 4 was not at hand when this was written; the log's shape is from the source of
its JSON logger, the exit codes from its documentation.
"""

from __future__ import annotations

import json
import re
from typing import Any

from proverrl.errors import WorkerError
from proverrl.lang.dafny.workers.reply import FILE_NAME, Entry, Message, Reply
from proverrl.verify.process_group import find_cause

VERIFIED_CODE, REFUSED_CODE, FAILED_CODE = 0, 2, 4

_MESSAGE = re.compile(
    rf"(?:.*/)?{re.escape(FILE_NAME)}\((\d+),(\d+)\): (Error|Warning|Info)\b: ?(.*)"
)
_RELATED = re.compile(rf"(?:.*/)?{re.escape(FILE_NAME)}\((\d+),(\d+)\): Related location\b: ?(.*)")
_OUTCOMES = {
    "Correct": "verified",
    "Errors": "error",
    "TimedOut": "timed out",
    "OutOfResource": "out of resource",
}
_UNJUDGED = ("OutOfMemory", "Inconclusive", "SolverException")


def read_reply(exit_code: int, output: str, log: str) -> Reply:
    """Put the witnesses together; raises ``WorkerError`` when they contradict each other."""
    messages = _read_messages(output)
    if exit_code not in (VERIFIED_CODE, REFUSED_CODE, FAILED_CODE):
        said = f"dafny exited with {exit_code}: {output[-300:]!r}"
        raise WorkerError(said, find_cause(exit_code))
    entries = _read_log(log, messages) if log.strip() else ()
    errors = any(message.kind == "error" for message in messages)
    clean = all(entry.outcome == "verified" for entry in entries)
    if exit_code == VERIFIED_CODE and (errors or not clean):
        raise WorkerError("dafny exited with 0 although its log or its messages tell of failures")
    if exit_code == FAILED_CODE and clean and not errors:
        raise WorkerError("dafny exited with 4 although its log tells of no failure")
    if exit_code == REFUSED_CODE and not errors:
        # Warnings alone give this code too: an assumption, a body that is missing.
        first = messages[0] if messages else Message("warning", 0, 0, "no message")
        text = f"Dafny did not accept the program: {first.text}"
        messages = (Message("error", first.line, first.column, text), *messages)
    return Reply(entries, messages, ())


def _read_messages(output: str) -> tuple[Message, ...]:
    messages = []
    for line in output.splitlines():
        if found := _MESSAGE.match(line):
            kind, text = found[3], found[4]
            word: Any = {"Error": "error", "Warning": "warning", "Info": "info"}[kind]
            messages.append(Message(word, int(found[1]), int(found[2]), text))
        elif found := _RELATED.match(line):
            messages.append(Message("related", int(found[1]), int(found[2]), found[3]))
    return tuple(messages)


def _read_log(log: str, messages: tuple[Message, ...]) -> tuple[Entry, ...]:
    """One entry for each procedure, its obligations those that its parts list."""
    errors = {(m.line, m.column) for m in messages if m.kind == "error"}
    try:
        entries = [_read_entry(raw, errors) for raw in json.loads(log)["verificationResults"]]
    except (ValueError, KeyError, TypeError) as error:
        raise WorkerError(f"dafny's log is not what was expected: {error!r}") from error
    return tuple(entries)


def _read_entry(raw: dict[str, Any], errors: set[tuple[int, int]]) -> Entry:
    places = [
        (int(assertion["line"]), int(assertion["col"]))
        for part in raw["vcResults"]
        for assertion in part["assertions"]
    ]
    outcome = str(raw["outcome"])
    if outcome not in _OUTCOMES and outcome not in _UNJUDGED:
        raise WorkerError(f"dafny's log names an outcome that is not known: {outcome!r}")
    return Entry(
        name=str(raw["name"]),
        num_obligations=len(places),
        outcome=_OUTCOMES.get(outcome, outcome),
        num_failures=len(errors & set(places)),
    )
