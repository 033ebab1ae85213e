"""What Dafny 4's language server says of one text, read into a ``Reply``.

Flows in: its notices, in any order. Flows out: whether the answer is whole, and the reply. The
server does not say when it is done. An answer is whole when the text was refused, or when it was
resolved and every name that is verified has its outcome.
Covered: outcomes that come before the end of resolution and are not repeated; a text with nothing
to verify, which has no outcomes; errors that come after the outcomes; errors without a place;
outcomes that are taken back; exceptions inside Dafny, which say nothing of the text and are told as
its only error, with a cause. Not handled here: the process (``language_server``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from proverrl.errors import WorkerError
from proverrl.lang.dafny.syntax.reply import EntryResult, MessageKind, Reply, ReplyMessage
from proverrl.lang.dafny.verify.workers.entries import NamedOutcome, find_misread, name_entries
from proverrl.verifier.frames import Utf16Place, Utf16Range, count_code_points

RESOLVED = "ResolutionSucceeded"
_BROKEN = "InternalException"
_REFUSED = ("ParsingFailed", "ResolutionFailed")
_EXCEPTION = 1
"""The kind of what is told of an exception (``telemetry/event``)."""
_ERROR, _WARNING = 1, 2
_FAILED, _CORRECT = 4, 5
_LIMIT = re.compile(r"Verification (?:of '.*' )?(timed out|out of resource)")
_NO_RESULT = re.compile(
    r"Verification (?:out of memory|inconclusive|encountered)|ran out of memory|solver exception"
)
# Only warnings, for the command line too; it refuses a text for any.
_ASSUMES = re.compile(
    r"\{:axiom\}|has no body|bodyless|\{:verify false\}|\{:only\}|@VerifyOnly|\{:extern\}"
)
_STACK = "\n   at "
"""Before each place in Dafny's own code, where its parser fails."""
_RELATED = "\nRelated message: "
"""Before the same once more in Boogie's words."""
_MAX_SAID = 300
MISREAD = (
    "Dafny 4 reads other declarations here than the audit, so no verdict of Dafny's is believed; "
    "write parentheses around the expression before, or another name"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place that Dafny may not have: line -1 then."""

    line: Annotated[int, Field(strict=True, ge=-1)]
    character: Annotated[int, Field(strict=True, ge=-1)]


@dataclass(frozen=True, slots=True)
class _Range:
    start: _Place


@dataclass(frozen=True, slots=True)
class _Location:
    uri: str
    range: _Range


@dataclass(frozen=True, slots=True)
class _Related:
    location: _Location
    message: str | None
    """None for a place in what Dafny makes itself"""


@dataclass(frozen=True, slots=True)
class _Told:
    message: str
    range: _Range
    severity: Literal[1, 2, 3, 4]
    related: Annotated[tuple[_Related, ...] | None, Field(alias="relatedInformation")] = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that is verified, and how far that is: at 4 it failed, at 5 it did not."""

    name: Annotated[Utf16Range, Field(alias="nameRange")]
    status: Literal[0, 1, 2, 3, 4, 5]

    def read_name(self, lines: Sequence[str]) -> str:
        line, column = _find_place(self.name.start, lines)
        return lines[line - 1][column : _find_place(self.name.end, lines)[1]]


@dataclass(frozen=True, slots=True)
class _Document:
    uri: str
    version: int | None = None
    """None for what is said of a document that was closed."""


@dataclass(frozen=True, slots=True)
class _Diagnostics(_Document):
    diagnostics: tuple[_Told, ...] = ()


@dataclass(frozen=True, slots=True)
class _Symbols(_Document):
    symbols: Annotated[tuple[Symbol, ...], Field(alias="namedVerifiables")] = ()


@dataclass(frozen=True, slots=True)
class _Reached(_Document):
    status: str = ""


Parsed = TypeVar("Parsed")
_DIAGNOSTICS = TypeAdapter(_Diagnostics)
_SYMBOLS = TypeAdapter(_Symbols)
_PROGRESS = TypeAdapter(_Reached)


@dataclass(slots=True)
class Answer:
    """The answer so far about the document ``uri``.

    ``left_out`` are the names that are not to be verified. ``exception`` is what was told of an
    exception inside Dafny, without the text that it was about; ``broken``: this text caused one.
    ``earlier`` is that of an earlier text, which Dafny may tell a second time after its end.
    """

    uri: str
    progress: str = ""
    symbols: tuple[Symbol, ...] = ()
    closed: bool = False
    broken: bool = False
    exception: str = ""
    earlier: str = ""
    left_out: frozenset[Utf16Range] = frozenset()
    _told: tuple[_Told, ...] = ()
    _ever_failed: set[Utf16Range] = field(default_factory=set)

    @property
    def _asked(self) -> list[Symbol]:
        return [symbol for symbol in self.symbols if symbol.name not in self.left_out]

    @property
    def in_doubt(self) -> bool:
        """True if Dafny failed inside, and nothing says that another text was the cause."""
        return self.exception not in ("", self.earlier)

    @property
    def refused(self) -> bool:
        return self.progress in _REFUSED or self.broken

    @property
    def read_by_dafny(self) -> bool:
        return self.progress == RESOLVED or self.refused

    @property
    def whole(self) -> bool:
        if self.refused:
            return True
        done = all(symbol.status in (_FAILED, _CORRECT) for symbol in self._asked)
        return self.progress == RESOLVED and done and not self._owes_errors

    @property
    def _owes_errors(self) -> bool:
        """True if a name failed for which no error came yet; one stands behind its name."""
        errors = [said for said in self._told if said.severity == _ERROR]
        failed = sum(symbol.status == _FAILED for symbol in self._asked)
        return failed > len(errors)

    def take(self, method: str, params: Any) -> None:
        """Note what is about this document."""
        if method == "textDocument/publishDiagnostics":
            said = _parse(_DIAGNOSTICS, params)
            if self._is_ours(said):
                self._told = said.diagnostics
        elif method == "dafny/textDocument/symbolStatus":
            listed = _parse(_SYMBOLS, params)
            if self._is_ours(listed):
                self.symbols = listed.symbols
                self._ever_failed |= {s.name for s in listed.symbols if s.status == _FAILED}
        elif method == "dafny/compilation/status":
            reached = _parse(_PROGRESS, params)
            if self._is_ours(reached):
                self.progress = reached.status
                self.broken |= reached.status == _BROKEN
            elif reached.uri == self.uri and reached.version is None:
                self.closed = True
        elif method == "telemetry/event":
            event = params if isinstance(params, dict) else {}
            if event.get("kind") == _EXCEPTION:
                self.exception = str(event.get("payload")).partition(_STACK)[0]

    def _is_ours(self, document: _Document) -> bool:
        return document.uri == self.uri and document.version is not None

    def read(self, source: str, *, believes: bool = False) -> Reply:
        """The reply to the text; ``WorkerError`` when it says nothing of it. What the text assumes
        is an error unless ``believes``."""
        failed = {symbol.name for symbol in self.symbols if symbol.status == _FAILED}
        if not self.whole or not (self.broken or self._ever_failed <= failed):
            raise WorkerError("Dafny took back what it had said of a text")
        return self._read(source, believes=believes)

    def read_refusal(self, source: str) -> Reply:
        """The reply to a text of which nothing needs to be verified."""
        reply = self._read(source, believes=True)
        # What fails meanwhile is told too.
        return reply if self.refused else replace(reply, messages=())

    def name_entries(self, reply: Reply, source: str) -> Reply:
        """Its reply with the entries that Dafny 2.3 tells of; none where the text was refused. A
        text in which Dafny and our reader found other declarations has an error."""
        lines = source.split("\n")
        told = {_find_place(symbol.name.start, lines) for symbol in self.symbols}
        if self.progress == RESOLVED and (misread := find_misread(told, source)):
            error = ReplyMessage("error", *misread, MISREAD)
            reply = replace(reply, messages=(error, *reply.messages))
        starts = [_find_place(symbol.name.start, lines) for symbol in self._asked]
        named = [
            NamedOutcome(entry.name, place, entry.outcome)
            for entry, place in zip(reply.entries, starts, strict=False)
        ]
        return replace(reply, entries=name_entries(named, reply.messages, source))

    def _read(self, source: str, *, believes: bool) -> Reply:
        if self.broken:
            said = " ".join(dict.fromkeys(self.exception.split("\n")))[:_MAX_SAID]
            said = f"Dafny failed inside, which judges nothing: {said or 'it does not say how'}"
            return Reply((), (ReplyMessage("error", 1, 0, said),), (), cause="no-result")
        if self.in_doubt:
            raise WorkerError(f"Dafny failed inside: {self.exception[:_MAX_SAID]}", "no-result")
        lines = source.split("\n")
        read = (_read_told(said, self.uri, lines, believes=believes) for said in self._told)
        messages = tuple(one for told in read for one in told)
        for message in messages:
            if message.kind == "error" and _NO_RESULT.search(message.text):
                raise WorkerError(f"the prover gave no result: {message.text}", "no-result")
        if self.refused:
            if not any(message.kind == "error" for message in messages):
                raise WorkerError("Dafny refused a text and named no error")
            return Reply((), messages, ())
        limits = {(m.line, m.column): m.text for m in messages if m.kind == "limit"}
        return Reply(tuple(_read_symbol(one, limits, lines) for one in self._asked), messages, ())


def _parse(adapter: TypeAdapter[Parsed], params: Any) -> Parsed:
    try:
        return adapter.validate_python(params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise WorkerError(f"Dafny's server is not understood ({why}): {params!r:.200}") from None


def _read_told(
    said: _Told, uri: str, lines: Sequence[str], *, believes: bool
) -> list[ReplyMessage]:
    kinds: dict[int, MessageKind] = {_ERROR: "error", _WARNING: "warning"}
    kind = kinds.get(said.severity, "info")
    if kind == "error" and _LIMIT.search(said.message):
        kind = "limit"
    if kind == "warning" and not believes and _ASSUMES.search(said.message):
        kind = "error"
    # What is declared elsewhere, such as in Dafny's own prelude, has no place in the text.
    notes = [
        ReplyMessage("related", *_find_place(note.location.range.start, lines), note.message or "")
        for note in said.related or ()
        if note.location.uri == uri
    ]
    text = said.message.partition(_STACK)[0].partition(_RELATED)[0]
    return [ReplyMessage(kind, *_find_place(said.range.start, lines), text), *notes]


def _read_symbol(
    symbol: Symbol, limits: Mapping[tuple[int, int], str], lines: Sequence[str]
) -> EntryResult:
    outcome = "verified" if symbol.status == _CORRECT else "error"
    if found := _LIMIT.search(limits.get(_find_place(symbol.name.start, lines), "")):
        outcome = found.group(1)
    return EntryResult(symbol.read_name(lines), 0, outcome)


def _find_place(place: _Place | Utf16Place, lines: Sequence[str]) -> tuple[int, int]:
    """Line (from 1) and column (from 0) in code points; what has no place stands at the start."""
    if place.line >= len(lines):
        raise WorkerError(f"Dafny's server speaks of line {place.line + 1}, and there are fewer")
    if min(place.line, place.character) < 0:
        return 1, 0
    return place.line + 1, count_code_points(lines[place.line], place.character)
