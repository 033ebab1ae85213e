#!/usr/bin/env python3
"""How many programs ``proverrl annotate`` proves without a model, and with what hints.

    python scripts/measure_annotate.py dafnybench-dafny4 OUT.jsonl --calls 40 --minutes 2
    python scripts/measure_annotate.py lean/benchmark.jsonl OUT.jsonl

The programs are those of a benchmark, by its name, folder or file, that are read and fail without
hints: of the kind ``annotate``, or theorems of Lean with ``sorry`` for their proofs. A row for each
is added to OUT.jsonl; a program that has one is not repeated, so that an interrupted measurement
goes on.

It prints the share that is solved (with intervals of Clopper and Pearson) by what fails first, what
hints the solved ones need, and what one that is solved takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.benchmarks.open import open_benchmark
from proverrl.cli.second_look import RLIMIT
from proverrl.concurrency import finish_all
from proverrl.jobs.annotate import open_annotating
from proverrl.jobs.hint_files import HintBudget, HintSource
from proverrl.lang import find_language
from proverrl.lang.open import open_verifier
from proverrl.problems.inputs import Submission, make_file_candidate
from proverrl.statistics import clopper_pearson
from proverrl.types import ANNOTATE, HOLE, Problem
from scripts.arguments import at_least, telling_errors

Row = dict[str, Any]
FAULTS = {
    "postcondition": "a postcondition",
    "invariant": "an invariant",
    "terminat": "termination",
    "decreases": "termination",
    "precondition": "a precondition",
    "range": "an index",
    "assert": "an assertion",
}


def name_fault(messages: Sequence[str]) -> str:
    """What fails first, in a word."""
    first = messages[0].lower() if messages else ""
    return next((said for word, said in FAULTS.items() if word in first), "something else")


async def measure(options: argparse.Namespace, rows: list[Row]) -> None:
    """Add the rows of programs that have none."""
    known = {row["id"] for row in rows}
    kinds = (ANNOTATE, "tactics", "term")
    whole = [p for p in open_benchmark(options.source).problems if p.kind in kinds]
    problems = [problem for problem in whole[:: options.every] if problem.id not in known]
    # As the command has them: the file's own limit, and a tenth of it for what is tried.
    verifier = open_verifier(workers=options.workers, rlimit=RLIMIT)
    quick = open_verifier(workers=options.workers, rlimit=RLIMIT // 10)
    free = asyncio.Semaphore(options.workers)
    budget = HintBudget(calls=options.calls, minutes=options.minutes)

    async def annotate(problem: Problem) -> None:
        name, language = problem.id, find_language(problem.language)
        text = (problem.preamble + problem.statement).replace(HOLE, "")
        if problem.kind != ANNOTATE:
            text = language.show_problem(problem)
        async with free:
            candidate = make_file_candidate(name, text, problem.language)
            source = HintSource(Submission(name, candidate))
            fault = f"level {problem.level}"
            if language.pooling is not None:
                limit = budget.deadline_seconds
                verdict = await verifier.verify(candidate, deadline_seconds=limit)
                fault = name_fault(
                    [d.message for d in verdict.diagnostics if d.severity == "error"]
                )
            found = await open_annotating(source, verifier, budget, quick=quick).run()
        row: Row = {
            "id": name,
            "status": found.status,
            "fault": fault,
            "hints": [hint.text.split()[0] for hint in found.hints],
            "message": found.message,
            "calls": found.calls,
            "seconds": round(found.seconds, 1),
        }
        rows.append(row)
        add_line(options.out, row)
        print(f"{len(rows)}: {name}: {found.status}, {found.calls} calls", flush=True)

    try:
        await finish_all(map(annotate, problems))
    finally:
        await verifier.aclose()
        await quick.aclose()


def add_line(path: Path, row: Row) -> None:
    """Add a row to a file of rows."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def report(rows: Sequence[Row]) -> None:
    """Print the tables."""
    asked = [row for row in rows if row["status"] in ("solved", "partly", "open")]
    left = Counter(row["status"] for row in rows if row not in asked)
    print(
        f"\n{len(asked)} programs fail; {left['verifies']} verify, {left['unusable']} are not read"
    )
    print("\n| fails first | programs | solved | % |\n|---|---|---|---|")
    faults = [fault for fault, _ in Counter(row["fault"] for row in asked).most_common()]
    for fault in ("all", *faults):
        group = [row for row in asked if fault in ("all", row["fault"])]
        solved = sum(row["status"] == "solved" for row in group)
        low, high = clopper_pearson(solved / len(group), len(group))
        share = f"{100 * solved / len(group):.1f} ({100 * low:.1f} to {100 * high:.1f})"
        print(f"| {fault} | {len(group)} | {solved} | {share} |")
    solved_rows = [row for row in asked if row["status"] == "solved"]
    if solved_rows:
        kinds = Counter(" + ".join(sorted(set(row["hints"]))) for row in solved_rows)
        print("\n| hints | programs |\n|---|---|")
        for kind, num in kinds.most_common():
            print(f"| {kind} | {num} |")
        calls, seconds = (
            statistics.median(row[key] for row in solved_rows) for key in ("calls", "seconds")
        )
        print(f"\na program that is solved takes {calls:g} calls and {seconds:g} s (medians)")


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="a benchmark: a name, a folder or a file")
    parser.add_argument("out", type=Path, help="rows are added here")
    parser.add_argument("--calls", type=at_least(1), default=64)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--workers", type=at_least(1), default=2)
    parser.add_argument("--every", type=at_least(1), default=1, help="only each so many-th program")
    options = parser.parse_args()
    found = options.out.open() if options.out.exists() else ()
    rows = [json.loads(line) for line in found]
    with telling_errors():
        asyncio.run(measure(options, rows))
    report(rows)


if __name__ == "__main__":
    main()
