"""The timeline of a run as a file that Perfetto and ``chrome://tracing`` read.

Flows in: spans of each process. Flows out: ``trace.json``, a JSON array of events in the Trace
Event Format, which is whole after each addition: a process of the file is a process of the run, a
thread of the file an activity. Not handled here: when processes note and hand over their spans.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, get_args

from proverrl.files.disk import write_error
from proverrl.files.lines import encode_line, write_atomically
from proverrl.timeline import Activity, TimeSpan

TRACE_FILE = "trace.json"
_ACTIVITIES: tuple[str, ...] = get_args(Activity)
_END = b"\n]\n"


class TraceFile:
    """Adds spans to the file at ``path``. Its events are kept, but for a line that was cut.
    Raises ``RunError`` if the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._named: set[int] = set()
        try:
            kept = list(_read_events(path)) if path.exists() else []
        except OSError as error:
            raise write_error(path, error) from error
        text = ",\n".join(encode_line(event).rstrip("\n") for event in kept)
        write_atomically(path, f"[\n{text}{_END.decode()}")
        self._is_empty = not kept

    def add(self, spans: Sequence[Sequence[TimeSpan]]) -> None:
        """Spans of each process, in the order of their ranks."""
        events = [event for rank, own in enumerate(spans) for event in self._describe(rank, own)]
        if not events:
            return
        text = ",\n".join(encode_line(event).rstrip("\n") for event in events)
        try:
            with self._path.open("r+b", buffering=0) as stream:
                whole = stream.seek(-len(_END), 2)
                added = (b"" if self._is_empty else b",\n") + text.encode() + _END
                try:
                    _write_whole(stream, added)
                except OSError:
                    # The earlier events stay readable: their end needs no more room than it had.
                    stream.truncate(whole)
                    stream.seek(whole)
                    stream.write(_END)
                    raise
        except OSError as error:
            raise write_error(self._path, error) from error
        self._is_empty = False

    def _describe(self, rank: int, spans: Sequence[TimeSpan]) -> Iterable[dict[str, Any]]:
        if rank not in self._named:
            self._named.add(rank)
            yield _name("process_name", rank, 0, f"rank {rank}")
            for place, activity in enumerate(_ACTIVITIES):
                yield _name("thread_name", rank, place, activity)
        for span in spans:
            more = {"place": span.place} if span.place else {}
            yield {
                "name": span.activity,
                "ph": "X",
                "pid": rank,
                "tid": _ACTIVITIES.index(span.activity),
                # Microseconds, whole below a nanosecond.
                "ts": round(span.began * 1e6, 3),
                "dur": round(span.seconds * 1e6, 3),
                "args": {"step": span.step, **more},
            }


def _write_whole(stream: FileIO, data: bytes) -> None:
    if stream.write(data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _name(kind: str, rank: int, place: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": rank, "tid": place, "args": {"name": name}}


def _read_events(path: Path) -> Iterable[dict[str, Any]]:
    """The events of a file, or of one whose last lines are cut, one on each line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        pass
    else:
        # Whole, in whatever form another program has saved it.
        yield from (event for event in found if isinstance(event, dict))
        return
    for line in text.splitlines():
        try:
            event = json.loads(line.removesuffix(","))
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
