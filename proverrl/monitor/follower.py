"""What a JSON lines file gains while another process writes it.

Flows in: a path. Flows out: rows, each once; nothing is written. Not handled here: what they mean.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(slots=True)
class Follower:
    """Reads what a JSON lines file gained since the last look. A last line without its newline is
    left for the next look; a whole line that is no JSON object is counted in ``bad_lines``."""

    path: Path
    bad_lines: int = 0
    _offset: int = 0
    _inode: int = 0

    def read(self) -> tuple[list[Row], bool]:
        """The new rows, and whether they begin anew: the file was replaced or cut, as a resumed run
        does to it. A file that is not there yet, or for the moment, has no rows."""
        try:
            with self.path.open("rb") as stream:
                inode, size = _identity(stream.fileno())
                anew = inode != self._inode or size < self._offset
                if anew:
                    self._inode, self._offset, self.bad_lines = inode, 0, 0
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return [], False
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [row for line in whole.splitlines() if (row := self._parse(line))], anew

    def _parse(self, line: bytes) -> Row | None:
        if line.isspace() or not line:
            return None
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            self.bad_lines += 1
            return None
        return row


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_size
