"""Draws hints for false problems from a grammar, and tells which Dafny and the walls call proved.

    PYTHONPATH=. python scripts/hunt.py --num 2000 --first 0

Each hint is named by its hole and its seed, so that it can be drawn again. Exit status 0 when
nothing was called proved, 1 when something was: a defect, to become a file in tests/attacks.
``--bare`` leaves the audit out, so that Dafny and the walls stand alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.verify.backend import start_dafny_worker
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.types import Candidate
from proverrl.verifier.base import Limits, Worker
from tests.dafny_grammar import FALSE_PROBLEMS, Drawer


async def hunt(seeds: range, *, bare: bool) -> tuple[Counter[str], list[str]]:
    """How often each verdict was given, and the hints that were called proved."""
    toolchain, known = find_dafny_toolchain(), KnownProblems()
    worker: Worker | None = None
    counts: Counter[str] = Counter()
    proved = []
    for seed in seeds:
        for hole, problem in FALSE_PROBLEMS.items():
            candidate = Candidate(problem, Drawer(hole, seed).draw())
            verdict = None if bare else audit_candidate(candidate)
            if verdict is None:
                worker = worker or await start_dafny_worker(toolchain, Limits(), known)
                try:
                    verdict = await asyncio.wait_for(worker.judge(candidate), 120)
                except ProblemError:
                    counts["not read"] += 1
                    continue
                except (WorkerError, TimeoutError) as error:
                    counts[f"not judged: {type(error).__name__}"] += 1
                    worker.kill()
                    await worker.join()
                    worker = None
                    continue
            counts[f"{verdict.status} {verdict.stage} {verdict.rule}".rstrip()] += 1
            if verdict.proved:
                proved.append(f"{hole} {seed}:\n{candidate.body}\n")
                print(proved[-1], flush=True)
    if worker is not None:
        worker.kill()
        await worker.join()
    return counts, proved


def main() -> int:
    """Hunt, and say what was found."""
    parser = argparse.ArgumentParser(description="Draws hints for false problems from a grammar.")
    parser.add_argument("--num", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--bare", action="store_true", help="without the audit")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.num)
    counts, proved = asyncio.run(hunt(seeds, bare=given.bare))
    for said, number in counts.most_common():
        print(f"{number:6} {said}")
    print(f"{sum(counts.values())} hints, {len(proved)} called proved")
    return 1 if proved else 0


if __name__ == "__main__":
    sys.exit(main())
