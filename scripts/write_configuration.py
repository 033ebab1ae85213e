#!/usr/bin/env python3
"""Writes the tables of docs/configuration.md from the configuration itself.

    python scripts/write_configuration.py            write the page
    python scripts/write_configuration.py --check    say whether it is as it would be written

The first table gets the forty keys that are set most. A later heading names a section; the table
below it gets a row for each other key of it, in their order, with those of tables within it that
have no heading of their own. A row's text stands below the key in ``proverrl/config``. All else on
the page is written by hand and stays.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.config.keys import USUAL_KEYS, Key, iter_keys, write_value

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
HEAD = "| key | default | means |\n|---|---|---|\n"
USUAL, TOP = "The forty keys that you set", "The run"
TITLE = rf"### (?:`\[([a-zA-Z_.]+)\]`|({USUAL})|{TOP})\n"
PART = re.compile(rf"^{TITLE}(?:(?!^#).*\n)*?{re.escape(HEAD)}", re.MULTILINE)
ROWS = re.compile(r"(?:\|.*\n)*")


def write_page(page: str) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: a section has no table, or a table no section; or a key has no text.
    """
    tables = {found[2] or found[1] or "": found.end() for found in PART.finditer(page)}
    rows: dict[str, list[str]] = {name: [] for name in tables}
    keys = {key.name: key for key in iter_keys()}
    for key in (*map(keys.__getitem__, USUAL_KEYS), *keys.values()):
        name = USUAL if key.name in USUAL_KEYS else key.name.rpartition(".")[0]
        while name not in tables and name:
            name = name.rpartition(".")[0]
        if not name and "." in key.name:
            raise ValueError(f"{PAGE.name} has no table for {key.name}; add a heading and a table")
        if (row := write_row(key)) not in rows[name]:
            rows[name].append(row)
    for name, end in sorted(tables.items(), key=lambda table: -table[1]):
        if not rows[name]:
            raise ValueError(f"{PAGE.name}: [{name}] has no other keys; drop its heading")
        after = ROWS.match(page, end)
        assert after is not None
        page = page[:end] + "".join(rows[name]) + page[after.end() :]
    return page


def write_row(key: Key) -> str:
    """A row of a table; of a key without a default its text says what is meant."""
    default = f"`{value}`" if (value := write_value(key.default)) else ""
    return f"| `{key.name}` | {default} | {key.text} |\n"


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
