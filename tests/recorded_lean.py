"""Stands in for the program ``lean``: what a real one answered, word for word, or the recording.

Run as ``recorded_lean.py RECORD REAL ...`` with the arguments of ``lean``. REAL is a ``lean`` whose
answers are added to the file RECORD, or ``-``, and then the answers come from there. A line of the
file is one text and what was answered: the last frames about it of ``lean --worker``, or the lines
of ``lean --json``, the exit code and whether a compiled file was left. Texts are the keys, so that
whoever asks must make the same frames (``messages.make_nonce``) in the same order.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

Frame = dict[str, Any]
WAIT = "textDocument/waitForDiagnostics"
GOALS = ("$/lean/plainGoal", "$/lean/plainTermGoal")
PUBLISH = "textDocument/publishDiagnostics"
PROGRESS = "$/lean/fileProgress"
PATHS = re.compile(r'entries:(?:\\+n/[^"\\]*)+')


def read_frame(stream: IO[bytes]) -> Frame | None:
    length = 0
    while line := stream.readline():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            read: Frame = json.loads(stream.read(length))
            return read
    return None


def send(stream: IO[bytes], frame: Frame) -> None:
    text = json.dumps(frame, ensure_ascii=False).encode("utf-8")
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
    stream.flush()


def load(record: Path) -> dict[tuple[str, str], Frame]:
    lines = record.read_text("utf-8").splitlines() if record.is_file() else []
    known = [json.loads(line) for line in lines]
    return {(one["how"], one["text"]): one for one in known}


def keep(record: Path, answer: Frame) -> None:
    if (answer["how"], answer["text"]) not in load(record):
        with record.open("a", encoding="utf-8") as file:
            text = json.dumps(answer, ensure_ascii=False)
            # The folders of the machine are nobody's business.
            file.write(PATHS.sub("entries:", text) + "\n")


def find_text(frame: Frame) -> str | None:
    if frame.get("method") == "textDocument/didOpen":
        return str(frame["params"]["textDocument"]["text"])
    if frame.get("method") == "textDocument/didChange":
        return str(frame["params"]["contentChanges"][0]["text"])
    return None


def replay_worker(record: Path) -> None:
    known, text, version = load(record), "", 0
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        if (found := find_text(frame)) is not None:
            text, version = found, frame["params"]["textDocument"]["version"]
        if frame.get("method") in GOALS:
            # All that is asked about is a term.
            send(sys.stdout.buffer, {"jsonrpc": "2.0", "id": frame["id"], "result": None})
        if frame.get("method") == WAIT:
            for said in known["worker", text]["frames"]:
                if said.get("method") == PUBLISH:
                    said["params"]["version"] = version
                elif said.get("method") == PROGRESS:
                    said["params"]["textDocument"]["version"] = version
                else:
                    said["id"] = frame["id"]
                send(sys.stdout.buffer, said)


def record_worker(record: Path, real: str, arguments: list[str]) -> None:
    with subprocess.Popen(
        [real, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as lean:
        assert lean.stdin
        assert lean.stdout
        text = ""
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            text = find_text(frame) or text
            send(lean.stdin, frame)
            if frame.get("method") not in (WAIT, *GOALS):
                continue
            last: dict[str, Frame] = {}
            while (said := read_frame(lean.stdout)) is not None:
                send(sys.stdout.buffer, said)
                if said.get("method") in (PUBLISH, PROGRESS, None):
                    # In the order in which the last of each kind came.
                    last.pop(str(said.get("method")), None)
                    last[str(said.get("method"))] = said
                if said.get("id") == frame["id"] and "method" not in said:
                    break
            if frame["method"] == WAIT:
                frames = list(last.values())
                keep(record, {"how": "worker", "text": text, "frames": frames})


def replay_file(record: Path, source: Path, compiled: Path) -> int:
    known = load(record)["file", source.read_text("utf-8")]
    if known["compiled"]:
        compiled.write_bytes(b"")
    sys.stdout.write("".join(line + "\n" for line in known["lines"]))
    return int(known["code"])


def record_file(record: Path, real: str, arguments: list[str]) -> int:
    done = subprocess.run([real, *arguments], stdout=subprocess.PIPE, check=False)
    sys.stdout.buffer.write(done.stdout)
    compiled, text = Path(arguments[-2]).is_file(), Path(arguments[-1]).read_text("utf-8")
    lines = done.stdout.decode("utf-8").splitlines()
    said = {"text": text, "lines": lines, "code": done.returncode, "compiled": compiled}
    keep(record, {"how": "file", **said})
    return done.returncode


def main() -> int:
    record, real, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    assert real == "-" or shutil.which(real)
    if "--worker" in arguments:
        if real == "-":
            replay_worker(record)
        else:
            record_worker(record, real, arguments)
        return 0
    if real == "-":
        return replay_file(record, Path(arguments[-1]), Path(arguments[-2]))
    return record_file(record, real, arguments)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.exit(main())
