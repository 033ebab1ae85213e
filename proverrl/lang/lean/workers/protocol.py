"""The line protocol of leanprover-community/repl.

Flows in: bytes of the REPL's standard output. Flows out: requests as bytes, answers as records. A
request is one line of JSON and a blank line; an answer is one JSON object, spread over lines of any
length, and a blank line. There are no request numbers: whose answer it is, is found out in
``proverrl.lang.lean.workers.repl``. Characters are sent as they are, because Lean's JSON parser
does not join the two halves of a ``\\ud83d\\ude00`` escape. Not handled here: processes, what an
answer means for a proof.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from proverrl.errors import WorkerError

Severity = Literal["trace", "info", "warning", "error"]
_SEVERITIES = ("trace", "info", "warning", "error")

_COMMAND_KEYS = frozenset({"env", "messages", "sorries", "tactics", "infotree", "message"})
_STEP_KEYS = frozenset({"proofState", "goals", "messages", "sorries", "traces", "proofStatus"})

_OUTSIDE_STRING = re.compile(rb'["{}\[\]]')
_INSIDE_STRING = re.compile(rb'["\\]')
_ANSWER_END = b"\n\n"
MAX_ANSWER_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the text of a request: lines from 1, columns from 0, in code points."""

    line: int
    column: int

    def down(self, num_lines: int) -> Position:
        """The place so many lines further down."""
        return Position(self.line + num_lines, self.column)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of Lean."""

    severity: Severity
    text: str
    start: Position
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class Sorry:
    """A ``sorry`` that Lean met: its goal, and the proof state to go on from. The places are None
    for a ``sorry`` inside a tactic request."""

    goal: str
    proof_state: int | None
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class TacticStep:
    """One tactic of a text that was run with ``allTactics``; ``goals`` are those before it."""

    tactic: str
    goals: str
    start: Position
    end: Position
    proof_state: int | None


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The answer to a command: the number of the new environment, and what Lean said."""

    env: int
    messages: tuple[Message, ...] = ()
    sorries: tuple[Sorry, ...] = ()
    tactics: tuple[TacticStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """The answer to a tactic. ``status`` is None from REPLs that are too old to tell."""

    proof_state: int
    goals: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    sorries: tuple[Sorry, ...] = ()
    traces: tuple[str, ...] = ()
    status: str | None = None


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


def encode_pickle_state(proof_state: int, path: str) -> bytes:
    """Write a proof state to a file. The answer carries a new number for the same state."""
    return _encode({"pickleTo": path, "proofState": proof_state})


def encode_unpickle_state(path: str) -> bytes:
    """Read a proof state back, on top of its own imports."""
    return _encode({"unpickleProofStateFrom": path})


def _encode(request: Mapping[str, Any]) -> bytes:
    """Raises ``UnicodeEncodeError`` (a ``ValueError``) for lone surrogates."""
    return json.dumps(request, ensure_ascii=False).encode("utf-8") + b"\n\n"


class AnswerReader:
    """Cuts the REPL's output into answers, however it is split on the way.

    Looks at every byte once: the end of an object is found by its braces, outside strings.
    """

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
            raise WorkerError(f"the Lean REPL printed what is no answer: {self._preview()}")
        if self._end is None:
            self._find_end()
        if self._end is not None:
            tail = bytes(self._received[self._end : self._end + 2])
            if not _ANSWER_END.startswith(tail):
                raise WorkerError(f"the Lean REPL's answer has no blank line after it: {tail!r}")

    def take(self) -> str | None:
        """The text of a whole answer, or None while it is incomplete.

        Raises ``WorkerError`` when more than the answer is there.
        """
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

    def _preview(self) -> str:
        return repr(bytes(self._received[:200]).decode("utf-8", "replace"))


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
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerError(
            f"the Lean REPL's answer is not understood ({error!r}): {text[:200]!r}"
        ) from None


def _parse_object(raw: dict[str, Any]) -> Answer:
    if set(raw) == {"message"}:
        return ErrorAnswer(_text(raw["message"]))
    if "proofState" in raw:
        _refuse_unknown_keys(raw, _STEP_KEYS)
        return StepAnswer(
            proof_state=_number(raw["proofState"]),
            goals=tuple(_text(goal) for goal in _list(raw, "goals")),
            messages=tuple(_parse_message(item) for item in _list(raw, "messages")),
            sorries=tuple(_parse_sorry(item) for item in _list(raw, "sorries")),
            traces=tuple(_text(trace) for trace in _list(raw, "traces")),
            status=_text(raw["proofStatus"]) if "proofStatus" in raw else None,
        )
    _refuse_unknown_keys(raw, _COMMAND_KEYS - {"message"})
    return CommandAnswer(
        env=_number(raw["env"]),
        messages=tuple(_parse_message(item) for item in _list(raw, "messages")),
        sorries=tuple(_parse_sorry(item) for item in _list(raw, "sorries")),
        tactics=tuple(_parse_tactic(item) for item in _list(raw, "tactics")),
    )


def _refuse_unknown_keys(raw: dict[str, Any], known: frozenset[str]) -> None:
    if unknown := set(raw) - known:
        raise ValueError(f"unknown keys {sorted(unknown)}")


def _parse_message(raw: dict[str, Any]) -> Message:
    if raw["severity"] not in _SEVERITIES:
        raise ValueError(f"unknown severity {raw['severity']!r}")
    return Message(
        severity=cast("Severity", raw["severity"]),
        text=_text(raw["data"]),
        start=_parse_position(raw["pos"]),
        end=_parse_optional(raw.get("endPos")),
    )


def _parse_sorry(raw: dict[str, Any]) -> Sorry:
    state = raw.get("proofState")
    return Sorry(
        goal=_text(raw["goal"]),
        proof_state=None if state is None else _number(state),
        start=_parse_optional(raw.get("pos")),
        end=_parse_optional(raw.get("endPos")),
    )


def _parse_tactic(raw: dict[str, Any]) -> TacticStep:
    state = raw.get("proofState")
    return TacticStep(
        tactic=_text(raw["tactic"]),
        goals=_text(raw["goals"]),
        start=_parse_position(raw["pos"]),
        end=_parse_position(raw["endPos"]),
        proof_state=None if state is None else _number(state),
    )


def _parse_optional(raw: dict[str, Any] | None) -> Position | None:
    return None if raw is None else _parse_position(raw)


def _parse_position(raw: dict[str, Any]) -> Position:
    return Position(_number(raw["line"]), _number(raw["column"]))


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    value = raw.get(key, [])
    if not isinstance(value, list):
        raise TypeError(f"{key} is no list")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no natural number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
