"""The console of a command, and what is drawn in place on it: panels and bars.

Flows in: renderables. Flows out: text on one stream; control codes only where it is a terminal. Not
handled here: what a panel says (``display``, ``watch``, ``search_display``).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from typing import IO, Any, ClassVar, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

UNWATCHED_WIDTH = 160
_DRAWING_SECONDS = 5.0
_KEY_COLUMNS = 4
_SHOW_CURSOR = b"\x1b[?25h\n"


def open_console(stream: TextIO | None = None, *, stderr: bool = False) -> PanelConsole:
    """The one console of a command, on stdout by default. ``stderr`` is for what is said beside the
    results; where both are terminals it is stdout too, because two consoles that draw on one screen
    draw over each other. Nothing is wrapped at 80 columns where nobody watches, and no text is read
    as markup unless it is said so."""
    if stream is None:
        shared = sys.stdout.isatty() and sys.stderr.isatty()
        stream = sys.stderr if stderr and not shared else sys.stdout
    known = stream.isatty() or "COLUMNS" in os.environ
    width = None if known else UNWATCHED_WIDTH
    return PanelConsole(file=stream, width=width, markup=False, emoji=False, highlight=False)


def printable(text: str, keep: str = "") -> str:
    """The text as no terminal obeys it: but for what is to be kept, escapes stand for what cannot
    be printed."""
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def open_table(title: str = "") -> Table:
    """An empty table whose rules and edges take no columns, so that more fits into 80. Its title
    may be wider than its columns."""
    return HeadedTable(title, box=None, pad_edge=False, padding=(0, 2, 0, 0))


def open_progress(console: PanelConsole) -> Progress:
    """A bar that is gone when its block ends; none where it cannot be redrawn in place, nor where
    results go to a pipe, whose reader may write on the same screen. Text that is printed
    meanwhile to a stream that is no terminal stays in that stream."""
    out = sys.stdout
    draws = can_draw_live(console.file) and (
        out.isatty() or not stat.S_ISFIFO(os.fstat(out.fileno()).st_mode)
    )
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not draws,
        transient=True,
        redirect_stdout=out.isatty(),
        redirect_stderr=sys.stderr.isatty(),
    )


def can_draw_live(stream: IO[str] | None = None) -> bool:
    """True when ``stream`` (stdout by default) is a terminal that takes control codes."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", ""):
        return False
    return stream.isatty()


class HeadedTable(Table):
    """rich's ``Table``, which wraps a title at the width of the columns; here it has all of the
    console's."""

    def __init__(self, heading: str, **how: Any) -> None:
        super().__init__(**how)
        self._heading = heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._heading:
            yield Text(self._heading, style="bold")
        yield from super().__rich_console__(console, options)


class PanelConsole(Console):
    """rich's ``Console``. Text that it gets between two drawings of a panel is written before the
    next: rich takes note of a panel's height before it writes it, and a panel that another thread
    drew in between would stay on the screen."""

    def __enter__(self) -> Self:
        LivePanel.drawing.acquire()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            LivePanel.drawing.release()


class LivePanel(Live):
    """rich's ``Live`` on a ``PanelConsole``; ``abandon_all`` is for a process that ends at once."""

    drawing: ClassVar[Any] = threading.RLock()
    _abandoned: ClassVar[bool] = False

    def __init__(self, console: PanelConsole, **how: Any) -> None:
        super().__init__(console=console, **how)
        # One lock for all: with two of them two threads could wait for each other.
        self._lock = LivePanel.drawing

    def refresh(self) -> None:
        """Draw it anew, from whatever thread."""
        with LivePanel.drawing:
            if not LivePanel._abandoned:
                super().refresh()

    @staticmethod
    def abandon_all() -> None:
        """Leave what is drawn as it is, with a visible cursor below it; nothing is drawn
        afterwards. It waits for a thread that is drawing, but not too long: a signal handler may
        call it."""
        LivePanel.drawing.acquire(timeout=_DRAWING_SECONDS)
        LivePanel._abandoned = True
        if sys.__stdout__ is not None and sys.__stdout__.isatty():
            os.write(sys.__stdout__.fileno(), _SHOW_CURSOR)


def choose_width(console: Console) -> int:
    """Columns for a panel: room is left for two ``^C``, which the terminal prints behind the last
    line. In a panel as wide as the screen they would begin a new line, below which the panel would
    be drawn a second time."""
    return max(20, console.width - _KEY_COLUMNS)
