"""The command that searches for proofs: ``search``.

Flows in: arguments. Flows out: a folder per problem, a table, and an exit status.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proverrl.cli.options import (
    FILE,
    FOLDER,
    OVERRIDES,
    benchmark_option,
    count_option,
    read_config,
    run_until_interrupted,
    suggest_id,
)
from proverrl.config.load import choose_run
from proverrl.errors import UsageError
from proverrl.files.shipped import find_file

if TYPE_CHECKING:
    from proverrl.config import Config
    from proverrl.types import Problem


@click.command()
@click.argument("problems", nargs=-1, required=True, metavar="PROBLEM...")
@benchmark_option("Take the ids from this source.")
@click.option("--run", type=FOLDER, help="Search with this run's policy.")
@click.option("--config", "config_file", type=FILE, help="Search with its policy.path or server.")
@OVERRIDES
@click.option("--out", type=FOLDER, help="Write one folder per problem here.  [searches/NAME]")
@click.option("--resume", is_flag=True, help="Continue the searches in --out.")
@count_option("--parallel", 1, "Problems at once; above 1 a search does not repeat bit for bit.")
@count_option(
    "--minimise",
    64,
    "Verifier calls for a shorter proof, in addition to those of the search.",
    least=0,
)
@click.option("--emit-samples", "samples", type=FILE, help="Write training samples as JSON lines.")
def search(
    problems: tuple[str, ...],
    benchmark: str | None,
    run: Path | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    out: Path | None,
    resume: bool,
    parallel: int,
    minimise: int,
    samples: Path | None,
) -> None:
    """Search for a proof of each PROBLEM: an id, or a file or benchmark (all of its problems).

    Exit status: 0 all proved, 1 not all proved, 2 an input is wrong, 3 the verifier is broken.
    """
    ask = "say which policy searches: --run RUN, or --config FILE with policy.path"
    config = read_config(config_file, run, overrides, ask=ask)
    from proverrl.files.disk import refuse_inside, refuse_overwriting
    from proverrl.files.lines import check_place, make_file_name

    # A search of one's own is package.module:function.
    place = out or Path("searches") / make_file_name(config.search.name)
    if samples is not None:
        splits = config.problems
        sources = (*problems, benchmark, config_file, splits.train, splits.valid, splits.heldout)
        refuse_overwriting(samples, *(source for source in sources if source))
        refuse_inside(samples, place, *([run] if run else []))
        if samples.exists() and not resume:
            raise UsageError(
                f"{samples} is there already; give another file, or --resume, which writes the "
                "samples of the problems that it names anew"
            )
        check_place(samples)
    found = find_problems(problems, benchmark, config)
    from proverrl.jobs.search import SearchOptions, search_problems
    from proverrl.monitor.console import open_console
    from proverrl.monitor.search_display import list_warnings, make_summary

    options = SearchOptions(place, resume, parallel, minimise, samples)
    weights = choose_run(run, overrides)
    searching = search_problems(config, found, from_run=weights, options=options, stream=sys.stdout)
    how = f"{place} is saved, the same command with --resume continues"
    results = run_until_interrupted(searching, how)
    open_console().print(make_summary(config.search.name, results))
    for warning in list_warnings(results):
        click.echo(f"warning: {warning}")
    click.echo(f"written: {place}")
    sys.exit(0 if all(result["proved"] for result in results) else 1)


def find_problems(texts: tuple[str, ...], benchmark: str | None, config: Config) -> list[Problem]:
    """The problems that are named: ids of ``benchmark``; without one, sources, all of whose
    problems are meant, and ids of the problem files that ``config`` names. Raises ``ProblemError``
    if a source cannot be read, and ``UsageError`` if there is no such problem."""
    from proverrl.benchmarks.open import is_source, open_benchmark

    if benchmark is not None:
        opened = open_benchmark(benchmark)
        return [_find_id(text, {p.id: p for p in opened.problems}, benchmark) for text in texts]
    found: list[Problem] = []
    splits: dict[str, Problem] | None = None
    files = [config.problems.heldout, config.problems.valid, config.problems.train]
    for text in texts:
        if is_source(text):
            found += open_benchmark(text).problems
            continue
        if splits is None:
            there = [file for file in dict.fromkeys(files) if find_file(file).is_file()]
            # The first file that has an id counts: held-out problems before those trained on.
            splits = {p.id: p for f in reversed(there) for p in open_benchmark(str(f)).problems}
        found.append(_find_id(text, splits, ", ".join(map(str, files))))
    return found


def _find_id(text: str, by_id: dict[str, Problem], source: str) -> Problem:
    if text in by_id:
        return by_id[text]
    raise UsageError(
        f"{text!r} is no problem of {source}{suggest_id(text, by_id)}; name another source with "
        "--benchmark, or give the path of a file"
    )
