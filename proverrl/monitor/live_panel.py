"""A live panel that leaves the terminal as it was, however its process ends.

Flows in: what rich's ``Live`` takes. Flows out: a panel on a terminal. Not handled here: keys other
than Ctrl-C that are typed while a panel is shown; a process that is killed.
"""

from __future__ import annotations

import os
import sys
from typing import ClassVar

from rich.console import Console
from rich.live import Live

_KEY_COLUMNS = 4
_SHOW_CURSOR = b"\x1b[?25h\n"


class LivePanel(Live):
    """rich's ``Live``; ``abandon_all`` is for a process that ends at once."""

    _abandoned: ClassVar[bool] = False

    def refresh(self) -> None:
        """Draw it anew, from whatever thread."""
        if not LivePanel._abandoned:
            super().refresh()

    @staticmethod
    def abandon_all() -> None:
        """Leave what is drawn as it is, with a visible cursor below it. Takes no lock, so that a
        signal handler may call it; nothing is drawn afterwards."""
        LivePanel._abandoned = True
        if sys.__stdout__ is not None and sys.__stdout__.isatty():
            os.write(sys.__stdout__.fileno(), _SHOW_CURSOR)


def choose_width(console: Console) -> int:
    """Columns for a panel: room is left for two ``^C``, which the terminal prints behind the last
    line. In a panel as wide as the screen they would begin a new line, below which the panel would
    be drawn a second time."""
    return max(20, console.width - _KEY_COLUMNS)
