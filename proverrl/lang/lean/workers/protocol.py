"""The line protocol of leanprover-community/repl.

Flows in: bytes of the REPL's standard output. Flows out: requests as bytes, answers as records. A
request is one line of JSON and a blank line; an answer is one JSON object, spread over lines of any
length, and a blank line. There are no request numbers: ``proverrl.lang.lean.workers.repl`` finds
out whose answer it is. Characters are sent as they are, because Lean's JSON parser does not join
the two halves of a ``\\ud83d\\ude00`` escape.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from proverrl.errors import WorkerError
from proverrl.lang.lean.workers.messages import (
    LeanMessage,
    Natural,
    Sorry,
    TacticStep,
    explain_misfit,
)

_KNOWN_KEYS = ConfigDict(extra="forbid")
"""For answers: a key that is not known may say that something is wrong."""

_OUTSIDE_STRING = re.compile(rb'["{}\[\]]')
_INSIDE_STRING = re.compile(rb'["\\]')
_ANSWER_END = b"\n\n"
MAX_ANSWER_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The answer to a command: the number of the new environment, and what Lean said."""

    __pydantic_config__ = _KNOWN_KEYS

    env: Natural
    messages: tuple[LeanMessage, ...] = ()
    sorries: tuple[Sorry, ...] = ()
    tactics: tuple[TacticStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The REPL could not do what was asked: ``{"message": ...}``."""

    message: str


Answer = CommandAnswer | ErrorAnswer


def encode_command(text: str, env: int | None = None, *, all_tactics: bool = False) -> bytes:
    """Run a text in an environment; without one, in a fresh one made by the text's imports."""
    request: dict[str, Any] = {"cmd": text}
    if env is not None:
        request["env"] = env
    if all_tactics:
        request["allTactics"] = True
    # Raises ``UnicodeEncodeError`` (a ``ValueError``) for lone surrogates.
    return json.dumps(request, ensure_ascii=False).encode("utf-8") + b"\n\n"


class AnswerReader:
    """Cuts the REPL's output into answers, however it is split on the way. Looks at every byte
    once: the end of an object is found by its braces, outside strings."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._received = bytearray()
        self._searched = 0
        self._depth = 0
        self._in_string = False
        # One past the closing brace.
        self._end: int | None = None

    def feed(self, chunk: bytes) -> None:
        """Take more output; raises ``WorkerError`` as soon as it cannot be an answer."""
        self._received += chunk
        if len(self._received) > MAX_ANSWER_BYTES:
            raise WorkerError(f"the Lean REPL printed over {MAX_ANSWER_BYTES} bytes")
        if not b"{".startswith(bytes(self._received[:1])):
            said = bytes(self._received[:200]).decode("utf-8", "replace")
            raise WorkerError(f"the Lean REPL printed what is no answer: {said!r}")
        if self._end is None:
            self._find_end()
        if self._end is not None:
            tail = bytes(self._received[self._end : self._end + 2])
            if not _ANSWER_END.startswith(tail):
                raise WorkerError(f"the Lean REPL's answer has no blank line after it: {tail!r}")

    def take(self) -> str | None:
        """The text of a whole answer, or None while it is incomplete; raises ``WorkerError`` when
        more than the answer is there."""
        if self._end is None or len(self._received) < self._end + len(_ANSWER_END):
            return None
        if len(self._received) > self._end + len(_ANSWER_END):
            raise WorkerError("the Lean REPL went on talking after its answer")
        text = self._received[: self._end].decode("utf-8", "replace")
        self._reset()
        return text

    def _find_end(self) -> None:
        while True:
            pattern = _INSIDE_STRING if self._in_string else _OUTSIDE_STRING
            found = pattern.search(self._received, self._searched)
            if found is None:
                self._searched = len(self._received)
                return
            place, mark = found.start(), bytes(found.group())
            if mark == b"\\":
                if place + 1 >= len(self._received):
                    self._searched = place
                    return
                self._searched = place + 2
                continue
            self._searched = place + 1
            if mark == b'"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if mark in (b"{", b"[") else -1
                if self._depth == 0:
                    self._end = self._searched
                    return


def parse_answer(text: str) -> Answer:
    """Read one answer; raises ``WorkerError`` when any part of it is not understood."""
    try:
        # Some recorded answers carry raw line breaks inside strings.
        raw = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise WorkerError(f"the Lean REPL's answer is not JSON ({error}): {text[:200]!r}") from None
    if not isinstance(raw, dict):
        raise WorkerError(f"the Lean REPL's answer is no object: {text[:200]!r}")
    try:
        return _parse_object(raw)
    except ValidationError as error:
        why = explain_misfit(error)
        raise WorkerError(
            f"the Lean REPL's answer is not understood ({why}): {text[:200]!r}"
        ) from None


def _parse_object(raw: dict[str, Any]) -> Answer:
    if set(raw) == {"message"}:
        return _ERROR.validate_python(raw)
    raw.pop("infotree", None)
    return _COMMAND.validate_python(raw)


_ERROR = TypeAdapter(ErrorAnswer)
_COMMAND = TypeAdapter(CommandAnswer)
