"""Files of a report.

Flows in: a text. Flows out: the file, whole. Not handled here: what it says.
"""

from __future__ import annotations

from pathlib import Path

from proverrl.disk import saving
from proverrl.monitor.metrics import write_atomically


def write_whole(path: Path, text: str) -> Path:
    """Write the file, whole or not at all, with the folders that it needs.

    Raises:
        RunError: it cannot be written.
    """
    with saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    # A policy may write half a surrogate pair, which UTF-8 cannot hold.
    write_atomically(path, text, errors="replace")
    return path
