"""Keeps the generated drafts that the verifier agrees with, and says why it dropped others.

Flows in: drafts, a verifier. Flows out: rows for a file of problems, and counts. A draft is kept
when its reference body is PROVED and every trivial body of its language is judged and not proved;
its row records what the verifier saw, such as Dafny's entries.
Not handled here: how drafts are made (``proverrl.generate.families``), and an interrupted run:
nothing is written then, and the same call makes the same file later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from proverrl.concurrency import cancel_all
from proverrl.config.base import DafnyVersion
from proverrl.errors import ProblemError
from proverrl.files.lines import check_place
from proverrl.generate.families import CurriculumDraft, Generator, LearnMetadata, take_turns
from proverrl.problems.load import check_problems_name, make_row, write_problems
from proverrl.types import Candidate, Problem, Split, Status, Verdict
from proverrl.verifier.base import Verifier

ORIGIN = "proverrl curriculum"
DEADLINE_SECONDS = 60.0
_NUM_IN_FLIGHT = 8

Row = dict[str, Any]


@dataclass(slots=True)
class DraftCounts:
    """The counts of a check. ``num_written`` counts problems, of which a draft may give several;
    ``dropped`` counts reasons; ``examples`` holds a draft's id for each; ``seconds`` is the time of
    the checker for all candidates together."""

    num_wanted: int = 0
    num_checked: int = 0
    num_kept: int = 0
    num_written: int = 0
    num_candidates: int = 0
    seconds: float = 0.0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def num_dropped(self) -> int:
        """Drafts that failed their check, for whatever reason."""
        return self.num_checked - self.num_kept

    def describe(self) -> str:
        """One line for a person."""
        text = f"{self.num_kept} of {self.num_wanted} kept, {self.num_dropped} dropped"
        reasons = [
            f"{count} {reason} (such as {self.examples[reason]})"
            for reason, count in sorted(self.dropped.items())
        ]
        return f"{text}: {'; '.join(reasons)}" if reasons else text


def build_problem(
    generator: Generator, draft: CurriculumDraft, split: Split, learned: Row | None = None
) -> Problem:
    """The problem of a draft; ``learned`` goes into its metadata."""
    return Problem(
        id=generator.build_id(draft),
        language=generator.language,
        kind=draft.kind,
        preamble="",
        statement=draft.statement,
        informal=draft.informal,
        split=split,
        origin=ORIGIN,
        metadata={
            "level": draft.level,
            "family": draft.family,
            **(learned or {}),
            **draft.metadata,
        },
    )


@dataclass(slots=True)
class DraftChecker:
    """Checks drafts and counts."""

    generator: Generator
    verifier: Verifier
    learn: LearnMetadata
    split: Split
    counts: DraftCounts = field(default_factory=DraftCounts)

    async def check(self, draft: CurriculumDraft) -> list[Row]:
        """The lines of a draft in a file of problems, references beside the problems; none when it
        is dropped."""
        problem = build_problem(self.generator, draft, self.split)
        full = await self.judge(Candidate(problem, draft.reference))
        learned = self.learn(problem) if full.proved else None
        reason = await self._find_fault(problem, draft, full.status, learned)
        if not self.count(problem.id, reason):
            return []
        row = make_row(build_problem(self.generator, draft, self.split, learned))
        if not draft.informal:
            # The published files have no such field.
            del row["informal"]
        return [row | {"reference": draft.reference}]

    def count(self, problem_id: str, reason: str) -> bool:
        """Count a draft that was checked; True if there is no ``reason`` to drop it."""
        self.counts.num_checked += 1
        self.counts.num_kept += not reason
        if reason:
            self.counts.dropped[reason] += 1
            self.counts.examples.setdefault(reason, problem_id)
        return not reason

    async def check_all(
        self, drafts: Iterable[CurriculumDraft]
    ) -> AsyncIterator[tuple[CurriculumDraft, list[Row]]]:
        """Each draft with its rows, none where it was dropped, in the order of ``drafts``.

        A few are in work at once. Raises what the verifier raises; then, and when the caller stops
        early, the checks that still run are cancelled.
        """
        waiting = iter(drafts)
        running: list[tuple[CurriculumDraft, asyncio.Task[list[Row]]]] = []

        def start(num: int) -> None:
            drawn = islice(waiting, num)
            running.extend((draft, asyncio.create_task(self.check(draft))) for draft in drawn)

        try:
            start(_NUM_IN_FLIGHT)
            while running:
                draft, task = running[0]
                rows = await task
                running.pop(0)
                start(1)
                yield draft, rows
        finally:
            await cancel_all([task for _, task in running])

    async def _find_fault(
        self, problem: Problem, draft: CurriculumDraft, status: Status, learned: Row | None
    ) -> str:
        if status is not Status.PROVED:
            return f"reference {status.value}"
        if learned is None:
            return "no entries"
        for body in self.generator.list_trivial(draft):
            verdict = await self.judge(Candidate(problem, body))
            if verdict.status is Status.PROVED or not verdict.status.judged:
                return f"{body or 'empty body'} {verdict.status.value}"
        return ""

    async def judge(self, candidate: Candidate) -> Verdict:
        """Ask the verifier, and count."""
        verdict = await self.verifier.verify(candidate, deadline_seconds=DEADLINE_SECONDS)
        self.counts.num_candidates += 1
        self.counts.seconds += verdict.seconds
        return verdict


async def generate_and_check(
    path: str | Path,
    checker: DraftChecker,
    *,
    levels: Sequence[int],
    num: int,
    seed: int,
    unseen: bool = False,
    show: Callable[[str], None] = lambda line: None,
) -> DraftCounts:
    """Write a file with the checked problems of ``num`` drafts, the levels in turn and evenly
    filled; ``unseen`` is that of ``Generator.stream_level``. ``show`` is told how it stands after
    each twentieth.

    A dropped draft is replaced by the next of its level. The file appears whole, at the end.
    Raises ProblemError when a level has no more drafts to offer, or ``levels`` is empty.
    """
    chosen = sorted(set(levels))
    if not chosen or num < 1:
        raise ProblemError("give at least one level and at least one problem")
    check_place(Path(path))
    share, rest = divmod(num, len(chosen))
    wanted = {level: share + (place < rest) for place, level in enumerate(chosen)}
    streams = {
        level: checker.generator.stream_level(level, seed, checker.split, unseen=unseen)
        for level in chosen
    }
    kept: dict[int, list[list[Row]]] = {level: [] for level in chosen}
    checker.counts.num_wanted = num
    num_seen = 0
    while missing := {lv: n - len(kept[lv]) for lv, n in wanted.items() if n > len(kept[lv])}:
        drafts = [list(islice(streams[level], number)) for level, number in missing.items()]
        for level, drawn in zip(missing, drafts, strict=True):
            if len(drawn) < missing[level]:
                raise ProblemError(
                    f"level {level} gives only {len(kept[level]) + len(drawn)} of "
                    f"{wanted[level]} {checker.split} problems; ask for fewer, or for more levels"
                )
        async for draft, rows in checker.check_all(take_turns(map(iter, drafts))):
            if rows:
                kept[draft.level].append(rows)
            num_seen += 1
            if num_seen % max(1, num // 20) == 0:
                show(f"{num_seen} checked, {sum(map(len, kept.values()))} of {num} kept")
    written = chain.from_iterable(take_turns(map(iter, kept.values())))
    checker.counts.num_written = write_problems(path, written)
    return checker.counts


async def generate_file(
    out: Path,
    generator: Generator,
    *,
    levels: Sequence[int],
    num: int,
    seed: int,
    split: Split,
    unseen: bool,
    workers: int,
    dafny_version: DafnyVersion,
    show: Callable[[str], None],
    checks: type[DraftChecker] = DraftChecker,
) -> str:
    """Generate, check and write a file with a verifier of its own; returns two lines of report.
    Raises ``UsageError`` if ``out`` is not called ``.jsonl``; else as ``generate_and_check``."""
    check_problems_name(out)
    verifier, learn = generator.open_verifier(workers, dafny_version)
    checker = checks(generator, verifier, learn, split)
    try:
        counts = await generate_and_check(
            out, checker, levels=levels, num=num, seed=seed, unseen=unseen, show=show
        )
    finally:
        await verifier.aclose()
    return f"{counts.describe()}\nwritten: {out}, {counts.num_written} problems"
