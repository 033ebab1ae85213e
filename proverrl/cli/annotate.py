"""The command ``annotate``, which finds the proof hints that files lack.

Flows in: arguments. Flows out: a patch, or files with hints in their place; a line for each file;
an exit status.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import math
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from proverrl.cli.options import (
    DAFNY_ARGUMENTS,
    DAFNY_VERSION,
    FILE,
    MEMORY_MB,
    OVERRIDES,
    RLIMIT,
    FiniteRange,
    count_option,
    run_until_interrupted,
    timeout_option,
    workers_option,
)
from proverrl.errors import ProblemError, RunError, ToolchainError, UsageError
from proverrl.files.extras import require_module
from proverrl.files.lines import check_place
from proverrl.monitor.console import printable

if TYPE_CHECKING:
    from proverrl.config import Config
    from proverrl.jobs.hint_files import Annotated, HintBudget, HintSource
    from proverrl.lang.base import BackendOptions
    from proverrl.monitor.console import PanelConsole
    from proverrl.problems.inputs import VerifyInput
    from proverrl.search.wiring import Tools
    from proverrl.verifier.base import Verifier

_SEEDS = 5
_QUOTED = frozenset('"\\')
_QUICKER = 10
"""Hints are sought under so much less of the resource limit than the file is judged by."""
_MAX_NEW_TOKENS = 512
"""A policy answers with the whole program."""
_STATUSES = {"verifies": "verifies as it is", "partly": "partly solved", "open": "not solved"}


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--diff", "mode", flag_value="diff", default=True, help="Print a patch.  [default]")
@click.option("--write", "mode", flag_value="write", help="Write the hints into the files.")
@click.option("--check", "mode", flag_value="check", help="Say only what fails.")
@click.option(
    "--model",
    default="none",
    show_default=True,
    metavar="NAME",
    help="Ask this model for hints, too: a run, a folder, a name on the hub, or endpoint:NAME of "
    "--config.",
)
@click.option("--config", "config_file", type=FILE, help="Its settings.")
@OVERRIDES
@count_option("--calls", 64, "Verifier calls for each declaration that fails.")
@click.option("--minutes", default=5.0, type=FiniteRange(0.01), help="Minutes for each of them.")
@click.option("--allow-lemmas", is_flag=True, help="Let a model add lemmas and functions.")
@click.option("--stable", is_flag=True, help=f"Ask {_SEEDS} random seeds of the solver, too.")
@workers_option("Verifier processes; so many files are tried at once.", "-j")
@timeout_option("Seconds for one call.")
@RLIMIT
@MEMORY_MB
@DAFNY_VERSION
@DAFNY_ARGUMENTS
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each file.")
@click.option("--report", type=FILE, help="Write a page here: what was found, and what was tried.")
def annotate(
    paths: tuple[str, ...],
    mode: str,
    model: str,
    config_file: Path | None,
    overrides: tuple[str, ...],
    calls: int,
    minutes: float,
    allow_lemmas: bool,
    stable: bool,
    workers: int,
    timeout: float,
    rlimit: int | None,
    memory_mb: float | None,
    dafny_version: str,
    arguments: tuple[str, ...],
    as_json: bool,
    report: Path | None,
) -> None:
    """Find the invariants, assertions and measures that .dfy files, folders or projects lack, and
    tactics for each sorry of .lean files, and print them as a patch. Code, contracts and statements
    stay as they are.

    Exit status: 0 all is proved with them, 1 not all, 2 an input is wrong, 3 the verifier is
    broken.
    """
    from proverrl.cli import second_look
    from proverrl.jobs.hint_files import HintBudget
    from proverrl.lang.base import CANARY_RATE, BackendOptions
    from proverrl.monitor.console import open_console
    from proverrl.problems.input_paths import check_output, expand_paths, open_project
    from proverrl.problems.inputs import read_inputs
    from proverrl.verifier.base import Limits

    if not paths:
        raise UsageError("name what is to be annotated: files, folders, or a quoted pattern")
    files, project = open_project(expand_paths(paths))
    if "-" in files:
        raise UsageError("standard input has no place for hints; name a file")
    options = BackendOptions(
        workers=workers,
        limits=Limits(rlimit=rlimit or second_look.RLIMIT),
        memory_mb=memory_mb,
        canary_rate=CANARY_RATE,
        arguments=(*(project.arguments if project else ()), *arguments),
        dafny_version=dafny_version,  # type: ignore[arg-type]
    )
    budget = HintBudget(calls=calls, minutes=minutes, deadline_seconds=timeout)
    chosen = _read_model(model, config_file, overrides)
    if allow_lemmas and chosen is None:
        raise UsageError("--allow-lemmas is for a model: name it with --model")

    def read(files: Sequence[str]) -> Iterator[VerifyInput]:
        return read_inputs(files, sys.stdin.buffer, project)

    entries = _drop_repeated(read(files))
    if report is not None:
        require_module("jinja2", "--report")
        if report.suffix != ".html":
            raise UsageError(f"--report {report}: give it a name that ends in .html")
        check_output(report, files, sys.stdin.buffer, option="--report")
        check_place(report)
    run = _Run(
        options,
        budget,
        mode,
        as_json,
        allow_lemmas,
        stable,
        chosen,
        open_console(stderr=True),
        read,
    )
    how = "files that were written stay so, and the same command goes on from stored verdicts"
    status = run_until_interrupted(run.annotate_all(entries, rlimit), how)
    if report is not None:
        from proverrl.report.hints import write_hints

        write_hints(run.rows, report)
    sys.exit(status)


def _drop_repeated(entries: Iterable[VerifyInput]) -> list[VerifyInput]:
    """Each file once, by whatever names it was given."""
    found: dict[object, VerifyInput] = {}
    for entry in entries:
        path = Path(entry.file)
        known = path.stat() if path.is_file() and not entry.line else None
        found.setdefault((known.st_dev, known.st_ino) if known else len(found), entry)
    return list(found.values())


def _order(entries: Sequence[VerifyInput]) -> list[tuple[VerifyInput, list[int]]]:
    """What is included before what includes it, each with the places of what it includes."""
    from proverrl.problems.inputs import Submission

    parts = [e.included if isinstance(e, Submission) else () for e in entries]
    ordered = sorted(zip(entries, parts, strict=True), key=lambda pair: len(pair[1]))
    places: dict[str, int] = {}
    found = []
    for number, (entry, included) in enumerate(ordered):
        paths = {os.path.realpath(part.name) for part in included}
        found.append((entry, [place for path, place in places.items() if path in paths]))
        places[os.path.realpath(entry.file)] = number
    return found


def _read_model(
    model: str, config_file: Path | None, overrides: tuple[str, ...]
) -> tuple[Config, Path | None] | None:
    """The settings of the model, and its run where it is one's. Raises ``UsageError``."""
    if model == "none":
        if config_file or overrides:
            raise UsageError("--config and --set are for a model: name it with --model")
        return None
    from proverrl.config.load import load_config, load_stored_config
    from proverrl.files.lines import RESOLVED_FILE

    # A configuration's own search is for bodies; another way for hints is named by --set.
    searched = ('search.name="pooled_hints"', *overrides)
    if (Path(model) / RESOLVED_FILE).exists():
        if config_file:
            raise UsageError(f"--model {model} is a run, with settings of its own: leave --config")
        return load_stored_config(Path(model), searched), Path(model)
    named = (f"policy.path={json.dumps(model)}", "policy.lora.rank=0", *searched)
    if config_file is None:
        return load_config("coder", (f"sampling.max_new_tokens={_MAX_NEW_TOKENS}", *named)), None
    return load_config(config_file, named), None


@dataclass(frozen=True, slots=True)
class _Run:
    """What is asked of all files, and where it is shown."""

    options: BackendOptions
    budget: HintBudget
    mode: str
    as_json: bool
    allow_lemmas: bool
    stable: bool
    model: tuple[Config, Path | None] | None
    screen: PanelConsole
    read: Callable[[Sequence[str]], Iterator[VerifyInput]]
    rows: list[dict[str, Any]] = field(default_factory=list)

    async def annotate_all(self, entries: Sequence[VerifyInput], rlimit: int | None) -> int:
        """The exit status of the command."""
        from proverrl.cli.verdicts import choose_cache
        from proverrl.concurrency import finish_all
        from proverrl.monitor.console import open_progress
        from proverrl.verifier.base import MIN_RLIMIT

        cache, options = choose_cache(self.screen), self.options
        seeds = range(1, _SEEDS + 1) if self.stable else ()
        few = max(MIN_RLIMIT, math.ceil(options.limits.rlimit / _QUICKER))
        low = replace(options.limits, rlimit=few)
        verifiers = [
            _open(options, cache, rlimit, looks_twice=True),
            _open(replace(options, limits=low), cache, low.rlimit),
            *(
                _open(replace(options, workers=1, solver_seed=seed), cache, rlimit)
                for seed in seeds
            ),
        ]
        free = asyncio.Semaphore(self.options.workers)
        async with AsyncExitStack() as stack:
            for verifier in verifiers:
                stack.push_async_callback(verifier.aclose)
            tools = await stack.enter_async_context(self._open_tools())
            progress = stack.enter_context(open_progress(self.screen))
            bar = progress.add_task("annotating", total=len(entries))

            ordered = _order(entries)
            ends = [asyncio.Event() for _ in ordered]

            async def annotate_next(place: int) -> int:
                entry, included = ordered[place]
                if included and self.mode == "write":
                    for other in included:
                        await ends[other].wait()
                    [entry] = self.read([entry.file])

                def tell(text: str) -> None:
                    progress.update(bar, description=escape(printable(f"{entry.id}: {text}")))

                async with free:
                    status = await self._annotate(entry, verifiers, tools, tell)
                ends[place].set()
                progress.advance(bar)
                return status

            return max(await finish_all(map(annotate_next, range(len(ordered)))), default=1)

    @asynccontextmanager
    async def _open_tools(self) -> AsyncIterator[Tools | None]:
        """The tools by which a model is asked, where one is named."""
        if self.model is None:
            yield None
            return
        from proverrl.jobs.evaluate import open_policy, open_prover

        config, run = self.model
        async with open_prover(open_policy(config, run), config, [], searches=True) as (*_, tools):
            yield tools

    async def _annotate(
        self,
        entry: VerifyInput,
        verifiers: Sequence[Verifier],
        tools: Tools | None,
        tell: Callable[[str], None],
    ) -> int:
        """One file; 0 if it is proved then, 1 if not, 2 if it cannot be used, 3 without
        its verifier."""
        from proverrl.jobs.annotate import open_annotating
        from proverrl.jobs.hint_files import HintSource
        from proverrl.problems.inputs import Unusable

        if isinstance(entry, Unusable):
            return self._refuse(entry.id, entry.message)
        found, patch = None, ""
        try:
            source = HintSource(entry)
            if not source.is_file:
                raise ProblemError("a line of JSON has no place for hints")  # noqa: TRY301
            work = open_annotating(
                source,
                verifiers[0],
                self.budget,
                # Under a lower limit; Lean has but one.
                quick=verifiers[1] if source.language.pooling else None,
                search=self.model[0].search if self.model else None,
                tools=tools,
                seeded=verifiers[2:],
                allow_lemmas=self.allow_lemmas,
                tell=tell,
            )
            found = await work.run(only_check=self.mode == "check")
            patch = "".join(make_patch(source, found))
            if self.mode == "write" and found.hints and found.status != "unstable":
                source.write(found.text)
        except ToolchainError as error:
            self._refuse(entry.id, f"{entry.id}: {error}")
            return 3
        except (ProblemError, UsageError) as error:
            return self._refuse(entry.id, f"{entry.id}: {error}", found, patch)
        except RunError as error:
            return self._refuse(entry.id, str(error), found, patch)
        self._show(found, patch)
        self.screen.print(printable(_describe(found)), soft_wrap=True)
        return 0 if found.is_proved else 1

    def _refuse(
        self, name: str, message: str, found: Annotated | None = None, patch: str = ""
    ) -> int:
        """Tell what cannot be used or written, with what was found before."""
        from proverrl.jobs.hint_files import Annotated

        self._show(replace(found or Annotated(name, "unusable", ""), message=message), patch)
        self.screen.print(printable(f"error: {message}"), soft_wrap=True)
        return 2

    def _show(self, found: Annotated, patch: str) -> None:
        row = found.to_json() | {"diff": patch}
        self.rows.append(row | {"tried": [asdict(hint) for hint in found.tried]})
        if self.as_json:
            click.echo(json.dumps(row))
        elif self.mode == "diff":
            # As the file has it, whatever the terminal is said to read.
            click.echo(patch.encode("utf-8", "surrogateescape"), nl=False)


def _open(
    options: BackendOptions,
    cache: Path | None,
    rlimit: int | None,
    *,
    looks_twice: bool = False,
) -> Verifier:
    """A verifier that remembers; ``looks_twice`` as ``proverrl verify`` does."""
    from proverrl.cli.second_look import FACTOR, SecondLook
    from proverrl.lang.open import open_appeals, open_router
    from proverrl.verifier.cache import CachedVerifier

    router = open_router(options, rlimit)
    appeals = open_appeals(options, FACTOR, cache) if looks_twice else None
    cached = CachedVerifier(router, cache, identify=router.identify, appeals=appeals)
    return SecondLook(cached, options.limits.rlimit) if looks_twice else cached


def _escape(name: str) -> str:
    plain = range(0x20, 0x7F)
    return "".join(
        chr(byte) if byte in plain and chr(byte) not in _QUOTED else f"\\{byte:03o}"
        for byte in os.fsencode(name)
    )


def make_patch(source: HintSource, found: Annotated) -> Iterator[str]:
    """As ``patch -p1`` and ``git apply`` take it in the working folder."""
    mark = "\ufeff" if source.has_mark else ""
    before, after = ((mark + t).splitlines(keepends=True) for t in (source.text, found.text))
    name = os.path.relpath(os.path.realpath(source.path), os.path.realpath("."))
    # One with signs of its own is quoted as in C, and one with blanks ends at a tab.
    names = [f"{side}/{name}" for side in "ab"]
    if any(sign < " " or sign in _QUOTED for sign in name):
        names = [f'"{_escape(text)}"' for text in names]
    end = "\t" if " " in name else ""
    old, new = (name + end for name in names)
    for line in difflib.unified_diff(before, after, old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _describe(found: Annotated) -> str:
    """A line on what became of a file."""
    said = [_STATUSES.get(found.status, found.status)]
    if found.solved:
        said.append(f"{_name(found.solved)} with {len(found.hints)} hints")
    if found.left:
        said.append(f"not proved: {_name(found.left)}")
    if found.message:
        said.append(found.message)
    return f"{found.name}: {'; '.join(said)} ({found.calls} calls, {found.seconds:.1f} s)"


def _name(places: Mapping[str, int]) -> str:
    ordered = sorted(places.items(), key=lambda place: place[1])
    return ", ".join(f"{name} (line {line})" for name, line in ordered)
