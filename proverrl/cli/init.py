"""``proverrl init``: a folder to start from, with configurations and a few problems to edit.

Flows in: names of shipped configurations, a folder. Flows out: files, none of which was there.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proverrl.cli.options import FOLDER, count_option
from proverrl.errors import UsageError

if TYPE_CHECKING:
    from proverrl.config import Config

MINE = "mine.toml"
_SPLITS = ("train", "valid", "heldout")


@click.command()
@click.argument("folder", required=False, default=".", type=FOLDER)
@click.option(
    "--config",
    "names",
    multiple=True,
    default=("demo",),
    metavar="NAME",
    help=f"A configuration to copy; {MINE} starts from the first. May be given more than once.",
)
@count_option("--per-level", 20, "Training problems of each level, and a quarter for the others.")
def init(folder: Path, names: tuple[str, ...], per_level: int) -> None:
    """Copy configurations and a small set of problems to FOLDER, to be edited and trained on."""
    from proverrl.config import load_config
    from proverrl.files.lines import write_atomically
    from proverrl.files.shipped import shipped_root

    files: dict[Path, str] = {}
    for path in (path for name in names for path in _list_extended(Path(name))):
        files[folder / path.relative_to(shipped_root())] = path.read_text("utf-8")
    config = load_config(Path(names[0]))
    for split in _SPLITS:
        count = per_level if split == "train" else max(1, per_level // 4)
        text = _select_rows(getattr(config.problems, split), count)
        files[folder / "problems" / f"{split}.jsonl"] = text
    files[folder / MINE] = _write_mine(next(iter(files)).relative_to(folder), config, per_level)
    if there := [path for path in files if path.exists()]:
        raise UsageError(f"{there[0]} is there already; nothing was written. Name another folder")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
        click.echo(path)
    # A name that begins with a dash would be an option of cd.
    enter = "" if folder == Path() else f"cd -- {shlex.quote(str(folder))} && "
    click.echo(f"train on these problems:  {enter}proverrl train {MINE}")


_HEAD = """\
# Your own run: what stands here goes over what it extends. These are the keys that are set most.
# Those with a # have the values that they have anyway: take it away to set one.
# docs/configuration.md lists every key.
extends = "{first}"
"""


def _write_mine(first: Path, config: Config, per_level: int) -> str:
    """A configuration of one's own: what it needs, and the other usual keys as comments."""
    from proverrl.config.keys import USUAL_KEYS, iter_keys, write_value

    shown = config.warm_start.references_per_level
    own: dict[str, Any] = {f"problems.{split}": f"problems/{split}.jsonl" for split in _SPLITS}
    # A pretrained model takes minutes for some steps.
    own |= {"run": "runs/mine", "max_minutes": config.max_minutes if config.policy.path else 5}
    own["warm_start.references_per_level"] = {
        level: min(num, per_level // 2) for level, num in shown.items()
    }
    values, keys = config.dump(), {key.name: key for key in iter_keys()}
    lines, table = [_HEAD.format(first=first.as_posix())], ""
    for name in USUAL_KEYS:
        section, _, last = name.rpartition(".")
        if section != table:
            lines.append(f"\n[{section}]\n")
            table = section
        value = own[name] if name in own else _look_up(values, name)
        sign = "" if name in own else "#"
        text = _LINK.sub("", keys[name].text).replace("`", "")
        lines += [f"# {line}\n" for line in textwrap.wrap(text, 96)]
        lines.append(f"{sign}{last} = {write_value(value)}\n")
    return "".join(lines)


_LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")


def _look_up(table: Any, name: str) -> Any:
    for part in name.split("."):
        table = table[part]
    return table


def _list_extended(name: Path) -> list[Path]:
    """A shipped configuration and those that it extends."""
    import tomllib

    from proverrl.files.shipped import find_config, find_extended, list_configs, shipped_root

    path = find_config(name)
    if path is None or not path.is_relative_to(shipped_root()):
        raise UsageError(f"--config {name}: there is none; there are {', '.join(list_configs())}")
    parent = tomllib.loads(path.read_text("utf-8")).get("extends")
    return [path, *(_list_extended(find_extended(path, parent).resolve()) if parent else [])]


def _select_rows(source: Path, per_level: int) -> str:
    """Problems of a shipped file with their references, the same number of each level."""
    from collections import Counter

    from proverrl.benchmarks.open import open_benchmark
    from proverrl.files.lines import encode_line
    from proverrl.problems.load import make_row

    whole = open_benchmark(str(source))
    least = min(Counter(problem.level for problem in whole.problems).values())
    chosen = whole.select(per_level=min(per_level, least))
    rows = [make_row(p) | {"reference": chosen.references[p.id]} for p in chosen.problems]
    return "".join(map(encode_line, rows))
