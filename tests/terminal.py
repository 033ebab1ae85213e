"""A command in a pseudo-terminal, and the screen that a person would see.

What the command prints goes through a terminal emulator, so that a test asserts what stands on the
screen and where the cursor is, not which control codes were sent.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pexpect
import pyte

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 300
ROWS, COLUMNS = 40, 100


class Terminal:
    """``proverrl`` with these arguments, under way in ``folder``."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self.screen)
        environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "proverrl", *arguments],
            cwd=str(folder),
            env=environment,
            dimensions=(ROWS, COLUMNS),
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            # Whoever runs the tests in the background has them ignore the key.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.flags_before = self._flags()

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Show what is printed until ``reached``, while the command goes on."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < give_up, self.text
            try:
                self._stream.feed(self.child.read_nonblocking(4096, timeout=0.05))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF as error:
                raise AssertionError(f"it ended:\n{self.text}") from error

    def press_ctrl_c(self) -> None:
        """As the key does it: the terminal sends the signal, to the group in the foreground."""
        self.child.sendintr()

    def finish(self) -> int:
        """Show the rest; returns the exit status."""
        while True:
            try:
                self._stream.feed(self.child.read_nonblocking(4096, timeout=PATIENCE_SECONDS))
            except pexpect.EOF:
                break
        self.flags_after = self._flags()
        self.child.close()
        assert self.child.signalstatus is None
        return int(self.child.exitstatus)

    def _flags(self) -> int:
        """The local flags of the terminal: echo, control keys and the like."""
        return int(termios.tcgetattr(self.child.child_fd)[3])

    @property
    def lines(self) -> list[str]:
        """The screen without empty lines."""
        return [line.rstrip() for line in self.screen.display if line.strip()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)
