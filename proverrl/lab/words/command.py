"""The commands that begin with words: ``proverrl words ...``.

Flows in: arguments. Flows out: problems, statements with their judgement, proofs, critics, shares,
an exit status.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from proverrl.cli.options import (
    DAFNY_VERSION,
    FILE,
    FOLDER,
    OUT_FILE,
    OVERRIDES,
    FiniteRange,
    GivenPath,
    LanguageName,
    benchmark_option,
    check_result_name,
    count_option,
    draft_options,
    read_config,
    run_until_interrupted,
    workers_option,
)
from proverrl.cli.problems import parse_levels
from proverrl.cli.search import find_problems
from proverrl.config.load import choose_run, names_policy
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import find_language

if TYPE_CHECKING:
    from proverrl.config import Config
    from proverrl.generate.families import Generator
    from proverrl.lab.words.formalize import Formalized
    from proverrl.lab.words.prove import Proved
    from proverrl.types import Split

_MAX_SHOWN = 5
_SAMPLES = count_option("--samples", 8, "Statements to write for each text.")
_LEAST = click.option(
    "--least",
    default=0.5,
    type=FiniteRange(0, 1),
    help="Keep a statement only if at least this share of the samples means the same.",
)
_CRITICS = click.option(
    "--critic",
    "critics",
    type=FOLDER,
    multiple=True,
    help="Drop what this critic does not call right; several are asked one after the other.",
)


@click.group()
def words() -> None:
    """From English: statements, programs, claims and questions, and critics of statements."""


@words.command()
@click.argument("language", type=LanguageName())
@click.option(
    "--ask",
    type=click.Choice(["statements", "programs", "decisions", "answers"]),
    default="statements",
    help="For statements, for contracts with their code, for the side of a claim that holds, or "
    "for a number that a theorem names.",
)
@draft_options("Number of problems; of theorems for decisions.")
@click.option("--known-words", is_flag=True, help="No wording that training does not use.")
@click.option(
    "--with-program",
    is_flag=True,
    help="Keep the program behind each statement, so that it can be proved of it.",
)
@workers_option("Verifier processes.")
@DAFNY_VERSION
@OUT_FILE
def generate(
    language: str,
    ask: str,
    levels: str,
    split: str,
    unseen: bool,
    known_words: bool,
    with_program: bool,
    out: Path,
    **work: Any,
) -> None:
    """Generate problems in words; the real verifier checks each one before it is written."""
    import asyncio

    from proverrl.lab.words.drafts import QuestionGenerator, StatementGenerator, TheoremGenerator
    from proverrl.lab.words.variants import DecisionChecker
    from proverrl.problems.drafts import DraftChecker, generate_file

    if known_words and ask == "decisions":
        raise UsageError("--known-words is about English, and decisions are not asked in words")
    if with_program and ask != "statements":
        raise UsageError("--with-program is for --ask statements")
    known = find_language(language)
    generator: Generator
    if ask == "decisions":
        generator = TheoremGenerator(known)
    elif ask == "answers":
        generator = QuestionGenerator(known, known_words=known_words)
    else:
        generator = StatementGenerator(
            known,
            programs=ask == "programs",
            known_words=known_words,
            with_program=with_program,
        )
    generating = generate_file(
        out,
        generator,
        levels=parse_levels(levels),
        split=cast("Split", split),
        unseen=unseen,
        show=partial(click.echo, err=True),
        checks=DecisionChecker if ask == "decisions" else DraftChecker,
        **work,
    )
    click.echo(asyncio.run(generating))


@words.command()
@click.argument("source")
@click.option("--show", type=click.Choice(["words", "formal"]), required=True, help="What to show.")
@OUT_FILE
def convert(source: str, show: str, out: Path) -> None:
    """Write the questions of SOURCE so that only their words are shown, or only the formal
    claim."""
    from proverrl.benchmarks.convert import write_benchmark
    from proverrl.benchmarks.open import open_benchmark
    from proverrl.lab.words.answers import show_parts

    for path in write_benchmark(show_parts(open_benchmark(source), show), out):
        click.echo(f"written: {path}")


@words.command()
@benchmark_option("The texts.", "source", required=True)
@click.option("--run", type=FOLDER, help="Write with this run's policy.")
@click.option("--config", "config_file", type=FILE, help="Write with its policy.path or server.")
@OVERRIDES
@_SAMPLES
@_LEAST
@_CRITICS
@click.option("--name", default="formalize", help="Name of the result files in RUN/evals.")
@click.option("--out", type=FILE, required=True, help="Write the kept statements as problems here.")
def formalize(
    source: str,
    run: Path | None,
    config_file: Path | None,
    overrides: tuple[str, ...],
    samples: int,
    least: float,
    critics: tuple[Path, ...],
    name: str,
    out: Path,
) -> None:
    """Write formal statements for the texts of a file, judge them, and keep the best of each.

    Interrupted, the same command continues.
    """
    check_result_name(name)
    if not source.strip():
        raise UsageError("--benchmark is empty: name a file of words")
    from proverrl.files.disk import refuse_inside, refuse_overwriting

    refuse_overwriting(out, source)
    ask = "say which policy writes: --run RUN, or --config FILE with policy.path"
    config = read_config(config_file, run, _sample(overrides, samples), ask=ask)
    refuse_inside(out, config.run)

    from proverrl.lab.words.formalize import FormalizeOptions, write_kept
    from proverrl.lab.words.formalize import formalize as write_statements
    from proverrl.report import write_report

    options = FormalizeOptions(name, least, by_meaning=True, critics=critics)
    writing = write_statements(config, source, from_run=choose_run(run, overrides), options=options)
    found = run_until_interrupted(writing, "judged statements are kept, the same command continues")
    num_kept = write_kept(out, found)
    for one in found[:_MAX_SHOWN]:
        _show_statement(one)
    click.echo(f"{num_kept} of {len(found)} texts have a statement that is kept")
    for line in _count_dropped(found):
        click.echo(line)
    if not all(one.knows_meaning for one in found):
        click.echo("texts that do not say what is meant never count as proved, in pass@1 neither")
    if critics:
        _show_passed(found)
    click.echo(f"written: {out}, {config.run / 'evals' / f'{name}.statements.jsonl'}")
    click.echo(f"report: {write_report([config.run])}")


@words.command()
@click.argument("file", type=FILE)
@count_option("--num", 2000, "Number of problems, half of them of right statements.", least=2)
@count_option("--pairs", 1, "Most pairs of a right and a wrong statement of one text.", least=1)
@count_option("--seed", 0, "Seed.", least=0)
@workers_option("Verifier processes.")
@DAFNY_VERSION
@click.option(
    "--statements",
    type=FILE,
    help="Take first a formaliser's statements of FILE's texts (RUN/evals/NAME.statements.jsonl).",
)
@OUT_FILE
def critiques(file: Path, out: Path, **work: Any) -> None:
    """Ask whether statements say what the English says: right and wrong ones for each problem of
    FILE (words generate), all certified by the real verifier."""
    import asyncio

    from proverrl.lab.critics.critiques import write_critiques

    show = partial(click.echo, err=True)
    click.echo(asyncio.run(write_critiques(file, out, show=show, **work)))


@words.command()
@click.argument("file", type=FILE)
@click.argument("pairs", type=FILE)
@OUT_FILE
def reader(file: Path, pairs: Path, out: Path) -> None:
    """Write what a formaliser should learn that is to judge: the statements of FILE, and what PAIRS
    calls right, all also as a critic is shown them."""
    from proverrl.lab.critics.critiques import write_reader

    click.echo(write_reader(file, pairs, out))


@words.command("fit-critic")
@click.option("--run", type=FOLDER, required=True, help="The formaliser's run.")
@benchmark_option("The judged pairs.", "source", required=True)
@OVERRIDES
@click.option("--out", type=FOLDER, required=True, help="Write the critic to this folder.")
def fit_critic(run: Path, source: str, overrides: tuple[str, ...], out: Path) -> None:
    """Make a critic of a run's formaliser, fitted on judged pairs.

    The folder is one for --critic and for `proverrl words judge`.
    """
    config = read_config(None, run, overrides, ask="name the run of a formaliser")

    from proverrl.lab.critics.fit_critic import fit_critic as fit

    click.echo(fit(config, run, source, out))
    click.echo(f"written: {out}; it judges with the weights of {run}, which must stay")


@words.command()
@click.option("--critic", type=FOLDER, required=True, help="The folder of the critic.")
@click.option(
    "--config", "config_file", type=FILE, required=True, help="The evaluation's settings."
)
@benchmark_option("The critiques.", required=True)
@OVERRIDES
@click.option("--name", default="judge", help="Name of the result files in RUN/evals.")
def judge(
    critic: Path, config_file: Path, benchmark: str, overrides: tuple[str, ...], name: str
) -> None:
    """Evaluate a critic that fit-critic wrote; one in words is a policy, for `proverrl eval`."""
    check_result_name(name)
    asked = ("evaluation.samples=1", "evaluation.ks=[1]", "evaluation.max_problems=0", *overrides)
    config = read_config(config_file, None, asked, ask="")
    from proverrl.jobs.evaluate import evaluate_benchmarks
    from proverrl.lab.critics.likelihood import open_likelihood
    from proverrl.report import write_report

    policy = open_likelihood(config, str(critic), "--critic")
    if policy is None:
        raise UsageError(f"{critic} is no critic that fit-critic wrote")
    work = evaluate_benchmarks(config, from_run=None, benchmarks={name: benchmark}, policy=policy)
    run_until_interrupted(work, "judgements are stored, the same command continues")
    click.echo(f"report: {write_report([config.run])}")


@words.command()
@click.argument("texts", nargs=-1, required=True, metavar="PROBLEM|WORDS...")
@benchmark_option("Take the ids from this source.")
@click.option(
    "--formaliser",
    type=GivenPath(),
    required=True,
    metavar="RUN|FILE",
    help="Write the statement with this run's policy, or that of a configuration.",
)
@click.option(
    "--prover",
    type=GivenPath(),
    required=True,
    metavar="RUN|FILE",
    help="Prove it with this run's policy, or that of a configuration.",
)
@click.option(
    "--program",
    type=FILE,
    help="The program that WORDS are about: a method without its contract whose proof is a hole "
    "(.dfy), or definitions (.lean).",
)
@click.option("--kind", default="invariants", help="Kind of the hole of a .dfy --program.")
@OVERRIDES
@_SAMPLES
@_LEAST
@_CRITICS
@click.option("--out", type=FOLDER, default=Path("searches/prove"), help="Write everything here.")
@click.option("--resume", is_flag=True, help="Continue the searches in --out.")
@count_option("--parallel", 1, "Proofs to search for at once.")
def prove(
    texts: tuple[str, ...],
    benchmark: str | None,
    formaliser: Path,
    prover: Path,
    program: Path | None,
    kind: str,
    overrides: tuple[str, ...],
    samples: int,
    least: float,
    critics: tuple[Path, ...],
    out: Path,
    resume: bool,
    parallel: int,
) -> None:
    """From words to a proof: WORDS about a --program, or PROBLEMs in words as for search.

    For problems that know what is meant it tells the chance that statement, meaning and proof are
    right. Exit status as that of search.
    """
    if not all(text.strip() for text in texts):
        raise UsageError("WORDS is empty: give English, or name a file of problems in words")
    if names_policy(overrides):
        raise UsageError("--set policy.path would be both policies; name a FILE that has it")
    from proverrl.jobs.search import SearchOptions
    from proverrl.lab.words.prove import estimate_chances
    from proverrl.lab.words.prove import prove as prove_words

    written = _read_policy(formaliser, _sample(overrides, samples))
    proving = _read_policy(prover, overrides)
    source = _find_words(texts, benchmark, program, kind, out, written)
    work = prove_words(
        written,
        proving,
        source,
        runs=(_name_run(formaliser), _name_run(prover)),
        least=least,
        critics=critics,
        options=SearchOptions(out, resume, parallel, minimise_calls=0),
        stream=sys.stdout,
    )
    how = f"{out} is saved, the same command with --resume continues"
    proved = run_until_interrupted(work, how)
    for one in proved[:_MAX_SHOWN]:
        _show(one)
    for chance in estimate_chances(proved):
        click.echo(
            f"{chance.stage}: {chance.count} of {chance.num}, "
            f"{100 * chance.count / chance.num:.1f} % "
            f"({100 * chance.low:.1f} to {100 * chance.high:.1f})"
        )
    click.echo(f"written: {out}")
    sys.exit(0 if all(one.is_proved for one in proved) else 1)


def _sample(overrides: Sequence[str], samples: int) -> tuple[str, ...]:
    """All of a source, so many samples of each, of which one is enough for a figure."""
    asked = ("evaluation.ks=[1]", "evaluation.max_problems=0", "evaluation.search=false")
    return (*overrides, f"evaluation.samples={samples}", *asked)


def _read_policy(place: Path, overrides: Sequence[str]) -> Config:
    """The configuration that a run folder holds, or that is in a file."""
    if place.is_dir():
        return read_config(None, place, overrides, ask="")
    return read_config(place, None, overrides, ask="")


def _name_run(place: Path) -> Path | None:
    return place if place.is_dir() else None


def _find_words(
    texts: tuple[str, ...],
    benchmark: str | None,
    program: Path | None,
    kind: str,
    out: Path,
    config: Config,
) -> str:
    """The source of problems in words; it is written where words or ids were given."""
    from proverrl.benchmarks.open import is_source
    from proverrl.files.lines import read_text
    from proverrl.lab.words.prove import write_words
    from proverrl.lang import find_suffixes
    from proverrl.problems.load import make_row, write_problems

    place = out / "words.jsonl"
    if program is not None:
        suffixes = find_suffixes()
        if program.suffix not in suffixes:
            known = ", ".join(suffixes)
            raise UsageError(f"--program {program}: give a file that ends in one of {known}")
        if benchmark is not None:
            raise UsageError("--program is for words of your own, --benchmark for ids; drop one")
        try:
            language = suffixes[program.suffix]
            write_words(place, language, read_text(program), kind, " ".join(texts))
        except ProblemError as error:
            raise ProblemError(f"--program {program}: {error}") from error
        return str(place)
    if benchmark is None and len(texts) == 1:
        if not is_source(texts[0]):
            raise UsageError(
                "say with --program what the words are about, or give a file of problems in words"
            )
        return texts[0]
    write_problems(place, map(make_row, find_problems(texts, benchmark, config)))
    return str(place)


def _count_dropped(found: Sequence[Formalized]) -> list[str]:
    """The number of samples that were dropped for each reason."""
    counts = Counter[str]()
    for one in found:
        for judged in one.judged:
            if reason := one.dropped.get(judged.body):
                counts[reason.partition(":")[0]] += judged.count
        for reason, count in one.lost.items():
            counts[f"no statement, {reason}"] += count
    return [f"  dropped {count}: {reason}" for reason, count in counts.most_common()]


def _show_passed(found: Sequence[Formalized]) -> None:
    """Print the quality of the critics as a gate, where it is known what is meant."""
    from proverrl.lab.words.judging import count_passed

    counts = count_passed(judged for one in found for judged in one.judged)
    asked_about = [judged for one in found for judged in one.judged if judged.critic]
    if not asked_about:
        click.echo(
            "the critics were asked about no statement: none is well formed and says something"
        )
    elif all(judged.critic_says is None for judged in asked_about):
        click.echo(
            f"warning: no critic gave a judgement on any of {len(asked_about)} statements: "
            f"{asked_about[0].critic}. Are these the weights of a critic (configs/lab/critic.toml, "
            "proverrl words fit-critic)?",
            err=True,
        )
    for means, name in ((True, "right"), (False, "wrong")):
        passed, asked = counts[means]
        if asked:
            share = 100 * passed / asked
            click.echo(
                f"{name} by proof: {passed} of {asked} samples pass the critics, {share:.1f} %"
            )


def _show(one: Proved) -> None:
    _show_statement(one.formalized)
    if one.formalized.kept is not None:
        click.echo("  proved" if one.is_proved else "  no proof was found")


def _show_statement(found: Formalized) -> None:
    click.echo(f"{found.problem.id}: {found.problem.informal}")
    if found.kept is None:
        click.echo(f"  no statement is kept of {found.num_samples} samples")
        for body, reason in found.dropped.items():
            click.echo(f"  dropped: {' '.join(body.split())}: {reason}")
        return
    for line in found.kept.body.splitlines():
        click.echo(f"  | {line}")
    said = {True: "; it is what is meant, by proof", False: "; it is not what is meant, by proof"}
    means = "" if found.kept.means is None else said[found.kept.means]
    agreeing = f"{found.kept.agreeing} of {found.num_samples} samples"
    click.echo(f"  {agreeing} are proved to mean this{means}")
