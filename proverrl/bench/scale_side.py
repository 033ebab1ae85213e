"""The servers of ``proverrl bench scale``: many ports of one process.

Flows in: how many, and the seconds that a candidate takes. Flows out: the ports, as a line. Each
answers as ``proverrl serve`` would if it proved everything. Run as
``python -m proverrl.bench.scale_side SERVERS SECONDS``; ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict

import httptools

from proverrl.problems.inputs import Submission, read_entry, verdict_to_json
from proverrl.types import Status, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.remote import LanguageAbout

_ABOUT = {"dafny": asdict(LanguageAbout("bench", "bench", Limits().rlimit, False))}


class Connection(asyncio.Protocol):
    """One client's connection to one server."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: it is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of a request."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """httptools: what is asked."""
        self._url = url

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """httptools: the request is whole."""
        body, self._body = bytes(self._body), bytearray()
        if self._url != b"/v1/verify":
            self._send(json.dumps({"languages": _ABOUT}).encode())
            return
        lines = []
        for index, row in enumerate(json.loads(body)["candidates"]):
            entry = read_entry(row, "candidates", index)
            assert isinstance(entry, Submission)
            verdict = Verdict(Status.PROVED, checks=("bench",))
            lines.append(json.dumps({"index": index} | verdict_to_json(entry, verdict)) + "\n")
        answer = "".join(lines).encode()
        asyncio.get_running_loop().call_later(self._seconds, self._send, answer)

    def _send(self, body: bytes) -> None:
        if not self._transport.is_closing():
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode() + body)


async def main(servers: int, seconds: float) -> None:
    """Answer until standard input ends."""
    loop = asyncio.get_running_loop()
    ports = []
    for _ in range(servers):
        server = await loop.create_server(lambda: Connection(seconds), "127.0.0.1", 0, backlog=4096)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
