"""Reads what a run's ``metrics.jsonl`` gains while it is written, cut or replaced.

Flows in: the file, look by look. Flows out: the new rows; lines that are damaged are counted. Not
handled here: what is drawn of the rows (``proverrl.monitor.watch``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.files.strict_json import load_json

Row = dict[str, Any]

_FIGURES = frozenset(
    "seconds seconds_left solve_rate loss verified_per_second tokens_per_second verifier_queue "
    "verifier_calls_total staleness_mean staleness_max composer_reward truncated_share "
    "without_candidate_share composer_truncated_share fatal".split()
)
_TABLES = frozenset(("verdicts", "unjudged", "solve_rates"))
_LISTS = frozenset(("compose_warnings",))
_MAX_FIGURE = 2.0**63


@dataclass(slots=True)
class Follower:
    """Reads what a JSON lines file gained since the last look. A last line without its newline is
    left for the next look; a whole line that is no JSON object, or has a figure of a wrong form, is
    counted in ``bad_lines``."""

    path: Path
    bad_lines: int = 0
    _offset: int = 0
    _inode: int = 0

    def read(self) -> tuple[list[Row], bool]:
        """The new rows, and whether they begin again: the file was replaced or cut, as a resumed
        run does to it. A file that is not there yet, or for the moment, has no rows."""
        try:
            if self.path.exists() and not self.path.is_file():
                raise UsageError(f"{self.path} is no file; name the folder of a run")
            with self.path.open("rb") as stream:
                inode, size = _identity(stream.fileno())
                anew = inode != self._inode or size < self._offset
                if anew:
                    self._inode, self._offset, self.bad_lines = inode, 0, 0
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return [], False
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [row for line in whole.splitlines() if (row := self._parse(line))], anew

    def _parse(self, line: bytes) -> Row | None:
        if line.isspace() or not line:
            return None
        try:
            row = load_json(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not all(_fits(*item) for item in row.items()):
            self.bad_lines += 1
            return None
        return row


def _fits(key: str, value: Any) -> bool:
    """Whether a figure has its form; a null stands for one that was not finite."""
    if key in _TABLES:
        return value is None or (
            isinstance(value, dict) and all(is_number(count) for count in value.values())
        )
    if key in _LISTS:
        return value is None or isinstance(value, list)
    if key in _FIGURES or key.startswith("idle_"):
        return value is None or is_number(value)
    return key != "step" or (isinstance(value, int) and is_number(value))


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_size


def is_number(value: Any) -> bool:
    """Whether a value is a number that can be drawn."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_FIGURE
    )
