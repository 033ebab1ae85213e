"""A half-written file of verdicts, from which ``proverrl verify --resume`` goes on.

Flows in: the file, and the entries of the input in their order. Flows out: the status of each that
was judged already, and the file cut after its last whole line. Covered: another input, and a
candidate that changed under the same id. Not handled here: a toolchain that changed meanwhile
(each line names its own).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from proverrl.errors import UsageError
from proverrl.types import Status
from proverrl.verify.inputs import Submission


class WrittenVerdicts:
    """The verdicts of an earlier run, taken in order; none where there is no file yet.

    Use as a context manager.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._num_lines = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _cut_after_last_line(path)
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"--out {path}: cannot be read: {error}") from error

    def __enter__(self) -> WrittenVerdicts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def take(self, entry: Submission) -> Status | None:
        """The status of the next entry, or None when the file has no more.

        Raises ``UsageError`` when its next verdict is about something else.
        """
        line = self._file.readline()
        if not line:
            return None
        self._num_lines += 1
        place = f"--resume: {self._path}:{self._num_lines}"
        try:
            row = json.loads(line)
            found, key, status = str(row["id"]), str(row["key"]), Status(row["status"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{place} is not a verdict; give another --out file") from error
        if found != entry.id:
            raise UsageError(
                f"{place} is about {found[:80]!r} where the input has {entry.id[:80]!r}: it was "
                "written for another input; give another --out file"
            )
        if key != entry.candidate.key:
            raise UsageError(
                f"{place}: {found[:80]!r} is not the candidate that was judged then: its problem "
                "or its text changed; give another --out file"
            )
        return status

    def check_end(self) -> None:
        """Raise ``UsageError`` when verdicts are left over after the whole input."""
        if self._file.readline():
            raise UsageError(
                f"--resume: {self._path} has more verdicts than the input has entries: it was "
                "written for another input; give another --out file"
            )


def _cut_after_last_line(path: Path) -> None:
    """Drop a last line that was cut off in the middle; make the file where there is none."""
    with path.open("a+b") as file:
        end = file.seek(0, 2)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                file.truncate(start + place + 1)
                return
            end = start
        file.truncate(0)
