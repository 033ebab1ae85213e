"""The command ``verify``, which judges without a policy.

Flows in: arguments. Flows out: verdicts, and an exit status.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from proverrl.cli.options import (
    ALLOW,
    CONFIRM_OPTION,
    DAFNY_ARGUMENTS,
    DAFNY_VERSION,
    FILE,
    MEMORY_MB,
    RESUME,
    RLIMIT,
    SERVERS,
    explain_resume,
    run_until_interrupted,
    timeout_option,
    workers_option,
)
from proverrl.errors import UsageError


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@workers_option("Processes per language.", "-j")
@timeout_option(
    "Seconds for one candidate, once a worker has it; what runs out is judged again with twice "
    "as many."
)
@RLIMIT
@MEMORY_MB
@click.option("--out", type=FILE, help="Write verdicts here, one JSON line each.")
@RESUME
@click.option(
    "--paranoid",
    is_flag=True,
    help="Check accepted Lean proofs again with leanchecker, SafeVerify, comparator.",
)
@CONFIRM_OPTION
@DAFNY_VERSION
@SERVERS
@ALLOW
@DAFNY_ARGUMENTS
@click.option(
    "--cache/--no-cache",
    default=True,
    help="Keep verdicts, and answer from those of earlier commands and runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines on a terminal too.")
@click.option("--plain", is_flag=True, help="Print a line to read for each verdict, anywhere.")
@click.option("--strict", is_flag=True, help="Files with nothing to prove count as not proved.")
@click.option("--junit", type=FILE, help="Write a JUnit report here, for continuous integration.")
@click.option(
    "--github",
    is_flag=True,
    envvar="GITHUB_ACTIONS",
    help="Say errors as annotations of GitHub Actions.  [where it runs]",
)
def verify(
    paths: tuple[str, ...],
    timeout: float,
    out: Path | None,
    resume: bool,
    **options: Any,
) -> None:
    """Judge .dfy and .lean files, folders, quoted patterns, dfyconfig.toml, and JSON lines (- is
    standard input), in input order.

    Exit status: 0 all proved (or with nothing to prove, without --strict), 1 not all proved, 2 an
    input is wrong, 3 the verifier is broken.
    """
    from proverrl.cli.verdicts import print_verdicts
    from proverrl.lang.base import CANARY_RATE
    from proverrl.problems.input_paths import expand_paths, open_project

    if not paths:
        raise UsageError("name what is to be verified: files, folders, a pattern, or - for lines")
    files, project = open_project(expand_paths(paths))
    judging = print_verdicts(
        files,
        project=project,
        deadline_seconds=timeout,
        out=out,
        resume=resume,
        canary_rate=CANARY_RATE,
        **options,
    )
    sys.exit(run_until_interrupted(judging, explain_resume(out, "verdict")))
