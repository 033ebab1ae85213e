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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from proverrl.errors import WorkerError

Severity = Literal["trace", "info", "warning", "error"]
Natural = Annotated[int, Field(strict=True, ge=0)]

_KNOWN_KEYS = ConfigDict(extra="forbid")
"""For answers: a key that is not known may say that something is wrong."""
_ANY_KEYS = ConfigDict(extra="ignore")
"""For the parts of answers, which would otherwise be as strict as the whole."""

_OUTSIDE_STRING = re.compile(rb'["{}\[\]]')
_INSIDE_STRING = re.compile(rb'["\\]')
_ANSWER_END = b"\n\n"
MAX_ANSWER_BYTES = 256 * 2**20


def _require(value: str | None) -> str:
    """A value that may be left out and not be null."""
    if value is None:
        raise ValueError("it is null")
    return value


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the text of a request: lines from 1, columns from 0, in code points."""

    __pydantic_config__ = _ANY_KEYS

    line: Natural
    column: Natural

    def down(self, num_lines: int) -> Position:
        """The place so many lines further down."""
        return Position(self.line + num_lines, self.column)


@dataclass(frozen=True, slots=True)
class LeanMessage:
    """One message of Lean."""

    __pydantic_config__ = _ANY_KEYS

    severity: Severity
    text: Annotated[str, Field(alias="data")]
    start: Annotated[Position, Field(alias="pos")]
    end: Annotated[Position | None, Field(alias="endPos")] = None


@dataclass(frozen=True, slots=True)
class Sorry:
    """A ``sorry`` that Lean met: its goal and its proof state. The places are None for a ``sorry``
    inside a tactic request."""

    __pydantic_config__ = _ANY_KEYS

    goal: str
    proof_state: Annotated[Natural | None, Field(alias="proofState")] = None
    start: Annotated[Position | None, Field(alias="pos")] = None
    end: Annotated[Position | None, Field(alias="endPos")] = None


@dataclass(frozen=True, slots=True)
class TacticStep:
    """One tactic of a text that was run with ``allTactics``; ``goals`` are those before it."""

    __pydantic_config__ = _ANY_KEYS

    tactic: str
    goals: str
    start: Annotated[Position, Field(alias="pos")]
    end: Annotated[Position, Field(alias="endPos")]
    proof_state: Annotated[Natural | None, Field(alias="proofState")] = None


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The answer to a command: the number of the new environment, and what Lean said."""

    __pydantic_config__ = _KNOWN_KEYS

    env: Natural
    messages: tuple[LeanMessage, ...] = ()
    sorries: tuple[Sorry, ...] = ()
    tactics: tuple[TacticStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """The answer to a tactic. ``status`` is None from REPLs that are too old to tell."""

    __pydantic_config__ = _KNOWN_KEYS

    proof_state: Annotated[Natural, Field(alias="proofState")]
    goals: tuple[str, ...] = ()
    messages: tuple[LeanMessage, ...] = ()
    sorries: tuple[Sorry, ...] = ()
    traces: tuple[str, ...] = ()
    status: Annotated[str | None, Field(alias="proofStatus"), AfterValidator(_require)] = None


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The REPL could not do what was asked: ``{"message": ...}``."""

    message: str


Answer = CommandAnswer | StepAnswer | ErrorAnswer


def encode_command(text: str, env: int | None = None, *, all_tactics: bool = False) -> bytes:
    """Run a text in an environment; without one, in a fresh one made by the text's imports."""
    request: dict[str, Any] = {"cmd": text}
    if env is not None:
        request["env"] = env
    if all_tactics:
        request["allTactics"] = True
    return _encode(request)


def encode_tactic(proof_state: int, tactic: str) -> bytes:
    """Apply a tactic to a proof state."""
    return _encode({"tactic": tactic, "proofState": proof_state})


def _encode(request: Mapping[str, Any]) -> bytes:
    """Raises ``UnicodeEncodeError`` (a ``ValueError``) for lone surrogates."""
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
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise WorkerError(
            f"the Lean REPL's answer is not understood ({why}): {text[:200]!r}"
        ) from None


def _parse_object(raw: dict[str, Any]) -> Answer:
    if set(raw) == {"message"}:
        return _ERROR.validate_python(raw)
    if "proofState" in raw:
        return _STEP.validate_python(raw)
    raw.pop("infotree", None)
    return _COMMAND.validate_python(raw)


_ERROR = TypeAdapter(ErrorAnswer)
_STEP = TypeAdapter(StepAnswer)
_COMMAND = TypeAdapter(CommandAnswer)
