"""How many candidates are taken in.

Flows in: who wants to have how many judged. Flows out: room for them, or how long to wait. What
would be more than the room is refused at once, so that a client hears of it while it can still go
elsewhere; no client may fill more than half. Not handled here: whose turn it is
(``proverrl.verifier.pool.Turns``), who a client is.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque

_RATE_OVER = 64
"""Candidates whose ends tell how fast the queue moves."""
_MAX_RETRY_SECONDS = 60


class Reservation:
    """Room for so many candidates of a client, given back one by one or at the end."""

    def __init__(self, room: Room, client: str, num: int) -> None:
        self._room, self._client, self._num = room, client, num
        room.change(client, num)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.change(self._client, -self._num)
        self._num = 0

    def release(self) -> None:
        """One of them has its verdict."""
        self._room.note_end()
        if self._num:
            self._num -= 1
            self._room.change(self._client, -1)


class Room:
    """``num_inside`` candidates wait or run, ``size`` at most."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_inside = 0
        self._by_client: Counter[str] = Counter()
        self._ends: deque[float] = deque(maxlen=_RATE_OVER)

    def find_lack(self, client: str, num: int) -> str:
        """Why there is no room for so many more of a client's candidates; empty when there is."""
        if self.num_inside + num > self.size:
            return "the queue is full"
        if self._by_client[client] + num > self.size // 2:
            return "half of the queue is yours"
        return ""

    def change(self, client: str, num: int) -> None:
        """So many more are inside, or fewer."""
        self.num_inside += num
        self._by_client[client] += num
        if not self._by_client[client]:
            del self._by_client[client]

    def note_end(self) -> None:
        """A candidate has its verdict."""
        self._ends.append(time.monotonic())

    def guess_wait(self, num: int) -> int:
        """Whole seconds until ``num`` candidates have left, at the latest rate."""
        if len(self._ends) < 2:
            return 1
        rate = (len(self._ends) - 1) / max(self._ends[-1] - self._ends[0], 1e-3)
        return min(_MAX_RETRY_SECONDS, max(1, math.ceil(num / rate)))
