"""``proverrl verify``: verdicts as JSON lines, plain lines, or for a person with a progress bar.

Flows in: paths. Flows out: verdicts on stdout or in a file, complaints on stderr, an exit status.
Memory holds a window of the input, however long it is. Every line is written whole, so that an
interrupted file can be continued.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from rich.padding import Padding
from rich.text import Text

from proverrl.cli.ci_reports import (
    Complaint,
    annotate,
    count_warnings,
    describe_believed,
    find_errors,
    passes,
    write_junit,
)
from proverrl.cli.second_look import FACTOR, RLIMIT, SecondLook
from proverrl.config.base import DafnyVersion
from proverrl.errors import ToolchainError, UsageError
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import OWN_DAFNY, open_appeals, open_router
from proverrl.lang.records import Project
from proverrl.lang.trusted import read_words
from proverrl.monitor.console import PanelConsole, open_console, open_progress, printable
from proverrl.problems.batch import Judged, read_in_thread, verify_stream
from proverrl.problems.input_paths import check_output, check_paths
from proverrl.problems.inputs import (
    Submission,
    Unusable,
    VerifyInput,
    count_inputs,
    read_inputs,
    verdict_to_json,
)
from proverrl.problems.written import VerdictFile
from proverrl.types import FILE, Status, is_fatal
from proverrl.verifier.base import AT_LIMIT, Limits
from proverrl.verifier.cache import CachedVerifier, default_cache, open_database
from proverrl.verifier.router import RoutedVerifier

STYLES = {Status.PROVED: "green", Status.UNSOUND: "magenta", Status.UNCONFIRMED: "magenta"}
MAX_MESSAGES = 3
MAX_CHARACTERS = 300
"""The most of one message in a plain line."""
Row = dict[str, Any]
Show = Callable[[Row], None]


async def print_verdicts(
    paths: Sequence[str],
    *,
    workers: int,
    deadline_seconds: float,
    out: Path | None,
    as_json: bool,
    resume: bool = False,
    paranoid: bool = False,
    canary_rate: float = 0.0,
    memory_mb: float | None = None,
    confirm: str = "proved",
    servers: tuple[str, ...] = (),
    rlimit: int | None = None,
    cache: bool = False,
    strict: bool = False,
    junit: Path | None = None,
    github: bool = False,
    plain: bool = False,
    allowed: Sequence[str] = (),
    arguments: Sequence[str] = (),
    dafny_version: DafnyVersion = "auto",
    project: Project | None = None,
    stdin: BinaryIO | None = None,
) -> int:
    """Judge all inputs; each has a row in the output (with ``plain`` a line to read beside ``out``,
    or in its place). Returns 0 when all are proved (without ``strict`` also with nothing to prove),
    1 when not, 2 when an input cannot be used, 3 when the back end of an input is missing. Raises
    ``UsageError`` if a path is missing, a file to write is an input or a program, or ``out`` cannot
    be continued."""
    if resume and out is None:
        raise UsageError("--resume continues a file of verdicts: name it with --out")
    if plain and as_json:
        raise UsageError("--plain prints lines to read, and --json objects: leave one")
    check_paths(paths)
    # Of an option that is given twice, Dafny follows the last.
    arguments = (*(project.arguments if project else ()), *arguments)
    stdin = stdin or sys.stdin.buffer
    written = {"--out": out, "--junit": junit}
    for option, place in written.items():
        if place is not None:
            check_output(place, paths, stdin, option=option)
    limits = Limits(rlimit=rlimit or RLIMIT)
    options = BackendOptions(
        workers=workers,
        limits=limits,
        memory_mb=memory_mb,
        canary_rate=canary_rate,
        paranoid=paranoid,
        confirm=confirm,
        servers=servers,
        allowed=read_words(allowed),
        arguments=tuple(arguments),
        dafny_version=dafny_version,
    )
    if servers and options.paranoid:
        raise UsageError(
            "--paranoid checks with what is installed here, and servers judge: leave one"
        )
    if servers and (allowed or arguments):
        raise UsageError(
            "--allow, --dafny-arg and options of a project file are for what is judged here: leave "
            "out --server"
        )
    if servers and dafny_version != "auto":
        raise UsageError(OWN_DAFNY)
    router = open_router(options, rlimit)
    run = _Judging(router, strict=strict, github=github, keep=junit is not None)
    # Paranoid checks are not part of what a stored verdict rests on.
    path = choose_cache(run.screen) if cache and not paranoid else None
    # Servers judge under limits of their own.
    appeals = None if servers else open_appeals(options, FACTOR, path)
    cached = CachedVerifier(router, path, identify=router.identify, appeals=appeals)
    verifier = SecondLook(cached, None if servers else limits.rlimit)
    run.project = project
    run.is_open, run.is_remote = bool(allowed or arguments), bool(servers)
    try:
        with ExitStack() as stack:
            # What was read of large files is remembered until they are judged.
            ahead = 64 if "-" in paths else 4
            read = read_in_thread(read_inputs(paths, stdin, project), ahead)
            entries = run.mark_missing(read)
            for_people = sys.stdout.isatty() and not as_json
            screen = run.screen if sys.stderr.isatty() else open_console()
            printer = _print_plain if plain else _print_for_people if for_people else _print_row
            shows: list[Show] = [partial(printer, screen)]
            if out is not None:
                file = stack.enter_context(closing(VerdictFile(out, resume=resume)))
                entries = run.skip_written(entries, file) if resume else entries
                shows = [file.write, *(shows if plain else [])]
            progress = stack.enter_context(open_progress(run.screen))
            bar = progress.add_task("verifying", total=count_inputs(paths))
            run.count = partial(progress.advance, bar)
            stream = verify_stream(entries, verifier, deadline_seconds=deadline_seconds)
            async for judged in stream:
                run.take(judged, shows)
    finally:
        await verifier.aclose()
    if junit is not None:
        write_junit(junit, run.rows, strict=strict)
    run.summarise()
    return run.exit_status


class _Judging:
    """Counts the rows so far, and says their sum at the end."""

    def __init__(self, router: RoutedVerifier, *, strict: bool, github: bool, keep: bool) -> None:
        self.screen = open_console(stderr=True)
        self.count: Callable[[], None] = lambda: None
        self._router = router
        self._counts: Counter[str] = Counter()
        self._num_fatal = 0
        self._num_skipped = 0
        self._num_passed = 0
        self._strict = strict
        self._github = github
        self._keep = keep
        self.is_open = False
        """True when Dafny gets options that only bare files may be judged under."""
        self.is_remote = False
        self.project: Project | None = None
        self._believed: Counter[str] = Counter()
        self.rows: list[Row] = []
        """All of them, where a report of the whole is to be written."""

    async def mark_missing(self, entries: AsyncIterator[VerifyInput]) -> AsyncIterator[VerifyInput]:
        """Entries whose back end is missing, or was not asked for, as ``Unusable``."""
        async for entry in entries:
            if isinstance(entry, Submission):
                problem = entry.candidate.problem
                if problem.kind != FILE and self.is_open:
                    reason = "--allow and --dafny-arg are for bare files, and this has a statement"
                    yield entry.refuse("bad-problem", reason)
                    continue
                reason = self._explain_missing(problem.language)
                if reason:
                    yield entry.refuse("no-backend", reason)
                    continue
                # Servers judge a text as a whole, as it came to them.
                entry = replace(entry, apart=()) if self.is_remote else entry
            yield entry

    async def skip_written(
        self, entries: AsyncIterator[VerifyInput], written: VerdictFile
    ) -> AsyncIterator[VerifyInput]:
        """The entries that have no row yet; those that have one are counted."""
        more = True
        async for entry in entries:
            if more:
                row = written.take(entry)
                if row is not None:
                    is_judged = row["status"] != "error" and isinstance(entry, Submission)
                    if is_judged and row.get("conditions") != self._describe(entry):
                        raise UsageError(
                            f"--resume: the verdict on {row['id']} rests on other judges, limits "
                            "or options than are asked for now (--allow, --dafny-arg, --rlimit, "
                            "--confirm, --server, --dafny-version, PROVERRL_SECOND_DAFNY, another "
                            "Dafny or Lean); give what it had, or start another file with --out"
                        )
                    self._num_skipped += 1
                    self._count(row, " (as an earlier run found)")
                    continue
                more = False
            yield entry
        if more:
            written.check_end()

    def take(self, judged: Judged, shows: Sequence[Show]) -> None:
        """Show what became of one entry, and complain when it could not be judged."""
        entry, verdict = judged
        if isinstance(entry, Unusable):
            row = entry.to_json()
        else:
            assert verdict is not None
            row = verdict_to_json(entry, verdict) | {"conditions": self._describe(entry)}
        self._count(row)
        for show in shows:
            show(row)

    def _describe(self, entry: VerifyInput) -> str:
        """A hash of all that a verdict depends on beside what is judged."""
        assert isinstance(entry, Submission)
        salt = self._router.identify(entry.candidate)
        return hashlib.sha256(salt.encode()).hexdigest()[:16]

    def _count(self, row: Row, remark: str = "") -> None:
        self.count()
        is_error = row["status"] == "error"
        is_empty = row.get("nothing_to_prove", False)
        self._counts[
            row["cause"] if is_error else "with nothing to prove" if is_empty else row["status"]
        ] += 1
        if self._keep:
            self.rows.append(row)
        self._believed.update(row.get("believed", {}))
        is_passed = passes(row, strict=self._strict)
        self._num_passed += is_passed
        if self._github and (row["status"] == "proved" or not is_passed):
            for line in annotate(row):
                self.screen.print(printable(line), soft_wrap=True)
        self._num_fatal += is_fatal(row["status"], row.get("cause", ""))
        if is_error:
            complaint = Text.assemble(("error:", "red"), f" {printable(row['message'])}{remark}")
            self.screen.print(complaint, soft_wrap=True)

    def summarise(self) -> None:
        """One line on stderr: back ends, and how many of each status; rejections that are fatal
        are counted apart."""
        fatal = {"rejected": f" ({self._num_fatal} fatal)"} if self._num_fatal else {}
        counts = ", ".join(
            f"{count} {name}{fatal.get(name, '')}" for name, count in sorted(self._counts.items())
        )
        opened = "; ".join(backend.described for backend in self._router.opened)
        before = f" ({self._num_skipped} of them by an earlier run)" if self._num_skipped else ""
        prefix = f"{opened}: " if opened else ""
        believed = describe_believed(self._believed)
        after = f"; believed, not proved: {believed}" if believed else ""
        after += _describe_project(self.project) if self.project else ""
        self.screen.print(f"{prefix}{counts or 'nothing'}{before}{after}", soft_wrap=True)

    @property
    def exit_status(self) -> int:
        if self._counts["no-backend"]:
            return 3
        if self._counts["malformed"] or self._counts["bad-problem"]:
            return 2
        return 0 if self._num_passed == self._counts.total() > 0 else 1

    def _explain_missing(self, language: str) -> str:
        try:
            self._router.open_backend(language)
        except ToolchainError as error:
            return str(error)
        return ""


def _describe_project(project: Project) -> str:
    """The project file whose files and options were taken, and what of it was not followed."""
    left = f" (not followed: {'; '.join(project.left)})" if project.left else ""
    return f"; by {printable(str(project.path))}{left}"


def _print_row(screen: PanelConsole, row: Row) -> None:
    _write_line(screen, json.dumps(row))


def _write_line(screen: PanelConsole, line: str) -> None:
    if sys.stdout.isatty():
        # Whole, above the bar.
        screen.print(line, soft_wrap=True)
    else:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _print_plain(screen: PanelConsole, row: Row) -> None:
    """``FILE:LINE:COLUMN: status: message; ...`` in one line, as a compiler says it."""
    if row["status"] == "error":
        return
    status = "nothing to prove" if row.get("nothing_to_prove") else row["status"]
    status += f" ({AT_LIMIT})" if row["at_limit"] else ""
    counts = row["believed"]
    status += f" (believed: {describe_believed(counts)})" if counts else ""
    warned = count_warnings(row)
    status += f" ({warned})" if warned else ""
    shown, more = _list_shown(row)
    place = row["id"]
    if shown and shown[0].line:
        place += f":{shown[0].line}:{shown[0].column}"
        shown[0] = shown[0]._replace(line=0)
    said = [" ".join(text.split())[:MAX_CHARACTERS] for text in (*map(str, shown), *more)]
    _write_line(screen, printable(": ".join([place, status, *(["; ".join(said)] if said else [])])))


def _print_for_people(screen: PanelConsole, row: Row) -> None:
    if row["status"] == "error":
        # The complaint on stderr says it all.
        return
    name = printable(row["id"])
    if row.get("nothing_to_prove"):
        screen.print(Text.assemble(("nothing to prove ", "dim"), name), soft_wrap=True)
        return
    status = Status(row["status"])
    style = STYLES.get(status, "red" if status.judged else "yellow")
    took = (f"  {row['seconds']:.2f} s", "dim")
    remark = f"  {AT_LIMIT} of --rlimit" if row["at_limit"] else ""
    warned = count_warnings(row)
    remark += f"  {warned}" if warned else ""
    counts = row["believed"]
    believed = (f"  believed: {describe_believed(counts)}" if counts else "", "yellow")
    line = Text.assemble((f"{status.value:11}", style), " ", name, took, believed, remark)
    screen.print(line, soft_wrap=True)
    shown, more = _list_shown(row)
    for found in (*map(str, shown), *more):
        screen.print(Padding(Text(printable(found, keep="\n")), (0, 0, 0, 12)))


def _list_shown(row: Row) -> tuple[list[Complaint], list[str]]:
    """The errors that are shown, and how many are not."""
    is_said = any(found["severity"] == "error" for found in row["diagnostics"])
    errors = find_errors(row) if is_said and not row.get("nothing_to_prove") else []
    left = len(errors) - MAX_MESSAGES
    return errors[:MAX_MESSAGES], [f"... and {left} more"] if left > 0 else []


def choose_cache(screen: PanelConsole) -> Path | None:
    """The cache, or None: that this user may not write it is no reason to judge nothing."""
    path = default_cache()
    try:
        open_database(path).close()
    except UsageError as error:
        why = error.__cause__
        if not isinstance(why, OSError) and "readonly" not in str(why):
            raise
        screen.print(f"going on without the verdict cache {path}: {why}", soft_wrap=True)
        return None
    return path
