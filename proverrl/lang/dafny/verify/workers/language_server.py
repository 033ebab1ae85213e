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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.plain import Insertion, insert, write_plain
from proverrl.lang.dafny.syntax.reply import EntryResult, MessageKind, Reply, ReplyMessage
from proverrl.lang.dafny.syntax.text import mangle
from proverrl.lang.dafny.verify.judge import judge_candidate, judge_whole
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.entries import NamedOutcome, name_entries
from proverrl.lang.dafny.verify.workers.selfcheck import check_language_server
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.frames import (
    ANY_KEYS,
    FrameReader,
    Utf16Place,
    Utf16Range,
    count_code_points,
    count_units,
    encode,
)
from proverrl.verifier.process_group import GroupWorker, ProcessGroup

OPTIONS = (
    "--update-throttling=0",
    "--cores=1",
    # The usual limit hides all but five errors of an entry, and with 0 each text gets a warning.
    "--error-limit=1000",
)
AS_2_3 = ("--function-syntax=3", "--quantifier-syntax=3")
"""Texts that a Dafny 2.3 has read mean the same."""
AS_4 = ("--function-syntax=experimentalDefaultCompiled", "--quantifier-syntax=4")
"""As Dafny 4 reads; ``function method`` may be written too."""
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
_SHOWN = re.compile(r"```dafny\n(?:ghost )?[^\n:]*: ([^\n]*)\n```")
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
    left_out: frozenset[Utf16Range] = frozenset()
    """The names that are not to be verified."""

    @property
    def asked(self) -> list[_Symbol]:
        return [symbol for symbol in self.symbols if symbol.name not in self.left_out]

    @property
    def whole(self) -> bool:
        if self.progress in _REFUSED:
            return True
        done = all(symbol.status in (_FAILED, _CORRECT) for symbol in self.asked)
        return self.progress == _RESOLVED and done and not self._owes_errors

    @property
    def _owes_errors(self) -> bool:
        """True if a name failed for which no error came yet; one stands behind its name."""
        errors = [said.range.start for said in self.told if said.severity == _ERROR]
        failed = sum(symbol.status == _FAILED for symbol in self.asked)
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

    @property
    def read_by_dafny(self) -> bool:
        return self.progress in (_RESOLVED, *_REFUSED)

    def read(self, source: str, *, believes: bool = False) -> Reply:
        """The reply to the text; ``WorkerError`` when it says nothing of it. What the text assumes
        is an error unless ``believes``."""
        lines = source.split("\n")
        read = (_read_told(said, self.uri, lines, believes=believes) for said in self.told)
        messages = tuple(one for told in read for one in told)
        for message in messages:
            if message.kind == "error" and _NO_RESULT.search(message.text):
                raise WorkerError(f"the prover gave no result: {message.text}", "no-result")
        if self.progress in _REFUSED:
            if not any(message.kind == "error" for message in messages):
                raise WorkerError("Dafny refused a text and named no error")
            return Reply((), messages, ())
        limits = {(m.line, m.column): m.text for m in messages if m.kind == "limit"}
        return Reply(tuple(_read_symbol(one, limits, lines) for one in self.asked), messages, ())


class DafnyLanguageServer(GroupWorker, DafnyProcess):
    """One running ``dafny server``. After any ``WorkerError`` it must be killed.

    With ``known`` it is the judge of candidates, without the second judge of their texts.
    """

    def __init__(
        self,
        group: ProcessGroup,
        toolchain: DafnyToolchain,
        known: KnownProblems | None = None,
    ) -> None:
        self._group = group
        self._toolchain = toolchain
        self._known = known
        self._reader = FrameReader("Dafny's server")
        self._busy = False
        self._last_id = _INITIALIZE

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return (self._group,)

    @classmethod
    async def start(
        cls,
        toolchain: DafnyToolchain,
        limits: Limits,
        known: KnownProblems | None = None,
        *,
        analyses: bool = True,
        reads_4: bool = False,
    ) -> DafnyLanguageServer:
        """Start it under these limits and see that it tells true from false; ``analyses``: and what
        is proved by contradictory assumptions, for which it proves less; ``reads_4``: texts mean
        what they mean to a Dafny 4, as they do with ``known``."""
        command = (
            toolchain.dafny,
            "server",
            *OPTIONS,
            *(AS_4 if known or reads_4 else AS_2_3),
            # What is shown of a name is its type only until something there is verified.
            f"--verify-on={'Never' if known else 'Change'}",
            *(ANALYSIS if analyses else ()),
            *([f"--prelude={toolchain.prelude}"] if toolchain.prelude else []),
            *([f"--solver-path={toolchain.z3}"] if toolchain.z3 else []),
            *toolchain.arguments,
            f"--resource-limit={limits.rlimit}",
            f"--verification-time-limit={limits.time_limit_seconds}",
        )
        dotnet = {name: text for name, text in os.environ.items() if name.startswith("DOTNET_")}
        group = await ProcessGroup.start(command, environment=dotnet)
        server = cls(group, toolchain.plain, known)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await server._initialize()
            await check_language_server(server, analyses=analyses)
            server._toolchain = toolchain
        except BaseException as error:
            server.kill()
            await server.join()
            if isinstance(error, TimeoutError):
                said = f"{toolchain.dafny} server says nothing for {_START_SECONDS} seconds"
                raise ToolchainError(f"{said}; set PROVERRL_SECOND_DAFNY= to do without") from error
            if isinstance(error, WorkerError) and error.cause == "died":
                raise ToolchainError(f"{toolchain.dafny} server does not start: {error}") from error
            raise
        return server

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge a candidate's text as it stands; raises ``WorkerError`` on any doubt about the
        answer."""
        if self._known is not None:
            return await judge_candidate(self, candidate, self._known, self._toolchain)
        started = time.monotonic()
        verdict = judge_whole(await self.ask(candidate.source), candidate)
        seconds = time.monotonic() - started
        return replace(verdict, seconds=seconds, toolchain=self._toolchain.name)

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        """Dafny's reply to a text; raises ``WorkerError`` on any doubt about the answer.

        Entries are the names that are verified, without their obligations, of which Dafny tells
        those that fail (the errors). There is none where nothing is verified. ``rlimit`` changes
        nothing: all texts have the limit of the start.
        """
        return await self._verify(source, only, believes=self._toolchain.believes)

    async def ask_failures(self, source: str) -> Reply:
        return await self._verify(source, (), believes=True)

    async def _verify(self, source: str, only: Sequence[str], *, believes: bool) -> Reply:
        if refused := _refuse_iterators(source):
            return refused
        if self._known is None:
            answer = await self._open(source, lambda answer: answer.whole)
        else:
            answer = await self._open(source, lambda answer: answer.read_by_dafny)
            await self._verify_symbols(answer, source, only)
        await self._close(answer)
        if not answer.whole:
            raise WorkerError("Dafny took back what it had said of a text")
        reply = answer.read(source, believes=believes)
        return reply if self._known is None else _name_entries(answer, reply, source)

    async def _verify_symbols(self, answer: _Answer, source: str, only: Sequence[str]) -> None:
        """Have the names verified, or those that match one of these patterns."""
        lines = source.split("\n")
        patterns = [pattern.rpartition(".")[2] for pattern in only]
        wanted = []
        for symbol in answer.symbols:
            name = mangle(_read_symbol(symbol, {}, lines).name)
            if not only or any(fnmatchcase(name, pattern) for pattern in patterns):
                wanted.append(symbol.name)
        answer.left_out = frozenset(symbol.name for symbol in answer.symbols) - {*wanted}
        for span in wanted if answer.progress == _RESOLVED else ():
            place = {"line": span.start.line, "character": span.start.character}
            asked = {"textDocument": {"uri": answer.uri}, "position": place}
            if await self._request("dafny/textDocument/verifySymbol", asked, answer) is not True:
                raise WorkerError(f"Dafny does not verify the name at {place}")
        while not answer.whole:
            answer.take(*await self._read_notice())

    async def ask_names(self, source: str) -> Reply:
        # All names are told before the resolution ends.
        if refused := _refuse_iterators(source):
            return refused
        answer, reply = await self._resolve(source)
        return _name_entries(answer, reply, source)

    async def ask_resolved(self, source: str) -> Reply:
        return (await self._resolve(source))[1]

    async def _resolve(self, source: str) -> tuple[_Answer, Reply]:
        answer = await self._open(source, lambda answer: answer.read_by_dafny)
        await self._close(answer)
        return answer, _read_refusal(answer, source)

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, list[str]]:
        probed, places = _probe_types(program)
        answer = await self._open(probed, lambda answer: answer.read_by_dafny)
        types = []
        for place in places if answer.progress == _RESOLVED else ():
            shown = None
            if place is not None:
                asked = {"textDocument": {"uri": answer.uri}, "position": place}
                shown = await self._request("textDocument/hover", asked, answer)
            types.append(_read_type(shown))
        await self._close(answer)
        return _read_refusal(answer, probed), types

    async def _open(self, source: str, is_done: Callable[[_Answer], bool]) -> _Answer:
        """Show it a text, and read what it says until that is enough."""
        if self._busy:
            raise WorkerError("this server still owes an answer to an earlier question")
        self._busy = True
        answer = _Answer(f"untitled:{secrets.token_hex(12)}.dfy")
        self._reader.num_bytes = 0
        opened = {"uri": answer.uri, "languageId": "dafny", "version": 1, "text": source}
        await self._notify("textDocument/didOpen", {"textDocument": opened})
        while not is_done(answer):
            answer.take(*await self._read_notice())
        return answer

    async def _close(self, answer: _Answer) -> None:
        """Close the text; what is published before the server confirms that belongs to it."""
        await self._notify("textDocument/didClose", {"textDocument": {"uri": answer.uri}})
        while not answer.closed:
            answer.take(*await self._read_notice())
        self._busy = False

    async def _request(self, method: str, params: Mapping[str, Any], answer: _Answer) -> Any:
        """The result of a question of ours."""
        self._last_id += 1
        await self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = await self._read()
            if await self._answer(message):
                continue
            if message.get("id") == self._last_id:
                return message.get("result")
            answer.take(str(message.get("method", "")), message.get("params"))

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


def _refuse_iterators(source: str) -> Reply | None:
    plain = write_plain(source).text
    if found := _ITERATOR.search(plain):
        # It is called verified while it still waits, and so it would be closed.
        line = plain.count("\n", 0, found.start()) + 1
        said = "Dafny's server does not tell when an iterator is verified"
        return Reply((), (ReplyMessage("error", line, 0, said),), ())
    return None


def _probe_types(program: ParsedProgram) -> tuple[str, list[dict[str, int] | None]]:
    """The text, and where its server shows the type of each binding: None for what has no name.

    A name of a case, a ``for`` loop or a constraint is shown only where it is used, so each is used
    once.
    """
    shown = {
        number: binding
        for number, binding in enumerate(program.bindings)
        if binding.kind != "value"
        and program.tokens[binding.place].text not in ("_", *program.constructors)
    }
    used = sorted((program.places[b.scope], n) for n, b in shown.items() if b.scope is not None)
    insertions: list[Insertion] = []
    found: dict[int, int] = {}
    width = 0
    for place, number in used:
        name = program.tokens[shown[number].place].text
        insertions.append((place, f"assert {name} == {name}; "))
        found[number] = place + width + len("assert ")
        width += len(insertions[-1][1])
    for number, binding in shown.items():
        place = program.places[binding.place]
        before = sum(len(piece) for at, piece in insertions if at <= place)
        found.setdefault(number, place + before)
    text = insert(program.text, insertions).text
    places = [
        _write_place(text[: found[number]]) if number in found else None
        for number in range(len(program.bindings))
    ]
    return text, places


def _name_entries(answer: _Answer, reply: Reply, source: str) -> Reply:
    """The reply with the entries that Dafny 2.3 tells of; none where the text was refused."""
    lines = source.split("\n")
    starts = [_find_place(symbol.name.start, lines) for symbol in answer.asked]
    named = [
        NamedOutcome(entry.name, place, entry.outcome)
        for entry, place in zip(reply.entries, starts, strict=False)
    ]
    return replace(reply, entries=name_entries(named, reply.messages, source))


def _read_refusal(answer: _Answer, source: str) -> Reply:
    """The reply to a text of which nothing needs to be verified."""
    reply = answer.read(source, believes=True)
    # What fails meanwhile is told too.
    return reply if answer.progress in _REFUSED else replace(reply, messages=())


def _write_place(before: str) -> dict[str, int]:
    """The place behind this text, as a language server counts."""
    line = before.rpartition("\n")[2]
    return {"line": before.count("\n"), "character": count_units(line)}


def _read_type(shown: Any) -> str:
    """The type that Dafny shows of a name; empty where it shows none."""
    contents = shown.get("contents") if isinstance(shown, dict) else None
    text = contents.get("value") if isinstance(contents, dict) else None
    found = _SHOWN.match(text) if isinstance(text, str) else None
    return found[1] if found else ""


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
