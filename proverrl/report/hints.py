"""The page of ``proverrl annotate``: what became of each file, and what was tried.

Flows in: the rows of its files. Flows out: one HTML file that loads nothing. Hints and messages are
hostile text, which the templates escape. Not handled here: the report of runs (``page``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proverrl.files.lines import write_whole
from proverrl.report.page import render_plain


def write_hints(rows: Sequence[Mapping[str, Any]], out: Path) -> Path:
    """Write the page of rows as ``annotate --json`` prints them, with what was ``tried``."""
    files = [
        {
            "name": row["file"],
            **{key: row[key] for key in ("status", "calls", "seconds", "message")},
            "patch": row["diff"],
            "declarations": [
                (name, line, said)
                for key, said in (("solved", "solved"), ("left", "not proved"))
                for name, line in row[key].items()
            ],
            "tried": [(hint["text"], hint["line"], hint["fate"]) for hint in row["tried"]],
        }
        for row in rows
    ]
    counts = Counter(row["status"] for row in rows).most_common()
    return write_whole(out, render_plain("hints.html", files=files, counts=counts))
