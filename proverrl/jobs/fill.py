"""Fills the holes in the proofs of somebody's own files.

Flows in: a file whose author left ``sorry`` in place of proofs. Flows out: the file with as many of
them filled as could be; it was verified as it is written. In each call every open hole has its next
filling, since what fails is told at its place. What fails may hide what stands behind it, so what
seems to fit is asked once more beside holes that are left as they are. Not handled here: what is
tried (``Filling`` of a language).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proverrl.jobs.hint_files import (
    CALLS_USED,
    Annotated,
    Annotating,
    PlacedHint,
    Places,
)
from proverrl.lang.records import Failure
from proverrl.problems.includes import is_nothing
from proverrl.types import Stage, Status, Verdict

Fillings = dict[int, str]
"""Texts by the numbers of their holes."""

_LAST_LOOKS = 2


class FillingHoles(Annotating):
    """One file with holes. A declaration is ``solved`` if all of its own holes are filled: it may
    still rest on others that are not."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        assert self._source.language.filling is not None
        self._filling = self._source.language.filling
        self._holes = self._filling.find_holes(self._source.text)
        self._filled: dict[int, str] = {}
        self._queues: dict[int, list[str]] = {}
        self._unproved: dict[int, Places] = {}
        self._tried: list[tuple[int, str]] = []
        # Holes whose fillings were read, and those that take the other kind of text.
        self._read = set[int]()
        self._turned = set[int]()
        self._given_up = set[int]()
        # Fillings that this tool does not know.
        self._unknown = set[str]()

    def _list_tried(self) -> tuple[PlacedHint, ...]:
        return tuple(
            self._place(
                number, text, "needed" if self._filled.get(number) == text else "does not hold"
            )
            for number, text in self._tried
        )

    async def _run(self, only_check: bool) -> Annotated:
        text = self._source.text
        verdict = await self._verify(text)
        if verdict.proved or is_nothing(verdict):
            return Annotated(self._name, "verifies", text)
        failing, told = self._list_failing(verdict), self._filling.list_open(text, verdict)
        result = Annotated(self._name, "open", text, message=self._explain(verdict))
        if not _is_read(verdict):
            return replace(result, status="unusable" if verdict.status.judged else "open")
        # What stands in a declaration that fails may not be reached.
        self._holes = [hole for hole in self._holes if hole.holder not in failing]
        if self._holes and not only_check:
            num = len(self._list_open())
            await self._limit(self._fill(self._budget.calls * num), num)
        if self._holes and not failing:
            result = replace(result, message=self._stopped)
        found = await self._conclude(result, failing)
        return found if found.hints else replace(found, left=self._list_open() | told | failing)

    async def _conclude(self, result: Annotated, failing: Places) -> Annotated:
        """The result with the fillings that stand in the whole file, if any do."""
        for _ in range(_LAST_LOOKS):
            if not self._filled:
                break
            numbers = sorted(self._filled)
            own = [self._holes[number] for number in numbers]
            text = self._filling.fill(self._source.text, own, [self._filled[n] for n in numbers])
            verdict = await self._verify(text)
            is_proved = verdict.proved or is_nothing(verdict)
            now = self._list_failing(verdict)
            broken = now.keys() - failing.keys()
            if failing and not is_proved:
                # What speaks of something that failed is not told to fail.
                rest = self._filling.list_open(text, verdict).keys() - self._list_open().keys()
                broken |= rest & {hole.holder for hole in own}
            if is_proved or (_is_read(verdict) and not broken):
                told = self._filling.list_open(text, verdict)
                left = {} if is_proved else self._list_open() | told | now
                message = result.message if left else "" if is_proved else self._explain(verdict)
                return replace(
                    result,
                    status="solved" if is_proved else "partly",
                    text=text,
                    hints=tuple(self._place(n, self._filled[n], "needed") for n in numbers),
                    solved={h.holder: h.holder_line for h in own if h.holder not in left},
                    left=left,
                    message=message,
                )
            result = replace(result, message=self._explain(verdict))
            self._filled = {
                number: text
                for number, text in self._filled.items()
                if _is_read(verdict) and self._holes[number].holder not in broken
            }
        self._filled = {}
        return result

    async def _fill(self, calls: int) -> None:
        """Fill holes until no filling is left, in so many calls."""
        while not self._stopped and (asked := self._take_next()):
            self._tell(f"{self._calls} of {calls} calls, {len(self._filled)} holes filled")
            fits = await self._find_fits(asked, calls)
            if not fits:
                continue
            together = self._filled | fits
            failures = await self._try_out(together)
            if failures is not None:
                self._filled = {n: text for n, text in together.items() if failures[n] is None}

    async def _find_fits(self, asked: Fillings, calls: int) -> dict[int, str]:
        """Those of these fillings at whose places nothing fails."""
        # What fits is asked once more.
        if self._calls + 2 > calls:
            self._stopped = CALLS_USED
        if self._stopped or not asked:
            return {}
        failures = await self._try_out(self._filled | asked)
        if failures is None and len(asked) > 1:
            # One of them may have ended the tool, or run for ever.
            pairs, middle = list(asked.items()), len(asked) // 2
            first = await self._find_fits(dict(pairs[:middle]), calls)
            return first | await self._find_fits(dict(pairs[middle:]), calls)
        failures = failures or dict.fromkeys(asked, "failed")
        if unread := [number for number in asked if failures[number] == "unreadable"]:
            # Nothing behind it was read.
            dropped = {number for number in unread if not self._turn(number, asked[number])}
            again = {number: text for number, text in asked.items() if number not in dropped}
            return await self._find_fits(again, calls)
        self._read |= asked.keys()
        self._tried += asked.items()
        return {number: text for number, text in asked.items() if failures[number] is None}

    def _turn(self, number: int, filling: str) -> bool:
        """Whether a hole whose filling cannot be read may take it as the other kind of text. One
        that takes neither is given up; where others were read, the tool does not know this one."""
        if number in self._read:
            self._unknown.add(filling)
        elif number in self._turned:
            self._given_up.add(number)
        else:
            self._turned.add(number)
            hole = self._holes[number]
            self._holes[number] = replace(hole, is_term=not hole.is_term)
            return True
        return False

    async def _try_out(self, fillings: Fillings) -> dict[int, Failure | None] | None:
        """What the verifier says of each of these fillings; None where it has no verdict."""
        numbers = sorted(fillings)
        holes, texts = [self._holes[n] for n in numbers], [fillings[n] for n in numbers]
        text = self._filling.try_out(self._source.text, holes, texts)
        verdict = await self._ask(self._quick, self._source.candidate(text))
        if not (verdict.proved or is_nothing(verdict) or _is_read(verdict)):
            return None
        failures = self._filling.list_failures(self._source.text, holes, texts, verdict)
        return dict(zip(numbers, failures, strict=True))

    def _take_next(self) -> dict[int, str]:
        """The next filling of each open hole that has one left."""
        found = {}
        for number, hole in enumerate(self._holes):
            if number in self._filled or number in self._given_up:
                continue
            queue = self._queues.setdefault(number, [])
            if not queue and self._unproved.get(number) != (unproved := self._list_open()):
                # What was proved since may help.
                self._unproved[number] = unproved
                known = {text for tried, text in self._tried if tried == number}
                fresh = self._filling.suggest(self._source.text, hole, unproved)
                queue += [text for text in fresh if text not in known]
            while queue and number not in found:
                text = queue.pop(0)
                if self._unknown.isdisjoint({text, text.partition(" ")[0]}):
                    found[number] = text
        return found

    def _list_open(self) -> Places:
        """The declarations with open holes, and their lines."""
        rest = (hole for n, hole in enumerate(self._holes) if n not in self._filled)
        return {hole.holder: hole.holder_line for hole in rest}

    def _list_failing(self, verdict: Verdict) -> Places:
        """The declarations in which a verdict on the file has an error; a filling is on one line,
        so that lines are the same."""
        if is_nothing(verdict):
            return {}
        lines = [d.line for d in verdict.diagnostics if d.severity == "error" and d.line]
        return dict(self._filling.find_holder(self._source.text, line) for line in lines)

    def _place(self, number: int, text: str, fate: str) -> PlacedHint:
        hole = self._holes[number]
        return PlacedHint(hole.line, hole.column + 1, text, fate)


def _is_read(verdict: Verdict) -> bool:
    """True if the tool read all of the file, and says what fails or is left open."""
    is_open = verdict.status is Status.INCOMPLETE and verdict.stage is Stage.PROVER
    return is_open or verdict.failed_in_prover
