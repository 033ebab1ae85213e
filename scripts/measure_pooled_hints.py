#!/usr/bin/env python3
"""Compares pooled hints with best of n on DafnyBench, where true and corrupted hints are given.

    python scripts/measure_pooled_hints.py dafnybench-tasks --tasks 60

The tasks are a benchmark by its name, folder or file, such as one that ``choose_tasks.py`` wrote.
No policy writes here. Each attempt at a task holds each hint of its ground truth with the chance
``--keep``, a corrupted one in its place with the chance ``--corrupt``, and otherwise nothing there.
A hint is corrupted as a formaliser gets a clause wrong (``lang.dafny.formal.errors``, without its
errors of syntax). Both searches draw the same attempts, and stop at the first proof. The tasks are
drawn among those with at least ``--least`` hints that can be pooled; other hints of a ground truth
are left out, which can make a task impossible.

It prints the tasks that are proved within so many verifier calls, with intervals (Clopper and
Pearson) and the difference, paired by task, and how many attempts were drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, PoolConfig
from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lang import find_language
from proverrl.lang.open import open_configured
from proverrl.lang.records import PooledHint, Prefix
from proverrl.search.base import Functions, Proposal
from proverrl.search.wiring import make_search
from proverrl.seeds import derive_seed
from proverrl.statistics import clopper_pearson, compare_values
from proverrl.types import Candidate, Problem, Verdict
from scripts.arguments import at_least, share, telling_errors

SEARCHES = ("best_of_n", "pooled_hints")
TRIES = 20


@dataclass(frozen=True)
class Task:
    """A task with the hints of its ground truth."""

    problem: Problem
    hints: Sequence[PooledHint]


def choose_tasks(source: str, *, num: int, least: int, seed: int) -> list[Task]:
    """Tasks whose ground truth has at least ``least`` hints that can be pooled."""
    found = []
    for entry in open_benchmark(source).entries:
        pooling = find_language(entry.problem.language).pooling
        hints = pooling.list_hints(entry.problem, entry.reference or "") if pooling else ()
        if len(hints) >= least:
            found.append(Task(entry.problem, hints))
    if not found:
        raise UsageError(f"{source}: no task has {least} hints that can be pooled; lower --least")
    return random.Random(seed).sample(found, min(num, len(found)))


def corrupt(text: str, rng: random.Random) -> str | None:
    """A hint with an error in it; None where no error has a hold on it, as on a call of two
    words."""
    where, word, *rest = text.split(" ", 2)
    if not rest:
        return None
    for _ in range(TRIES):
        # A relation or a sign becomes another one, or a number its neighbour.
        # The lab makes the errors of formalisers; without it a hint cannot be corrupted.
        from proverrl.lab.words.dafny.errors import spoil

        changed = spoil(rng, [("requires", rest[0])], [])
        if changed is not None and changed[1] != "syntax" and changed[0][0][1] != rest[0]:
            return f"{where} {word} {changed[0][0][1]}"
    return None


@dataclass
class Attempts:
    """Writes the attempts at a task in turn, whatever they are to begin with."""

    task: Task
    keep: float
    corrupt: float
    seed: int
    num: int = 0

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        """See ``Functions.propose``."""
        return [Proposal(self.write(), 1, 0.0) for _ in range(num)]

    def write(self) -> str:
        """The next attempt."""
        rng = random.Random(derive_seed(self.seed, self.task.problem.id, self.num))
        self.num += 1
        texts = []
        for hint in self.task.hints:
            draw = rng.random()
            wrong = (
                corrupt(hint.text, rng) if self.keep <= draw < self.keep + self.corrupt else None
            )
            texts += [hint.text] if draw < self.keep else [wrong] if wrong else []
        pooling = find_language(self.task.problem.language).pooling
        assert pooling is not None, "its hints were listed"
        return pooling.put_together(self.task.problem, texts)


async def run(tasks: Sequence[Task], options: argparse.Namespace) -> None:
    """Search all tasks in both ways and print the table."""
    pool = PoolConfig(workers=2)
    verifier = open_configured(Config(pool=pool), seed=0, problems=[task.problem for task in tasks])
    found: dict[str, list[int | None]] = {name: [] for name in SEARCHES}
    drawn = dict.fromkeys(SEARCHES, 0)
    gate = asyncio.Semaphore(2)

    async def verify(candidate: Candidate) -> Verdict:
        return await verifier.verify(candidate, deadline_seconds=pool.deadline_seconds)

    async def search(name: str, task: Task) -> int | None:
        attempts = Attempts(task, options.keep, options.corrupt, options.seed)
        config = SearchConfig(name=name, calls=max(options.calls))
        async with gate:
            one = make_search(task.problem, Functions(attempts.propose, verify), config)
            result = await one.run()
        drawn[name] += attempts.num
        if options.list:
            said = "proved" if result.proofs else "not proved"
            hints = f"{task.problem.id}, {len(task.hints)} hints"
            print(f"{hints}: {name} {said}, {result.calls} calls", flush=True)
        return result.proofs[0].calls if result.proofs else None

    try:
        for name in SEARCHES:
            found[name] = list(await asyncio.gather(*(search(name, task) for task in tasks)))
    finally:
        await verifier.aclose()
    print(f"{len(tasks)} tasks, {sum(len(task.hints) for task in tasks)} hints")
    for calls in options.calls:
        solved = {n: [float(c is not None and c <= calls) for c in found[n]] for n in SEARCHES}
        cells = []
        for name, values in solved.items():
            solved_share = sum(values) / len(values)
            low, high = clopper_pearson(solved_share, len(values))
            cells.append(f"{name} {100 * solved_share:.1f} ({100 * low:.1f}, {100 * high:.1f})")
        gap = compare_values(solved["best_of_n"], solved["pooled_hints"])
        print(
            f"within {calls} calls: {', '.join(cells)}; difference {100 * gap.value:+.1f} "
            f"({100 * gap.low:+.1f}, {100 * gap.high:+.1f})"
        )
    print(f"attempts drawn: {drawn}")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", metavar="TASKS")
    parser.add_argument("--tasks", type=at_least(1), default=60)
    parser.add_argument("--least", type=at_least(1), default=2)
    parser.add_argument("--keep", type=share, default=0.6)
    parser.add_argument("--corrupt", type=share, default=0.2)
    parser.add_argument("--calls", type=at_least(1), nargs="+", default=[4, 16])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print each search as it ends")
    options = parser.parse_args()
    if options.keep + options.corrupt > 1:
        parser.error("--keep and --corrupt are together above 1")
    tasks = choose_tasks(options.source, num=options.tasks, least=options.least, seed=options.seed)
    asyncio.run(run(tasks, options))


if __name__ == "__main__":
    with telling_errors():
        main()
