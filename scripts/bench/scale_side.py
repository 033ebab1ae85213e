"""The servers of ``python -m scripts.bench scale``: many ports of one process.

Flows in: how many, the workers of each, and the seconds that a candidate takes one of them. Flows
out: the ports, as a line. Each answers as ``proverrl serve`` would if it proved everything. Run as
``python -m scripts.bench.scale_side SERVERS WORKERS SECONDS``; ends with its standard input.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import sys
from collections import defaultdict
from dataclasses import asdict
from functools import partial

import httptools

from proverrl.problems.inputs import Submission, read_entry, verdict_to_json
from proverrl.types import Status, Verdict
from proverrl.verifier.base import Limits
from proverrl.verifier.remote_server import LanguageAbout
from proverrl.version import __version__

_ABOUT = {"dafny": asdict(LanguageAbout("bench", "bench", Limits().rlimit, False))}


class Server:
    """``workers`` places, each of which a candidate holds for so many seconds."""

    def __init__(self, workers: int, seconds: float) -> None:
        self.workers = workers
        self._seconds = seconds
        self._free_at = [0.0] * workers

    def take(self, now: float) -> float:
        """When a candidate that comes now has its verdict."""
        start = max(now, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, start + self._seconds)
        return start + self._seconds


class Connection(asyncio.Protocol):
    """One client's connection to one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
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
            about = {"version": __version__, "workers": self._server.workers, "languages": _ABOUT}
            said = json.dumps(about).encode()
            self._write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said))
            return
        self._write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        loop = asyncio.get_running_loop()
        now = loop.time()
        by_end: defaultdict[float, list[str]] = defaultdict(list)
        for index, row in enumerate(json.loads(body)["candidates"]):
            entry = read_entry(row, "candidates", index)
            assert isinstance(entry, Submission)
            verdict = Verdict(Status.PROVED, checks=("bench",))
            line = json.dumps({"index": index} | verdict_to_json(entry, verdict)) + "\n"
            by_end[self._server.take(now)].append(line)
        for end, lines in by_end.items():
            last = b"0\r\n\r\n" if end == max(by_end) else b""
            text = "".join(lines).encode()
            loop.call_at(end, self._write, b"%x\r\n%b\r\n%b" % (len(text), text, last))

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


async def main(servers: int, workers: int, seconds: float) -> None:
    """Answer until standard input ends."""
    loop = asyncio.get_running_loop()
    ports = []
    for _ in range(servers):
        make = partial(Connection, Server(workers, seconds))
        server = await loop.create_server(make, "127.0.0.1", 0, backlog=4096)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
