"""The part of the language server protocol that ``lean --worker`` speaks with us.

Flows in: messages of the server. Flows out: records. Whatever is not understood is a
``WorkerError``. Not handled here: frames (``proverrl.verifier.frames``); which answer belongs to
which text (``proverrl.lang.lean.verify.workers.server``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from proverrl.errors import WorkerError
from proverrl.lang.lean.verify.workers.messages import (
    LeanMessage,
    Position,
    Severity,
    explain_misfit,
)
from proverrl.verifier.frames import (
    Natural,
    Utf16Place,
    Utf16Range,
    count_code_points,
)

_SEVERITIES: dict[int, Severity] = {1: "error", 2: "warning", 3: "info", 4: "info"}
_FATAL = 2
FOR_EDITORS = b'{"jsonrpc":"2.0","method":"$/lean/ilean'
"""Begins what is only for editors: references of names, which come by the dozen for each text."""


@dataclass(frozen=True, slots=True)
class _Told:
    message: str
    range: Utf16Range
    severity: Literal[1, 2, 3, 4] = 1
    full_range: Annotated[Utf16Range | None, Field(alias="fullRange")] = None
    is_silent: Annotated[bool | None, Field(alias="isSilent")] = None


@dataclass(frozen=True, slots=True)
class Published:
    """The diagnostics of one version of a document. Lean leaves the version out of none."""

    uri: str
    version: Natural
    diagnostics: tuple[_Told, ...]


@dataclass(frozen=True, slots=True)
class _Processing:
    kind: int = 1


@dataclass(frozen=True, slots=True)
class _DocumentVersion:
    uri: str
    version: Natural


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The part of a version that is still being elaborated."""

    document: Annotated[_DocumentVersion, Field(alias="textDocument")]
    processing: tuple[_Processing, ...]

    @property
    def is_fatal(self) -> bool:
        """True if elaboration broke off, such as at a missing import."""
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


def _place(place: Utf16Place, lines: Sequence[str]) -> Position:
    if place.line > len(lines):
        raise WorkerError(f"Lean's server speaks of line {place.line + 1}, and there are fewer")
    line = lines[place.line] if place.line < len(lines) else ""
    return Position(place.line + 1, count_code_points(line, place.character))
