#!/usr/bin/env python3
"""Writes the tables of docs/configuration.md from the configuration itself.

    python scripts/write_configuration.py            write the page
    python scripts/write_configuration.py --check    say whether it is as it would be written

A heading names a section; the table below it gets a row for each of the section's keys, in their
order, with those of tables within it that have no heading of their own. A row's text stands below
the key in ``proverrl/config``. All else on the page is written by hand and stays.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.config import Config
from proverrl.config.base import Section
from proverrl.config.load import find_section

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
HEAD = "| key | default | means |\n|---|---|---|\n"
TOP = "The run"
TITLE = rf"### (?:`\[([a-zA-Z_.]+)\]`|{TOP})\n"
PART = re.compile(rf"^{TITLE}(?:(?!^#).*\n)*?{re.escape(HEAD)}", re.MULTILINE)
ROWS = re.compile(r"(?:\|.*\n)*")


def write_page(page: str) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: a section has no table, or a table no section; or a key has no text.
    """
    tables = {found[1] or "": found.end() for found in PART.finditer(page)}
    rows: dict[str, list[str]] = {name: [] for name in tables}
    for key, default, text in iter_keys(Config):
        name = key.rpartition(".")[0]
        while name not in tables and name:
            name = name.rpartition(".")[0]
        if not name and "." in key:
            raise ValueError(f"{PAGE.name} has no table for {key}; add a heading and an empty one")
        rows[name].append(f"| `{key}` | {default} | {text} |\n")
    for name, end in sorted(tables.items(), key=lambda table: -table[1]):
        if not rows[name]:
            raise ValueError(f"{PAGE.name}: there is no section [{name}]; drop its heading")
        after = ROWS.match(page, end)
        assert after is not None
        page = page[:end] + "".join(rows[name]) + page[after.end() :]
    return page


def iter_keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default as TOML writes it and text of every key, tables within included."""
    texts = read_texts(section)
    defaults = section.model_construct().model_dump(mode="json")
    for name, info in section.model_fields.items():
        inner, named = find_section(info.annotation)
        if inner is not None:
            yield from iter_keys(inner, f"{prefix}{name}.NAME." if named else f"{prefix}{name}.")
        elif name not in texts:
            raise ValueError(f"{prefix}{name} has no text below it in {section.__module__}")
        else:
            default = "needed" if info.is_required() else f"`{write_default(defaults[name])}`"
            yield prefix + name, default, texts[name]


def read_texts(section: type[Section]) -> dict[str, str]:
    """The text below each field, as one line of Markdown."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(made, ast.ClassDef)
    texts = {}
    for field, below in pairwise(made.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            texts[ast.unparse(field.target)] = " ".join(text.split()).replace("``", "`")
    return texts


def write_default(value: Any) -> str:
    """A default as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def main() -> int:
    """Write or check the page; the exit status is 1 where a check finds it out of date."""
    before = PAGE.read_text("utf-8")
    after = write_page(before)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(after, "utf-8")
    elif after != before:
        print(f"{PAGE.name} is out of date; run: python scripts/write_configuration.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
