"""Prints for every Dafny composer what became of its problems: a Markdown table.

With --families it checks instead whether the guards let good problems pass: one training problem of
each family, none of which should be stopped.
Example: python scripts/measure_composers.py --num 12
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import GuardLedger, make_tools, run_guards
from proverrl.compose.measure import measure_operators
from proverrl.lang.records import Parent
from proverrl.problems.drafts import open_draft_verifier
from proverrl.problems.load import load_problems, load_references

DAFNY = Path(__file__).resolve().parents[1] / "dafny"


async def main(num: int, seed: int, workers: int, *, families: bool) -> None:
    """Measure every operator on the training split and print a line for each."""
    path = DAFNY / "curriculum" / "train.jsonl"
    problems, references = load_problems(path), load_references(path)
    held_out = [
        *load_problems(DAFNY / "curriculum" / "heldout.jsonl"),
        *load_problems(DAFNY / "benchmark" / "problems.jsonl"),
    ]
    verifier, _ = open_draft_verifier(workers)
    tools = make_tools(verifier, existing=() if families else problems, held_out=held_out)
    parents = [Parent(problem, references[problem.id]) for problem in problems]
    if families:
        first = {problem.family: problem for problem in reversed(problems)}
        ledger = GuardLedger()
        try:
            await run_guards(list(first.values()), make_guards(tools), tools, ledger=ledger)
        finally:
            await verifier.aclose()
        print(ledger.describe())
        return
    print("| operator | made of drawn | well formed | not trivial | kept | proved | calls each |")
    print("|---|---|---|---|---|---|---|")
    try:
        async for score in measure_operators(parents, tools, num=num, seed=seed):
            print(score.describe(), flush=True)
    finally:
        await verifier.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num", type=int, default=12, help="problems for each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--families", action="store_true", help="test the guards, see above")
    given = parser.parse_args()
    asyncio.run(main(given.num, given.seed, given.workers, families=given.families))
