"""The worth of instructions to a frozen writer before an instructor is trained.

    python -m proverrl.lab.preface.measure runs/preface_writer

For each problem of a file with references the writer (docs/lab/preface.md) writes bodies under four
kinds of words: those of the problem's own reference, which no instructor knows, of a taught
reference of its family, of any taught one, and none. It prints the share that real Dafny proves,
apart for families whose references the writer also learned without words (``bare_share``) and for
others.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import load_config
from proverrl.config.load import load_stored_config
from proverrl.lab.preface.modes import Instruct, TeachWriter, choose_bare_families
from proverrl.lab.preface.modes import describe_reference as describe
from proverrl.lang.open import open_configured
from proverrl.rollout.extract import open_mode
from proverrl.run.session import load_training
from proverrl.seeds import derive_seed
from proverrl.statistics import estimate
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import verify_all

CONFIG = "configs/lab/preface.toml"
KINDS = ("none", "own", "family", "any")


async def run(options: argparse.Namespace) -> None:
    """Write, verify, and print a line for each kind of instruction."""
    trained = load_stored_config(Path(options.run))
    config = load_config(CONFIG, [f'rollout.options.writer="{options.run}/policy"'])
    instructing, taught_as = open_mode(config), open_mode(trained)
    if not isinstance(taught_as, TeachWriter):
        raise SystemExit(
            f"{options.run} is no run of a writer; train configs/lab/preface_writer.toml"
        )
    assert isinstance(instructing, Instruct)
    writer = instructing.writer
    taught = load_training(trained).references
    bare = choose_bare_families(taught, taught_as.options.bare_share)
    words = [(problem.family, describe(problem, body)) for problem, body in taught]
    asked = open_benchmark(options.problems)
    families = {family for family, _ in words}
    problems = [p for p in asked.problems if p.family in families and p.id in asked.references]
    problems = problems[: options.num]
    if not problems:
        raise SystemExit(f"{options.problems}: no problem with a reference is of a taught family")
    verifier = open_configured(config, seed=0, problems=problems)

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
    parser.add_argument("--num", type=int, default=150, help="problems of the file")
    parser.add_argument("--samples", type=int, default=3, help="bodies of each problem and kind")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
