"""Finds the proof hints that somebody's own files lack.

Flows in: files that are read but not proved. Flows out: for each, which declarations fail, the
hints with which they are proved, and the text with these; on request the file itself is replaced.
Code and contracts stay, token by token: each try is audited as an annotated program. A hint stays
only if something fails without it, and what is called solved was verified as a file, as it is
written. Not handled here: which hints are tried (``Pooling`` of a language, a policy).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from proverrl.config.search import SearchConfig
from proverrl.errors import ProblemError
from proverrl.files.disk import saving
from proverrl.lang import find_language, list_languages
from proverrl.lang.parts import Pooling
from proverrl.lang.trusted import REMEDY
from proverrl.problems.includes import is_nothing, place_diagnostic, read_program_text
from proverrl.problems.inputs import Submission
from proverrl.search.base import Functions, Search
from proverrl.search.minimise import drop_needless
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.wiring import Tools, choose_states, make_search
from proverrl.types import FILE, Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Verifier

AnnotateStatus = Literal["verifies", "solved", "unstable", "partly", "open", "unusable"]
Places = dict[str, int]
"""Declarations by their names, and their lines."""


@dataclass(frozen=True, slots=True)
class PlacedHint:
    """A hint before a line and column, from 1, of the text that a file had; ``fate`` says what
    became of it."""

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
        if problem.kind != FILE or self.language.pooling is None:
            names = ", ".join(one.title for one in list_languages() if one.pooling is not None)
            raise ProblemError(f"hints are found for whole files in {names}, and this is none")
        self.pooling: Pooling = self.language.pooling
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


class Annotating:
    """One file, and the calls that are spent on it. ``verifier`` says what the file is worth,
    ``quick`` is asked for what to keep. ``search`` is by pooled hints, or one of whole bodies that
    asks ``tools`` for them. Each of ``seeded`` has another random seed of the solver, under all of
    which a result must be proved; ``tell`` hears what is done."""

    def __init__(
        self,
        source: HintSource,
        verifier: Verifier,
        budget: HintBudget,
        *,
        quick: Verifier | None = None,
        search: SearchConfig | None = None,
        tools: Tools | None = None,
        seeded: Sequence[Verifier] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source, self._verifier, self._budget = source, verifier, budget
        self._quick, self._seeded, self._tell = quick or verifier, seeded, tell
        self._config, self._tools = search or SearchConfig(name="pooled_hints"), tools
        self._pooling = source.pooling
        self._name = source.entry.id
        self._calls = 0
        self._fates: dict[str, str] = {}
        self._unproved: Places = {}
        self._stopped = ""

    async def run(self, *, only_check: bool = False) -> Annotated:
        """Find the hints; with ``only_check`` say only what fails."""
        started = time.monotonic()
        found = await self._run(only_check)
        placed = self._pooling.place(self._source.text, list(self._fates))
        tried = tuple(
            PlacedHint(*where, fate)
            for where, fate in zip(placed, self._fates.values(), strict=True)
        )
        seconds = time.monotonic() - started
        return replace(found, calls=self._calls, seconds=seconds, tried=tried)

    async def _run(self, only_check: bool) -> Annotated:
        name, text = self._name, self._source.text
        verdict = await self._verify(text)
        if verdict.proved or is_nothing(verdict):
            if verdict.proved and (fails := await self._find_unstable(text, {})):
                return Annotated(name, "unstable", text, message=fails)
            return Annotated(name, "verifies", text)
        if not _reached_prover(verdict):
            status: AnnotateStatus = "unusable" if verdict.status.judged else "open"
            return Annotated(name, status, text, message=self._explain(verdict))
        failing, foreign = self._list_failing(text, verdict)
        if only_check or not failing:
            return Annotated(name, "open", text, left=failing, message=foreign)
        try:
            problem = self._pooling.pose(name, self._source.candidate(text).body)
        except ProblemError as error:
            return Annotated(name, "unusable", text, message=str(error))
        hints = await self._search(problem, failing)
        left = await self._find_left(hints, failing)
        while left and (kept := [hint for hint in hints if not self._rests_on(hint)]) != hints:
            hints = kept
            left = await self._find_left(hints, failing)
        if left is None or left == failing:
            return Annotated(name, "open", text, left=failing, message=self._stopped)
        hints = self._select(problem, hints, failing.keys() - left.keys())
        return await self._finish(problem, hints, failing, left)

    def _rests_on(self, hint: str) -> bool:
        """True for a call of what was not proved at the last look: it shows nothing."""
        called = hint.partition(" ")[2].partition("(")[0]
        return called in {name.rpartition(".")[2] for name in self._unproved}

    async def _search(self, problem: Problem, failing: Places) -> list[str]:
        """Hints of what fails that hold together; none of other declarations."""
        budget, num = self._budget, len(failing)
        config = self._config.model_copy(update={"calls": budget.calls * num})
        tools = self._tools
        functions = Functions(
            propose=tools.propose if tools else None,
            verify=self._try,
            segment=choose_states(problem, config),
            correct=tools.correct if tools else None,
        )
        search = make_search(problem, functions, config)

        def watch(search: Search) -> None:
            self._tell(f"{search.calls} of {config.calls} calls")

        limit = asyncio.timeout(60 * budget.minutes * num)
        try:
            async with limit:
                await search.run(watch)
        except TimeoutError:
            if not limit.expired():
                raise
            self._stopped = "the time is up: raise --minutes"
        if search.calls >= config.calls:
            self._stopped = "the calls are used up: raise --calls"
        hints: list[str] = []
        if isinstance(search, PooledHints):
            self._fates = {
                hint.text: "holds" if key in search.standing else "does not hold"
                for key, hint in search.pool.items()
                # Those of what it includes stand behind its own text.
                if int(hint.text.partition(":")[0]) <= _count_lines(self._source.text)
            }
            hints = [search.pool[key].text for key in search.standing]
        if proofs := search.all_proofs:
            body = min((proof.body for proof in proofs), key=len)
            hints = [hint.text for hint in self._pooling.list_hints(problem, body)]
        return self._select(problem, hints, failing.keys())

    def _select(self, problem: Problem, hints: Sequence[str], names: Collection[str]) -> list[str]:
        """The hints of these declarations."""
        holders = self._pooling.find_holders(problem, hints)
        return [hint for hint, holder in zip(hints, holders, strict=True) if holder in names]

    async def _finish(
        self, problem: Problem, hints: list[str], failing: Places, left: Places
    ) -> Annotated:
        """The result with as few of these hints as do what all do, judged as a file."""
        self._tell("leaving out what is not needed")

        async def holds(fewer: list[str]) -> bool:
            found = await self._find_left(fewer, failing)
            return found is not None and found.keys() <= left.keys()

        async def holds_stably(fewer: list[str]) -> bool:
            return await holds(fewer) and not await self._find_unstable(self._make(fewer), left)

        used, most = self._calls, self._budget.calls * len(failing)
        limit = time.monotonic() + 60 * self._budget.minutes * len(failing)
        kept, _ = await drop_needless(hints, holds, calls=most, until=limit)
        unstable = await self._find_unstable(self._make(kept), left)
        if unstable and not await self._find_unstable(self._make(hints), left):
            # What the proof did not need is what keeps it stable.
            rest = (most - (self._calls - used)) // (1 + len(self._seeded))
            kept, _ = await drop_needless(hints, holds_stably, calls=rest, until=limit)
            unstable = ""
        text = self._make(kept)
        verdict = await self._verify(text)
        body = self._source.candidate(text).body
        refusal = await asyncio.to_thread(self._pooling.find_fault, problem, body)
        result = Annotated(self._name, "open", self._source.text, left=failing)
        if refusal is not None or not (verdict.proved or _reached_prover(verdict)):
            return replace(result, message=self._explain(refusal or verdict))
        left, foreign = ({}, "") if verdict.proved else self._list_failing(text, verdict)
        solved = {name: line for name, line in failing.items() if name not in left}
        if not solved:
            return replace(result, message=foreign)
        self._fates |= dict.fromkeys(kept, "needed")
        status: AnnotateStatus = "solved" if verdict.proved else "partly"
        return Annotated(
            self._name,
            "unstable" if unstable else status,
            text,
            hints=tuple(PlacedHint(*w) for w in self._pooling.place(self._source.text, kept)),
            solved=solved,
            left={name: failing.get(name, line) for name, line in left.items()},
            message=foreign or unstable or self._stopped * bool(left),
        )

    def _make(self, hints: Sequence[str]) -> str:
        """The file's own text with hints."""
        return self._pooling.insert(self._source.text, hints)

    async def _find_left(self, hints: Sequence[str], failing: Places) -> Places | None:
        """What of the failing declarations still fails with these hints; None where that is not
        known. Under lower limits others may fail as well."""
        text = self._make(hints)
        verdict = await self._ask(self._quick, self._source.candidate(text))
        if verdict.proved:
            return {}
        if not _reached_prover(verdict):
            return None
        found = self._pooling.list_failing(self._source.candidate(text).body, verdict)
        self._unproved = found
        own = {name for name, line in found.items() if line <= _count_lines(text)}
        return {name: line for name, line in failing.items() if name in own}

    async def _find_unstable(self, text: str, left: Places) -> str:
        """The complaint that under a random seed of the solver more fails of the file with this
        text than is ``left``."""
        for number, verifier in enumerate(self._seeded, start=1):
            self._tell(f"random seed {number}")
            verdict = await self._ask(verifier, self._source.candidate(text))
            fails = {} if verdict.proved else self._list_failing(text, verdict)[0]
            if not (verdict.proved or _reached_prover(verdict)) or not fails.keys() <= left.keys():
                return f"not proved with the solver's random seed {number}"
        return ""

    def _list_failing(self, text: str, verdict: Verdict) -> tuple[Places, str]:
        """The declarations that fail of the file with this text, and a word on those that it
        includes."""
        found = self._pooling.list_failing(self._source.candidate(text).body, verdict)
        num_lines = _count_lines(text)
        own = {name: line for name, line in found.items() if line <= num_lines}
        if len(own) == len(found):
            return own, ""
        more = num_lines - _count_lines(self._source.text)
        errors = [d for d in verdict.diagnostics if d.severity == "error" and d.line > num_lines]
        moved = [replace(error, line=error.line - more) for error in errors]
        return own, self._explain(replace(verdict, diagnostics=tuple(moved)))

    async def _verify(self, text: str) -> Verdict:
        return await self._ask(self._verifier, self._source.candidate(text))

    async def _try(self, candidate: Candidate) -> Verdict:
        """The verdict on the file with hints, if they are nothing else: what a wall says of the
        proof of a problem, no file is asked."""
        refusal = await asyncio.to_thread(self._source.language.audit, candidate)
        if refusal is not None:
            return refusal
        whole = replace(self._source.entry.candidate, body=candidate.body)
        try:
            return await self._ask(self._quick, whole)
        except ProblemError as error:
            # With all these hints it is too much to be read; half of them may be tried.
            said = Diagnostic("error", str(error))
            return Verdict(Status.EXHAUSTED, (said,), stage=Stage.PROVER)

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


def _reached_prover(verdict: Verdict) -> bool:
    """True if it says what fails; one that ran out of a limit does that too."""
    is_judged = verdict.status in (Status.REJECTED, Status.EXHAUSTED)
    return is_judged and verdict.stage is Stage.PROVER


def _count_lines(text: str) -> int:
    return text.rstrip("\n").count("\n") + 1
