#!/usr/bin/env python3
"""A stand-in for ``dafny server``: it says what the text that it is given tells it to say.

Each line of a text that begins with ``//! `` is a JSON object: ``{"say": METHOD, "params": ...}``,
in which ``URI`` stands for the document; ``{"ask": METHOD}`` waits for the client's answer;
``{"exit": CODE}`` ends the process. Lines that begin with ``//? `` are said when a name is to be
verified, which is refused where one of them is ``{"result": false}``.
The text of the start-up test is answered as a real one did (``dafny_4_canaries.json``), or with
``DOTNET_FAKE`` instead.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

URI = ["none"]


def send(message: dict[str, Any]) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message}).replace("URI", URI[0]).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    length = 0
    while (line := sys.stdin.buffer.readline()) != b"\r\n":
        if not line:
            sys.exit(0)
        length = int(line.split(b":")[1])
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
    return message


def progress(status: str) -> dict[str, Any]:
    params = {"uri": "URI", "version": 1, "status": status, "message": None}
    return {"say": "dafny/compilation/status", "params": params}


def symbols(*listed: tuple[int, int, int, int]) -> dict[str, Any]:
    """Line, start and end of a name (from 0), and its status."""
    names = [
        {
            "nameRange": {
                "start": {"line": line, "character": start},
                "end": {"line": line, "character": end},
            },
            "status": status,
        }
        for line, start, end, status in listed
    ]
    params = {"uri": "URI", "version": 1, "namedVerifiables": names}
    return {"say": "dafny/textDocument/symbolStatus", "params": params}


def diagnostics(*told: tuple[int, int, int, str]) -> dict[str, Any]:
    """Severity, line and character (from 0), and message."""
    listed = [
        {
            "severity": severity,
            "message": message,
            "range": {
                "start": {"line": line, "character": column},
                "end": {"line": line, "character": column + 1},
            },
            "relatedInformation": [],
        }
        for severity, line, column, message in told
    ]
    params = {"uri": "URI", "version": 1, "diagnostics": listed}
    return {"say": "textDocument/publishDiagnostics", "params": params}


CANARIES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "dafny_4_canaries.json").read_text("ascii")
)
"""The last that the real 4.11.0 says of the text of the start-up test."""


def perform(steps: list[dict[str, Any]]) -> None:
    for number, step in enumerate(steps):
        if "say" in step:
            send({"method": step["say"], "params": step["params"]})
        elif "ask" in step:
            send({"id": f"q{number}", "method": step["ask"], "params": {}})
            assert receive() == {"jsonrpc": "2.0", "id": f"q{number}", "result": None}
        elif "exit" in step:
            sys.exit(step["exit"])


def read_steps(text: str, mark: str) -> list[dict[str, Any]]:
    return [json.loads(x.removeprefix(mark)) for x in text.split("\n") if x.startswith(mark)]


def main() -> None:
    text = ""
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            send({"method": "serverStarted", "params": ["4.11.0.0"]})
            send({"id": message["id"], "result": {}})
        elif method == "textDocument/didOpen":
            URI[0], text = params["textDocument"]["uri"], params["textDocument"]["text"]
            steps = read_steps(text, "//! ")
            if "CanaryHard" in text:
                steps = json.loads(os.environ.get("DOTNET_FAKE", "null")) or CANARIES
            perform(steps)
        elif method == "dafny/textDocument/verifySymbol":
            steps = read_steps(text, "//? ")
            send({"id": message["id"], "result": [s for s in steps if "result" in s] == []})
            perform(steps)
        elif method == "textDocument/didClose":
            params = {"uri": "URI", "version": None, "status": "Parsing", "message": None}
            send({"method": "dafny/compilation/status", "params": params})


if __name__ == "__main__":
    main()
