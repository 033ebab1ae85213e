#!/usr/bin/env python3
"""Measures the audit and the verdicts on real tasks: DafnyBench programs as annotate problems.

    python scripts/check_dafnybench.py ../shared/data/dafnybench_tasks.jsonl
    python scripts/check_dafnybench.py TASKS.jsonl --audit-only    seconds, without Dafny

Every ground truth must pass the audit and be PROVED, and no hints-removed text may be PROVED. Each
task that breaks this is listed with the reason, followed by the counts; the exit status is 1 if any
task was listed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.benchmarks.base import Collector, LoadedProblem, open_source
from proverrl.benchmarks.formats import FORMATS
from proverrl.benchmarks.programs import read_dafnybench_rows
from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.dafny.audit.annotated import get_program_text
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.verify.backend import start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.types import Candidate, Status
from proverrl.verifier.base import Limits, Worker
from scripts.arguments import at_least

RECYCLE_AFTER = 100
"""Requests after which a server starts anew: it gives no memory back."""


def read_tasks(path: Path, *, repaired: bool) -> list[LoadedProblem]:
    """The tasks of a file, as the loader of benchmarks reads them; raises ``ProblemError``."""
    source = open_source(path)
    if reason := FORMATS["dafnybench_tasks"].explain_misfit(source):
        raise ProblemError(f"{path} is not a file of DafnyBench tasks: {reason}")
    collector = Collector(source, "dafnybench_tasks", origin="dafnybench")
    read_dafnybench_rows(collector, repaired=repaired)
    found = collector.finish()
    for entry in found.refused:
        raise ProblemError(f"{entry.where}: {entry.reason}")
    return list(found.entries)


async def judge(worker: Worker | None, candidate: Candidate) -> tuple[str, str]:
    """The status of a candidate and the first thing said about it; no worker: audit only."""
    verdict = audit_candidate(candidate)
    if verdict is None and worker is None:
        return "admitted", ""
    if verdict is None:
        assert worker is not None
        try:
            verdict = await worker.judge(candidate)
        except WorkerError as error:
            return Status.CRASHED.value, str(error)
        return verdict.status.value, next((d.message for d in verdict.diagnostics), "")
    found = verdict.diagnostics[0]
    return f"refused ({verdict.rule})", f"line {found.line}: {found.message}"


async def check(
    tasks: list[LoadedProblem], num_workers: int, limits: Limits, *, audit_only: bool
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Statuses of ground truths and of hints-removed texts, and a line for each broken task."""
    truths: Counter[str] = Counter()
    blanks: Counter[str] = Counter()
    broken: list[tuple[int, str]] = []
    queue = list(enumerate(tasks))[::-1]

    async def run() -> None:
        worker: Worker | None = None
        known = KnownProblems()
        num_asked = 0
        while queue:
            place, task = queue.pop()
            if worker is not None and num_asked >= RECYCLE_AFTER:
                worker.kill()
                await worker.join()
                worker = None
            if worker is None and not audit_only:
                worker = await start_dafny_worker(find_dafny_toolchain(), limits, known)
                num_asked = 0
            truth, why_truth = await judge(worker, Candidate(task.problem, task.reference or ""))
            hintless = get_program_text(task.problem)
            blank, why_blank = await judge(worker, Candidate(task.problem, hintless))
            num_asked += 3
            truths[truth] += 1
            blanks[blank] += 1
            if truth != ("admitted" if audit_only else "proved"):
                broken.append((place, f"{task.problem.id}: ground truth {truth}: {why_truth}"))
            if blank == "proved":
                broken.append((place, f"{task.problem.id}: hints-removed text {blank}"))
            elif blank not in ("admitted", "rejected", "exhausted"):
                broken.append((place, f"{task.problem.id}: hints removed {blank}: {why_blank}"))
        if worker is not None:
            worker.kill()
            await worker.join()

    await asyncio.gather(*(run() for _ in range(num_workers)))
    return truths, blanks, [line for _, line in sorted(broken)]


def main() -> int:
    """Run the check; returns the exit status."""
    parser = argparse.ArgumentParser(description="Check the annotate audit on DafnyBench tasks.")
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--audit-only", action="store_true", help="do not start Dafny")
    parser.add_argument("--workers", type=at_least(1), default=2)
    parser.add_argument("--rlimit", type=at_least(1), default=20_000_000)
    parser.add_argument(
        "--as-published",
        action="store_true",
        help="do not restore the bodies that two hints-removed texts lost",
    )
    arguments = parser.parse_args()
    tasks = read_tasks(arguments.tasks, repaired=not arguments.as_published)
    started = time.monotonic()
    truths, blanks, broken = asyncio.run(
        check(
            tasks,
            arguments.workers,
            Limits(rlimit=arguments.rlimit),
            audit_only=arguments.audit_only,
        )
    )
    for line in broken:
        print(line)
    print(f"tasks: {len(tasks)}")
    print(f"ground truths: {dict(sorted(truths.items()))}")
    print(f"hints removed: {dict(sorted(blanks.items()))}")
    print(f"broken: {len(broken)}")
    print(f"seconds: {time.monotonic() - started:.1f}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
