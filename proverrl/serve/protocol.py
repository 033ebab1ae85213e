"""Limits on a request's headers, which uvicorn's fast protocol does not have.

Flows in: bytes of connections. Flows out: the same to uvicorn; a connection whose headers are too
long, or do not end in time, is closed before it was asked for a key. Trailers, which follow a
body, are dropped, and count like headers. Not handled here: bodies (``desk``), the number of
connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 2**16


def limit_headers(seconds: float) -> type[HttpToolsProtocol]:
    """The protocol with ``MAX_HEADER_BYTES`` and so many seconds for the headers of a request."""

    class LimitedProtocol(HttpToolsProtocol):
        """Counts what the parser reads of headers and trailers, and what it holds back until one is
        whole; not the reads of a connection, of which one may hold several requests."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._num_bytes = 0
            self._num_held = 0
            self._in_headers = True
            self._timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._begin()

        def data_received(self, data: bytes) -> None:
            self._num_held += len(data)
            super().data_received(data)
            self._check()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            if self._in_headers and self._num_bytes <= MAX_HEADER_BYTES:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._end()
            self._in_headers = False
            if self._num_bytes <= MAX_HEADER_BYTES:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._num_held = 0
            if self._num_bytes <= MAX_HEADER_BYTES:
                super().on_body(body)

        def on_message_complete(self) -> None:
            self._num_held = 0
            if self._num_bytes <= MAX_HEADER_BYTES:
                super().on_message_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _count(self, num: int) -> None:
            self._num_bytes += num
            self._num_held = 0
            self._check()

        def _check(self) -> None:
            if max(self._num_bytes, self._num_held) > MAX_HEADER_BYTES:
                self.transport.close()

        def _begin(self) -> None:
            self._end()
            self._num_bytes, self._in_headers = 0, True
            self._timer = self.loop.call_later(seconds, self._stop_waiting)

        def _stop_waiting(self) -> None:
            # Headers may wait behind a request that is not answered yet, which must not be lost.
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()
            else:
                self._timer = self.loop.call_later(seconds, self._stop_waiting)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedProtocol
