"""What Dafny said of one program, and how that of Dafny 2.3 is read.

Flows in: the text between a request and its end mark (server) or a whole standard output (CLI
with ``/trace``). Flows out: a ``Reply``. Its messages are told apart here in the words of both
Dafnys. Not handled here: what follows from it (``judge``), whether it belongs to the question
(``server``), and the answers of Dafny 4 (``language_answer``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from proverrl.errors import Cause, WorkerError

FILE_NAME = "p.dfy"

LIMIT_OUTCOMES = ("timed out", "out of resource")
"""The outcomes of an entry that a limit ended."""

_ENTRY = re.compile(r"Verifying (\S+) \.\.\.$")
_OUTCOME = re.compile(r"  \[(?:[\d.]+ s, )?(\d+) proof obligations?\]  (.+)$")
_MESSAGE = re.compile(r"p\.dfy\((\d+),(-?\d+)\): (.*)$")
_KIND = re.compile(
    r"(Error|Warning|Info|Related location|Related message|Timed out on|Out of \w+ on)\b"
    r"[^:]*(?:: (.*))?$"
)
# The server calls both limits by the name of the clock, the command line says which it was.
_LIMIT = re.compile(r"Verification (?:of .* timed out after |out of )")
MessageKind = Literal["error", "warning", "info", "related", "limit"]
MESSAGE_KINDS: dict[str, MessageKind] = {
    "Error": "error",
    "Warning": "warning",
    "Info": "info",
    "Related location": "related",
    "Related message": "related",
}
_PROVER = "[TRACE] Using prover: "
_HARMLESS = re.compile(
    r"$|Execution trace:$|Verification completed successfully!$"
    # Old options that a newer z3 no longer knows: it says so at every start and goes on.
    r"|Prover error: line \d+ column \d+: unknown parameter 'model_compress'$"
    r"|Legal parameters are:$"
    # The CLI's own words.
    r"|Parsing p\.dfy$|Coalescing blocks\.\.\.$|Inlining\.\.\.$"
    r"|Running abstract interpretation\.\.\.$"
    r"|Dafny program verifier finished with \d+ verified, \d+ errors?"
    r"|\d+ (?:parse|resolution/type) errors detected in p"
)


TYPE_OPTIONS = ("/noVerify", "/titrace")
"""The options that make Dafny 2.3 print how it infers types, and verify nothing."""

FAILURE_OPTIONS = ("/noCheating:0", "/errorLimit:100")
"""The options for a text that may assume and leave out bodies, of which all failures are named."""

PROCEDURE_OPTION = "/proc:{}"
"""Makes Dafny verify the entries that match a pattern and no others."""

# As Dafny 2.3 says it, and Dafny 4.
_RETURN_PATHS = ("A postcondition might not hold", "a postcondition could not be proved")
_NOTES = ("Related location", "This is the ", "this is the ", "this decreases clause")
_ENDLESS = (
    "decreases expression",
    "cannot prove termination",
    "failure to decrease termination measure",
    "decreases clause might not decrease",
)
_ON_ENTRY = (
    "This loop invariant might not hold on entry",
    "this loop invariant could not be proved on entry",
)

_TRACE = ("DEBUG: ", "    ", "  ----> ")
_FIRST = re.compile(r"    IsNullableRefType: \?(\d+)$")
_ASSIGNED = re.compile(r"DEBUG: .*(?:setting|assigning) proxy \?(\d+)\.T := (.*)$")
_UNKNOWN = re.compile(r"(?<![A-Za-z0-9_'?])\?(\d+)")
_MAX_TYPE_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class EntryResult:
    """Dafny's answer about one entry, such as ``Impl$$_module.__default.M``.

    ``num_failures`` counts the different errors that Dafny printed for it. It stops looking for
    more after a few, so there may be others.
    """

    name: str
    num_obligations: int
    outcome: str
    num_failures: int = 0


@dataclass(frozen=True, slots=True)
class ReplyMessage:
    """One positioned message. ``related`` is a note that belongs to the message before it."""

    kind: MessageKind
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """All that Dafny said. ``unknown`` holds lines that this module cannot interpret.

    ``prover`` is the path of z3 where Dafny was asked to tell it (``/trace``), else empty.
    ``cause`` says that Dafny failed inside, so that its error judges nothing.
    """

    entries: tuple[EntryResult, ...]
    messages: tuple[ReplyMessage, ...]
    unknown: tuple[str, ...]
    prover: str = ""
    cause: Cause = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries)

    @property
    def errors(self) -> list[str]:
        return [message.text for message in self.messages if message.kind == "error"]

    @property
    def contradictions(self) -> list[ReplyMessage]:
        """Messages about proofs by contradictory assumptions, where Dafny was asked to tell."""
        return [message for message in self.messages if is_contradiction(message.text)]

    @property
    def all_verified(self) -> bool:
        """True when there are entries and each one says so; messages still count."""
        return bool(self.entries) and all(e.outcome == "verified" for e in self.entries)

    @property
    def resolved(self) -> bool:
        """False when the program did not get past parsing and type checking."""
        return bool(self.entries) or not self.errors


def is_postcondition(text: str) -> bool:
    """True of the error at a return path that does not reach a postcondition."""
    return text.startswith(_RETURN_PATHS)


def is_note(text: str) -> bool:
    """True of what names the clause that another message is about."""
    return text.startswith(_NOTES)


def is_promise_note(text: str) -> bool:
    """True of a note at the postcondition that a return path does not reach."""
    return "is the postcondition" in text and is_note(text)


def is_endless(text: str) -> bool:
    """True of an error about termination."""
    return any(words in text for words in _ENDLESS)


def is_on_entry(text: str) -> bool:
    """True of an invariant that does not hold before its loop."""
    return text.startswith(_ON_ENTRY)


def is_contradiction(text: str) -> bool:
    """True if a message says that what stands there was proved by contradictory assumptions."""
    return "proved using contradictory assumptions" in text


def parse_reply(text: str) -> Reply:
    """Read Dafny's output; raises ``WorkerError`` when an entry has no readable outcome."""
    entries: list[EntryResult] = []
    messages: list[ReplyMessage] = []
    unknown: list[str] = []
    failures: list[list[tuple[object, ...]]] = []
    pending = prover = ""
    for line in text.split("\n"):
        if started := _ENTRY.match(line):
            if pending:
                raise WorkerError(f"Dafny reported no outcome for {pending}")
            pending = started.group(1)
        elif pending and (outcome := _OUTCOME.match(line)):
            entries.append(EntryResult(pending, int(outcome.group(1)), outcome.group(2)))
            failures.append([])
            pending = ""
        elif positioned := _MESSAGE.match(line):
            messages.append(_read_message(positioned))
            if failures:
                _note_failure(failures[-1], messages)
        elif line.startswith(_PROVER):
            prover = line.removeprefix(_PROVER)
        # Continuation lines and execution traces are indented; everything that counts is not.
        elif not line.startswith(" ") and not _HARMLESS.match(line):
            unknown.append(line)
    if pending:
        raise WorkerError(f"Dafny reported no outcome for {pending}")
    counted = tuple(
        replace(entry, num_failures=len(set(found)))
        for entry, found in zip(entries, failures, strict=True)
    )
    reply = Reply(counted, tuple(messages), tuple(unknown), prover)
    return reply if reply.errors else replace(reply, entries=tuple(map(_name_limit, counted)))


def _name_limit(entry: EntryResult) -> EntryResult:
    """If errors are counted and none is printed, a newer z3 (4.8.12) was out of its resource before
    it had read the axioms."""
    return replace(entry, outcome="out of resource") if entry.outcome == "errors" else entry


def split_trace(text: str) -> tuple[str, tuple[str, ...]]:
    """The output of Dafny under ``TYPE_OPTIONS``, without and with the lines about types."""
    lines = text.split("\n")
    rest = (line for line in lines if not line.startswith(_TRACE))
    return "\n".join(rest), tuple(line for line in lines if line.startswith(_TRACE))


def read_types(trace: Sequence[str], num: int) -> list[str]:
    """The types that Dafny 2.3 inferred for as many bindings, in the order of its parser; empty for
    what was not found.

    Its parser makes an unknown type for every binding, and the resolver goes on numbering from
    there; each assignment to an unknown is printed.
    """
    first = next((int(found[1]) for line in trace if (found := _FIRST.match(line))), None)
    if first is None:
        return [""] * num
    assigned: dict[int, str] = {}
    for line in trace:
        if found := _ASSIGNED.match(line):
            assigned.setdefault(int(found[1]), found[2])
    return [_resolve(f"?{number}", assigned) for number in range(first - num, first)]


def _resolve(inferred: str, assigned: Mapping[int, str]) -> str:
    """A type in which all unknown types are replaced by what was assigned to them, or nothing."""
    while found := next((f for f in _UNKNOWN.finditer(inferred) if int(f[1]) in assigned), None):
        inferred = inferred[: found.start()] + assigned[int(found[1])] + inferred[found.end() :]
        if len(inferred) > _MAX_TYPE_CHARACTERS:
            return ""
    return "" if _UNKNOWN.search(inferred) else inferred


def _note_failure(failures: list[tuple[object, ...]], messages: list[ReplyMessage]) -> None:
    """Dafny prints an entry's errors after it; a note after one tells which clause failed."""
    last = messages[-1]
    place = (last.line, last.column, last.text)
    if last.kind == "error":
        failures.append(place)
    elif last.kind == "related" and failures and messages[-2].kind == "error":
        failures[-1] += place


def _read_message(match: re.Match[str]) -> ReplyMessage:
    line, column, text = int(match.group(1)), max(0, int(match.group(2))), match.group(3)
    if kind := _KIND.match(text):
        word, rest = kind.group(1), kind.group(2) or text
        if word not in MESSAGE_KINDS:
            return ReplyMessage("limit", line, column, f"at the limit: out of resources on: {rest}")
        return ReplyMessage(MESSAGE_KINDS[word], line, column, rest)
    if _LIMIT.match(text):
        said = "at the limit: the proof ran out of its resources"
        return ReplyMessage("limit", line, column, said)
    return ReplyMessage("error", line, column, text)
