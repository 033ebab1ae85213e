"""The file of verdicts that ``proverrl verify --out`` writes, and ``--resume`` continues from.

Flows in: rows; on a resume the file that an earlier run left, and the entries of the input in their
order. Flows out: the file, in which every line is whole but for one that a kill or a full disk cut
off; what became of each entry that has its row already. Covered: another input, a candidate that
changed under the same id, a line that somebody changed, a file that holds no verdicts, which stays
as it is. Not handled here: a toolchain that changed meanwhile (each line names its own).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.files.seal import CHANGED, has_own_seal, write_sealed
from proverrl.files.strict_json import load_json
from proverrl.problems.inputs import VerifyInput
from proverrl.types import Status

_FIRST_BYTES = b'{"id": '
"""The first bytes of every row."""


class VerdictFile:
    """Rows on disk. With ``resume`` those of an earlier run are taken in order, and then rows are
    written after them; else the file begins again. Call ``close`` at the end."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self._num_lines = 0
        if resume and path.exists() and not path.is_file():
            raise UsageError(f"--resume: {path} is no file to continue; give another --out file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer: a write that fails leaves nothing that closing would try again.
            self._file = path.open("a+b" if resume else "wb", buffering=0)
            self._written = path.open("rb") if resume else None
        except OSError as error:
            raise UsageError(
                f"--out {path}: cannot be written: {error.filename}: {error.strerror}"
            ) from error

    def close(self) -> None:
        self._file.close()
        if self._written is not None:
            self._written.close()

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row. Raises ``UsageError`` when the disk refuses it."""
        rest = (write_sealed(row) + "\n").encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise UsageError(
                f"--out {self._path}: cannot be written: {error.strerror}; what was judged before "
                "is kept there: make room, and the same command with --resume continues"
            ) from error

    def take(self, entry: VerifyInput) -> dict[str, Any] | None:
        """The row of the next entry, or None when the file has no more.

        Raises ``UsageError`` when its next row is about something else.
        """
        line = self._read_line()
        if not line:
            return None
        place = f"--resume: {self._path}:{self._num_lines}"
        try:
            row: dict[str, Any] = load_json(line)
            found, key, line_number = str(row["id"]), str(row["key"]), row.get("line", entry.line)
            if row["status"] == "error":
                str(row["cause"]), str(row["message"])
            else:
                Status(row["status"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{place} is not a verdict; give another --out file") from error
        if not has_own_seal(row):
            raise UsageError(f"{place} was {CHANGED}; give another --out file")
        if found != entry.id or (not key and line_number != entry.line):
            here = repr(entry.id[:80]) if entry.id else f"line {entry.line}, which cannot be read"
            raise UsageError(
                f"{place} is about {found[:80]!r} where the input has {here}: it was "
                "written for another input; give another --out file"
            )
        if key != entry.key:
            raise UsageError(
                f"{place}: {found[:80]!r} is not the candidate that was judged then: its problem "
                "or its text changed; give another --out file"
            )
        return row

    def check_end(self) -> None:
        """Raise ``UsageError`` when rows are left over after the whole input."""
        if self._read_line():
            raise UsageError(
                f"--resume: {self._path} has more verdicts than the input has entries: it was "
                "written for another input; give another --out file"
            )

    def _read_line(self) -> bytes:
        """The next whole line; what a kill left of a last one is cut off the file."""
        assert self._written is not None
        line = self._written.readline()
        if line and not line.endswith(b"\n"):
            if not line.startswith(_FIRST_BYTES[: len(line)]):
                raise UsageError(
                    f"--resume: {self._path}:{self._num_lines + 1} is not a verdict; give another "
                    "--out file"
                )
            self._file.truncate(self._written.tell() - len(line))
            line = b""
        self._num_lines += bool(line)
        return line
