"""Finds the proof hints that somebody's own files lack.

Flows in: files that are read but not proved. Flows out: for each, which declarations fail, the
hints with which they are proved, and the text with these. Code and contracts stay, token by token:
each try is audited as an annotated program. A hint stays only if something fails without it, and
what is called solved was verified as a file, as it is written. Where a language has holes instead,
they are filled (``proverrl.jobs.fill``). Not handled here: which hints are tried (``Pooling`` of a
language, a policy).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from proverrl.config.search import SearchConfig
from proverrl.errors import ProblemError, UsageError
from proverrl.jobs.fill import FillingHoles
from proverrl.jobs.hint_files import (
    CALLS_USED,
    Annotated,
    AnnotateStatus,
    Annotating,
    HintBudget,
    HintSource,
    PlacedHint,
    Places,
    count_lines,
)
from proverrl.problems.includes import is_nothing
from proverrl.search.base import Functions, Search
from proverrl.search.minimise import drop_needless
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.wiring import Tools, choose_states, make_search
from proverrl.types import Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import Verifier

_NEEDS_LEAVE = "answers that add lemmas or functions were not tried: --allow-lemmas"
# A statement that is a call, or the value of a variable.
_CALLED = re.compile(r"(?:^|[{;]|:=)\s*([\w'?.]+)\(")


def open_annotating(
    source: HintSource,
    verifier: Verifier,
    budget: HintBudget,
    *,
    search: SearchConfig | None = None,
    tools: Tools | None = None,
    seeded: Sequence[Verifier] = (),
    allow_lemmas: bool = False,
    **how: Any,
) -> Annotating:
    """The work on a file, in the way of its language. Raises ``UsageError`` if a model is named for
    a language whose holes no model fills."""
    if source.language.pooling is None:
        if tools is not None:
            raise UsageError(f"no model fills the holes of {source.language.title}: leave --model")
        return FillingHoles(source, verifier, budget, **how)
    return PoolingHints(
        source, verifier, budget, search, tools, seeded, allow_lemmas=allow_lemmas, **how
    )


class PoolingHints(Annotating):
    """Hints that are put in: by ``search``, that of pooled hints or one of whole bodies, which asks
    ``tools`` for them. Each of ``seeded`` has another random seed of the solver, under all of which
    a result must be proved. Only if ``allow_lemmas``, lemmas and functions are declared."""

    def __init__(
        self,
        source: HintSource,
        verifier: Verifier,
        budget: HintBudget,
        search: SearchConfig | None = None,
        tools: Tools | None = None,
        seeded: Sequence[Verifier] = (),
        *,
        allow_lemmas: bool = False,
        **how: Any,
    ) -> None:
        super().__init__(source, verifier, budget, **how)
        assert source.language.pooling is not None
        self._pooling = source.language.pooling
        self._config, self._tools = search or SearchConfig(name="pooled_hints"), tools
        self._seeded, self._allow_lemmas = seeded, allow_lemmas
        # The names of what hints declare, by these.
        self._declared: dict[str, str] = {}
        self._fates: dict[str, str] = {}
        self._unproved: Places = {}

    def _list_tried(self) -> tuple[PlacedHint, ...]:
        placed = self._pooling.place(self._source.text, list(self._fates))
        return tuple(
            PlacedHint(*where, fate)
            for where, fate in zip(placed, self._fates.values(), strict=True)
        )

    async def _run(self, only_check: bool) -> Annotated:
        name, text = self._name, self._source.text
        verdict = await self._verify(text)
        if verdict.proved or is_nothing(verdict):
            if verdict.proved and (fails := await self._find_unstable(text, {})):
                return Annotated(name, "unstable", text, message=fails)
            return Annotated(name, "verifies", text)
        if not verdict.failed_in_prover:
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
        """True for a hint with a call of what was not proved at the last look: it shows nothing."""
        called = {name.rpartition(".")[2] for name in _CALLED.findall(hint.partition(" ")[2])}
        return not called.isdisjoint(name.rpartition(".")[2] for name in self._unproved)

    def _has_open_lemma(self, hints: Sequence[str], failing: Collection[str]) -> bool:
        """True if one of these hints declares something that fails."""
        own = {self._declared[hint] for hint in hints if hint in self._declared}
        return not own.isdisjoint(name.rpartition(".")[2] for name in failing)

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

        await self._limit(search.run(watch), num)
        if search.calls >= config.calls:
            self._stopped = CALLS_USED
        hints: list[str] = []
        if isinstance(search, PooledHints):
            self._fates = {
                hint.text: "holds" if key in search.standing else "does not hold"
                for key, hint in search.pool.items()
                # Those of what it includes stand behind its own text.
                if int(hint.text.partition(":")[0]) <= count_lines(self._source.text)
            }
            hints = [search.pool[key].text for key in search.standing]
        bodies = sorted((proof.body for proof in search.all_proofs), key=len)
        found = (self._pooling.list_added(problem, body) for body in bodies)
        if added := next(filter(None, found), None):
            hints = [hint.text for hint in added]
            self._declared = {hint.text: hint.declares for hint in added if hint.declares}
        return self._select(problem, hints, failing.keys())

    def _select(self, problem: Problem, hints: Sequence[str], names: Collection[str]) -> list[str]:
        """The hints of these declarations, and what is declared for them."""
        holders = self._pooling.find_holders(problem, hints)
        pairs = zip(hints, holders, strict=True)
        return [hint for hint, holder in pairs if holder in names or hint in self._declared]

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
        if refusal is not None or not (verdict.proved or verdict.failed_in_prover):
            return replace(result, message=self._explain(refusal or verdict))
        left, foreign = ({}, "") if verdict.proved else self._list_failing(text, verdict)
        if self._has_open_lemma(kept, left):
            return replace(result, message=self._explain(verdict))
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
        if not verdict.failed_in_prover:
            return None
        found = self._pooling.list_failing(self._source.candidate(text).body, verdict)
        self._unproved = found
        if self._has_open_lemma(hints, found):
            return None
        own = {name for name, line in found.items() if line <= count_lines(text)}
        return {name: line for name, line in failing.items() if name in own}

    async def _find_unstable(self, text: str, left: Places) -> str:
        """The complaint that under a random seed of the solver more fails of the file with this
        text than is ``left``."""
        for number, verifier in enumerate(self._seeded, start=1):
            self._tell(f"random seed {number}")
            verdict = await self._ask(verifier, self._source.candidate(text))
            fails = {} if verdict.proved else self._list_failing(text, verdict)[0]
            if not (verdict.proved or verdict.failed_in_prover) or not fails.keys() <= left.keys():
                return f"not proved with the solver's random seed {number}"
        return ""

    def _list_failing(self, text: str, verdict: Verdict) -> tuple[Places, str]:
        """The declarations that fail of the file with this text, and a word on those that it
        includes."""
        found = self._pooling.list_failing(self._source.candidate(text).body, verdict)
        num_lines = count_lines(text)
        own = {name: line for name, line in found.items() if line <= num_lines}
        if len(own) == len(found):
            return own, ""
        more = num_lines - count_lines(self._source.text)
        errors = [d for d in verdict.diagnostics if d.severity == "error" and d.line > num_lines]
        moved = [replace(error, line=error.line - more) for error in errors]
        return own, self._explain(replace(verdict, diagnostics=tuple(moved)))

    async def _try(self, candidate: Candidate) -> Verdict:
        """The verdict on the file with hints, if they are nothing else: what a wall says of the
        proof of a problem, no file is asked."""
        fault = self._pooling.find_fault
        refusal = await asyncio.to_thread(fault, candidate.problem, candidate.body)
        if refusal is not None:
            return refusal
        added = self._pooling.list_added(candidate.problem, candidate.body)
        if not self._allow_lemmas and any(hint.declares for hint in added):
            self._stopped = _NEEDS_LEAVE
            said = Diagnostic("error", _NEEDS_LEAVE)
            return Verdict(Status.REJECTED, (said,), stage=Stage.AUDIT)
        whole = replace(self._source.entry.candidate, body=candidate.body)
        try:
            return await self._ask(self._quick, whole)
        except ProblemError as error:
            # With all these hints it is too much to be read; half of them may be tried.
            said = Diagnostic("error", str(error))
            return Verdict(Status.EXHAUSTED, (said,), stage=Stage.PROVER)
