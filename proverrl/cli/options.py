"""Shared by several commands: types of arguments, options, and the reading of configurations.

Flows in: what was typed. Flows out: a value, or click's error.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from proverrl.config.base import CONFIRM, MAX_WORKERS, DafnyVersion
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import add_languages, find_language
from proverrl.plugins import refuse_exit

if TYPE_CHECKING:
    from proverrl.config import Config

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_Result = TypeVar("_Result")


EMPTY_PATH = "the path is empty; name one, or write . for the current folder"


class GivenPath(click.Path):
    """A path that is not empty: pathlib would take an empty one for the current folder."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(f"{EMPTY_PATH}.", param, ctx)
        return super().convert(value, param, ctx)


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN and infinity. NaN is neither below nor above any bound, so
    that ``click.FloatRange`` lets it through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class LanguageName(click.types.StringParamType):
    """The name of a language, ours or somebody's own. It is looked up when the command line is
    read: ``--language`` may have added it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return find_language(value).name
        except ProblemError as error:
            self.fail(str(error), param, ctx)


FILE = GivenPath(dir_okay=False)
FOLDER = GivenPath(file_okay=False)
OVERRIDES = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key."
)


def config_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """``[CONFIG_FILE] [KEY=VALUE]...`` and ``--set``, which a command takes as ``config_file`` and
    ``overrides``. A word with = is a key, unless it is a file."""

    @click.argument("words", nargs=-1, metavar="[CONFIG_FILE] [KEY=VALUE]...")
    @OVERRIDES
    @functools.wraps(command)
    def with_words(words: tuple[str, ...], overrides: tuple[str, ...], **rest: Any) -> Any:
        keys = tuple(word for word in words if "=" in word and not Path(word).exists())
        files = [word for word in words if word not in keys]
        if len(files) > 1:
            raise UsageError(f"{files[1]!r}: give one configuration file, and keys as KEY=VALUE")
        if files == [""]:
            raise UsageError(f"'[CONFIG_FILE]': {EMPTY_PATH}")
        config_file = Path(files[0]) if files else None
        return command(config_file=config_file, overrides=(*overrides, *keys), **rest)

    return with_words


def _add_languages(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> None:
    if value:
        pairs = (text.partition("=") for text in value)
        add_languages({name: place for name, _, place in pairs})


LANGUAGE = click.option(
    "--language",
    multiple=True,
    metavar="NAME=MODULE:OBJECT",
    expose_value=False,
    callback=_add_languages,
    help="A language of your own (docs/plugins.md); may be given more than once.",
)

OUT_FILE = click.option("--out", required=True, type=FILE)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
RESUME = click.option(
    "--resume", is_flag=True, help="Continue the --out file of an interrupted run."
)

RLIMIT = click.option(
    "--rlimit",
    type=click.IntRange(1),
    help="Dafny's resource limit per procedure; what fails there is judged again with twice as "
    "much.  [30000000]",
)
ALLOW = click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="WORDS",
    help="Have bare Dafny files rest on these, counted: assume, axiom, extern, decreases-star, "
    "abstract.",
)
DAFNY_ARGUMENTS = click.option(
    "--dafny-arg",
    "arguments",
    multiple=True,
    metavar="OPTION",
    help="Give Dafny this option, such as /arith:2; may be given more than once.",
)
SERVERS = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="Ask this server (proverrl serve) instead; may be given more than once.",
)


def count_option(name: str, default: int, text: str | None = None, *, least: int = 1) -> Decorator:
    """An option that is a whole number."""
    return click.option(name, default=default, type=click.IntRange(least), help=text)


def draft_options(num_text: str) -> Decorator:
    """The options of commands that generate problems; ``num_text`` says what ``--num`` counts."""
    options = (
        click.option("--levels", default="1-5", help="Levels, as 1-5 or 1,3; lean has a sixth."),
        count_option("--num", 500, num_text),
        count_option("--seed", 0, "Seed.", least=0),
        click.option(
            "--split",
            default="train",
            type=click.Choice(["train", "valid", "heldout"]),
            help="Split; the three differ in structure.",
        ),
        click.option(
            "--unseen", is_flag=True, help="Only families that are in no file without this."
        ),
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


def workers_option(text: str, *more: str) -> Decorator:
    """The number of verifier processes; ``more`` are other names of it."""
    kind = click.IntRange(1, MAX_WORKERS)
    return click.option("--workers", *more, "workers", default=2, type=kind, help=text)


def timeout_option(text: str) -> Decorator:
    """Seconds for a candidate."""
    return click.option("--timeout", default=30.0, type=FiniteRange(0.1), help=text)


def benchmark_option(text: str, *names: str, **options: Any) -> Decorator:
    """The arguments of ``open_benchmark``."""
    return click.option("--benchmark", *names, metavar="NAME|PATH|hf:ID", help=text, **options)


def parse_counts(option: str, text: str) -> list[int]:
    """Numbers from 1 that are separated by commas. Raises ``UsageError``."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: write numbers separated by commas, as 1,8") from error
    if min(counts) < 1:
        raise UsageError(f"{option} {text!r}: write numbers from 1")
    return counts


def check_result_name(name: str) -> None:
    """Raise ``UsageError`` for a ``--name`` whose files would not lie in ``RUN/evals``."""
    if name != Path(name).name or name in ("", ".."):
        raise UsageError(f"--name {name!r}: results are files of RUN/evals; give a plain name")


def run_until_interrupted(work: Coroutine[Any, Any, _Result], how_to_go_on: str) -> _Result:
    """The result of the work; the advice is given where a signal ends it. A plug-in that ends the
    program in between would choose the exit status; it is refused."""
    from proverrl.monitor.interrupt import run_interruptible

    with refuse_exit("this command", "a plug-in"):
        return asyncio.run(run_interruptible(work, how_to_go_on=how_to_go_on))


def explain_resume(out: Path | None, kept: str) -> str:
    """Advice for going on after an interruption, where each line of ``out`` is a ``kept``."""
    if out is not None:
        return "the same command with --resume continues"
    return f"no {kept} is kept without --out FILE, with which --resume would continue"


def suggest_id(text: str, ids: Iterable[str]) -> str:
    """The end of a message about an id that is not there."""
    near = difflib.get_close_matches(text, ids, n=1, cutoff=0.0)
    return f"; the nearest id is {near[0]!r}" if near else ""


def read_config(
    config_file: Path | None, stored_in: Path | None, overrides: Sequence[str], *, ask: str
) -> Config:
    """A configuration file, or the one stored in a run, with overrides; ``ask`` is the message
    when neither or both are given."""
    from proverrl.config import load_config, load_stored_config

    if (config_file is None) == (stored_in is None):
        raise UsageError(ask)
    if config_file is not None:
        config = load_config(config_file, overrides)
    else:
        assert stored_in is not None
        config = load_stored_config(stored_in, overrides)
    # Problems of these languages may be read before anything is run.
    add_languages(config.languages)
    return config


def _check_confirm(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if re.fullmatch(CONFIRM, value) is None:
        raise click.BadParameter(f"{value!r} is none of proved, sample:0.1 (a share) and off")
    return value


MEMORY_MB = click.option(
    "--memory-mb",
    type=FiniteRange(64),
    help="Memory of one worker with its children.  [4096 for Dafny, 8192 for Lean]",
)
DAFNY_VERSION = click.option(
    "--dafny-version",
    default="auto",
    show_default=True,
    type=click.Choice(get_args(DafnyVersion)),
    help="The Dafny that judges; auto is Dafny 4 where there is one.",
)
CONFIRM_OPTION = click.option(
    "--confirm",
    default="proved",
    show_default=True,
    callback=_check_confirm,
    help="Which accepted proofs a second judge is asked of: proved, sample:0.1 or off.",
)
