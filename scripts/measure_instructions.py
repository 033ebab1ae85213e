#!/usr/bin/env python3
"""What instructions are worth to a frozen writer before an instructor is trained.

    python scripts/measure_instructions.py runs/preface_writer

For each problem of a file with references the writer (docs/preface.md) writes bodies under the
words of the problem's own reference, which no instructor knows, of a taught reference of its
family, of any taught one, and under none. It prints the share that real Dafny proves, apart for
families whose references the writer also learned without words (``warm_start.bare_share``) and for
others.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import load_config
from proverrl.config.load import load_stored_config
from proverrl.lang.open import open_configured
from proverrl.run.beside import open_writer
from proverrl.run.pairs import choose_bare_families
from proverrl.run.session import describe, load_training
from proverrl.seeds import derive_seed
from proverrl.statistics import estimate
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import verify_all
from scripts.arguments import at_least

CONFIG = Path(__file__).parents[1] / "configs" / "preface.toml"
KINDS = ("none", "own", "family", "any")


async def run(options: argparse.Namespace) -> None:
    """Write, verify, and print a line for each kind of instruction."""
    trained = load_stored_config(Path(options.run))
    config = load_config(CONFIG, [f'instruct.writer="{options.run}/policy"'])
    writer = open_writer(config)
    assert writer is not None
    taught = load_training(trained).references
    bare = choose_bare_families(taught, trained.warm_start.bare_share)
    words = [(problem.family, describe(problem, body)) for problem, body in taught]
    asked = open_benchmark(options.problems)
    families = {family for family, _ in words}
    problems = [p for p in asked.problems if p.family in families and p.id in asked.references]
    problems = problems[: options.num]
    if not problems:
        raise SystemExit(f"{options.problems}: no problem with a reference is of a taught family")
    verifier = open_configured(config.pool, seed=0, problems=problems)

    def instruct(kind: str, problem: Problem, rng: random.Random) -> str:
        if kind == "none":
            return ""
        if kind == "own":
            return describe(problem, asked.references[problem.id])
        return rng.choice([text for of, text in words if kind == "any" or of == problem.family])

    try:
        for kind in KINDS:
            rng = random.Random(derive_seed(options.seed, kind))
            answers = [
                (p, instruct(kind, p, rng)) for p in problems for _ in range(options.samples)
            ]
            written = await writer.write(
                answers, layout=writer.policy.layout, turn=0, seed=options.seed
            )
            read = [
                Candidate(problem, one.body)
                for (problem, _), one in zip(answers, written, strict=True)
                if one.body is not None
            ]
            verdicts = iter(
                await verify_all(verifier, read, deadline_seconds=config.pool.deadline_seconds)
            )
            counts: dict[str, list[bool]] = {problem.id: [] for problem in problems}
            for (problem, _), one in zip(answers, written, strict=True):
                verdict = next(verdicts) if one.body is not None else None
                # What was not judged is left out; no body at all is a failure.
                if verdict is None or verdict.status.judged:
                    counts[problem.id].append(verdict is not None and verdict.proved)
            show(kind, counts, problems, bare, options.samples)
    finally:
        await verifier.aclose()


def show(
    kind: str,
    judged: Mapping[str, Sequence[bool]],
    problems: Sequence[Problem],
    bare: set[str],
    num: int,
) -> None:
    """A line: the shares of the two groups of families."""
    cells = [f"{kind:7}"]
    for name, is_bare in (("also without words", True), ("only under words", False)):
        group = [judged[p.id] for p in problems if (p.family in bare) == is_bare]
        for k in sorted({1, num}) if group else ():
            found = estimate([(len(attempts), sum(attempts)) for attempts in group], k)
            shown = "none judged"
            if found["value"] is not None:
                value, low, high = (
                    100 * float(found[key] or 0) for key in ("value", "low", "high")
                )
                shown = f"{value:.1f} ({low:.1f}-{high:.1f})"
            cells.append(f"{name} ({found['num_problems']}) pass@{k} {shown}")
    print("  ".join(cells), flush=True)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", help="the run folder of the writer")
    parser.add_argument("--problems", default="dafny/curriculum/valid.jsonl")
    parser.add_argument("--num", type=at_least(1), default=150, help="problems of the file")
    parser.add_argument(
        "--samples", type=at_least(1), default=3, help="bodies of each problem and kind"
    )
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
