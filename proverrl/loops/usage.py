"""How long each part of a run had nothing to do.

Flows in: when a part is at work. Flows out: its idle seconds, for the metrics.
Not handled here: how busy a part is while it works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

Part = Literal["generator", "pool", "learner", "composer"]


class IdleClock:
    """How long each part of a run had nothing to do, in wall seconds. ``pool`` works while any
    verdict is awaited; turns after the first, their writing included, count for it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        parts: Sequence[Part] = ("generator", "pool", "learner"),
    ) -> None:
        self._clock = clock
        self._since = clock()
        self._depth: dict[Part, int] = dict.fromkeys(parts, 0)
        self._began: dict[Part, float] = {}
        self._busy: dict[Part, float] = dict.fromkeys(parts, 0.0)

    @contextmanager
    def busy(self, part: Part) -> Iterator[None]:
        """The part is at work; scopes may lie within or beside each other."""
        if self._depth[part] == 0:
            self._began[part] = self._clock()
        self._depth[part] += 1
        try:
            yield
        finally:
            self._depth[part] -= 1
            if self._depth[part] == 0:
                self._busy[part] += self._clock() - self._began[part]

    def take_idle(self) -> dict[str, float]:
        """Idle seconds of each part since this was last asked, for the metrics."""
        now = self._clock()
        idle = {}
        for part, busy in self._busy.items():
            if self._depth[part]:
                busy += now - self._began[part]
                self._began[part] = now
            idle[f"idle_{part}_seconds"] = round(max(0.0, now - self._since - busy), 3)
            self._busy[part] = 0.0
        self._since = now
        return idle
