"""Fills the holes in the proofs of somebody's own files.

Flows in: a file whose author left ``sorry`` in place of proofs. Flows out: the file with as many of
them filled as could be. In each call every open hole has its next filling, since what fails is told
at its place. A hole that was not reached, because something before it failed, would not fail
either: so a filling counts only where one that always fails was told of just before, beside the
same others. Not handled here: what is tried (``Filling`` of a language).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from proverrl.jobs.hint_files import (
    CALLS_USED,
    Annotated,
    AnnotateStatus,
    Annotating,
    PlacedHint,
    Places,
    reached_prover,
)
from proverrl.lang.records import Failure, Hole
from proverrl.problems.includes import is_nothing
from proverrl.types import Verdict

_HOLDS, _FAILS = "needed", "does not hold"


class FillingHoles(Annotating):
    """One file with holes."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        assert self._source.language.filling is not None
        self._filling = self._source.language.filling
        self._holes = self._filling.find_holes(self._source.text)
        self._filled: dict[Hole, str] = {}
        self._queues: dict[Hole, list[str]] = {}
        self._tried: list[tuple[Hole, str]] = []
        self._unknown = set[str]()
        self._unjudged: Verdict | None = None
        self._foreign: Verdict | None = None

    def _list_tried(self) -> tuple[PlacedHint, ...]:
        return tuple(
            self._place(hole, text, _HOLDS if self._filled.get(hole) == text else _FAILS)
            for hole, text in self._tried
        )

    async def _run(self, only_check: bool) -> Annotated:
        text = self._source.text
        result = Annotated(self._name, "open", text)
        if not self._holes:
            return self._conclude(await self._verify(text), result)
        reached = await self._list_reached()
        if self._unjudged is not None:
            return self._conclude(self._unjudged, result)
        num = len(self._list_open())
        if not only_check:
            await self._limit(self._fill(reached, self._budget.calls * num), num)
        message = self._stopped or (self._explain(self._foreign) if self._foreign else "")
        left = self._list_left()
        if not self._filled:
            return replace(result, left=left, message=message)
        holes = [hole for hole in self._holes if hole in self._filled]
        found = replace(
            result,
            status="partly",
            text=self._filling.fill(text, holes, [self._filled[hole] for hole in holes]),
            hints=tuple(self._place(hole, self._filled[hole], _HOLDS) for hole in holes),
            solved={hole.holder: hole.holder_line for hole in holes if hole.holder not in left},
            left=left,
            message=message,
        )
        is_open = len(holes) < len(self._holes)
        return found if is_open else self._conclude(await self._verify(found.text), found)

    def _conclude(self, verdict: Verdict, found: Annotated) -> Annotated:
        """The result on a text without holes, or on one that is no file to fill."""
        if verdict.proved or is_nothing(verdict):
            return replace(found, status="solved" if found.hints else "verifies")
        is_read = found.hints or reached_prover(verdict) or not verdict.status.judged
        status: AnnotateStatus = "open" if is_read else "unusable"
        left = (found.solved or {}) | (found.left or {})
        message = self._explain(verdict)
        return Annotated(self._name, status, self._source.text, left=left, message=message)

    async def _fill(self, reached: list[Hole], calls: int) -> None:
        """Fill holes, the reached ones first, until no filling is left, in so many calls."""
        while asked := {hole: text for hole in reached if (text := self._take_next(hole))}:
            if self._calls >= calls:
                self._stopped = CALLS_USED
                return
            self._tell(f"{self._calls} of {calls} calls, {len(self._filled)} holes filled")
            failures = await self._try_out(self._filled | asked)
            unread = [hole for hole in asked if failures.get(hole) == "unreadable"]
            if unread:
                # Nothing behind it was read. The tool may not know this word at all.
                self._unknown |= {_first_word(asked[hole]) for hole in unread}
                for hole in asked.keys() - set(unread):
                    self._queues[hole].insert(0, asked[hole])
                continue
            self._tried += asked.items()
            if fits := {
                hole: asked[hole] for hole in asked if failures.get(hole, "failed") is None
            }:
                self._filled |= fits
                reached = await self._list_reached()

    async def _list_reached(self) -> list[Hole]:
        """The open holes at which something fails that always does, beside the filled ones, of
        which those that fail now are open again. A hole that takes the other kind of text is
        changed."""
        while True:
            failures = await self._try_out(self._filled)
            turned = {
                hole: replace(hole, is_term=not hole.is_term)
                for hole in self._holes
                if failures.get(hole) == "unreadable" and hole not in self._queues
            }
            if not turned:
                break
            self._holes = [turned.get(hole, hole) for hole in self._holes]
            self._queues |= {hole: self._suggest(hole) for hole in turned.values()}
        if self._unjudged is not None:
            self._stopped = self._explain(self._unjudged)
            return []
        self._filled = {h: t for h, t in self._filled.items() if failures.get(h, "") is None}
        return [hole for hole in self._holes if failures.get(hole) == "failed"]

    async def _try_out(self, fillings: Mapping[Hole, str]) -> Mapping[Hole, Failure | None]:
        """What the verifier says of each hole, where one without a filling fails; nothing where it
        has no verdict."""
        texts = [fillings.get(hole, self._filling.failing) for hole in self._holes]
        text = self._filling.try_out(self._source.text, self._holes, texts)
        verdict = await self._ask(self._quick, self._source.candidate(text))
        self._unjudged = None if verdict.proved or reached_prover(verdict) else verdict
        if self._unjudged is not None:
            return {}
        failures, rest = self._filling.list_failures(self._source.text, self._holes, texts, verdict)
        self._foreign = replace(verdict, diagnostics=tuple(rest)) if rest else None
        return dict(zip(self._holes, failures, strict=True))

    def _take_next(self, hole: Hole) -> str:
        """The next filling of a hole; empty where none is left."""
        if hole not in self._queues:
            self._queues[hole] = self._suggest(hole)
        queue = self._queues[hole]
        while queue:
            if _first_word(text := queue.pop(0)) not in self._unknown:
                return text
        return ""

    def _suggest(self, hole: Hole) -> list[str]:
        return self._filling.suggest(self._source.text, hole, self._list_open())

    def _list_open(self) -> Places:
        """The declarations with open holes, and their lines."""
        return {h.holder: h.holder_line for h in self._holes if h not in self._filled}

    def _list_left(self) -> Places:
        """Those, and what fails elsewhere."""
        errors = self._foreign.diagnostics if self._foreign else ()
        text = self._source.text
        return self._list_open() | dict(self._filling.find_holder(text, e.line) for e in errors)

    def _place(self, hole: Hole, text: str, fate: str) -> PlacedHint:
        return PlacedHint(hole.line, hole.column + 1, text, fate)


def _first_word(filling: str) -> str:
    return filling.partition(" ")[0].rstrip(";")
