"""``proverrl verify``: verdicts as JSON lines, or as lines for a person with a progress bar.

Flows in: paths. Flows out: verdicts on stdout or in a file, complaints on stderr, an exit status.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from proverrl.errors import UsageError
from proverrl.types import Status, Verdict
from proverrl.verify.batch import verify_stream
from proverrl.verify.inputs import Unusable, read_inputs, verdict_to_json
from proverrl.verify.make import open_verifier

STYLES = {Status.PROVED: "green", Status.UNSOUND: "magenta"}
MAX_MESSAGES = 3


async def print_verdicts(
    paths: Sequence[str],
    *,
    backend: str,
    workers: int,
    deadline_seconds: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Judge all inputs; returns 0 when all are proved, 1 when not, 2 when an input is malformed,
    3 when an input needs a back end that is not there.

    Raises:
        UsageError: a path is missing, or ``out`` cannot be written.
        ToolchainError: Dafny is not installed.
    """
    entries = list(read_inputs(paths, sys.stdin))
    screen = Console(stderr=True)
    for_people = sys.stdout.isatty() and not as_json and out is None
    counts: Counter[str] = Counter()
    verifier = open_verifier(workers=workers)
    try:
        with ExitStack() as stack:
            sink = stack.enter_context(_open(out)) if out else sys.stdout
            progress = stack.enter_context(
                Progress(console=screen, disable=not sys.stderr.isatty(), transient=True)
            )
            bar = progress.add_task("verifying", total=len(entries))
            stream = verify_stream(entries, verifier, deadline_seconds=deadline_seconds)
            async for entry, verdict in stream:
                progress.advance(bar)
                if isinstance(entry, Unusable) or verdict is None:
                    assert isinstance(entry, Unusable)
                    counts[entry.kind] += 1
                    screen.print(f"[red]error:[/] {escape(entry.message)}")
                    continue
                counts[verdict.status] += 1
                if for_people:
                    _print_for_people(Console(), entry.id, verdict)
                else:
                    sink.write(json.dumps(verdict_to_json(entry.id, verdict)) + "\n")
                    sink.flush()
    finally:
        await verifier.aclose()
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    screen.print(f"{verifier.backend}, {verifier.toolchain} ({backend}): {summary or 'nothing'}")
    if counts["no-backend"]:
        return 3
    if counts["malformed"]:
        return 2
    return 0 if counts[Status.PROVED] == sum(counts.values()) > 0 else 1


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written: {error}") from error


def _print_for_people(console: Console, name: str, verdict: Verdict) -> None:
    style = STYLES.get(verdict.status, "red" if verdict.status.judged else "yellow")
    console.print(
        f"[{style}]{verdict.status.value:10}[/] {escape(name)}  [dim]{verdict.seconds:.2f} s[/]"
    )
    shown = [d for d in verdict.diagnostics if d.severity == "error"][:MAX_MESSAGES]
    for diagnostic in shown:
        console.print(
            f"           {diagnostic.line}:{diagnostic.column} {escape(diagnostic.message)}"
        )
