"""One server that ``proverrl serve`` started: its description of itself, and how it is asked.

Flows in: rows of candidates. Flows out: the server's rows, one by one, or the reason for none this
time. Not handled here: which server is asked, and when again (``remote``).
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import httpx2

from proverrl.concurrency import cancel_all
from proverrl.errors import CanaryError, UsageError
from proverrl.files.strict_json import load_json

MOST = 64
"""Candidates in one request, at most."""
LONGEST_ASKED = 60.0
"""Seconds of rest that a server may ask for, at most."""
DISTRUSTED = "X-ProverRL-Distrusted"
"""The header in the answers of a server that called a false statement proved."""
_CONNECT_SECONDS = 10.0
_FIRST_REST, _LONGEST_REST = 0.5, 30.0
"""Seconds for which a server that failed is left alone: they double with each failure."""
_MAX_DOUBLINGS = 10
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
"""A connection to a machine that is gone, or started anew, ends after a minute."""
_LONGEST_LINE = 2**26
_BY_LINE = {"Accept": "application/x-ndjson"}
_RETRIED = frozenset({408, 429, 499, 500, 502, 503, 504})
_TOO_MANY = 413


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A reason for no answer this time. ``was_taken`` says that the server had begun to answer."""

    said: str
    was_taken: bool = False


@dataclass(slots=True, eq=False)
class Inquiry:
    """A candidate's row; ``answer`` becomes the server's, or why there is none this time."""

    row: dict[str, Any]
    deadline_seconds: float
    answer: asyncio.Future[dict[str, Any] | NoAnswer]
    server: RemoteServer | None = None


@dataclass(slots=True)
class RemoteServer:
    """``rests_until`` is on the monotonic clock; ``num_failures`` counts those in a row. A server
    that lets a candidate wait is asked every ``probe_seconds`` whether it is there."""

    url: str
    client: httpx2.AsyncClient
    probe_seconds: float
    num_asked: int = 0
    num_failures: int = 0
    rests_until: float = 0.0
    places: int = MOST
    """Candidates that it is given at once; the others wait for whichever server is free first."""
    most: int = MOST
    """Candidates in one request; halved when it says that these are too many."""
    is_gone: bool = False
    _asking: asyncio.Future[bool] | None = field(default=None, repr=False)

    def fail(self, asked_seconds: float = 0.0) -> None:
        """It did not answer, or asked for so many seconds of rest. All that fails while it rests
        is one failure: a server that dies fails everything that it was asked at once."""
        now = time.monotonic()
        if self.rests_until <= now:
            doubled = _FIRST_REST * 2.0 ** min(self.num_failures, _MAX_DOUBLINGS)
            self.rests_until = now + min(_LONGEST_REST, doubled)
            self.num_failures += 1
        self.rests_until = max(self.rests_until, now + min(asked_seconds, LONGEST_ASKED))

    async def send(self, batch: Sequence[Inquiry]) -> NoAnswer:
        """Ask for a batch; returns why some have no answer. When nobody waits for any of them, the
        request is cancelled, and with it the server's work. Raises as ``_stream``."""
        streaming = asyncio.ensure_future(self._stream(batch))

        def leave(_: object) -> None:
            if all(inquiry.answer.done() for inquiry in batch):
                streaming.cancel()

        for inquiry in batch:
            inquiry.answer.add_done_callback(leave)
        try:
            while not (await asyncio.wait({streaming}, timeout=self.probe_seconds))[0]:
                if not await self._is_well():
                    self.fail()
                    return NoAnswer("it answers nothing any more", was_taken=True)
            return NoAnswer("") if streaming.cancelled() else streaming.result()
        except (httpx2.HTTPError, httpx2.InvalidURL, RuntimeError) as error:
            # A client that was closed under a request raises RuntimeError.
            self.fail()
            return NoAnswer(str(error) or type(error).__name__)
        finally:
            await cancel_all([streaming])

    async def _stream(self, batch: Sequence[Inquiry]) -> NoAnswer:
        """Give each its row as it comes; returns why the others have none. Raises ``UsageError``:
        the server refuses the request, or is none of ours; ``CanaryError``: it is not to be
        believed."""
        seconds = batch[0].deadline_seconds
        body = {"candidates": [inquiry.row for inquiry in batch], "deadline_seconds": seconds}
        # No limit on reading: a server that is no longer there is found out by its probe.
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
        # In ASCII, which holds half of a surrogate pair in a problem's metadata too.
        async with self.client.stream(
            "POST",
            f"{self.url}/v1/verify",
            content=json.dumps(body).encode(),
            headers=_BY_LINE,
            timeout=timeout,
        ) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode("utf-8", "replace")[:300]
                return self._take_refusal(len(batch), response, text)
            self.num_failures, self.rests_until = 0, 0.0
            rest, said = b"", "it did not answer for all candidates"
            try:
                async for part in response.aiter_bytes():
                    # Not by the lines of a text: a message may hold other characters that end one.
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        _take_line(self.url, batch, line)
                    if len(rest) > _LONGEST_LINE:
                        raise UsageError(
                            f"{self.url} did not answer as a server of proverrl does: a line is "
                            f"longer than {_LONGEST_LINE} bytes"
                        )
            except httpx2.HTTPError as error:
                said = str(error) or type(error).__name__
            else:
                if rest:
                    _take_line(self.url, batch, rest)
        if not all(inquiry.answer.done() for inquiry in batch):
            self.fail()
        return NoAnswer(said, was_taken=True)

    def _take_refusal(self, num: int, response: httpx2.Response, text: str) -> NoAnswer:
        status = response.status_code
        if DISTRUSTED in response.headers:
            raise CanaryError(f"{self.url}: {text}")
        if status == _TOO_MANY and num > 1:
            self.most = num // 2
            return NoAnswer(f"{num} candidates are too many for one request")
        if status in _RETRIED:
            self.fail(read_retry_after(response.headers.get("retry-after", "")) or 0.0)
            return NoAnswer(f"status {status}: {text}")
        raise UsageError(
            f"{self.url}: status {status}: {text}" + ("; set the key" if status == 401 else "")
        )

    async def _is_well(self) -> bool:
        """True if a server that lets us wait answers at all: a machine that is stopped, or cut off,
        closes no connection. Asked once for all that wait for it."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._probe())
        return await asyncio.shield(self._asking)

    async def _probe(self) -> bool:
        try:
            response = await self.client.get(f"{self.url}/health", timeout=self.probe_seconds)
        except httpx2.ConnectError as error:
            # A server that drains takes nobody new. One that is gone has closed our connection, or
            # TCP finds it out.
            return _was_refused(error)
        except (httpx2.HTTPError, RuntimeError):
            return False
        return response.status_code == 200


def _was_refused(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ConnectionRefusedError):
        if isinstance(error, BaseExceptionGroup):
            return all(map(_was_refused, error.exceptions))
        error = error.__cause__ or error.__context__
    return error is not None


def _take_line(url: str, batch: Sequence[Inquiry], line: bytes) -> None:
    """Raises ``UsageError``: the line is no result for one of the batch."""
    try:
        row = load_json(line)
        answer = batch[row["index"]].answer
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{url} did not answer as a server of proverrl does: {line[:200]!r}"
        ) from error
    if not answer.done():
        answer.set_result(row)


def read_retry_after(text: str) -> float | None:
    """``Retry-After`` in seconds; None when it is absent or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class LanguageAbout:
    """A server's description of a language that it judges. ``conditions`` is a hash of all that
    determines a verdict besides the candidate; ``states`` is whether verdicts carry them. The
    others are the server's limits: a text that is longer, a worker that grows above them and a
    proof that is not confirmed end otherwise elsewhere."""

    toolchain: str
    conditions: str
    rlimit: int
    states: bool
    confirm: str = "proved"
    memory_mb: float | None = None
    max_text: int = 0
    deadline_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerAbout:
    """The answer of ``/v1/about``; ``workers`` counts those of each language."""

    version: str
    workers: int
    languages: dict[str, LanguageAbout]


def explain_failure(error: Exception) -> str:
    """The reason why the first request failed, and the remedy."""
    status = error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else 0
    if status == 401:
        return "it asks for a key, or for another one; set PROVERRL_API_KEY to one of its keys"
    said = f"it answers {status}" if status else str(error).splitlines()[0]
    return f"{said}; is `proverrl serve` of this version running there?"


def find_difference(ours: Mapping[str, LanguageAbout], theirs: Mapping[str, LanguageAbout]) -> str:
    """The first thing that two servers say differently."""
    for language in sorted({*ours, *theirs}):
        if language not in ours or language not in theirs:
            return f"only one judges {language}"
        for one in fields(LanguageAbout):
            a, b = getattr(ours[language], one.name), getattr(theirs[language], one.name)
            if a != b:
                return f"{one.name} of {language}: {b} and {a}"
    return "nothing that is known here"
