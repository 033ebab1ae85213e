"""The commands that question figures and files: ``contamination``, ``recheck``, ``check``.

Flows in: arguments. Flows out: tables, JSON lines, and an exit status.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from proverrl.cli.options import (
    AS_JSON,
    DAFNY_VERSION,
    FILE,
    RESUME,
    RLIMIT,
    GivenPath,
    benchmark_option,
    explain_resume,
    run_until_interrupted,
    timeout_option,
    workers_option,
)
from proverrl.config.base import DafnyVersion
from proverrl.errors import ProblemError, UsageError
from proverrl.plugins import refuse_exit

if TYPE_CHECKING:
    from proverrl.evaluation.claims import Claim, Misfit
    from proverrl.evaluation.recheck import RecheckedClaim


@click.command()
@click.option(
    "--train", "training", multiple=True, required=True, type=FILE, help="Training problems."
)
@benchmark_option("The benchmark.", required=True)
@AS_JSON
def contamination(training: tuple[Path, ...], benchmark: str, as_json: bool) -> None:
    """Find problems of a benchmark in the training data, exactly or nearly.

    Exit status: 0 none, 1 some.
    """
    from itertools import chain

    from proverrl.benchmarks.open import open_benchmark
    from proverrl.problems.contamination import (
        NEAR_SHARE,
        find_contamination,
        read_statements,
        take_statements,
    )

    streamed = chain.from_iterable(read_statements(path) for path in training)
    try:
        asked = take_statements(open_benchmark(benchmark).problems)
    except ProblemError:
        # Only statements are compared, so that rows do that nothing could be proved of.
        if not Path(benchmark).is_file():
            raise
        asked = list(read_statements(Path(benchmark)))
    found = find_contamination(asked, streamed)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        for match in sorted(found.matches, key=lambda match: (match.kind, -match.share)):
            click.echo(
                f"{match.kind:>8}  {100 * match.share:5.1f} %  {match.benchmark_id}  "
                f"{match.training_id}"
            )
        click.echo(
            f"{found.num_benchmark} problems against {found.num_training} for training: "
            f"{found.count('same')} the same, {found.count('renamed')} under other names, "
            f"{found.count('near')} near (at least {100 * NEAR_SHARE:g} % of the 13-token runs); "
            f"{found.touched} share any run"
        )
    sys.exit(1 if found.matches else 0)


@click.command()
@click.argument("file", type=GivenPath())
@benchmark_option("The problems.", required=True)
@workers_option("Processes.")
@DAFNY_VERSION
@timeout_option("Seconds for one proof, once a worker has it.")
@RLIMIT
@click.option("--out", type=FILE, help="Write the outcome of each claim as a JSON line.")
@RESUME
def recheck(
    file: Path, benchmark: str, out: Path | None, resume: bool, timeout: float, **how: Any
) -> None:
    """Verify the proofs that someone else's result FILE claims, on the benchmark's statements.

    Exit status: 0 all hold, 1 some fail or could not be judged, 2 a line fits no format.
    """
    from proverrl.problems.input_paths import check_output

    if resume and out is None:
        raise UsageError("--resume continues a file of outcomes: name it with --out")
    if out is not None:
        check_output(out, [str(file), benchmark], sys.stdin.buffer)
    rechecking = _recheck(file, benchmark, out, resume, timeout, **how)
    counts = run_until_interrupted(rechecking, explain_resume(out, "outcome"))
    claims = sum(counts.values()) - counts["misfit"] - counts["unclaimed"]
    parts = [f"{count} {name}" for name, count in sorted(counts.items()) if name != "proved"]
    click.echo(f"{counts['proved']} of {claims} claimed proofs hold; {', '.join(parts) or 'done'}")
    if counts["misfit"]:
        sys.exit(2)
    sys.exit(0 if counts["proved"] == claims else 1)


async def _recheck(
    file: Path, benchmark: str, out: Path | None, resume: bool, seconds: float, **how: Any
) -> Counter[str]:
    from proverrl.benchmarks.open import open_benchmark
    from proverrl.cli.second_look import open_patient
    from proverrl.evaluation.claims import Misfit, read_claims
    from proverrl.evaluation.recheck import describe_conditions, read_written, recheck_claims
    from proverrl.lang.base import CANARY_RATE

    problems = open_benchmark(benchmark).problems
    by_id = {problem.id: problem for problem in problems}
    counts: Counter[str] = Counter()
    written = read_written(out) if resume and out else {}

    def choose() -> Iterator[Claim | Misfit]:
        for item in read_claims(file):
            if not isinstance(item, Misfit):
                if not item.claimed:
                    counts["unclaimed"] += 1
                elif (earlier := written.get((item.line, item.number))) is not None:
                    if earlier.digest != item.digest:
                        raise UsageError(
                            f"line {item.line} of {file} is not what {out} was made from; leave "
                            "out --resume to start anew"
                        )
                    if earlier.conditions != describe_conditions(item, by_id, verifier.make_key):
                        raise UsageError(
                            f"line {item.line} of {file} was judged for {out} against another "
                            "statement, or by other judges or limits (--benchmark, --rlimit, "
                            "--dafny-version, PROVERRL_SECOND_DAFNY, another Dafny or Lean); leave "
                            "out --resume to start anew"
                        )
                    counts[earlier.status] += 1
                    continue
            yield item

    languages = sorted({problem.language for problem in problems})
    verifier = open_patient(**how, needed=languages, canary_rate=CANARY_RATE)
    try:
        with ExitStack() as stack:
            sink = None
            if out is not None:
                sink = stack.enter_context(_open_out(out, "a" if resume else "w"))
            async for item in recheck_claims(
                choose(), problems, verifier, deadline_seconds=seconds
            ):
                if isinstance(item, Misfit):
                    counts["misfit"] += 1
                    click.echo(f"error: {file}:{item.line}: {item.reason}", err=True)
                    continue
                counts[item.status] += 1
                _show(file, item, sink, describe_conditions(item.claim, by_id, verifier.make_key))
    finally:
        await verifier.aclose()
    return counts


def _open_out(path: Path, mode: str) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open(mode, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written: {error.strerror}") from error


def _show(file: Path, outcome: RecheckedClaim, sink: IO[str] | None, conditions: str) -> None:
    from proverrl.files.disk import saving
    from proverrl.files.seal import write_sealed

    if sink is not None:
        with saving(Path(sink.name)):
            row = outcome.to_json() | {"conditions": conditions}
            sink.write(write_sealed(row) + "\n")
            sink.flush()
    if not outcome.holds:
        place = f"{file}:{outcome.claim.line}"
        click.echo(f"{place}: {outcome.problem_id}: {outcome.status}: {outcome.reason}")


@click.command("check")
@click.argument("file", type=FILE)
@click.option("--prove", is_flag=True, help="Have the real verifier prove the references too.")
@workers_option("Verifier processes, with --prove.")
@DAFNY_VERSION
@timeout_option("Seconds for one reference.")
@RLIMIT
def check_problems(
    file: Path,
    prove: bool,
    workers: int,
    timeout: float,
    rlimit: int | None,
    dafny_version: DafnyVersion,
) -> None:
    """Say what is wrong with FILE of your own problems, line by line.

    Exit status: 0 nothing, 1 something, 3 with --prove: a language cannot be judged here.

    docs/problems.md has every field, and an example of each kind.
    """
    import asyncio

    from proverrl.cli.second_look import open_patient
    from proverrl.monitor.console import open_console, open_progress
    from proverrl.problems.check import check_file, prove_references

    found = check_file(file)
    known = [problem for _, problem, reference in found.right if reference is not None]

    async def prove_all() -> None:
        verifier = open_patient(rlimit, workers=workers, dafny_version=dafny_version, needed=())
        with open_progress(open_console(stderr=True)) as progress:
            bar = progress.add_task("proving", total=len(known))
            try:
                await prove_references(
                    found, verifier, deadline_seconds=timeout, show=lambda: progress.advance(bar)
                )
            finally:
                await verifier.aclose()

    if prove and known:
        with refuse_exit("--prove", "a plug-in"):
            asyncio.run(prove_all())
    for fault in found.faults:
        click.echo(fault)
    proved = f", {found.num_proved} proved" if prove else ""
    click.echo(f"{file}: {found.describe()}{proved}")
    sys.exit(3 if found.num_missing else 1 if found.faults else 0)
