"""Frames of JSON-RPC, as language servers write them: a header with a length, and one JSON object.

Flows in: messages to send; bytes of a server's standard output, however they are split on the way.
Flows out: bytes; JSON objects. Whatever is no message is a ``WorkerError``. Not handled here: what
a message means, beyond the places in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from proverrl.errors import WorkerError

MAX_ANSWER_BYTES = 256 * 2**20
"""The limit on all frames together that one text may cost."""

_HEADER_END = b"\r\n\r\n"
_MAX_HEADER_BYTES = 4096
_LENGTH = re.compile(rb"(?:\A|\r\n)content-length: *(\d{1,12})(?:\Z|\r\n)", re.IGNORECASE)

Natural = Annotated[int, Field(strict=True, ge=0)]


@dataclass(frozen=True, slots=True, order=True)
class Utf16Place:
    """Lines and characters from 0; a character beyond the basic plane counts twice (UTF-16)."""

    line: Natural
    character: Natural


@dataclass(frozen=True, slots=True)
class Utf16Range:
    """The places from ``start`` to before ``end``."""

    start: Utf16Place
    end: Utf16Place


def encode(message: Mapping[str, Any]) -> bytes:
    """A frame. Raises ``UnicodeEncodeError`` (a ``ValueError``) for lone surrogates."""
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8")
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


def count_code_points(line: str, units: int) -> int:
    """A place in a line in code points; servers count a character beyond the basic plane twice
    (UTF-16)."""
    if line.isascii():
        return units
    return len(line.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "replace"))


def count_units(text: str) -> int:
    """The UTF-16 code units of a text."""
    return len(text.encode("utf-16-le")) // 2


class FrameReader:
    """Cuts the output of ``server`` (its name in errors) into JSON objects, without those that
    begin with ``skipped``."""

    def __init__(self, server: str, skipped: bytes | None = None) -> None:
        self._server = server
        self._skipped = skipped
        self._received = bytearray()
        self._length: int | None = None
        self.num_bytes = 0
        """All bytes since this was last set to 0."""

    def feed(self, chunk: bytes) -> None:
        """Take more output; raises ``WorkerError`` when there is too much of it."""
        self._received += chunk
        self.num_bytes += len(chunk)
        if self.num_bytes > MAX_ANSWER_BYTES:
            raise WorkerError(f"{self._server} printed over {MAX_ANSWER_BYTES} bytes")

    def take(self) -> dict[str, Any] | None:
        """The next message, None while it is incomplete; ``WorkerError`` when it is none."""
        while (text := self._take_text()) is not None:
            if self._skipped is None or not text.startswith(self._skipped):
                return self._decode(text)
        return None

    def _take_text(self) -> bytes | None:
        if self._length is None:
            end = self._received.find(_HEADER_END)
            if end < 0 and len(self._received) < _MAX_HEADER_BYTES:
                return None
            found = _LENGTH.search(bytes(self._received[: max(end, 0)]))
            if found is None:
                said = bytes(self._received[:200]).decode("utf-8", "replace")
                raise WorkerError(f"{self._server} printed what is no message: {said!r}")
            self._length = int(found.group(1))
            del self._received[: end + len(_HEADER_END)]
        if len(self._received) < self._length:
            return None
        text = bytes(self._received[: self._length])
        del self._received[: self._length]
        self._length = None
        return text

    def _decode(self, text: bytes) -> dict[str, Any]:
        try:
            message = json.loads(text)
            if b"\\ud" in text.lower():
                # Half a pair is no character: nothing that is stored or printed may hold one.
                json.dumps(message, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            said = f"{self._server} sent no JSON ({error}): {text[:200]!r}"
            raise WorkerError(said) from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise WorkerError(f"{self._server} sent no message: {text[:200]!r}")
        return message
