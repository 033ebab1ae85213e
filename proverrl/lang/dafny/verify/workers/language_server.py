"""Dafny 4's language server as a warm process: it reads and verifies one text after another.

Flows in: texts. Flows out: what Dafny said of each, as a ``Reply``. Every text is a document of its
own, under a name that nobody could know before, and is closed after its answer; what the server
still says of an earlier one is about another name. It says nothing when it is done. An answer is
whole when the text was refused, or when it was resolved and every name that is verified has its
outcome; then the document is closed, and what was published before the server confirms that
belongs to the answer too.
Covered: statuses that come before the end of resolution and are not repeated; a text with nothing
to verify, of which there are none; errors that come behind them; questions of the server's own;
exceptions inside Dafny, which say nothing of the text. Not covered: iterators, which are refused;
contradictions in the contract of a declaration with a body, of which the server tells only those in
the body and its goals; bounds for one text alone (all texts have those of the start). Not handled
here: what follows from a reply (``proverrl.lang.dafny.verify.judge``).
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.syntax.plain import write_plain
from proverrl.lang.dafny.syntax.reply import EntryResult, MessageKind, Reply, ReplyMessage
from proverrl.lang.dafny.verify.judge import judge_whole
from proverrl.lang.dafny.verify.workers.selfcheck import check_language_server
from proverrl.lang.dafny.verify.workers.toolchain import ConfirmingToolchain
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.frames import (
    ANY_KEYS,
    FrameReader,
    Utf16Place,
    Utf16Range,
    count_code_points,
    encode,
)
from proverrl.verifier.process_group import GroupWorker, ProcessGroup

OPTIONS = (
    "--verify-on=Change",
    "--update-throttling=0",
    "--cores=1",
    # The usual limit hides all but five errors of an entry, and with 0 each text gets a warning.
    "--error-limit=1000",
    # As texts are read that were written for Dafny 2.
    "--function-syntax=3",
    "--quantifier-syntax=3",
)
# Not all of --analyze-proofs: its suggestions fail inside Dafny at a lemma without a body.
ANALYSIS = ("--warn-contradictory-assumptions",)
_INITIALIZE = 1
_START_SECONDS = 60
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
_ITERATOR = re.compile(r"\biterator\b")
_RESOLVED, _BROKEN = "ResolutionSucceeded", "InternalException"
_REFUSED = ("ParsingFailed", "ResolutionFailed")
_EXCEPTION = 1
"""The kind of what is told of an exception (``telemetry/event``)."""
_ERROR, _WARNING = 1, 2
_FAILED, _CORRECT = 4, 5


@dataclass(frozen=True, slots=True)
class _Location:
    __pydantic_config__ = ANY_KEYS

    uri: str
    range: Utf16Range


@dataclass(frozen=True, slots=True)
class _Related:
    __pydantic_config__ = ANY_KEYS

    location: _Location
    message: str


@dataclass(frozen=True, slots=True)
class _Told:
    __pydantic_config__ = ANY_KEYS

    message: str
    range: Utf16Range
    severity: Literal[1, 2, 3, 4]
    related: Annotated[tuple[_Related, ...] | None, Field(alias="relatedInformation")] = None


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A name that is verified, and how far that is: at 4 it failed, at 5 it did not."""

    __pydantic_config__ = ANY_KEYS

    name: Annotated[Utf16Range, Field(alias="nameRange")]
    status: Literal[0, 1, 2, 3, 4, 5]


@dataclass(frozen=True, slots=True)
class _Document:
    __pydantic_config__ = ANY_KEYS

    uri: str
    version: int | None = None
    """None for what is said of a document that was closed."""


@dataclass(frozen=True, slots=True)
class _Diagnostics(_Document):
    diagnostics: tuple[_Told, ...] = ()


@dataclass(frozen=True, slots=True)
class _Symbols(_Document):
    symbols: Annotated[tuple[_Symbol, ...], Field(alias="namedVerifiables")] = ()


@dataclass(frozen=True, slots=True)
class _Reached(_Document):
    status: str = ""
    message: str | None = None


Parsed = TypeVar("Parsed")
_DIAGNOSTICS = TypeAdapter(_Diagnostics)
_SYMBOLS = TypeAdapter(_Symbols)
_PROGRESS = TypeAdapter(_Reached)


@dataclass(slots=True)
class _Answer:
    """The answer so far about the document ``uri``."""

    uri: str
    progress: str = ""
    told: tuple[_Told, ...] = ()
    symbols: tuple[_Symbol, ...] = ()
    closed: bool = False

    @property
    def whole(self) -> bool:
        if self.progress in _REFUSED:
            return True
        done = all(symbol.status in (_FAILED, _CORRECT) for symbol in self.symbols)
        return self.progress == _RESOLVED and done and not self._owes_errors

    @property
    def _owes_errors(self) -> bool:
        """True if a name failed for which no error came yet; one stands behind its name."""
        errors = [said.range.start for said in self.told if said.severity == _ERROR]
        failed = sum(symbol.status == _FAILED for symbol in self.symbols)
        return failed > len(errors)

    def take(self, method: str, params: Any) -> None:
        """Note what is about this document."""
        if method == "textDocument/publishDiagnostics":
            said = _parse(_DIAGNOSTICS, params)
            if self._is_ours(said):
                self.told = said.diagnostics
        elif method == "dafny/textDocument/symbolStatus":
            listed = _parse(_SYMBOLS, params)
            if self._is_ours(listed):
                self.symbols = listed.symbols
        elif method == "dafny/compilation/status":
            reached = _parse(_PROGRESS, params)
            if self._is_ours(reached):
                self.progress = reached.status
            elif reached.uri == self.uri and reached.version is None:
                self.closed = True
            if reached.uri == self.uri and reached.status == _BROKEN:
                raise WorkerError(f"Dafny failed inside: {reached.message}", "no-result")
        elif method == "telemetry/event":
            # After some exceptions nothing else is said, however long one waits.
            event = params if isinstance(params, dict) else {}
            if event.get("kind") == _EXCEPTION:
                said_so = str(event.get("payload"))[:300]
                raise WorkerError(f"Dafny failed inside: {said_so}", "no-result")

    def _is_ours(self, document: _Document) -> bool:
        return document.uri == self.uri and document.version is not None

    def read(self, source: str) -> Reply:
        """The reply to the text; ``WorkerError`` when it says nothing of it."""
        lines = source.split("\n")
        messages = tuple(one for said in self.told for one in _read_told(said, self.uri, lines))
        for message in messages:
            if message.kind == "error" and _NO_RESULT.search(message.text):
                raise WorkerError(f"the prover gave no result: {message.text}", "no-result")
        if self.progress in _REFUSED:
            if not any(message.kind == "error" for message in messages):
                raise WorkerError("Dafny refused a text and named no error")
            return Reply((), messages, ())
        limits = {(m.line, m.column): m.text for m in messages if m.kind == "limit"}
        return Reply(tuple(_read_symbol(one, limits, lines) for one in self.symbols), messages, ())


class DafnyLanguageServer(GroupWorker):
    """One running ``dafny server``. After any ``WorkerError`` it must be killed."""

    def __init__(self, group: ProcessGroup, toolchain: ConfirmingToolchain) -> None:
        self._group = group
        self._toolchain = toolchain
        self._reader = FrameReader("Dafny's server")
        self._busy = False

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return (self._group,)

    @classmethod
    async def start(
        cls, toolchain: ConfirmingToolchain, limits: Limits, *, analyses: bool = True
    ) -> DafnyLanguageServer:
        """Start it under these limits and see that it tells true from false; ``analyses``: and what
        is proved by contradictory assumptions, for which it proves less."""
        command = (
            toolchain.dafny,
            "server",
            *OPTIONS,
            *(ANALYSIS if analyses else ()),
            *([f"--prelude={toolchain.prelude}"] if toolchain.prelude else []),
            f"--resource-limit={limits.rlimit}",
            f"--verification-time-limit={limits.time_limit_seconds}",
        )
        dotnet = {name: text for name, text in os.environ.items() if name.startswith("DOTNET_")}
        group = await ProcessGroup.start(command, environment=dotnet)
        server = cls(group, toolchain)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await server._initialize()
            await check_language_server(server, analyses=analyses)
        except BaseException as error:
            server.kill()
            await server.join()
            if isinstance(error, TimeoutError):
                said = f"{toolchain.dafny} server says nothing for {_START_SECONDS} seconds"
                raise ToolchainError(f"{said}; set PROVERRL_DAFNY4= to do without") from error
            if isinstance(error, WorkerError) and error.cause == "died":
                raise ToolchainError(f"{toolchain.dafny} server does not start: {error}") from error
            raise
        return server

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge a candidate's text as it stands; raises ``WorkerError`` on any doubt about the
        answer."""
        started = time.monotonic()
        verdict = judge_whole(await self.ask(candidate.source), candidate)
        seconds = time.monotonic() - started
        return replace(verdict, seconds=seconds, toolchain=self._toolchain.name)

    async def ask(self, source: str) -> Reply:
        """Dafny's reply to a text; raises ``WorkerError`` on any doubt about the answer.

        Entries are the names that are verified, without their obligations, of which Dafny tells
        those that fail (the errors). There is none where nothing is verified.
        """
        plain = write_plain(source).text
        if found := _ITERATOR.search(plain):
            # It is called verified while it still waits, and so it would be closed.
            line = plain.count("\n", 0, found.start()) + 1
            said = "Dafny's server does not tell when an iterator is verified"
            return Reply((), (ReplyMessage("error", line, 0, said),), ())
        if self._busy:
            raise WorkerError("this server still owes an answer to an earlier question")
        self._busy = True
        answer = _Answer(f"untitled:{secrets.token_hex(12)}.dfy")
        self._reader.num_bytes = 0
        opened = {"uri": answer.uri, "languageId": "dafny", "version": 1, "text": source}
        await self._notify("textDocument/didOpen", {"textDocument": opened})
        while not answer.whole:
            answer.take(*await self._read_notice())
        await self._notify("textDocument/didClose", {"textDocument": {"uri": answer.uri}})
        while not answer.closed:
            answer.take(*await self._read_notice())
        if not answer.whole:
            raise WorkerError("Dafny took back what it had said of a text")
        self._busy = False
        return answer.read(source)

    async def _initialize(self) -> None:
        settings: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
        await self._send({"id": _INITIALIZE, "method": "initialize", "params": settings})
        while (message := await self._read()).get("id") != _INITIALIZE or "method" in message:
            await self._answer(message)
        if "result" not in message:
            raise WorkerError(f"Dafny's server does not start: {message!r:.300}")
        await self._notify("initialized", {})

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        await self._send({"method": method, "params": params})

    async def _send(self, message: Mapping[str, Any]) -> None:
        try:
            await self._group.write(encode(message))
        except OSError as error:
            raise await self._group.explain_end(f"Dafny's server is gone: {error}") from error

    async def _read_notice(self) -> tuple[str, Any]:
        """The next message that asks nothing."""
        while True:
            message = await self._read()
            if not await self._answer(message):
                return str(message.get("method", "")), message.get("params")

    async def _answer(self, message: Mapping[str, Any]) -> bool:
        """Answer a question of the server's own, which waits for that; False where it is none."""
        asked = "id" in message and "method" in message
        if asked:
            await self._send({"id": message["id"], "result": None})
        return asked

    async def _read(self) -> dict[str, Any]:
        while (message := self._reader.take()) is None:
            chunk = await self._group.read()
            if not chunk:
                said = self._group.stderr_tail[-300:]
                raise await self._group.explain_end("Dafny's server died", said)
            self._reader.feed(chunk)
        return message


def _parse(adapter: TypeAdapter[Parsed], params: Any) -> Parsed:
    try:
        return adapter.validate_python(params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise WorkerError(f"Dafny's server is not understood ({why}): {params!r:.200}") from None


def _read_told(said: _Told, uri: str, lines: Sequence[str]) -> list[ReplyMessage]:
    kinds: dict[int, MessageKind] = {_ERROR: "error", _WARNING: "warning"}
    kind = kinds.get(said.severity, "info")
    if kind == "error" and _LIMIT.search(said.message):
        kind = "limit"
    if kind == "warning" and _ASSUMES.search(said.message):
        kind = "error"
    # What is declared elsewhere, such as in Dafny's own prelude, has no place in the text.
    notes = [
        ReplyMessage("related", *_find_place(note.location.range.start, lines), note.message)
        for note in said.related or ()
        if note.location.uri == uri
    ]
    text = said.message.partition(_STACK)[0]
    return [ReplyMessage(kind, *_find_place(said.range.start, lines), text), *notes]


def _read_symbol(
    symbol: _Symbol, limits: Mapping[tuple[int, int], str], lines: Sequence[str]
) -> EntryResult:
    line, column = _find_place(symbol.name.start, lines)
    _, end = _find_place(symbol.name.end, lines)
    outcome = "verified" if symbol.status == _CORRECT else "error"
    if found := _LIMIT.search(limits.get((line, column), "")):
        outcome = found.group(1)
    return EntryResult(lines[line - 1][column:end], 0, outcome)


def _find_place(place: Utf16Place, lines: Sequence[str]) -> tuple[int, int]:
    """Line (from 1) and column (from 0) in code points."""
    if place.line >= len(lines):
        raise WorkerError(f"Dafny's server speaks of line {place.line + 1}, and there are fewer")
    return place.line + 1, count_code_points(lines[place.line], place.character)
