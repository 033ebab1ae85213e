"""The one sink of a run: every figure and every rollout goes through it.

Flows in: calls of a loop. Flows out: ``metrics.jsonl``, ``rollouts/step_N.jsonl``, a terminal
display, and the tools that were opened (``proverrl.monitor.trackers``). Not handled here:
checkpoints, evaluation files, the HTML page.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

from proverrl.errors import RunError
from proverrl.files.disk import write_error
from proverrl.files.lines import (
    METRICS_FILE,
    ROLLOUTS_FOLDER,
    append_line,
    keep_lines,
    write_lines_atomically,
)
from proverrl.monitor.console import can_draw_live
from proverrl.monitor.display import (
    SPARKLINE_WIDTH,
    LiveDisplay,
    PlainDisplay,
    describe_step,
    format_seconds,
)
from proverrl.monitor.metrics import STEP_KINDS, RunLimits, read_metrics
from proverrl.monitor.trackers import TrackerSet
from proverrl.rollout.completion_counts import warn_of_lost

STEPS_FOR_TIME_LEFT = 10
_EVENTS = {"sft": "warm start", "eval": "evaluation"}
"""The names of lines of these kinds for callbacks; others have their own names."""
Row = Mapping[str, Any]
_ROLLOUT_NAME = re.compile(r"step_(\d+)\.jsonl")


class Monitor:
    """Writes what a run did and shows what it is doing. Use it in a ``with`` statement.

    ``resume_step`` is the step of the checkpoint that the run continues from: all that was
    written after it is dropped and the clock continues where it stood. Without it the folder
    must hold no metrics yet. ``limits`` say when the run will end. ``live`` forces the panel
    (True) or plain lines (False); None asks the terminal. ``trackers`` are those of
    ``open_trackers``. Raises RunError when the folder cannot be written.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        live: bool | None = None,
        limits: RunLimits,
        resume_step: int | None = None,
        trackers: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callable[[str, Row], object]] = (),
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_dir = Path(run_dir)
        self._path = self.run_dir / METRICS_FILE
        self._limits = limits
        self._clock = clock
        self._state: dict[str, Any] = {}
        self._resumed = max(0, resume_step or 0)
        self._history: deque[float | None] = deque(maxlen=SPARKLINE_WIDTH)
        self._recent: deque[Row] = deque(maxlen=STEPS_FOR_TIME_LEFT + 1)
        self._file: TextIO | None = None
        self._seconds_before = 0.0
        self._started = clock()
        if resume_step is not None:
            self.truncate_to(resume_step)
        elif self._path.exists() and self._path.stat().st_size:
            raise RunError(
                f"{self.run_dir} already holds a run ({METRICS_FILE} is not empty): "
                "resume it, or name another folder"
            )
        else:
            self._open()
        stream = sys.stdout if stream is None else stream
        draw_live = can_draw_live(stream) if live is None else live
        self._display = (LiveDisplay if draw_live else PlainDisplay)(stream, clock)
        self._trackers = TrackerSet(trackers or {}, self.warn)
        self._callbacks = callbacks

    @property
    def seconds(self) -> float:
        """Seconds since the run's start, without the time between a stop and a resume."""
        return self._seconds_before + self._clock() - self._started

    @property
    def last_step(self) -> int:
        """The last step or round that was logged, in this process or before it; 0 before any."""
        return int(self._state.get("step", self._resumed))

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl and, for a step or round, show it."""
        if self._file is None:
            raise RunError(f"the monitor of {self.run_dir} is closed")
        row = {"kind": kind, "step": step, "seconds": round(self.seconds, 3), **values}
        append_line(self._file, row, self._path)
        self._trackers.log(row)
        self.tell(_EVENTS.get(kind, kind), row)
        if kind in STEP_KINDS:
            self._show_step(row)

    def tell(self, event: str, row: Row) -> None:
        """Tell the callbacks; what they raise ends the run."""
        for callback in self._callbacks:
            callback(event, row)

    def write_rollouts(self, step: int, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write ``rollouts/step_N.jsonl`` in one move; a file of the same step is replaced."""
        path = self.run_dir / ROLLOUTS_FOLDER / f"step_{step}.jsonl"
        write_lines_atomically(path, rows)
        return path

    def truncate_to(self, step: int) -> None:
        """Drop what was written after ``step``, that of the checkpoint to continue from.

        Warm start (kind "sft") counts its own steps and comes before step 0: its lines stay,
        unless ``step`` is negative, which means that nothing was checkpointed and drops all.
        """
        self._close_file()
        if self._path.exists():
            keep_lines(self._path, lambda row: _belongs(row, step, self._path))
        folder = self.run_dir / ROLLOUTS_FOLDER
        for path in folder.glob("step_*.jsonl*"):
            match = _ROLLOUT_NAME.fullmatch(path.name)
            if match is None or int(match[1]) > step:
                path.unlink()
        rows = read_metrics(self.run_dir)
        self._seconds_before = max((row.get("seconds") or 0.0 for row in rows), default=0.0)
        self._started = self._clock()
        self._history.clear()
        self._history.extend(row.get("solve_rate") for row in rows if row.get("kind") in STEP_KINDS)
        self._recent.clear()
        self._open()

    def phase(self, name: str, detail: str = "") -> None:
        """Say what is going on outside the steps: ``phase("warm start", "120/400 loss 1.23")``."""
        self._display.show_phase(name, detail)

    def warn(self, name: str, text: str) -> None:
        """Show a warning as long as there is cause for it: an empty text takes ``name``'s away."""
        self._display.show_warning(name, text)

    def display(self, **values: Any) -> None:
        """Refresh figures of the live panel between two steps, such as ``verifier_queue=12``.

        Nothing is written to disk, and plain output stays one line per step.
        """
        self._state.update(values)
        self._display.refresh(self._state)

    def close(self) -> None:
        """Stop the display, close the file, end the trackers. Safe to call twice."""
        self._trackers.close()
        self._display.close()
        self._close_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _show_step(self, row: Row) -> None:
        self._history.append(row.get("solve_rate"))
        self._recent.append(row)
        seconds = self._limits.seconds_left(self._recent[0], row)
        left = "" if seconds is None else format_seconds(seconds)
        limit = self._limits.find_nearest(row)
        self._state |= {**row, "limit": limit, "left": left, "history": tuple(self._history)}
        for name, text in warn_of_lost(row).items():
            self.warn(name, text)
        self._display.show_step(describe_step(row, limit, left), self._state)

    def _open(self) -> None:
        try:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8", buffering=1, newline="\n")
        except OSError as error:
            raise write_error(self._path, error) from error

    def _close_file(self) -> None:
        stream, self._file = self._file, None
        if stream is not None:
            try:
                stream.close()
            except OSError as error:
                raise write_error(self._path, error) from error


def _belongs(row: Mapping[str, Any], step: int, path: Path) -> bool:
    if row.get("kind") == "sft":
        return step >= 0
    found = row.get("step", 0)
    if not isinstance(found, int):
        raise RunError(f"{path}: a line has the step {found!r}, which is no number; remove it")
    return found <= step
