#!/usr/bin/env python3
"""Writes those programs of a Dafny benchmark that are tasks for the Dafny that is installed.

    python scripts/choose_tasks.py hf:wendy-sun/DafnyBench tasks.jsonl
    python scripts/choose_tasks.py DafnyBench/dataset tasks.jsonl

A program is a task if its ground truth is proved and the text without hints is not. With --all
those whose text needs no hint are written too; each group is a family, with a line of its own in
the report of an evaluation. The file has problems of ours with their references, which
`proverrl eval` and the other scripts take as any. The 212 DafnyBench tasks of docs/results.md were
chosen in this way from programs whose ground truth takes less than 3 s; in 58 of them Dafny 4's
syntax had been rewritten for Dafny 2.3 beforehand, and this script rewrites nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, PoolConfig
from proverrl.errors import UsageError
from proverrl.files.disk import refuse_overwriting
from proverrl.files.lines import check_place
from proverrl.lang.dafny.audit.annotated import get_program_text
from proverrl.lang.open import open_configured
from proverrl.problems.load import make_row, write_problems
from proverrl.types import ANNOTATE, Candidate
from proverrl.verifier.base import verify_all
from scripts.arguments import at_least, telling_errors


async def choose(source: str, out: Path, workers: int, *, keeps_idle: bool = False) -> str:
    """Verify both texts of each program and write the tasks; returns a line of report."""
    refuse_overwriting(out, source)
    check_place(out)
    benchmark = open_benchmark(source)
    entries = [entry for entry in benchmark.entries if entry.reference is not None]
    if others := [entry.problem.id for entry in entries if entry.problem.kind != ANNOTATE]:
        raise UsageError(f"{source}: {others[0]!r} is no whole program without its hints")
    problems = [entry.problem for entry in entries]
    truths = [Candidate(entry.problem, entry.reference or "") for entry in entries]
    bare = [Candidate(problem, get_program_text(problem)) for problem in problems]
    pool = PoolConfig(workers=workers)
    verifier = open_configured(Config(pool=pool), seed=0, problems=problems)
    try:
        both = [*truths, *bare]
        verdicts = await verify_all(verifier, both, deadline_seconds=pool.deadline_seconds)
    finally:
        await verifier.aclose()
    pairs = list(zip(truths, verdicts[: len(truths)], verdicts[len(truths) :], strict=True))
    right = [(one, idle) for one, proved, idle in pairs if proved.proved]
    num_idle = sum(idle.proved for _, idle in right)
    rows = []
    for task, idle in right:
        if keeps_idle or not idle.proved:
            group = f"without hints {'proved' if idle.proved else 'rejected'}"
            metadata = {**task.problem.metadata, "family": group}
            row = make_row(replace(task.problem, metadata=metadata))
            rows.append(row | {"reference": task.body})
    return (
        f"{write_problems(out, rows)} of {len(pairs)} programs written to {out}; of "
        f"{len(pairs) - len(right)} the ground truth is not proved, {num_idle} need no hint, "
        f"{len(benchmark.refused)} could not be read"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="SOURCE", help="a name, folder, file or hf:ID")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--workers", type=at_least(1), default=2)
    parser.add_argument("--all", action="store_true", help="also what needs no hint")
    given = parser.parse_args()
    with telling_errors():
        choosing = choose(given.source, given.out, given.workers, keeps_idle=given.all)
        print(asyncio.run(choosing))
