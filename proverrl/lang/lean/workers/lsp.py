"""The part of the language server protocol that ``lean --worker`` speaks with us.

Flows in: bytes of the server's standard output. Flows out: requests as bytes, answers as records. A
frame is a header with its length and one JSON object. Whatever is not understood is a
``WorkerError``. Not handled here: which answer belongs to which text
(``proverrl.lang.lean.workers.server``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from proverrl.errors import WorkerError
from proverrl.lang.lean.workers.messages import (
    ANY_KEYS,
    LeanMessage,
    Natural,
    Position,
    Severity,
    explain_misfit,
)

MAX_ANSWER_BYTES = 256 * 2**20
"""Of all frames together that one text may cost."""

_HEADER_END = b"\r\n\r\n"
_MAX_HEADER_BYTES = 4096
_LENGTH = re.compile(rb"(?:\A|\r\n)content-length: *(\d{1,12})(?:\Z|\r\n)", re.IGNORECASE)
_SEVERITIES: dict[int, Severity] = {1: "error", 2: "warning", 3: "info", 4: "info"}
_FATAL = 2
# References of names, which come by the dozen for each text.
_FOR_EDITORS = b'{"jsonrpc":"2.0","method":"$/lean/ilean'


def encode(message: Mapping[str, Any]) -> bytes:
    """A frame. Raises ``UnicodeEncodeError`` (a ``ValueError``) for lone surrogates."""
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8")
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


class FrameReader:
    """Cuts a server's output into JSON objects, however it is split on the way."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._length: int | None = None
        self.num_bytes = 0
        """All bytes since this was last set to 0."""

    def feed(self, chunk: bytes) -> None:
        """Take more output; raises ``WorkerError`` when there is too much of it."""
        self._received += chunk
        self.num_bytes += len(chunk)
        if self.num_bytes > MAX_ANSWER_BYTES:
            raise WorkerError(f"Lean's server printed over {MAX_ANSWER_BYTES} bytes")

    def take(self) -> dict[str, Any] | None:
        """The next message, None while it is incomplete; ``WorkerError`` when it is none. What is
        only for editors is left out."""
        while (text := self._take_text()) is not None:
            if not text.startswith(_FOR_EDITORS):
                return _decode(text)
        return None

    def _take_text(self) -> bytes | None:
        if self._length is None:
            end = self._received.find(_HEADER_END)
            if end < 0 and len(self._received) < _MAX_HEADER_BYTES:
                return None
            found = _LENGTH.search(bytes(self._received[: max(end, 0)]))
            if found is None:
                said = bytes(self._received[:200]).decode("utf-8", "replace")
                raise WorkerError(f"Lean's server printed what is no message: {said!r}")
            self._length = int(found.group(1))
            del self._received[: end + len(_HEADER_END)]
        if len(self._received) < self._length:
            return None
        text = bytes(self._received[: self._length])
        del self._received[: self._length]
        self._length = None
        return text


def _decode(text: bytes) -> dict[str, Any]:
    try:
        message = json.loads(text)
        if b"\\ud" in text.lower():
            # Half a pair is no character: nothing that is stored or printed may hold one.
            json.dumps(message, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise WorkerError(f"Lean's server sent no JSON ({error}): {text[:200]!r}") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise WorkerError(f"Lean's server sent no message: {text[:200]!r}")
    return message


@dataclass(frozen=True, slots=True)
class _Utf16Place:
    """Lines and characters from 0; a character beyond the basic plane counts twice (UTF-16)."""

    __pydantic_config__ = ANY_KEYS

    line: Natural
    character: Natural


@dataclass(frozen=True, slots=True)
class _Utf16Range:
    __pydantic_config__ = ANY_KEYS

    start: _Utf16Place
    end: _Utf16Place


@dataclass(frozen=True, slots=True)
class _Told:
    __pydantic_config__ = ANY_KEYS

    message: str
    range: _Utf16Range
    severity: Literal[1, 2, 3, 4] = 1
    full_range: Annotated[_Utf16Range | None, Field(alias="fullRange")] = None
    is_silent: Annotated[bool | None, Field(alias="isSilent")] = None


@dataclass(frozen=True, slots=True)
class Published:
    """The diagnostics of one version of a document. Lean leaves the version out of none."""

    __pydantic_config__ = ANY_KEYS

    uri: str
    version: Natural
    diagnostics: tuple[_Told, ...]


@dataclass(frozen=True, slots=True)
class _Processing:
    __pydantic_config__ = ANY_KEYS

    kind: int = 1


@dataclass(frozen=True, slots=True)
class _DocumentVersion:
    __pydantic_config__ = ANY_KEYS

    uri: str
    version: Natural


@dataclass(frozen=True, slots=True)
class FileProgress:
    """What of a version is still being elaborated."""

    __pydantic_config__ = ANY_KEYS

    document: Annotated[_DocumentVersion, Field(alias="textDocument")]
    processing: tuple[_Processing, ...]

    @property
    def is_fatal(self) -> bool:
        """Whether elaboration broke off, such as at a missing import."""
        return any(part.kind == _FATAL for part in self.processing)


Parsed = TypeVar("Parsed")
_PUBLISHED = TypeAdapter(Published)
_PROGRESS = TypeAdapter(FileProgress)


def parse_published(params: Any) -> Published:
    """The parameters of ``textDocument/publishDiagnostics``."""
    return _parse(_PUBLISHED, params)


def parse_progress(params: Any) -> FileProgress:
    """The parameters of ``$/lean/fileProgress``."""
    return _parse(_PROGRESS, params)


def _parse(adapter: TypeAdapter[Parsed], params: Any) -> Parsed:
    try:
        return adapter.validate_python(params)
    except ValidationError as error:
        why = explain_misfit(error)
        raise WorkerError(f"Lean's server is not understood ({why}): {params!r:.200}") from None


def read_messages(published: Published, text: str) -> tuple[LeanMessage, ...]:
    """The messages about a text in the order of their places, columns counted in code points.
    Silent ones that are no errors (``Goals accomplished!``) are left out, as in Lean's own output.
    """
    lines = text.split("\n")
    found = []
    for said in published.diagnostics:
        severity = _SEVERITIES[said.severity]
        if said.is_silent and severity == "info":
            continue
        whole = said.full_range or said.range
        start, end = _place(whole.start, lines), _place(whole.end, lines)
        # A message about one place has no end in Lean's own output.
        found.append(LeanMessage(severity, said.message, start, None if end == start else end))
    # Elaboration in tasks may publish out of order; a stable sort keeps the order at one place.
    return tuple(sorted(found, key=lambda message: message.start))


def encode_place(place: Position, text_line: str) -> dict[str, int]:
    """A place as the server counts."""
    units = len(text_line[: place.column].encode("utf-16-le")) // 2
    return {"line": place.line - 1, "character": units}


def _place(place: _Utf16Place, lines: Sequence[str]) -> Position:
    if place.line > len(lines):
        raise WorkerError(f"Lean's server speaks of line {place.line + 1}, and there are fewer")
    line = lines[place.line] if place.line < len(lines) else ""
    if line.isascii():
        return Position(place.line + 1, place.character)
    units = line.encode("utf-16-le")[: 2 * place.character]
    return Position(place.line + 1, len(units.decode("utf-16-le", "replace")))
