"""Lean's own server as a worker: it keeps imports loaded and elaborates only what changed.

Flows in: texts. Flows out: what Lean said of each. Every text is one version of a document, and a
document is one process of its own (``lean --worker``, which an editor's server starts per file). So
one that dies is seen to die: nobody starts it again behind our back. A change of imports needs a
new process. Lean keeps what it elaborated of the text before the first difference, inside a proof
too; what stands behind that is elaborated anew, and nothing of it can be seen before it. Texts with
the same beginning go to the same document. An answer counts only when it is about the newest
version, when Lean has both answered our request and reported that nothing of it is left to do, when
the text before ours says what it said before, and when a fresh closing ``#print`` at the end is the
last message. Covered: an answer that is late, of any length, out of turn or about something else; a
process that dies. Not covered: code that runs while Lean elaborates and forges all of it; each
accepted proof is confirmed elsewhere (``proverrl.lang.lean.verify.confirm``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proverrl.errors import WorkerError
from proverrl.lang.lean.syntax.lexical import find_holes
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.lang.lean.verify.workers.lsp import (
    FOR_EDITORS,
    encode_place,
    parse_progress,
    parse_published,
    read_messages,
)
from proverrl.lang.lean.verify.workers.messages import (
    Elaboration,
    Environment,
    LeanMessage,
    Position,
    TacticStep,
    is_nonce,
    join_header,
    make_nonce,
    strip_end,
)
from proverrl.lang.lean.verify.workers.session import LEAN_OPTIONS, GoalsAt, LeanSession
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.verifier.frames import FrameReader, encode
from proverrl.verifier.process_group import ProcessGroup

# An answer waits for so long, without it for 200 ms; with 0 each of its parts is told anew.
_OPTIONS = ("-Dserver.reportDelayMs=3", *LEAN_OPTIONS)
_URI = "file:///proverrl/Candidate.lean"
_NO_ID = -1
# What Lean answers (JSON-RPC's internal error) when the printing of a goal itself failed.
_CANNOT_PRINT = -32603
# A document without imports starts in under 0.1 seconds and holds about 40 MB.
_MAX_PLAIN_DOCUMENTS = 8
_MAX_DOCUMENTS = 10
_MAX_STEPS = 500
_BEFORE_STEPS = frozenset("· . ; <;> by".split())


class LeanServer(LeanSession):
    """Some documents of one worker, started when needed."""

    def __init__(self, toolchain: LeanToolchain) -> None:
        self._toolchain = toolchain
        # The least recently used first.
        self._documents: list[_Document] = []
        self._begin = make_nonce()

    @property
    def groups(self) -> list[ProcessGroup]:
        return [document.group for document in self._documents]

    async def load_header(self, header: str, options: str) -> Elaboration:
        before = join_header(header, options)
        text = f'{before}#print "{self._begin}"\n'
        messages, _, is_fatal = await self._elaborate(text, len(header), 0)
        num_lines = before.count("\n")
        mine = messages[-1:]
        if not is_fatal and mine and is_nonce(mine[0], self._begin, num_lines + 1):
            env = Environment(text, messages, len(header))
            return Elaboration(env, messages[:-1])
        return Elaboration(None, messages, reached_end=False)

    def is_warm_for(self, header: str, text: str) -> bool:
        # Behind the header stand our options and the first frame.
        return any(
            document.header == header and f'"{self._begin}"\n{text}' in document.text
            for document in self._documents
        )

    async def run(
        self, text: str, env: Environment, *, num_shared: int = 0, goals_at: GoalsAt = ""
    ) -> Elaboration:
        end = make_nonce()
        whole = f'{env.text}{text}\n#print "{end}"\n'
        messages, document, is_fatal = await self._elaborate(
            whole, env.num_header, len(env.text) + num_shared
        )
        first_line = env.text.count("\n")
        before = tuple(message for message in messages if message.start.line <= first_line)
        if is_fatal or before != env.messages:
            raise WorkerError("Lean's server says something else of the text before the question")
        tactics, notes = await document.list_goals(*_find_places(text, first_line, goals_at))
        after = Environment(whole, messages, env.num_header)
        done = Elaboration(after, messages[len(before) :], tactics=tactics).down(-first_line)
        done = strip_end(done, end, text.count("\n") + 2)
        return replace(done, messages=(*done.messages, *(one.down(-first_line) for one in notes)))

    async def _elaborate(
        self, text: str, num_header: int, num_shared: int
    ) -> tuple[tuple[LeanMessage, ...], _Document, bool]:
        document = await self._find_document(text, num_header, num_shared)
        messages, is_fatal = await document.elaborate(text)
        return messages, document, is_fatal

    async def _find_document(self, text: str, num_header: int, num_shared: int) -> _Document:
        """The document that shares most of the text; a new one where too little is shared."""
        header = text[:num_header]
        fitting = [document for document in self._documents if document.header == header]
        best = max(fitting, key=lambda document: document.count_shared(text), default=None)
        fits = best is not None and best.text[:num_shared] == text[:num_shared]
        may_add = not header.strip() and len(fitting) < _MAX_PLAIN_DOCUMENTS
        if best is None or (may_add and not fits):
            while len(self._documents) >= _MAX_DOCUMENTS:
                oldest = self._documents.pop(0)
                oldest.group.kill()
                await oldest.group.join()
            best = await _Document.start(self._toolchain, header)
        elif not fits:
            # None fits: the one that was not used for longest has the least to lose.
            best = fitting[0]
        if best in self._documents:
            self._documents.remove(best)
        self._documents.append(best)
        return best


class _Document:
    """One process and the text that it holds."""

    def __init__(self, group: ProcessGroup, header: str) -> None:
        self.group = group
        self.header = header
        self.text = ""
        self._reader = FrameReader("Lean's server", FOR_EDITORS)
        self._version = 0
        self._last_id = 0

    @classmethod
    async def start(cls, toolchain: LeanToolchain, header: str) -> _Document:
        group = await ProcessGroup.start(
            (*toolchain.lean_command, "--worker", *_OPTIONS, _URI),
            environment=dict(toolchain.environment),
        )
        return cls(group, header)

    def count_shared(self, text: str) -> int:
        """The length of the common beginning."""
        lengths = range(min(len(self.text), len(text)) + 1)
        return bisect_left(lengths, True, key=lambda n: self.text[:n] != text[:n]) - 1

    async def elaborate(self, text: str) -> tuple[tuple[LeanMessage, ...], bool]:
        """The messages about a text, and whether elaboration broke off at its imports."""
        self._version += 1
        self._reader.num_bytes = 0
        self.text = text
        document: dict[str, Any] = {"uri": _URI, "version": self._version}
        if self._version == 1:
            settings: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
            opened = {"textDocument": {**document, "languageId": "lean4", "text": text}}
            sent = encode({"id": 0, "method": "initialize", "params": settings})
            sent += encode({"method": "textDocument/didOpen", "params": opened})
        else:
            changed = {"textDocument": document, "contentChanges": [{"text": text}]}
            sent = encode({"method": "textDocument/didChange", "params": changed})
        (request,) = self._number(1)
        wait = {"id": request, "method": "textDocument/waitForDiagnostics", "params": document}
        await self._write(sent + encode(wait))
        published = parse_published({"uri": _URI, "version": self._version, "diagnostics": []})
        answered = is_done = is_fatal = False
        while not (answered and (is_done or is_fatal)):
            message = await self._read()
            method, params = message.get("method"), message.get("params")
            if method == "textDocument/publishDiagnostics":
                found = parse_published(params)
                self._check_document(found.uri, found.version)
                published = found if found.version == self._version else published
            elif method == "$/lean/fileProgress":
                progress = parse_progress(params)
                self._check_document(progress.document.uri, progress.document.version)
                if progress.document.version == self._version:
                    is_done, is_fatal = not progress.processing, progress.is_fatal or is_fatal
            elif method is None:
                self._check_asked(message, (request,))
                if self._take_result(message) != {}:
                    raise WorkerError(f"Lean's server answered with something: {message!r:.200}")
                answered = True
        return read_messages(published, text), is_fatal

    async def list_goals(
        self, holes: Sequence[Position], steps: Sequence[Position]
    ) -> tuple[tuple[TacticStep, ...], tuple[LeanMessage, ...]]:
        """The goals at places of the newest text; places without a tactic are left out. A hole
        that is a term has the goal of that term, and comes first. Goals that Lean cannot print are
        left out too, since the proof is what it is, and a message says so."""
        lines = self.text.split("\n")
        asked = [("$/lean/plainTermGoal", place) for place in holes]
        asked += [("$/lean/plainGoal", place) for place in (*holes, *steps)]
        requests = self._number(len(asked))
        sent = b""
        for request, (method, place) in zip(requests, asked, strict=True):
            position = encode_place(place, lines[place.line - 1])
            params = {"textDocument": {"uri": _URI}, "position": position}
            sent += encode({"id": request, "method": method, "params": params})
        await self._write(sent)
        found: dict[int, TacticStep] = {}
        failed: list[tuple[Position, str]] = []
        waiting = {request: place for request, (_, place) in zip(requests, asked, strict=True)}
        while waiting:
            message = await self._read()
            if "method" in message:
                continue
            self._check_asked(message, tuple(waiting))
            place = waiting.pop(message["id"])
            if reason := _find_print_failure(message):
                failed.append((place, reason))
            elif (result := self._take_result(message)) is not None:
                told = result if isinstance(result, dict) else {}
                goals = told.get("goals", [told.get("goal")])
                if not isinstance(goals, list) or not all(isinstance(goal, str) for goal in goals):
                    raise WorkerError(f"Lean's server gave no goals: {result!r:.200}")
                found[message["id"]] = TacticStep("\n\n".join(goals), place)
        steps_found = tuple(found[request] for request in requests if request in found)
        if not failed:
            return steps_found, ()
        place, reason = failed[0]
        where = f"at {len(failed)} places, the first here" if len(failed) > 1 else "here"
        text = f"Lean cannot print the goals {where}: {reason:.300}"
        return steps_found, (LeanMessage("info", text, place),)

    def _number(self, count: int) -> list[int]:
        """Numbers for requests that were never used before."""
        first = self._last_id + 1
        self._last_id += count
        return list(range(first, first + count))

    def _check_document(self, uri: str, version: int) -> None:
        if uri != _URI:
            raise WorkerError(f"Lean's server speaks of another document: {uri:.200}")
        if version > self._version:
            raise WorkerError(f"Lean's server speaks of version {version} of {self._version}")

    def _check_asked(self, message: dict[str, Any], expected: Sequence[int]) -> None:
        if message.get("id", _NO_ID) not in expected or isinstance(message["id"], bool):
            raise WorkerError(f"Lean's server answered what was not asked: {message!r:.200}")

    def _take_result(self, message: dict[str, Any]) -> Any:
        if "error" in message or "result" not in message:
            raise WorkerError(f"Lean's server failed: {message.get('error')!r:.300}")
        return message["result"]

    async def _read(self) -> dict[str, Any]:
        """The next message; what asks us for something is answered on the way."""
        while True:
            while (message := self._reader.take()) is None:
                chunk = await self.group.read()
                if not chunk:
                    raise await self._explain_end()
                self._reader.feed(chunk)
            method = message.get("method")
            if method is None or method == "textDocument/publishDiagnostics":
                return message
            if not isinstance(method, str):
                raise WorkerError(f"Lean's server sent no message: {message!r:.200}")
            if "id" in message:
                await self._write(encode({"id": message["id"], "result": None}))
            elif method.startswith("$/"):
                return message
            else:
                raise WorkerError(f"Lean's server says {method}: {message.get('params')!r:.300}")

    async def _write(self, sent: bytes) -> None:
        try:
            await self.group.write(sent)
        except OSError as error:
            raise await self._explain_end() from error

    async def _explain_end(self) -> WorkerError:
        said = self.group.stderr_tail.strip()[-500:]
        return await self.group.explain_end("Lean's server died", said)


def _find_print_failure(message: dict[str, Any]) -> str:
    """The reason why Lean cannot print a goal; empty for every other answer."""
    error = message.get("error")
    if not isinstance(error, dict) or error.get("code") != _CANNOT_PRINT or "result" in message:
        return ""
    return str(error.get("message") or "no reason given")


def _find_places(
    text: str, first_line: int, goals_at: GoalsAt
) -> tuple[list[Position], list[Position]]:
    """The holes, and where tactics may begin: the first word of each line, also after a bullet or a
    semicolon."""
    if not goals_at:
        return [], []
    holes = [Position(first_line + line, column) for line, column in find_holes(text)]
    steps: list[Position] = []
    line, may_begin = 0, False
    for token in scan_code(text) if goals_at == "steps" else ():
        if token.line != line or may_begin:
            steps.append(Position(first_line + token.line, token.column))
        line, may_begin = token.line, token.text in _BEFORE_STEPS
    return holes[:_MAX_STEPS], steps[:_MAX_STEPS]
