"""Limits on a request's headers, which uvicorn's fast protocol does not have.

Flows in: bytes of connections. Flows out: the same to uvicorn; a connection whose headers are too
long, or do not end in time, is closed before it was asked for a key. Not handled here: bodies
(``desk``), the number of connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 2**16


def limit_headers(seconds: float) -> type[HttpToolsProtocol]:
    """The protocol with ``MAX_HEADER_BYTES`` and so many seconds for the headers of a request."""

    class LimitedProtocol(HttpToolsProtocol):
        """Counts until a request's headers are complete."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._num_bytes = 0
            self._timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._begin()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._timer is not None:
                self._num_bytes += len(data)
                if self._num_bytes > MAX_HEADER_BYTES:
                    self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begin()

        def on_headers_complete(self) -> None:
            self._end()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._end()
            self._num_bytes = 0
            self._timer = self.loop.call_later(seconds, self.transport.close)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedProtocol
