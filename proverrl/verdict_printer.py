"""``proverrl verify``: verdicts as JSON lines, or as lines for a person with a progress bar.

Flows in: paths. Flows out: verdicts on stdout or in a file, complaints on stderr, an exit status.
Memory holds a window of the input, however long it is. Every line is written whole, so that an
interrupted file can be gone on with.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proverrl.errors import ToolchainError, UsageError
from proverrl.types import Language, Status, Verdict
from proverrl.verify.base import Limits
from proverrl.verify.batch import Entry, Judged, read_in_thread, read_now, verify_stream
from proverrl.verify.cache import CachedVerifier
from proverrl.verify.inputs import (
    Submission,
    Unusable,
    check_paths,
    count_inputs,
    read_inputs,
    verdict_to_json,
)
from proverrl.verify.make import open_router
from proverrl.verify.router import RoutedVerifier
from proverrl.verify.written import WrittenVerdicts

STYLES = {Status.PROVED: "green", Status.UNSOUND: "magenta"}
MAX_MESSAGES = 3
BackendChoice = Literal["auto", "dafny", "lean"]


async def print_verdicts(
    paths: Sequence[str],
    *,
    backend: BackendChoice,
    workers: int,
    deadline_seconds: float,
    out: Path | None,
    as_json: bool,
    resume: bool = False,
    paranoid: bool = False,
    canary_rate: float = 0.0,
    memory_mb: float = Limits().memory_mb,
    stdin: BinaryIO | None = None,
) -> int:
    """Judge all inputs; returns 0 when all are proved, 1 when not, 2 when an input is malformed,
    3 when an input needs a back end that is not there.

    Raises:
        UsageError: a path is missing, ``out`` cannot be written, or cannot be gone on with.
    """
    if resume and out is None:
        raise UsageError("--resume goes on with a file of verdicts: name it with --out")
    check_paths(paths)
    limits = Limits(memory_mb=memory_mb)
    router = open_router(workers=workers, limits=limits, canary_rate=canary_rate, paranoid=paranoid)
    verifier = CachedVerifier(router, None, toolchain="", limits=limits, identify=router.identify)
    run = _Run(router, backend, Console(stderr=True))
    try:
        with ExitStack() as stack:
            read = read_in_thread if "-" in paths else read_now
            entries = run.mark_missing(read(read_inputs(paths, stdin or sys.stdin.buffer)))
            if resume and out is not None:
                written = stack.enter_context(WrittenVerdicts(out))
                entries = run.skip_written(entries, written)
            sink = stack.enter_context(_open(out, append=resume)) if out else sys.stdout
            for_people = sys.stdout.isatty() and not as_json and out is None
            show = _print_for_people if for_people else _write_line
            progress = stack.enter_context(_make_progress(run.screen))
            run.count = _make_counter(progress, count_inputs(paths))
            stream = verify_stream(entries, verifier, deadline_seconds=deadline_seconds)
            async for judged in stream:
                run.take(judged, lambda entry, verdict: show(sink, entry, verdict))
    finally:
        await verifier.aclose()
    run.summarise()
    return run.exit_status


class _Run:
    """What was seen so far, and how the end of it reads."""

    def __init__(self, router: RoutedVerifier, backend: BackendChoice, screen: Console) -> None:
        self.screen = screen
        self.count: Callable[[], None] = lambda: None
        self._router = router
        self._backend = backend
        self._counts: Counter[str] = Counter()
        self._num_skipped = 0

    async def mark_missing(self, entries: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
        """Entries whose back end is missing, or was not asked for, as ``Unusable``."""
        async for entry in entries:
            if isinstance(entry, Submission):
                reason = self._explain_missing(entry.candidate.problem.language)
                if reason:
                    yield Unusable(entry.id, "no-backend", entry.id, 0, reason)
                    continue
            yield entry

    async def skip_written(
        self, entries: AsyncIterator[Entry], written: WrittenVerdicts
    ) -> AsyncIterator[Entry]:
        """The entries that have no verdict yet; those that have one are counted."""
        more = True
        async for entry in entries:
            if more and isinstance(entry, Submission):
                status = written.take(entry)
                if status is not None:
                    self._counts[status] += 1
                    self._num_skipped += 1
                    self.count()
                    continue
                more = False
            yield entry
        if more:
            written.check_end()

    def take(self, judged: Judged, show: Callable[[Submission, Verdict], None]) -> None:
        """Show one verdict, or complain about an entry that has none."""
        entry, verdict = judged
        self.count()
        if isinstance(entry, Unusable):
            self._counts[entry.kind] += 1
            self.screen.print(f"[red]error:[/] {escape(entry.message)}", soft_wrap=True)
            return
        assert verdict is not None
        self._counts[verdict.status] += 1
        show(entry, verdict)

    def summarise(self) -> None:
        """One line on stderr: back ends, and how many of each status."""
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self._counts.items()))
        opened = "; ".join(f"{b.name}, {b.toolchain}" for b in self._router.opened)
        before = f" ({self._num_skipped} of them by an earlier run)" if self._num_skipped else ""
        prefix = f"{opened} ({self._backend}): " if opened else ""
        self.screen.print(f"{prefix}{counts or 'nothing'}{before}", soft_wrap=True)

    @property
    def exit_status(self) -> int:
        if self._counts["no-backend"]:
            return 3
        if self._counts["malformed"]:
            return 2
        return 0 if self._counts[Status.PROVED] == self._counts.total() > 0 else 1

    def _explain_missing(self, language: Language) -> str:
        if self._backend not in ("auto", language):
            return f"this is {language}, and --backend {self._backend} leaves it out"
        try:
            self._router.open_backend(language)
        except ToolchainError as error:
            return str(error)
        return ""


def _open(path: Path, *, append: bool) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a" if append else "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written: {error}") from error


def _make_progress(screen: Console) -> Progress:
    return Progress(
        TextColumn("verifying"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def _make_counter(progress: Progress, total: int | None) -> Callable[[], None]:
    bar = progress.add_task("verifying", total=total)
    return lambda: progress.advance(bar)


def _write_line(sink: TextIO, entry: Submission, verdict: Verdict) -> None:
    # One call, and at once: an interrupted run leaves whole lines.
    sink.write(json.dumps(verdict_to_json(entry, verdict)) + "\n")
    sink.flush()


def _print_for_people(sink: TextIO, entry: Submission, verdict: Verdict) -> None:
    console = Console(file=sink)
    style = STYLES.get(verdict.status, "red" if verdict.status.judged else "yellow")
    console.print(
        f"[{style}]{verdict.status.value:10}[/] {escape(entry.id)}  [dim]{verdict.seconds:.2f} s[/]"
    )
    shown = [d for d in verdict.diagnostics if d.severity == "error"][:MAX_MESSAGES]
    for diagnostic in shown:
        console.print(
            f"           {diagnostic.line}:{diagnostic.column} {escape(diagnostic.message)}"
        )
