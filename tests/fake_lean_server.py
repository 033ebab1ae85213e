"""A scripted stand-in for the program ``lean``: ``--worker``, and ``--json`` for single runs.

It understands the toy Lean of ``toy_lean`` and sends what a real ``lean --worker`` sends, in
its order (Lean 4.35.0). Words in a text make it misbehave: ``FAULTS`` says how. Each fault repeats
for as long as its word stands in the document.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import toy_lean
from tests.toy_lean import Declaration, Environment, Message, write

URI = "file:///proverrl/Candidate.lean"
SEVERITIES = {"error": 1, "warning": 2, "info": 3}
IMPORT = re.compile(r"^import (\S+)", re.MULTILINE)
Frames = list[dict[str, Any]]


def elaborate(text: str) -> tuple[list[Message], Environment, bool]:
    """Messages in the order of their places, what was declared, and whether an import failed."""
    env = Environment()
    for folder in os.environ.get("LEAN_PATH", "").split(os.pathsep):
        for module in IMPORT.findall(text):
            olean = Path(folder, f"{module}.olean")
            if olean.is_file():
                known = json.loads(olean.read_text(encoding="utf-8"))
                env.declarations |= {name: Declaration(**one) for name, one in known.items()}
    if missing := [module for module in IMPORT.findall(text) if module.startswith("Missing")]:
        place = {"line": 1, "column": 0}
        said = f"unknown module prefix '{missing[0]}'\n\nNo directory '{missing[0]}' or file"
        return [{"severity": "error", "pos": place, "endPos": place, "data": said}], env, True
    messages = toy_lean.elaborate(text, env)
    messages.sort(key=lambda message: (message["pos"]["line"], message["pos"]["column"]))
    return messages, env, False


# The server


def make_place(place: dict[str, int], lines: list[str]) -> dict[str, int]:
    before = lines[place["line"] - 1][: place["column"]] if place["line"] <= len(lines) else ""
    return {"line": place["line"] - 1, "character": len(before.encode("utf-16-le")) // 2}


def make_diagnostic(message: Message, lines: list[str]) -> dict[str, Any]:
    start, end = (make_place(message[key], lines) for key in ("pos", "endPos"))
    whole = {"start": start, "end": end}
    said = {"message": message["data"], "severity": SEVERITIES[message["severity"]]}
    return {**said, "range": whole, "fullRange": whole, "source": "Lean 4"}


def publish(version: int, diagnostics: list[dict[str, Any]], uri: str = URI) -> dict[str, Any]:
    params = {"uri": uri, "version": version, "diagnostics": diagnostics}
    return {"method": "textDocument/publishDiagnostics", "params": params}


def progress(version: int, *kinds: int) -> dict[str, Any]:
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    processing = [{"kind": kind, "range": whole} for kind in kinds]
    document = {"uri": URI, "version": version}
    return {
        "method": "$/lean/fileProgress",
        "params": {"textDocument": document} | {"processing": processing},
    }


class Server:
    def __init__(self) -> None:
        self.text = ""
        self.version = 0
        self.earlier: list[dict[str, Any]] = []
        self.diagnostics: list[dict[str, Any]] = []

    def take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "textDocument/didOpen":
            self.text, self.version = (
                params["textDocument"]["text"],
                params["textDocument"]["version"],
            )
        elif method == "textDocument/didChange":
            self.text = params["contentChanges"][0]["text"]
            self.version = params["textDocument"]["version"]
        elif method == "textDocument/waitForDiagnostics":
            self.answer(message["id"])
        elif method == "$/lean/plainTermGoal":
            send({"id": message["id"], "result": None})
        elif method == "$/lean/plainGoal":
            self.tell_goal(message["id"], params["position"])

    def answer(self, number: int) -> None:
        messages, _, is_fatal = elaborate(self.text)
        lines = self.text.split("\n")
        self.earlier = self.diagnostics
        self.diagnostics = [make_diagnostic(message, lines) for message in messages]
        frames = [
            publish(self.version, []),
            progress(self.version, 1),
            publish(self.version, self.diagnostics[:1]),
            publish(self.version, self.diagnostics),
            progress(self.version),
            *([progress(self.version, 2)] if is_fatal else []),
            {"method": "$/lean/ileanInfoFinal", "params": {"version": self.version}},
            {"id": number, "result": {}},
        ]
        words = self.text.split()
        for word in FAULTS:
            if word in words:
                frames = FAULTS[word](self, frames)
        for frame in frames:
            send(frame)

    def tell_goal(self, number: int, position: dict[str, int]) -> None:
        line = self.text.split("\n")[position["line"]]
        if "GOAL_ERROR" in line:
            send({"id": number, "error": {"code": -32801, "message": "content modified"}})
        elif "GOAL_UNPRINTABLE" in line:
            send({"id": number, "error": {"code": -32603, "message": "Unknown constant `t`"}})
        elif "GOAL_ODD" in line:
            send({"id": number, "result": {"goals": [1]}})
        elif "GOAL_OF_NOBODY" in line:
            send({"id": number + 1000, "result": None})
        else:
            send(progress(self.version))
            told = {"rendered": "", "goals": [f"⊢ before {line.strip()}"]}
            send({"id": number, "result": None if line.startswith("theorem") else told})


def encode(frame: dict[str, Any], *, more: int = 0, is_ascii: bool = False) -> bytes:
    text = json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=is_ascii).encode("utf-8")
    return b"Content-Length: %d\r\n\r\n%s" % (len(text) + more, text)


def send(frame: dict[str, Any]) -> None:
    sys.stdout.buffer.write(frame["raw"] if "raw" in frame else encode(frame))
    sys.stdout.buffer.flush()
    if "exit" in frame:
        os._exit(frame["exit"])


# Faults: what the server sends in place of the frames of an honest answer.

Fault = Callable[[Server, Frames], Frames]


def insert(place: int, *added: dict[str, Any]) -> Fault:
    """Other frames before that at ``place``."""
    return lambda server, frames: frames[:place] + list(added) + frames[place:]


def insert_raw(text: bytes, place: int = -1) -> Fault:
    return insert(place, {"raw": text})


def with_version(shift: int, make: Callable[[Server, int], dict[str, Any]]) -> Fault:
    """A frame about another version."""

    def fault(server: Server, frames: Frames) -> Frames:
        return [*frames[:-1], make(server, server.version + shift), frames[-1]]

    return fault


def change(alter: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Fault:
    """Other diagnostics in the last report of them."""

    def fault(server: Server, frames: Frames) -> Frames:
        return [*frames[:3], publish(server.version, alter(server.diagnostics)), *frames[4:]]

    return fault


def add(**changed: Any) -> Fault:
    """One more diagnostic before the last, that of the last line but one, with other fields."""

    def alter(diagnostics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = diagnostics[-1]
        place = {key: {**value, "line": value["line"] - 1} for key, value in last["range"].items()}
        one = {**last, "message": "noise", "range": place, "fullRange": place, **changed}
        made = {key: value for key, value in one.items() if value != "LEFT OUT"}
        return [*diagnostics[:-1], made, last]

    return change(alter)


def answer_with(**changed: Any) -> Fault:
    def fault(server: Server, frames: Frames) -> Frames:
        answer = {"id": frames[-1]["id"]} if "id" not in changed else {}
        return [*frames[:-1], {**answer, **changed}]

    return fault


def reorder(*places: int) -> Fault:
    return lambda server, frames: [frames[place] for place in places]


def ask(number: int | str, method: str) -> Fault:
    """A request of the server's own, without parameters, that must be answered."""

    def fault(server: Server, frames: Frames) -> Frames:
        send({"id": number, "method": method})
        reply = read_frame()
        if reply is None or reply.get("id") != number or reply.get("result", 0) is not None:
            os._exit(3)
        return frames

    return fault


def die_with(code: int, *places: int) -> Fault:
    return lambda server, frames: [*(frames[p] for p in places), {"raw": b"", "exit": code}]


def move(diagnostic: dict[str, Any], end: str = "start") -> dict[str, Any]:
    """The same diagnostic, which begins or ends one character later."""
    place = dict(diagnostic["fullRange"])
    place[end] = {**place[end], "character": place[end]["character"] + 1}
    return {**diagnostic, "fullRange": place}


FAULTS: dict[str, Fault] = {
    # Versions
    "LATE_ERRORS": with_version(
        -1, lambda s, v: publish(v, [{**s.diagnostics[-1], "severity": 1}])
    ),
    "LATE_SUCCESS": with_version(-1, lambda s, v: publish(v, s.diagnostics[-1:])),
    "LATE_FATAL": with_version(-1, lambda s, v: progress(v, 2)),
    "LATE_BUSY": with_version(-1, lambda s, v: progress(v, 1)),
    "FUTURE": with_version(1, lambda s, v: publish(v, s.diagnostics)),
    "FUTURE_PROGRESS": with_version(1, lambda s, v: progress(v)),
    "NO_VERSION": insert(
        -1, {"method": "textDocument/publishDiagnostics", "params": {"uri": URI, "diagnostics": []}}
    ),
    "OTHER_URI": with_version(0, lambda s, v: publish(v, s.diagnostics, "file:///Other.lean")),
    "OTHER_URI_PROGRESS": insert(
        -1,
        {
            "method": "$/lean/fileProgress",
            "params": {"textDocument": {"uri": "file:///B.lean", "version": 1}, "processing": []},
        },
    ),
    # Order
    "ANSWER_FIRST": reorder(6, 0, 4),
    "ANSWER_BEFORE_THE_REST": reorder(0, 6, 2, 4),
    "ANSWER_THEN_DIAGNOSTICS": reorder(6, 0, 1, 2, 3, 4),
    "NEVER_DONE": die_with(0, 0, 1, 2, 3, 6),
    "DONE_THEN_BUSY": lambda s, f: [
        *f[:5],
        progress(s.version, 1),
        {"raw": encode(f[-1]), "exit": 0},
    ],
    "FATAL": with_version(0, lambda s, v: progress(v, 2)),
    "BACKWARDS": change(lambda diagnostics: diagnostics[::-1]),
    # Answers
    "ANOTHER_ID": insert(-1, {"id": 999_999, "result": {}}),
    "TEXT_FOR_ID": insert(-1, {"id": "1", "result": {}}),
    "TRUE_FOR_ID": insert(-1, {"id": True, "result": {}}),
    "NO_ID": insert(-1, {"result": {}}),
    "ERROR": answer_with(error={"code": -32901, "message": "the worker crashed"}),
    "ERROR_AND_RESULT": answer_with(error={"code": -32901}, result={}),
    "NULL_ERROR": answer_with(error=None, result={}),
    "NULL_RESULT": answer_with(result=None),
    "NO_RESULT": answer_with(),
    "TWICE": lambda s, f: [*f, f[-1]],
    # What the server may say unasked
    "ASKS": ask("register", "client/registerCapability"),
    "ASKS_BY_OUR_NUMBER": ask(1, "workspace/semanticTokens/refresh"),
    "NOTE": insert(2, {"method": "$/lean/nobodyKnows", "params": {"a": 1}}),
    "NOTE_WITHOUT_PARAMS": insert(2, {"method": "$/lean/nobodyKnows"}),
    "SHOWS": insert(2, {"method": "window/showMessage", "params": {"type": 1, "message": "oh"}}),
    "OTHER_NOTE": insert(2, {"method": "textDocument/nobodyKnows", "params": {}}),
    "METHOD_NUMBER": insert(2, {"method": 7}),
    "OTHER_VERSION_OF_RPC": insert(2, {"jsonrpc": "1.0", "method": "$/x"}),
    "FLOODS": lambda s, f: [{"method": "$/lean/x", "params": "x" * 1000}] * 3000 + f,
    # Frames
    "CUT": lambda s, f: [*f[:-1], {"raw": encode(f[-1])[:-3], "exit": 0}],
    "CUT_HEAD": lambda s, f: [*f[:-1], {"raw": b"Content-Len", "exit": 0}],
    "TOO_SHORT": lambda s, f: [*f[:-1], {"raw": encode(f[-1], more=-2)}],
    "TOO_LONG": lambda s, f: [*f[:-2], {"raw": encode(f[-2], more=20)}, f[-1], f[-1]],
    "NO_LENGTH": insert_raw(b"Content-Type: x\r\n\r\n{}"),
    "NEGATIVE_LENGTH": insert_raw(b"Content-Length: -2\r\n\r\n{}"),
    "ENDLESS_HEAD": insert_raw(b"x" * 5000),
    "STRAY_TEXT": insert_raw(b"libc++abi: terminating\n"),
    "STRAY_PANIC": insert_raw(b"INTERNAL PANIC: out of memory\n", 3),
    "NOT_UTF8": insert_raw(b'Content-Length: 19\r\n\r\n{"jsonrpc":"\xff\xfe2.0"}'),
    "NO_JSON": insert_raw(b"Content-Length: 2\r\n\r\n{,"),
    "A_LIST": insert_raw(b"Content-Length: 2\r\n\r\n[]"),
    "DEEP": insert_raw(b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000),
    # Deaths
    "DIES_BEFORE": die_with(1),
    "DIES_BETWEEN": die_with(139, 0, 1, 2),
    "DIES_AFTER_THE_PRINT": die_with(134, 0, 1, 2, 3),
    "DIES_WHEN_DONE": die_with(1, 0, 1, 2, 3, 4),
    # Diagnostics
    "SILENT": add(isSilent=True, severity=3, message="Goals accomplished!"),
    "SILENT_ERROR": add(isSilent=True, severity=1, message="quietly wrong"),
    "SILENT_SORRY": add(isSilent=True, severity=2, message="declaration uses `sorry`"),
    "WITHOUT_SEVERITY": add(severity="LEFT OUT"),
    "SEVERITY_5": add(severity=5),
    "HALF_A_PAIR": lambda s, f: [
        {"raw": encode(one, is_ascii=True)} for one in add(message="\ud800", severity=3)(s, f)
    ],
    "NO_MESSAGE": add(message="LEFT OUT"),
    "NUMBER_FOR_MESSAGE": add(message=7),
    "NO_RANGE": add(range="LEFT OUT"),
    "NEGATIVE_PLACE": add(fullRange={"start": {"line": -1, "character": 0}, "end": {}}),
    "FRACTION_PLACE": add(range={k: {"line": 1.5, "character": 0} for k in ("start", "end")}),
    "FAR_PLACE": add(fullRange={k: {"line": 10**6, "character": 0} for k in ("start", "end")}),
    "PLACE_BEFORE": add(fullRange={k: {"line": 0, "character": 0} for k in ("start", "end")}),
    "FORGED_FRAME": add(
        message="Content-Length: 2\r\n\r\n{}",
        severity=3,
        fullRange={k: {"line": 5, "character": 0} for k in ("start", "end")},
    ),
    "FORGED_END": lambda s, f: add(message=s.diagnostics[-1]["message"], severity=3)(s, f),
    "FORGED_END_AS_ERROR": change(lambda d: [*d[:-1], {**d[-1], "severity": 1}]),
    "MOVED_END": change(lambda d: [*d[:-1], move(d[-1])]),
    "AFTER_THE_END": change(lambda d: [*d, {**d[-1], "message": "more", "severity": 3}]),
    "NO_END": change(lambda d: d[:-1]),
    "NO_BEGIN": change(lambda d: d[1:]),
    "OTHER_BEGIN": change(lambda d: [{**d[0], "message": "nonce-0"}, *d[1:]]),
    "BEGIN_TWICE": change(lambda d: [d[0], *d]),
    "LONGER_BEGIN": change(lambda d: [move(d[0], "end"), *d[1:]]),
}


def read_frame() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            read: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
            return read
    return None


def serve() -> None:
    server = Server()
    while (message := read_frame()) is not None:
        server.take(message)


# Single runs


def compile_file(olean: Path, source: Path) -> int:
    text = source.read_text(encoding="utf-8")
    words = text.split()
    messages, env, _ = elaborate(text)
    lines = []
    for message in messages:
        severity = {"info": "information"}.get(message["severity"], message["severity"])
        lines.append(
            json.dumps({**message, "severity": severity, "isSilent": False}, ensure_ascii=False)
        )
    has_failed = any(message["severity"] == "error" for message in messages)
    code = 1 if has_failed else 0
    if not has_failed and "NO_OLEAN" not in words:
        known = {name: asdict(one) for name, one in env.declarations.items()}
        olean.write_text(json.dumps(known), encoding="utf-8")
    last = json.loads(lines[-1])
    if "CUT" in words:
        write("\n".join(lines)[:-7])
        return 0
    if "NO_JSON_LINE" in words:
        lines.insert(1, "PANIC at Lean.Elab: unreachable code")
    if "A_LIST_LINE" in words:
        lines.insert(1, "[]")
    if "NULL_LINE" in words:
        lines.insert(1, "null")
    if "ODD_SEVERITY" in words:
        lines.insert(1, json.dumps({**last, "severity": "fatal"}))
    if "LIST_SEVERITY" in words:
        lines.insert(1, json.dumps({**last, "severity": []}))
    if "NO_PLACE" in words:
        lines.insert(1, json.dumps({**last, "pos": None}))
    if "SILENT" in words:
        lines.insert(-1, json.dumps({**last, "data": "Goals accomplished!", "isSilent": True}))
    if "SILENT_ERROR" in words:
        lines.insert(-1, json.dumps({**last, "severity": "error", "data": "no", "isSilent": True}))
        code = 1
    if "NO_END" in words:
        lines.pop()
    if "NO_BEGIN" in words:
        lines.pop(0)
    if "BACKWARDS" in words:
        lines.reverse()
    if "EXIT_1" in words:
        code = 1
    if "EXIT_3" in words:
        code = 3
    if "ERROR_BUT_EXIT_0" in words:
        lines.insert(1, json.dumps({**last, "severity": "error", "data": "no"}))
    write("\n".join(lines) + "\n")
    for word in ("SIGKILL", "SIGSEGV", "SIGABRT"):
        if word in words:
            os.kill(os.getpid(), getattr(signal, word))
            time.sleep(600)
    return code


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    if "--worker" in sys.argv:
        serve()
    else:
        sys.exit(compile_file(Path(sys.argv[-2]), Path(sys.argv[-1])))
