"""``proverrl serve``: the verifier pool behind HTTP.

Flows in: arguments, a file of keys. Flows out: a server that runs until a signal comes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from proverrl.cli.options import (
    CONFIRM_OPTION,
    DAFNY_VERSION,
    FILE,
    LANGUAGE,
    MEMORY_MB,
    FiniteRange,
    GivenPath,
    count_option,
    workers_option,
)
from proverrl.config.base import DafnyVersion


@click.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8000, type=click.IntRange(0, 65535), help="0 takes a free one.")
@workers_option("Processes per language.")
@click.option(
    "--deadline",
    "deadline_seconds",
    default=300.0,
    type=FiniteRange(0.1),
    help="The most seconds that a request may ask for one candidate.",
)
@MEMORY_MB
@count_option("--room", 10_000, "Candidates that may wait or run; more are answered 429.")
@count_option("--max-batch", 1_000, "Candidates in one request.")
@count_option("--max-text", 65_536, "Characters of one candidate with its statement.")
@click.option(
    "--api-key-file",
    type=GivenPath(exists=True, dir_okay=False),
    help="Keys of the clients, one a line. Needed unless only this machine can ask.",
)
@click.option("--insecure", is_flag=True, help="Let other machines ask without a key.")
@click.option("--cache", type=FILE, help="Keep verdicts in this file.  [default: in memory]")
@click.option(
    "--rlimit", type=click.IntRange(1), help="Dafny's resource limit per procedure.  [3000000]"
)
@click.option("--trace-states", is_flag=True, help="Tell the goals on the way, for searches.")
@CONFIRM_OPTION
@DAFNY_VERSION
@LANGUAGE
def serve(
    api_key_file: Path | None,
    rlimit: int | None,
    workers: int,
    memory_mb: float | None,
    trace_states: bool,
    confirm: str,
    dafny_version: DafnyVersion,
    **settings: Any,
) -> None:
    """Judge proofs for other programs over HTTP, in the dialect of kimina-lean-server too.

    SIGTERM stops it in order: what was accepted is answered first.
    """
    from proverrl.lang.base import CANARY_RATE, BackendOptions
    from proverrl.serve.run import serve as run_server
    from proverrl.serve.settings import ServeSettings, read_keys
    from proverrl.verifier.base import Limits

    options = BackendOptions(
        workers=workers,
        limits=Limits() if rlimit is None else Limits(rlimit=rlimit),
        memory_mb=memory_mb,
        canary_rate=CANARY_RATE,
        trace_states=trace_states,
        confirm=confirm,
        dafny_version=dafny_version,
    )
    keys = read_keys(api_key_file) if api_key_file else ()
    run_server(
        ServeSettings(options, keys=keys, **settings), lambda text: click.echo(text, err=True)
    )
