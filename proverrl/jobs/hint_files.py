"""Somebody's own files that hints are found for, and what became of them.

Flows in: an entry of ``proverrl.problems.inputs``. Flows out: its text, which can be asked about as
the file, and written back; a record of the hints that were found. Not handled here: how hints are
found (``proverrl.jobs.annotate``, ``proverrl.jobs.fill``).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from proverrl.errors import ProblemError
from proverrl.files.disk import saving
from proverrl.lang import find_language, list_languages
from proverrl.lang.base import Language
from proverrl.lang.trusted import REMEDY
from proverrl.problems.includes import place_diagnostic, read_program_text
from proverrl.problems.inputs import Submission
from proverrl.types import FILE, Candidate, Verdict
from proverrl.verifier.base import Verifier

AnnotateStatus = Literal["verifies", "solved", "unstable", "partly", "open", "unusable"]
Places = dict[str, int]
"""Declarations by their names, and their lines."""


CALLS_USED = "the calls are used up: raise --calls"


@dataclass(frozen=True, slots=True)
class PlacedHint:
    """A hint before a line and column, from 1, of the text that a file had, or in place of the word
    of a hole there; ``fate`` says what became of it."""

    line: int
    column: int
    text: str
    fate: str = "needed"

    def to_json(self) -> dict[str, Any]:
        """For an editor."""
        return {"line": self.line, "column": self.column, "text": self.text}


@dataclass(frozen=True, slots=True)
class HintBudget:
    """``calls`` of the verifier and ``minutes`` for each declaration that fails, and as much again
    for leaving out what is not needed; ``deadline_seconds`` for one call."""

    calls: int = 64
    minutes: float = 5.0
    deadline_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Annotated:
    """What became of a file. ``text`` is its own with the hints. ``tried`` are hints that were
    pooled. ``solved`` and ``left`` are declarations. ``message`` says why nothing could be tried,
    or what else is missing: of what is ``unstable``, under which random seed it fails."""

    name: str
    status: AnnotateStatus
    text: str
    hints: tuple[PlacedHint, ...] = ()
    tried: tuple[PlacedHint, ...] = ()
    solved: Places | None = None
    left: Places | None = None
    calls: int = 0
    seconds: float = 0.0
    message: str = ""

    @property
    def is_proved(self) -> bool:
        """True if all of the file is, with the hints."""
        return self.status in ("verifies", "solved")

    def to_json(self) -> dict[str, Any]:
        """A line for an editor."""
        return {
            "file": self.name,
            "status": self.status,
            "solved": self.solved or {},
            "left": self.left or {},
            "hints": [hint.to_json() for hint in self.hints],
            "calls": self.calls,
            "seconds": round(self.seconds, 2),
            "message": self.message,
        }


class HintSource:
    """A file as it was when it was read, or a text that is of none. Raises ``ProblemError``: it is
    of no language with hints, cannot be read, or was changed meanwhile."""

    def __init__(self, entry: Submission) -> None:
        problem = entry.candidate.problem
        self.entry, self.path = entry, Path(entry.file)
        # A line of JSON, or what an agent gave, is a text without a file.
        self.is_file = bool(entry.file) and not entry.line
        self.language = find_language(problem.language)
        if problem.kind != FILE or not _has_hints(self.language):
            names = " and ".join(one.title for one in list_languages() if _has_hints(one))
            raise ProblemError(f"hints are found for whole files in {names}, and this is none")
        self.text = whole = entry.candidate.body
        self._rest = ""
        if self.is_file:
            self._raw = self._read_raw()
            self.text, _ = read_program_text(self.path)
            lines = whole.split("\n")
            # What is included stands behind it, and is not spoken of in it.
            num = entry.included[0].before if entry.included else len(lines)
            given = "\n".join(lines[:num]).rstrip("\n")
            self._is_joined = given != self.text.rstrip("\n")
            if self._stand_alone(self.text) != given:
                raise ProblemError("it was changed while it was read; give the command again")
            self._rest = whole[len(given) :]

    def _stand_alone(self, text: str) -> str:
        """The text as it stands before what it includes."""
        own = self.language.split_includes(text).text if self._is_joined else text
        return own.rstrip("\n")

    def candidate(self, text: str) -> Candidate:
        """The file, if it had this text, with all that it includes."""
        body = f"{self._stand_alone(text)}{self._rest}" if self.is_file else text
        return replace(self.entry.candidate, body=body)

    @property
    def has_mark(self) -> bool:
        """True if the file begins with a byte order mark."""
        return self.is_file and self._raw[0].startswith(codecs.BOM_UTF8)

    def write(self, text: str) -> None:
        """Replace the file: written beside it, then renamed. Raises ``ProblemError`` if it, or what
        it includes, is not what it was, ``RunError`` if it cannot be written."""
        place = Path(os.path.realpath(self.path))
        if not place.stat().st_mode & 0o222:
            raise ProblemError("it is read-only: it is left as it is")
        mark = codecs.BOM_UTF8 if self.has_mark else b""
        with saving(place):
            descriptor, beside = tempfile.mkstemp(prefix=".proverrl-", dir=place.parent)
            try:
                with open(descriptor, "wb") as file:
                    file.write(mark + text.encode())
                    file.flush()
                    os.fsync(descriptor)
                shutil.copymode(place, beside)
                if os.geteuid() == 0:
                    os.chown(beside, place.stat().st_uid, place.stat().st_gid)
                if self._read_raw() != self._raw:
                    raise ProblemError(
                        "it, or what it includes, was changed while hints were sought: it is left "
                        "as it is; give the command again"
                    )
                os.replace(beside, place)
            finally:
                Path(beside).unlink(missing_ok=True)

    def _read_raw(self) -> list[bytes]:
        paths = [self.path, *(Path(part.name) for part in self.entry.included)]
        try:
            return [path.read_bytes() for path in paths]
        except OSError as error:
            raise ProblemError(f"{error.filename} cannot be read: {error.strerror}") from error


class Annotating(ABC):
    """One file, and the calls that are spent on it. ``verifier`` says what the file is worth,
    ``quick`` is asked for what to keep; ``tell`` hears what is done."""

    def __init__(
        self,
        source: HintSource,
        verifier: Verifier,
        budget: HintBudget,
        *,
        quick: Verifier | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source, self._verifier, self._budget = source, verifier, budget
        self._quick, self._tell = quick or verifier, tell
        self._name = source.entry.id
        self._calls = 0
        self._stopped = ""

    async def run(self, *, only_check: bool = False) -> Annotated:
        """Find the hints; with ``only_check`` say only what fails."""
        started = time.monotonic()
        found = await self._run(only_check)
        seconds = time.monotonic() - started
        return replace(found, calls=self._calls, seconds=seconds, tried=self._list_tried())

    @abstractmethod
    async def _run(self, only_check: bool) -> Annotated:
        """What was found; ``run`` adds what it cost."""

    @abstractmethod
    def _list_tried(self) -> tuple[PlacedHint, ...]:
        """What was tried so far."""

    async def _limit(self, work: Awaitable[object], num: int) -> None:
        """Do work on so many declarations in their time; where it is up, the result says so."""
        limit = asyncio.timeout(60 * self._budget.minutes * num)
        try:
            async with limit:
                await work
        except TimeoutError:
            if not limit.expired():
                raise
            self._stopped = "the time is up: raise --minutes"

    async def _verify(self, text: str) -> Verdict:
        return await self._ask(self._verifier, self._source.candidate(text))

    async def _ask(self, verifier: Verifier, candidate: Candidate) -> Verdict:
        self._calls += 1
        return await verifier.verify(candidate, deadline_seconds=self._budget.deadline_seconds)

    def _explain(self, verdict: Verdict) -> str:
        """The first error at its place in its own file."""
        said = [d for d in verdict.diagnostics if d.severity == "error"]
        if not said:
            return verdict.status.value
        found = place_diagnostic(said[0], self._source.entry.included)
        where = f"line {found.line}: " if found.line else ""
        # No hint may rest on what `verify` can be told to believe.
        return f"{verdict.status.value}: {where}{REMEDY.sub('', found.message)}"


def _has_hints(language: Language) -> bool:
    return language.pooling is not None or language.filling is not None


def count_lines(text: str) -> int:
    """The number of lines up to the last that is not empty."""
    return text.rstrip("\n").count("\n") + 1
