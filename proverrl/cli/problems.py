"""The commands about problems: ``problems generate|convert|list|show``.

Flows in: arguments. Flows out: text and files.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from proverrl.benchmarks.base import BenchmarkFormat
from proverrl.cli.options import (
    DAFNY_VERSION,
    OUT_FILE,
    LanguageName,
    count_option,
    draft_options,
    suggest_id,
    workers_option,
)
from proverrl.errors import UsageError
from proverrl.lang import find_language

if TYPE_CHECKING:
    from proverrl.benchmarks.open import Benchmark
    from proverrl.config import LayoutName
    from proverrl.types import Problem, Split

_MAX_SHOWN = 5
_FORMAT = click.option(
    "--format",
    "format_name",
    default="auto",
    type=click.Choice(["auto", *get_args(BenchmarkFormat)]),
    help="Format of the source; auto detects it.",
)
_flag = partial(click.option, is_flag=True)
_LEVELS = click.option("--levels", default="", help="Only these levels, as 1-3 or 1,3.")
_FAMILIES = click.option("--families", default="", help="Only these families, as l1_acc,l4_*.")


@click.group()
def problems() -> None:
    """Generate, convert, list and show problems."""


@problems.command()
@click.argument("language", type=LanguageName())
@draft_options("Number of problems.")
@_flag("--code", help="Ask for code: of methods with a contract, or of a function with its proof.")
@workers_option("Verifier processes.")
@DAFNY_VERSION
@OUT_FILE
def generate(
    language: str,
    levels: str,
    split: str,
    unseen: bool,
    code: bool,
    out: Path,
    **work: Any,
) -> None:
    """Generate problems; the real verifier checks each one before it is written."""
    import asyncio

    from proverrl.generate import CODE, PROOFS, find_generator
    from proverrl.problems.drafts import DraftChecker, generate_file

    generator = find_generator(language, code=code)
    if generator is None:
        known = " and ".join(CODE if code else PROOFS)
        raise UsageError(f"there is no generator of {language} problems; there is one of {known}")
    generating = generate_file(
        out,
        generator,
        levels=parse_levels(levels),
        split=cast("Split", split),
        unseen=unseen,
        show=partial(click.echo, err=True),
        checks=DraftChecker,
        **work,
    )
    click.echo(asyncio.run(generating))


@problems.command()
@click.argument("source")
@_FORMAT
@_LEVELS
@_FAMILIES
@count_option(
    "--per-level", 0, "Only so many problems of each level, evenly spread; 0: all.", least=0
)
@OUT_FILE
def convert(
    source: str,
    format_name: str,
    levels: str,
    families: str,
    per_level: int,
    out: Path,
) -> None:
    """Write SOURCE (a name, a path, hf:ID[:split], leandojo:...) as a file of our problems."""
    from proverrl.benchmarks.convert import write_benchmark

    whole = _open(source, format_name)
    benchmark = _select(whole, levels, families, per_level)
    written = write_benchmark(benchmark, out)
    click.echo(f"{benchmark.summary}, from {benchmark.place}")
    click.echo(f"licence: {benchmark.licence}")
    click.echo(f"sha256 of the source: {benchmark.sha256 or 'not of one file'}")
    # The file of refused problems has the lines.
    reasons = Counter(re.sub(r"\bline \d+: ", "", entry.reason) for entry in benchmark.refused)
    for reason, count in reasons.most_common():
        click.echo(f"refused {count}: {reason}")
    _warn_of_overlaps(benchmark)
    for path in written:
        click.echo(f"written: {path}")


@problems.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--heldout",
    "share",
    default=0.5,
    type=float,
    show_default=True,
    help="Share of the problems that is held out.",
)
@click.option(
    "--project",
    default="",
    metavar="REGEX",
    help="What names a project in an id; a project stays on one side.",
)
@click.option("--seed", default=0, show_default=True, help="Decides between groups of one size.")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Gets NAME.train.jsonl and NAME.heldout.jsonl of each SOURCE.",
)
def split(sources: tuple[str, ...], share: float, project: str, seed: int, out: Path) -> None:
    """Divide the problems of all SOURCES into training and held-out ones.

    Problems that are nearly the same, or of one project, stay together.
    """
    from proverrl.benchmarks.convert import write_benchmark
    from proverrl.files.disk import refuse_overwriting
    from proverrl.problems.split import divide

    if not 0.0 < share < 1.0:
        raise UsageError(f"--heldout {share}: a share lies between 0 and 1")
    read = [_open(source, "auto") for source in sources]
    names = [Path(benchmark.name).stem for benchmark in read]
    if len({*names}) < len(names):
        raise UsageError(
            f"two sources have one name ({', '.join(names)}), and so would their files"
        )
    whole = [problem for benchmark in read for problem in benchmark.problems]
    held = iter(divide(whole, share, seed=seed, project=_read_project(project, whole)))
    parts = []
    for name, benchmark in zip(names, read, strict=True):
        chosen = [(entry, next(held)) for entry in benchmark.entries]
        for side, wanted in (("train", False), ("heldout", True)):
            entries = tuple(
                replace(entry, problem=replace(entry.problem, split=cast("Split", side)))
                for entry, is_held in chosen
                if is_held is wanted
            )
            if not entries:
                raise UsageError(
                    f"{name}: nothing is left for {side}; name more problems of other kinds"
                )
            selection = (
                f"{side} of problems split, heldout {share}, seed {seed}, project {project!r}"
            )
            part = replace(benchmark, entries=entries, refused=(), selection=selection)
            parts.append((part, out / f"{name}.{side}.jsonl"))
    for _, path in parts:
        refuse_overwriting(path, *sources)
    for part, path in parts:
        click.echo(f"written: {write_benchmark(part, path)[0]}, {len(part.entries)} problems")
    if refused := sum(len(benchmark.refused) for benchmark in read):
        click.echo(f"left out: {refused} refused problems; `problems convert` says why")


def _read_project(pattern: str, problems: list[Problem]) -> re.Pattern[str] | None:
    """Raises ``UsageError`` for what is no regular expression, or names no project."""
    try:
        project = re.compile(pattern) if pattern else None
    except re.error as error:
        raise UsageError(f"--project {pattern!r} is no regular expression: {error}") from error
    if project and project.search(""):
        raise UsageError(
            f"--project {pattern!r} matches nothing at all, so that it names no project"
        )
    if project and not any(project.search(problem.id) for problem in problems):
        raise UsageError(
            f"--project {pattern!r} matches no problem's id, so that it names no project"
        )
    return project


@problems.command("list")
@click.argument("file", required=False)
@_FORMAT
@_LEVELS
@_FAMILIES
@click.option("--ids", is_flag=True, help="Print only ids, one per line.")
def list_problems(
    file: str | None,
    format_name: str,
    levels: str,
    families: str,
    ids: bool,
) -> None:
    """Count the problems of FILE by level, family and kind, or print their ids.

    FILE is whatever `eval --benchmark` takes. Without it, the benchmarks that have a name here.
    """
    from proverrl.monitor.console import open_console

    if file is None:
        _print_known(open_console())
        return
    benchmark = _select(_open(file, format_name), levels, families)
    chosen = benchmark.problems
    if ids:
        for problem in chosen:
            click.echo(problem.id)
        return
    open_console().print(f"{file}: {len(chosen)} problems", _count_table(chosen), sep="\n")
    if benchmark.refused:
        click.echo(f"refused: {len(benchmark.refused)}; problems convert lists them with reasons")


@problems.command("show")
@click.argument("file")
@click.argument("problem_id")
@_FORMAT
@click.option("--prompt", help="Layout of the prompt.  [one for the language]")
@click.option("--reference", is_flag=True, help="Show the reference body as well.")
def show_problem(
    file: str, problem_id: str, format_name: str, prompt: str | None, reference: bool
) -> None:
    """Print one problem of FILE as it is assembled, with its hole marked, and its prompt."""
    benchmark = _open(file, format_name)
    by_id = {problem.id: problem for problem in benchmark.problems}
    if problem_id not in by_id:
        raise UsageError(_explain_no_problem(benchmark, file, problem_id))
    problem = by_id[problem_id]
    mark = find_language(problem.language).comment
    click.echo(
        f"{mark} {problem.id}: level {problem.level}, {problem.family}, hole: {problem.kind}"
    )
    click.echo(problem.preamble + problem.statement)
    name = _choose_prompt(problem, prompt)
    click.echo(f"{mark} prompt, layout {name}")
    from proverrl.problems.prompt import render_messages

    for message in render_messages(problem, name):
        click.echo(f"[{message.role}]\n{message.content}")
    if reference:
        click.echo(f"{mark} reference body")
        click.echo(benchmark.references.get(problem_id, "(none)"))


MAX_LEVEL = 99


def parse_levels(text: str) -> tuple[int, ...]:
    """``1-5`` or ``1,3`` as numbers. Raises ``UsageError`` if the text is neither."""
    levels: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            some = range(int(first), int(last if dash else first) + 1)
            if not some or some[0] < 1 or some[-1] > MAX_LEVEL:
                raise UsageError(f"--levels {text!r}: levels go up, from 1 to at most {MAX_LEVEL}")
            levels += some
    except ValueError as error:
        raise UsageError(f"--levels {text!r}: write 1-5 or 1,3") from error
    return tuple(dict.fromkeys(levels))


def _open(text: str, format_name: str) -> Benchmark:
    from proverrl.benchmarks.open import open_benchmark

    chosen = None if format_name == "auto" else cast("BenchmarkFormat", format_name)
    return open_benchmark(text, format_name=chosen)


def _select(whole: Benchmark, levels: str, families: str, per_level: int = 0) -> Benchmark:
    if not (levels or families or per_level):
        return whole
    wanted = parse_levels(levels) if levels else ()
    named = tuple(filter(None, families.split(",")))
    if families and not named:
        raise UsageError(f"--families {families!r} names none; write them as l1_acc,l4_*")
    return whole.select(wanted, named, per_level)


def _print_known(console: Any) -> None:
    from proverrl.benchmarks.known import KNOWN
    from proverrl.benchmarks.open import DATA_VARIABLE, find_known, list_data_folders
    from proverrl.monitor.console import open_table

    table = open_table()
    for column in ("benchmark", "language", "problems", "licence"):
        table.add_column(column, no_wrap=column == "benchmark")
    notes = []
    for name, known in KNOWN.items():
        table.add_row(name, known.language, known.size, known.licence)
        if place := find_known(known):
            notes.append(f"found: {name} in {place}")
    folders = ", ".join(map(str, list_data_folders()))
    notes.append(
        f"looked for in {folders}; ${DATA_VARIABLE} names another folder. "
        "Ask for one that is not found to see where to get it"
    )
    console.print(table, *notes, sep="\n")


def _count_table(chosen: list[Problem]) -> Any:
    from proverrl.monitor.console import open_table

    table = open_table()
    table.add_column("level", justify="right")
    table.add_column("family")
    table.add_column("kind")
    table.add_column("problems", justify="right")
    counts = Counter((p.level, p.family, p.kind) for p in chosen)
    for (number, name, kind), count in sorted(counts.items()):
        table.add_row(str(number), name, kind, str(count))
    return table


def _explain_no_problem(benchmark: Benchmark, file: str, problem_id: str) -> str:
    refused = next((entry for entry in benchmark.refused if entry.id == problem_id), None)
    if refused is not None:
        return f"{file}: {problem_id!r} was refused: {refused.reason}"
    ids = [problem.id for problem in benchmark.problems]
    return f"{file} has no problem {problem_id!r}{suggest_id(problem_id, ids)}"


def _choose_prompt(problem: Problem, wanted: str | None) -> LayoutName:
    """The layout that was asked for, else the one that a conversation about the language has."""
    from proverrl.problems.prompt import LAYOUTS
    from proverrl.types import FILE

    if wanted is None:
        wanted = "plain" if problem.kind == FILE else find_language(problem.language).layout
    if wanted not in LAYOUTS:
        raise UsageError(f"--prompt {wanted!r}: use one of {', '.join(LAYOUTS)}")
    return wanted


def _warn_of_overlaps(benchmark: Benchmark) -> None:
    from proverrl.benchmarks.known import count_taken
    from proverrl.problems.contamination import find_repeats

    origin = benchmark.problems[0].origin
    for name, count in count_taken(origin, benchmark.problems).items():
        click.echo(f"warning: {count} of them are programs of {name}", err=True)
    if repeats := find_repeats(benchmark.problems):
        shown = ", ".join(f"{first} = {second}" for first, second in repeats[:_MAX_SHOWN])
        more = "" if len(repeats) <= _MAX_SHOWN else ", ..."
        click.echo(f"warning: {len(repeats)} are stated twice in it: {shown}{more}", err=True)
