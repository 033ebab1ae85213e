"""Where the real files of benchmarks are, and small sources written by tests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proverrl.benchmarks.base import BenchmarkFormat, Collection, open_source
from proverrl.benchmarks.formats import read_source
from proverrl.benchmarks.open import admit

SHARED = Path(os.environ.get("PROVERRL_DATA") or Path(__file__).parents[2] / "shared" / "data")


def write_rows(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def read(path: Path, *, format_name: BenchmarkFormat | None = None) -> Collection:
    """What loads and passes the audit, as ``eval`` reads it."""
    return admit(read_source(open_source(path), format_name=format_name, origin="test"))


def reasons(collection: Collection) -> Sequence[tuple[str, str]]:
    return [(entry.id, entry.reason) for entry in collection.refused]
