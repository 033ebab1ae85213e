"""Which candidates are taken in, and in which order they reach the pool.

Flows in: candidates of many clients. Flows out: a turn for each. At most ``room`` candidates wait
or run; what would be more is refused at once, so that a client hears of it while it can still go
elsewhere. A higher priority goes first; among equals the clients take turns, one candidate each.
The languages do not wait for each other. Not handled here: judging, who a client is.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from proverrl.errors import ProverRLError
from proverrl.types import Candidate
from proverrl.verify.turns import Ticket, Turns

_RATE_OVER = 64
"""Candidates whose ends tell how fast the queue moves."""
_MAX_RETRY_SECONDS = 60


class QueueFullError(ProverRLError):
    """There is no room; ``retry_after`` is a whole number of seconds after which there should
    be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class _Gate:
    """Lets so many candidates of one language through at once."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[int, Turns[None]] = {}

    async def enter(self, candidate: Candidate, lane: str, priority: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(priority, Turns()).add(lane, Ticket(candidate, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the very moment in which the client gave up.
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to whoever is next."""
        for priority in sorted(self._waiting, reverse=True):
            ticket = self._waiting[priority].take()
            if ticket is not None:
                ticket.turn.set_result(None)
                return
            del self._waiting[priority]
        self._free += 1


class CandidateQueue:
    """``at_once`` candidates of each language are with the pool; ``num_inside`` wait or run."""

    def __init__(self, *, room: int, at_once: int) -> None:
        self._room = room
        self._gates: dict[str, _Gate] = defaultdict(lambda: _Gate(at_once))
        self._ends: deque[float] = deque(maxlen=_RATE_OVER)
        self.num_inside = 0

    @contextmanager
    def reserve(self, num: int) -> Iterator[None]:
        """Room for ``num`` candidates. Raises ``QueueFullError``."""
        if self.num_inside + num > self._room:
            raise QueueFullError(self._guess_wait(self.num_inside + num - self._room))
        self.num_inside += num
        try:
            yield
        finally:
            self.num_inside -= num

    @asynccontextmanager
    async def turn(self, candidate: Candidate, lane: str, priority: int) -> AsyncIterator[None]:
        """Wait for a place at the pool, and hold it."""
        gate = self._gates[candidate.problem.language]
        await gate.enter(candidate, lane, priority)
        try:
            yield
        finally:
            self._ends.append(time.monotonic())
            gate.leave()

    def _guess_wait(self, num: int) -> int:
        """Seconds until ``num`` candidates have left, at the latest rate."""
        if len(self._ends) < 2:
            return 1
        rate = (len(self._ends) - 1) / max(self._ends[-1] - self._ends[0], 1e-3)
        return min(_MAX_RETRY_SECONDS, max(1, math.ceil(num / rate)))
