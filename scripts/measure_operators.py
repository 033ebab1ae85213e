"""Prints for every Dafny operator what became of its problems: a Markdown table.

With --families it checks instead whether the filters let good problems pass: one training problem
of each family, none of which should be stopped. With --out the problems that pass the filters and
whose reference is proved are written to a file. A training set needs no more than the first two
filters, and must be kept apart from what is held out.
Example: python scripts/measure_operators.py --num 12
         python scripts/measure_operators.py --names nest_loop chain_calls --out fused.jsonl
         python scripts/measure_operators.py --names nest_loop chain_calls --num 800 --seed 2 \
             --filters duplicate leak --apart fused.jsonl --out training.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.compose.archive import Composed
from proverrl.compose.filters import (
    DEADLINE_SECONDS,
    FILTERS,
    Asker,
    FilterTools,
    make_filters,
    run_filters,
)
from proverrl.compose.operators import compose, get_operator, list_operators
from proverrl.config.selfplay import FilterName
from proverrl.files.disk import refuse_overwriting
from proverrl.files.lines import check_place
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang.records import Parent
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.problems.load import load_problems, load_references, make_row, write_problems
from proverrl.seeds import derive_seed
from proverrl.types import Candidate
from proverrl.verifier.base import Verifier, verify_all
from scripts.arguments import at_least, telling_errors

DAFNY = Path(__file__).resolve().parents[1] / "dafny"
MAX_TRIES = 25


def draw_composed(
    parents: Sequence[Parent],
    num: int,
    *,
    names: Sequence[str],
    round_number: int,
    seed: int,
    max_draws: int | None = None,
) -> tuple[list[Composed], int]:
    """``num`` distinct problems by operators and from parents drawn at random, and how many draws
    that took; fewer when ``max_draws`` (left out: 20 a problem, at least 1,000) bring no more. The
    same for the same input.

    An operator that has no hold on the parents drawn is given others, up to ``MAX_TRIES`` times:
    those that need parents of one kind would be rare otherwise.
    """
    rng = random.Random(derive_seed("draw", *names, round_number, seed))
    pool = list(parents)
    found: dict[str, Composed] = {}
    draws = tries = 0
    limit = max(1000, 20 * num) if max_draws is None else max_draws
    name = names[0]
    while len(found) < num and draws < limit:
        if tries % MAX_TRIES == 0 and len(names) > 1:
            name = rng.choice(names)
        tries += 1
        draws += 1
        arity = get_operator(name).arity
        if arity > len(pool):
            continue
        made = compose(name, rng.sample(pool, arity), round_number=round_number, seed=draws)
        if made is not None:
            found.setdefault(made.problem.id, made)
            tries = 0
    return list(found.values()), draws


@dataclass(frozen=True, slots=True)
class OperatorScore:
    """Counts of one operator: parents drawn, problems made, those that resolve (well formed), that
    are not trivial either (satisfiable, no weak contract, not proved by nothing), that pass all
    filters, of these the ones with a reference, and those that it proves, as lines of a file."""

    name: str
    num_drawn: int
    num_made: int
    num_well_formed: int
    num_not_trivial: int
    num_kept: int
    num_with_reference: int
    rows: Sequence[dict[str, Any]]
    num_calls: int

    def describe(self) -> str:
        """One line of a Markdown table."""
        return (
            f"| `{self.name}` | {self.num_made}/{self.num_drawn} | {self.num_well_formed} | "
            f"{self.num_not_trivial} | {self.num_kept} | {len(self.rows)}/"
            f"{self.num_with_reference} | {self.num_calls / max(1, self.num_made):.1f} |"
        )


async def measure_operators(
    parents: Sequence[Parent],
    tools: FilterTools,
    verifier: Verifier,
    *,
    num: int,
    seed: int,
    names: Iterable[str] = (),
    filter_names: Iterable[FilterName] = tuple(FILTERS),
) -> AsyncIterator[OperatorScore]:
    """The score of each operator over ``num`` problems, as each is done.

    ``negate`` is given its parents without their references: it takes no others.
    """
    filters = make_filters(tools, filter_names)
    language = parents[0].problem.language
    for name in names or list_operators(language):
        given = [Parent(p.problem) for p in parents] if name == "negate" else parents
        made, draws = draw_composed(given, num, names=(name,), round_number=0, seed=seed)
        run = await run_filters([c.problem for c in made], filters, tools)
        kept = {problem.id for problem in run.kept}
        referenced = [c for c in made if c.problem.id in kept and c.reference is not None]
        candidates = [Candidate(c.problem, c.reference or "") for c in referenced]
        verdicts = await verify_all(verifier, candidates, deadline_seconds=DEADLINE_SECONDS)
        rows = [
            make_row(candidate.problem) | {"reference": candidate.body}
            for candidate, verdict in zip(candidates, verdicts, strict=True)
            if verdict.proved
        ]
        stopped = Counter(stop.filter for stop in run.stops)
        well_formed = len(made) - sum(stopped[g] for g in ("duplicate", "leak", "well_formed"))
        empty = sum(stopped[g] for g in ("satisfiable", "trivial", "weak_contract"))
        yield OperatorScore(
            name=name,
            num_drawn=draws,
            num_made=len(made),
            num_well_formed=well_formed,
            num_not_trivial=well_formed - empty,
            num_kept=len(kept),
            num_with_reference=len(referenced),
            rows=rows,
            num_calls=run.calls.total(),
        )


async def main(given: argparse.Namespace) -> None:
    """Measure operators on the training split and print a line for each."""
    path = DAFNY / "curriculum" / "train.jsonl"
    if given.out is not None:
        refuse_overwriting(given.out, path, *given.apart)
        check_place(given.out)
    problems, references = load_problems(path), load_references(path)
    held_out = [
        *load_problems(DAFNY / "curriculum" / "heldout.jsonl"),
        *load_problems(DAFNY / "benchmark" / "problems.jsonl"),
        *(problem for file in given.apart for problem in load_problems(file)),
    ]
    verifier, _ = GENERATOR.open_verifier(given.workers)
    tools = FilterTools(
        Asker(verifier),
        OverlapIndex(take_statements(held_out)),
        set() if given.families else {make_skeleton(problem) for problem in problems},
    )
    parents = [Parent(problem, references[problem.id]) for problem in problems]
    if given.families:
        first = {problem.family: problem for problem in reversed(problems)}
        try:
            run = await run_filters(list(first.values()), make_filters(tools), tools)
        finally:
            await verifier.aclose()
        print(f"{len(run.kept)} of {len(first)} kept, {run.calls.total()} verifier calls")
        for stop in run.stops:
            print(f"{stop.problem_id}: {stop.filter}: {stop.reason}")
        return
    print("| operator | made of drawn | well formed | not trivial | kept | proved | calls each |")
    print("|---|---|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    try:
        async for score in measure_operators(
            parents,
            tools,
            verifier,
            num=given.num,
            seed=given.seed,
            names=given.names,
            filter_names=given.filters,
        ):
            print(score.describe(), flush=True)
            rows += score.rows
    finally:
        await verifier.aclose()
    if given.out is not None:
        print(f"{write_problems(given.out, rows)} problems written to {given.out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num", type=at_least(1), default=12, help="problems for each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=at_least(1), default=1)
    parser.add_argument("--families", action="store_true", help="test the filters, see above")
    operators = sorted(list_operators("dafny"))
    parser.add_argument("--names", nargs="+", choices=operators, default=[], help="of operators")
    parser.add_argument("--filters", nargs="+", choices=list(FILTERS), default=list(FILTERS))
    parser.add_argument(
        "--apart", nargs="+", type=Path, default=[], metavar="FILE", help="of problems held out too"
    )
    parser.add_argument("--out", type=Path, help="a file for problems that are proved")
    options = parser.parse_args()
    if options.families and (options.names or options.out):
        parser.error("--families writes no problems of operators; leave --names and --out out")
    with telling_errors():
        asyncio.run(main(options))
