"""GAR's difficulty check: do a run's composed problems get harder, and does the solver keep up?

Usage: python scripts/check_difficulty.py RUN [--policy UNTRAINED] [--samples 4] [--rounds 0 5 9]

Flows in: a self-play run, the weights that it began with. Flows out: for each round the solve rate
of the solver as it began, as it was in that round, and as it is now, on the problems that no filter
stopped (GAR, 2025, arXiv 2510.11769: the first should fall while the second holds). Attempts are
stored as those of any evaluation, so that an interrupted check goes on where it stopped, and
verdicts come from the cache where they are known.
Not handled here: what made the problems harder; the text of the table is all there is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.config import Config, load_stored_config
from proverrl.errors import RunError, UsageError
from proverrl.evaluation.tally import StoredEvaluation
from proverrl.files.lines import write_lines_atomically
from proverrl.jobs.evaluate import evaluate_benchmarks, find_weights
from proverrl.problems.load import make_row
from proverrl.run.session import WARM_POLICY
from proverrl.statistics import mean_interval
from proverrl.types import Problem
from scripts.arguments import at_least, telling_errors

SOLVERS = ("untrained", "then", "trained")


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean solve rate over ``num_problems``, with its 95 % interval; ``value`` is None where no
    problem had an attempt that was judged."""

    value: float | None
    low: float
    high: float
    num_problems: int


@dataclass(frozen=True, slots=True)
class Row:
    """The kept problems of the rounds ``first`` to ``last``, and each solver's rate on them."""

    first: int
    last: int
    num_problems: int
    rates: Mapping[str, Rate]


async def check_difficulty(
    run: Path,
    *,
    out: Path | None = None,
    untrained: Path | None = None,
    samples: int = 4,
    rounds: Collection[int] = (),
    per_row: int = 1,
    overrides: Sequence[str] = (),
) -> list[Row]:
    """Measure, and return a row for every ``per_row`` rounds, oldest first; ``rounds`` empty means
    all. Files go to ``out``, which is ``RUN/difficulty`` where it is not given.

    Raises:
        RunError: the run has no archive, no problem that was kept, or no weights.
        UsageError: attempts in ``out`` are of other problems or settings, or a number is below 1.
    """
    if samples < 1 or per_row < 1:
        raise UsageError(f"samples {samples} and rounds a row {per_row} must be at least 1")
    if not (run / ARCHIVE_FILE).is_file():
        raise RunError(f"{run / ARCHIVE_FILE}: there is none; give the folder of a self-play run")
    archive = ProblemArchive.read(run / ARCHIVE_FILE)
    kept = find_kept(archive, rounds)
    if not kept:
        raise RunError(f"{run / ARCHIVE_FILE}: the filters left no problem of these rounds")
    out = out or run / "difficulty"
    out.mkdir(parents=True, exist_ok=True)
    source = out / "problems.jsonl"
    problems = [problem for problems in kept.values() for problem in problems]
    write_lines_atomically(source, [make_row(problem) for problem in problems])
    rates: dict[str, dict[str, float | None]] = {
        "then": {p.id: archive.facts(p.id).get("solve_rate") for p in problems}
    }
    config = _configure(run, out, samples, overrides)
    weights = {"untrained": untrained or find_start(run, config), "trained": find_weights(run)}
    for name, path in weights.items():
        policy = config.policy.model_copy(update={"path": str(path)})
        (found,) = await evaluate_benchmarks(
            config.model_copy(update={"policy": policy}),
            from_run=None,
            benchmarks={name: str(source)},
        )
        rates[name] = measure_rates(found)
    return tabulate(kept, rates, per_row)


def find_kept(archive: ProblemArchive, rounds: Collection[int] = ()) -> dict[int, list[Problem]]:
    """By round the problems that no filter stopped; negations that the filters proved are not among
    them. Rounds that kept nothing are left out."""
    found: dict[int, list[Problem]] = {}
    for composed in archive:
        facts = archive.facts(composed.problem.id)
        passed = not facts.get("stopped_by") and not facts.get("negation_of")
        if passed and (not rounds or composed.round in rounds):
            found.setdefault(composed.round, []).append(composed.problem)
    return dict(sorted(found.items()))


def find_start(run: Path, config: Config) -> Path:
    """The solver as self-play began: after warm start, else the checkpoint in ``policy.path``.

    Raises:
        RunError: neither is there.
    """
    if (warm := run / WARM_POLICY).exists():
        return warm
    if config.policy.path:
        return Path(config.policy.path)
    raise RunError(f"{run}: the weights that it began with are gone; name some with --policy")


def measure_rates(result: Path) -> dict[str, float | None]:
    """Each problem's share of proved attempts among those judged in an evaluation's result; None
    where none was judged."""
    tallies = StoredEvaluation(result, {}).require_attempts().problems
    return {name: t.solved / t.judged if t.judged else None for name, t in tallies.items()}


def tabulate(
    kept: Mapping[int, Sequence[Problem]],
    rates: Mapping[str, Mapping[str, float | None]],
    per_row: int,
) -> list[Row]:
    """A row for every ``per_row`` rounds that kept something."""
    numbers = list(kept)
    rows = []
    for start in range(0, len(numbers), per_row):
        chosen = numbers[start : start + per_row]
        names = [problem.id for number in chosen for problem in kept[number]]
        rows.append(
            Row(
                chosen[0],
                chosen[-1],
                len(names),
                {solver: _average([rates[solver].get(n) for n in names]) for solver in SOLVERS},
            )
        )
    return rows


def render_table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, in percent; each rate with its interval."""
    lines = [
        "| rounds | problems | untrained solver | solver of the round | trained solver |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        rounds = f"{row.first}" if row.first == row.last else f"{row.first}-{row.last}"
        cells = " | ".join(_render(row.rates[solver]) for solver in SOLVERS)
        lines.append(f"| {rounds} | {row.num_problems} | {cells} |")
    return "\n".join(lines)


def _render(rate: Rate) -> str:
    if rate.value is None:
        return "not judged"
    return f"{100 * rate.value:.1f} ({100 * rate.low:.0f}-{100 * rate.high:.0f})"


def _average(values: Sequence[float | None]) -> Rate:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    return Rate(mean, *mean_interval(known), len(known))


def _configure(run: Path, out: Path, samples: int, overrides: Sequence[str]) -> Config:
    """The run's configuration with one whole-proof evaluation of the composed problems."""
    return load_stored_config(
        run,
        [
            f"run={json.dumps(str(out))}",
            f"evaluation.samples={samples}",
            "evaluation.ks=[1]",
            "evaluation.max_problems=0",
            "evaluation.search=false",
            *overrides,
        ],
    )


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a self-play run")
    parser.add_argument("--policy", type=Path, help="weights to begin with, if not the run's own")
    parser.add_argument("--samples", type=at_least(1), default=4, help="attempts a problem")
    parser.add_argument("--rounds", type=int, nargs="+", default=(), help="these rounds only")
    parser.add_argument("--per-row", type=at_least(1), default=1, help="rounds that make a row")
    parser.add_argument("--out", type=Path, help="where attempts are kept, RUN/difficulty if not")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    rows = asyncio.run(
        check_difficulty(
            given.run,
            out=given.out,
            untrained=given.policy,
            samples=given.samples,
            rounds=given.rounds,
            per_row=given.per_row,
            overrides=given.set,
        )
    )
    print(render_table(rows))


if __name__ == "__main__":
    with telling_errors():
        main()
