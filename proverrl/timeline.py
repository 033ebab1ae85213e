"""The activities of a process of a run, and their times.

Flows in: spans, from any thread. Flows out: the spans since the last look. Not handled here: the
file that they are written to (``proverrl.monitor.trace``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

Activity = Literal[
    "step",
    "generate",
    "verify",
    "update",
    "supervised",
    "push weights",
    "compose",
    "evaluate",
    "checkpoint",
    "wait",
    "wait of the sampler",
]
"""The activities of a process, each a row of its own. The last two: for other processes."""


class TimeSpan(NamedTuple):
    """``began`` is in seconds since 1970, which is the same on machines whose clocks agree."""

    activity: Activity
    began: float
    seconds: float
    step: int
    place: str


class Timeline:
    """Notes spans if it ``is_on``. ``step`` is the one that is being made."""

    def __init__(self, *, is_on: bool = False) -> None:
        self.is_on = is_on
        self.step = 0
        # Other threads may add while one takes.
        self._spans: deque[TimeSpan] = deque()
        self._start = time.time() - time.monotonic()

    @contextmanager
    def span(self, activity: Activity, place: str = "") -> Iterator[None]:
        """The block is this activity; ``place`` says more of it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(activity, began, time.monotonic(), place)

    def add(self, activity: Activity, began: float, ended: float, place: str = "") -> None:
        """An activity between two times of the monotonic clock."""
        if self.is_on:
            span = TimeSpan(activity, self._start + began, ended - began, self.step, place)
            self._spans.append(span)

    def take(self) -> list[TimeSpan]:
        """The spans since the last call."""
        return [self._spans.popleft() for _ in range(len(self._spans))]
