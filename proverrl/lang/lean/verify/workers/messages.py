"""Lean's messages about a text, whichever way it was asked, and the frame that marks an answer.

Flows in: messages of a server or a single run. Flows out: ``Elaboration``. A frame is a
``#print`` command with a fresh random string; its message must be at its own place.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from proverrl.errors import WorkerError
from proverrl.verifier.frames import Natural

Severity = Literal["trace", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the text of a request: lines from 1, columns from 0, in code points."""

    line: Natural
    column: Natural

    def down(self, num_lines: int) -> Position:
        """The place so many lines further down."""
        return Position(self.line + num_lines, self.column)


@dataclass(frozen=True, slots=True)
class LeanMessage:
    """One message of Lean."""

    severity: Severity
    text: Annotated[str, Field(alias="data")]
    start: Annotated[Position, Field(alias="pos")]
    end: Annotated[Position | None, Field(alias="endPos")] = None

    def down(self, num_lines: int) -> LeanMessage:
        """The same message so many lines further down."""
        end = self.end and self.end.down(num_lines)
        return replace(self, start=self.start.down(num_lines), end=end)


@dataclass(frozen=True, slots=True)
class TacticStep:
    """A place in a proof at which a tactic begins, and the goals before it."""

    goals: str
    start: Position


@dataclass(frozen=True, slots=True)
class Environment:
    """All that was elaborated so far, as a text that ends with a line break, and what Lean said of
    it. ``num_header`` counts the characters up to the end of the imports. ``module`` is the name of
    the compiled file that holds it, where there is one."""

    text: str
    messages: tuple[LeanMessage, ...]
    num_header: int
    module: str = ""


@dataclass(frozen=True, slots=True)
class Elaboration:
    """Lean's answer about one text. ``reached_end`` is False when it did not read all of it (an
    unclosed comment, ``#exit``). ``env`` is None when there is none to go on from."""

    env: Environment | None
    messages: tuple[LeanMessage, ...]
    tactics: tuple[TacticStep, ...] = ()
    reached_end: bool = True

    @property
    def errors(self) -> tuple[LeanMessage, ...]:
        return tuple(m for m in self.messages if m.severity == "error")

    def down(self, num_lines: int) -> Elaboration:
        """The same with all places so many lines further down."""
        return replace(
            self,
            messages=tuple(message.down(num_lines) for message in self.messages),
            tactics=tuple(replace(one, start=one.start.down(num_lines)) for one in self.tactics),
        )


def join_header(header: str, options: str) -> str:
    """Imports and, on lines of their own, options."""
    separator = "" if header.endswith("\n") or not header else "\n"
    return f"{header}{separator}{options}"


def explain_misfit(error: ValidationError) -> str:
    """The first part of an answer that was not understood, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def make_nonce() -> str:
    """A string that nobody could know before."""
    return f"nonce-{secrets.token_hex(12)}"


def is_nonce(message: LeanMessage, nonce: str, line: int) -> bool:
    """True if a message is that of ``#print "nonce"`` at the beginning of a line."""
    return (
        message.severity == "info" and message.text == nonce and message.start == Position(line, 0)
    )


def strip_end(done: Elaboration, nonce: str, line: int) -> Elaboration:
    """Take off the message of the closing ``#print``, which may be missing but not misplaced."""
    places = [i for i, message in enumerate(done.messages) if message.text == nonce]
    if not places:
        return replace(done, reached_end=False)
    last = len(done.messages) - 1
    if places != [last] or not is_nonce(done.messages[last], nonce, line):
        raise WorkerError("Lean's answer does not end as the question did")
    return replace(done, messages=done.messages[:last])
