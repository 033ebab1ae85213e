"""Dafny 4's language server as a warm process: it reads and verifies one text after another.

Flows in: texts. Flows out: what Dafny said of each, as a ``Reply``. Every text is a document of its
own, under a name that nobody could know before, and is closed after its answer; what the server
still says of an earlier one is about another name. When an answer is whole (``language_answer``)
the document is closed, and what was published before the server confirms that belongs to it too.
Covered: questions of the server's own; exceptions inside Dafny, after which it reads the next text
as before. Not covered: iterators, which are refused; contradictions in the contract of a
declaration with a body, of which the server tells only those in the body and its goals; bounds for
one text alone (all texts have those of the start). Not handled here: what follows from a reply
(``proverrl.lang.dafny.verify.judge``).
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count
from typing import Any

from proverrl.errors import ToolchainError, WorkerError
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.plain import (
    Insertion,
    WrittenText,
    insert,
    leave_out_attributes,
    write_ghost,
    write_plain,
)
from proverrl.lang.dafny.syntax.reply import Reply, ReplyMessage
from proverrl.lang.dafny.syntax.text import mangle
from proverrl.lang.dafny.verify.judge import judge_candidate, judge_whole
from proverrl.lang.dafny.verify.known import DafnyProcess, KnownProblems
from proverrl.lang.dafny.verify.workers.language_answer import RESOLVED, Answer, Symbol
from proverrl.lang.dafny.verify.workers.selfcheck import DO_WITHOUT, check_language_server
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import FILE, Candidate, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.frames import FrameReader, count_units, encode
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
_DOTNET = {"DOTNET_TieredPGO": "0"}
"""Its code is compiled in two steps, without counting in between what is called."""
_INITIALIZE = 1
_START_SECONDS = 60
_SHOWN = re.compile(
    # A constant is verified too.
    r"(?:\*\*[^\n]*\*\*:\n\n_Verification not started yet_  \n  \n)?"
    r"```dafny\n(?:ghost )?[^\n:]*: ([^\n]*)\n```"
)
_ITERATOR = re.compile(r"\biterator\b")
_TAIL_CALLS = re.compile(r"\{:tailrecursion[^{}\n]*\}|@TailRecursion(?:\([^()\n]*\))?")
_SILENT_SECONDS = 10
"""How long it may say nothing after an exception: after some it says nothing more at all."""


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
        self._exception = ""

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
        """Start it under these limits and see that it tells true from false. ``analyses``: it also
        tells what is proved by contradictory assumptions, and proves less. ``reads_4``: texts mean
        what they mean to a Dafny 4; with ``known`` they always do."""
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
        given = {name: text for name, text in os.environ.items() if name.startswith("DOTNET_")}
        group = await ProcessGroup.start(command, environment=_DOTNET | given)
        server = cls(group, toolchain.plain, known)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await server._initialize()
            await check_language_server(server, limits.rlimit, analyses=analyses)
            server._toolchain = toolchain
        except BaseException as error:
            server.kill()
            await server.join()
            if isinstance(error, TimeoutError):
                said = f"{toolchain.dafny} server says nothing for {_START_SECONDS} seconds"
                raise ToolchainError(f"{said}; {DO_WITHOUT}") from error
            if isinstance(error, WorkerError) and error.cause == "died":
                raise ToolchainError(f"{toolchain.dafny} server does not start: {error}") from error
            raise
        return server

    async def judge(self, candidate: Candidate) -> Verdict:
        """Judge a candidate's text as it stands, a bare file without the limits that are not
        followed; raises ``WorkerError`` on any doubt about the answer."""
        if self._known is not None:
            return await judge_candidate(self, candidate, self._known, self._toolchain)
        started = time.monotonic()
        source = candidate.source
        if candidate.problem.kind == FILE:
            source = leave_out_attributes(source)
        verdict = judge_whole(await self.ask(source), candidate)
        seconds = time.monotonic() - started
        return replace(verdict, seconds=seconds, toolchain=self._toolchain.name)

    async def ask(self, source: str, rlimit: int | None = None, *only: str) -> Reply:
        """Dafny's reply to a text; raises ``WorkerError`` on any doubt about the answer.

        Entries are the names that are verified, without their obligations, of which Dafny tells
        those that fail (the errors). There is none where nothing is verified. ``rlimit`` changes
        nothing: all texts have the limit of the start.
        """
        patterns = [pattern.rpartition(".")[2] for pattern in only]

        def is_wanted(line: int, name: str) -> bool:
            return not only or any(fnmatchcase(mangle(name), pattern) for pattern in patterns)

        return await self._verify(source, is_wanted, believes=self._toolchain.believes)

    async def ask_failures(self, source: str) -> Reply:
        return await self._verify(source, lambda line, name: True, believes=True)

    async def ask_part(self, source: str, included: str) -> Reply | None:
        """Both are one text, of which the names in ``source`` are verified."""
        end = source.count("\n") + 1
        return await self._verify(
            f"{source}\n{included}",
            lambda line, name: line < end,
            believes=self._toolchain.believes,
        )

    async def _verify(
        self, source: str, is_wanted: Callable[[int, str], bool], *, believes: bool
    ) -> Reply:
        """Verify the names that are wanted by their lines (from 0) and themselves; without
        ``known`` all of them are verified."""
        if refused := _refuse_iterators(source):
            return refused
        answer = await self._open(source)
        if self._known is not None and answer.progress == RESOLVED:
            lines = source.split("\n")
            wanted = [
                symbol
                for symbol in answer.symbols
                if is_wanted(symbol.name.start.line, symbol.read_name(lines))
            ]
            answer.left_out = frozenset(symbol.name for symbol in {*answer.symbols} - {*wanted})
            await self._verify_symbols(answer, wanted)
        await self._read_until(lambda: answer.whole, answer)
        await self._close(answer)
        reply = answer.read(source, believes=believes)
        return reply if self._known is None else answer.name_entries(reply, source)

    async def _verify_symbols(self, answer: Answer, symbols: Sequence[Symbol]) -> None:
        places = [
            {"line": symbol.name.start.line, "character": symbol.name.start.character}
            for symbol in symbols
        ]
        results = await self._request("dafny/textDocument/verifySymbol", places, answer)
        if not (answer.broken or all(result is True for result in results)):
            raise WorkerError("Dafny does not verify a name that it told")

    async def ask_names(self, source: str) -> Reply:
        # All names are told before the resolution ends.
        if refused := _refuse_iterators(source):
            return refused
        answer = await self._resolve(source)
        return answer.name_entries(answer.read_refusal(source), source)

    async def ask_resolved(self, source: str) -> Reply:
        return (await self._resolve(source)).read_refusal(source)

    async def _resolve(self, source: str) -> Answer:
        answer = await self._open(source)
        await self._close(answer)
        return answer

    async def ask_types(self, program: ParsedProgram) -> tuple[Reply, list[str]]:
        probed, places = _probe_types(program)
        answer = await self._open(probed)
        types = [""] * len(places)
        if answer.progress == RESOLVED:
            shown = [number for number, place in enumerate(places) if place is not None]
            asked = [place for place in places if place is not None]
            results = await self._request("textDocument/hover", asked, answer)
            for number, result in zip(shown, results, strict=True):
                types[number] = _read_type(result)
        await self._close(answer)
        return answer.read_refusal(probed), types

    async def ask_value_types(
        self, source: str, spans: Sequence[tuple[int, int]], *, as_ghost: bool = False
    ) -> tuple[Reply, list[str]]:
        name = next(name for n in count() if (name := f"v{n}_") not in source)
        probed = _probe_values(source, spans, name)
        sent = write_ghost(probed.text) if as_ghost else WrittenText(probed.text, {})
        answer = await self._open(sent.text)
        types = [""] * len(spans)
        if answer.progress == RESOLVED:
            found = re.finditer(rf"\(var {name}(\d+) := \(", sent.text)
            starts = {int(match[1]): match.start() + len("(var ") for match in found}
            places = [_write_place(sent.text[: starts[number]]) for number in range(len(spans))]
            results = await self._request("textDocument/hover", places, answer)
            types = [_read_type(result) for result in results]
        await self._close(answer)
        return probed.restore(sent.restore(answer.read_refusal(sent.text))), types

    async def _open(self, source: str) -> Answer:
        """Show it a text, and wait until that is read and resolved, or refused."""
        if self._busy:
            raise WorkerError("this server still owes an answer to an earlier question")
        self._busy = True
        answer = Answer(f"untitled:{secrets.token_hex(12)}.dfy", earlier=self._exception)
        self._reader.num_bytes = 0
        opened = {"uri": answer.uri, "languageId": "dafny", "version": 1, "text": source}
        await self._notify("textDocument/didOpen", {"textDocument": opened})
        await self._read_until(lambda: answer.read_by_dafny, answer)
        return answer

    async def _close(self, answer: Answer) -> None:
        """Close the text; what is published before the server confirms that belongs to it."""
        await self._notify("textDocument/didClose", {"textDocument": {"uri": answer.uri}})
        await self._read_until(lambda: answer.closed, answer)
        if answer.broken:
            self._exception = answer.exception
        self._busy = False

    async def _request(
        self, method: str, places: Sequence[Mapping[str, int]], answer: Answer
    ) -> list[Any]:
        """The results of a question about each of these places; None for each that is still due
        when Dafny fails inside."""
        first = self._last_id + 1
        for place in places:
            self._last_id += 1
            params = {"textDocument": {"uri": answer.uri}, "position": place}
            await self._send({"id": self._last_id, "method": method, "params": params})
        results: dict[Any, Any] = {}
        ids = range(first, self._last_id + 1)
        await self._read_until(lambda: answer.broken or results.keys() >= {*ids}, answer, results)
        return [results.get(number) for number in ids]

    async def _read_until(
        self, is_done: Callable[[], bool], answer: Answer, results: dict[Any, Any] | None = None
    ) -> None:
        """Take what it says about the text, and the results of questions about it."""
        while not is_done():
            try:
                async with asyncio.timeout(_SILENT_SECONDS if answer.in_doubt else None):
                    message = await self._read()
            except TimeoutError:
                said = f"Dafny says nothing since it failed inside: {answer.exception:.300}"
                raise WorkerError(said, "no-result") from None
            if await self._answer(message):
                continue
            if "method" in message:
                answer.take(str(message["method"]), message.get("params"))
            elif results is not None:
                results[message.get("id")] = message.get("result")

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


def _refuse_iterators(source: str) -> Reply | None:
    plain = write_plain(source).text
    if found := _ITERATOR.search(plain):
        # It is called verified while it still waits, and so it would be closed.
        line = plain.count("\n", 0, found.start()) + 1
        said = (
            "Dafny's server does not tell when an iterator is verified; write a class with a "
            "method, or have Dafny 2.3 judge alone (--dafny-version 2.3 --confirm off)"
        )
        return Reply((), (ReplyMessage("error", line, 0, said),), ())
    return None


def _probe_types(program: ParsedProgram) -> tuple[str, list[dict[str, int] | None]]:
    """The text, and where its server shows the type of each binding: None for what has no name.

    A name of a case, a ``for`` loop or a constraint is shown only where it is used, so each is used
    once.
    """
    constructors = program.constructors
    shown = {
        number: binding
        for number, binding in enumerate(program.bindings)
        if binding.kind != "value"
        and program.tokens[binding.place].text != "_"
        # What looks like a constructor in a pattern is one.
        and (binding.kind != "pattern" or program.tokens[binding.place].text not in constructors)
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


def _probe_values(source: str, spans: Sequence[tuple[int, int]], name: str) -> WrittenText:
    """The text with a variable for each value, of this name and its number; no call stays a tail
    call."""
    source = _TAIL_CALLS.sub(lambda found: " " * len(found[0]), source)
    # Where two begin or end at one place, the inner one stands inside.
    opened = sorted((a, -b, f"(var {name}{number} := (") for number, (a, b) in enumerate(spans))
    closed = sorted((b, -a, f"); {name}{number})") for number, (a, b) in enumerate(spans))
    return insert(source, [(place, piece) for place, _, piece in (*opened, *closed)])


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
