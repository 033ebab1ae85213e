"""Compares searches at equal verifier calls and equal tokens.

Usage: python scripts/compare_search.py RUN PROBLEMS.jsonl OUT [KEY=VALUE ...]

RUN is a run with a policy and an evaluation on PROBLEMS (``chosen_by=after``). The problems are
those of some levels (``levels=4,5``) that at least one attempt of that evaluation failed to prove,
so the policy does not always solve them. Each search of ``methods`` runs once per problem and seed;
searches stored in OUT/evals are not repeated. Arguments of the form KEY=VALUE are
``methods=best_of_n,rmax_ts``, ``seeds=2``, ``calls=64``, and keys of the configuration. A method
may carry keys of ``[search]``, such as ``rmax_ts:states=statements:width=4``.

It prints the share of problems solved within each budget (mean of the seeds) with 95 % intervals
over problems (of each problem's mean over seeds), and the difference from the first method, paired
by problem.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.config import Config, load_stored_config
from proverrl.errors import UsageError
from proverrl.evaluation.attempts import AttemptFile, AttemptRow
from proverrl.evaluation.budgets import (
    BudgetUnit,
    Spending,
    measure_spending,
    solved_within,
)
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.files.disk import refuse_overwriting, saving
from proverrl.files.lines import write_lines_atomically
from proverrl.jobs.evaluate import evaluate_benchmarks
from proverrl.problems.load import load_problems, make_row
from proverrl.statistics import compare_values, mean_interval
from proverrl.types import Problem
from scripts.arguments import read_words, telling_errors

BUDGETS: dict[BudgetUnit, tuple[int, ...]] = {
    "calls": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "tokens": (64, 256, 1024, 4096, 16384),
}
LATE = 4
COUNTED = ("calls", "confirmations", "refuted")


def choose_problems(run: Path, name: str, problems: Path, levels: Sequence[str]) -> list[Problem]:
    """The problems that the run's policy did not always solve in the evaluation. Raises
    ``UsageError`` where there are none."""
    evaluation = StoredEvaluation(run / "evals" / f"{name}.json", {})
    tallies = evaluation.require_attempts().problems
    known = [p for p in load_problems(problems) if p.id in tallies]
    if not known:
        raise UsageError(
            f"{evaluation.path} has attempts at no problem of {problems}; evaluate the policy on "
            "them first (proverrl eval) and name that evaluation with chosen_by=NAME"
        )
    failed = [p for p in known if tallies[p.id].solved < tallies[p.id].attempts]
    chosen = [p for p in failed if str(p.level) in levels]
    if not chosen:
        there = ", ".join(sorted({str(p.level) for p in failed})) or "none"
        raise UsageError(
            f"{problems}: no problem of level {' or '.join(levels)} that the policy did not always "
            f"solve (such levels: {there}); choose others with levels=1,2 or chosen_by=NAME"
        )
    print(
        f"{len(chosen)} problems of level {' or '.join(levels)}, not always solved by the policy; "
        f"{len(known) - len(failed)} others it always solves, {len(failed) - len(chosen)} are of "
        "other levels"
    )
    return chosen


def configure(run: Path, out: Path, method: str, seed: int, calls: int, keys: list[str]) -> Config:
    """The run's configuration with one search in it."""
    name, *own = method.split(":")
    overrides = [
        f"run={json.dumps(str(out))}",
        f"seed={seed}",
        "evaluation.search=true",
        "evaluation.samples=1",
        "evaluation.ks=[1]",
        "evaluation.max_problems=0",
        f"search.name={name}",
        f"search.calls={calls}",
        *(f"search.{key}" for key in own),
    ]
    return load_stored_config(run, [*overrides, *keys])


def measure(
    spendings: Sequence[Mapping[str, Spending]], budget: int
) -> tuple[list[float], tuple[float, float]]:
    """Each problem's mean over seeds, and the interval of their mean."""
    by_seed = [solved_within(spending, budget) for spending in spendings]
    means = [sum(values) / len(values) for values in zip(*by_seed, strict=True)]
    return means, mean_interval(means)


def print_table(found: Mapping[str, Sequence[Mapping[str, Spending]]], unit: BudgetUnit) -> None:
    """A line a method, two figures a budget: solved, and the difference from the first method."""
    base = next(iter(found))
    most = max(spent.total for runs in found.values() for run in runs for spent in run.values())
    budgets = [budget for budget in BUDGETS[unit] if budget <= most]
    print(f"\nsolved, %, within so many {unit} a problem")
    print("| method | " + " | ".join(str(budget) for budget in budgets) + " |")
    print("|---|" + "---|" * len(budgets))
    for method, spendings in found.items():
        cells = []
        for budget in budgets:
            values, (low, high) = measure(spendings, budget)
            cell = f"{100 * sum(values) / len(values):.1f} ({100 * low:.0f}-{100 * high:.0f})"
            if method != base:
                first, _ = measure(found[base], budget)
                gap = compare_values(first, values)
                cell += f" {100 * gap.value:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
            cells.append(cell)
        print(f"| {method} | " + " | ".join(cells) + " |")


def print_searches(rows: Mapping[str, list[list[AttemptRow]]]) -> None:
    """What the searches were like, and how many problems tell them apart."""
    print("\n| method | proofs | after call 4 | states a problem ", end="")
    print("| calls, verifier seconds a problem | confirmed | refuted |")
    print("|---|---|---|---|---|---|---|")
    times: Counter[str] = Counter()
    for method, runs in rows.items():
        flat = [row for run in runs for row in run]
        proved = [row for row in flat if row["status"] == "proved"]
        times.update(row["problem_id"] for row in proved)
        late = sum(row["search"]["calls"] > LATE for row in proved)
        spent = [row["search"] for row in flat]
        nodes = sum(item["nodes"] for item in spent) / len(spent)
        sums = {key: sum(item[key] for item in spent) for key in COUNTED}
        work = f"{sums['calls'] / len(spent):.1f}, {describe_seconds(spent)}"
        print(
            f"| {method} | {len(proved)} | {late} | {nodes:.1f} | {work} "
            f"| {sums['confirmations']} | {sums['refuted']} |"
        )
    searches = sum(map(len, rows.values()))
    names = {row["problem_id"] for runs in rows.values() for run in runs for row in run}
    always, never = sum(n == searches for n in times.values()), len(names - set(times))
    print(f"{searches} searches a problem: {always} problems solved by all, {never} by none")


def describe_seconds(spent: Sequence[Mapping[str, Any]]) -> str:
    """The mean of the verifier's seconds; a dash where an evaluation does not say."""
    seconds = [item.get("verifier_seconds") for item in spent]
    known = [each for each in seconds if each is not None]
    return f"{sum(known) / len(known):.2f} s" if len(known) == len(seconds) else "-"


def main(run: Path, problems: Path, out: Path, words: Sequence[str]) -> None:
    """Search, measure, print."""
    given, [seeds, calls] = read_words(words, seeds=2, calls=64)
    methods = given.pop("methods", "best_of_n,self_correct,best_first,rmax_ts").split(",")
    levels = given.pop("levels", "4,5").split(",")
    chosen = choose_problems(run, given.pop("chosen_by", "after"), problems, levels)
    keys = [f"{key}={value}" for key, value in given.items()]
    source = out / "problems.jsonl"
    refuse_overwriting(source, problems)
    stored: dict[str, list[list[AttemptRow]]] = {}
    # All of them first: a wrong word in the last one is said before anything is searched.
    pairs = [(method, seed) for seed in range(seeds) for method in methods]
    configs = {pair: configure(run, out, *pair, calls, keys) for pair in pairs}
    with saving(out):
        out.mkdir(parents=True, exist_ok=True)
    write_lines_atomically(source, [make_row(problem) for problem in chosen])
    tables: dict[BudgetUnit, dict[str, list[dict[str, Spending]]]] = {"calls": {}, "tokens": {}}
    for (method, seed), config in configs.items():
        name = f"{re.sub('[:=/]+', '-', method)}-{seed}"
        asyncio.run(evaluate_benchmarks(config, from_run=run, benchmarks={name: str(source)}))
        evaluation = StoredEvaluation(out / "evals" / f"{name}.json", {})
        tallies = evaluation.require_attempts().problems
        lines = evaluation.path.with_suffix(".jsonl")
        stored.setdefault(method, []).append([row for _, row in AttemptFile(lines, print)])
        for unit, table in tables.items():
            spending = measure_spending(tallies, unit)
            if spending is None:
                raise UsageError(f"{lines} does not say how many {unit} each attempt took")
            table.setdefault(method, []).append(spending)
    for unit, found in tables.items():
        print_table(found, unit)
    print_searches(stored)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with telling_errors():
        main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
