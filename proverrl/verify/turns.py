"""Decides who is served next: one queue per lane, lanes in turn.

Flows in: waiting callers. Flows out: the next one. A caller with ten thousand candidates in its
lane delays another lane by only one candidate at a time. Within a lane, first come, first served.
Not handled here: which worker serves (``proverrl.verify.pool``); weights of lanes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from proverrl.types import Candidate

Served = TypeVar("Served")


@dataclass(frozen=True, slots=True)
class Ticket(Generic[Served]):
    """A waiting caller; ``turn`` is resolved with what it was waiting for."""

    candidate: Candidate
    turn: asyncio.Future[Served]


class Turns(Generic[Served]):
    """The queues of all lanes with waiting callers; empty lanes cost nothing."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Ticket[Served]]] = {}
        self._order: deque[str] = deque()

    def add(self, lane: str, ticket: Ticket[Served]) -> None:
        """Put a caller at the end of its lane."""
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self._order.append(lane)
        self._lanes[lane].append(ticket)

    def take(self) -> Ticket[Served] | None:
        """The next caller that is still waiting, or None; those that gave up are dropped."""
        while self._order:
            lane = self._order.popleft()
            queue = self._lanes[lane]
            while queue and queue[0].turn.done():
                queue.popleft()
            ticket = queue.popleft() if queue else None
            if queue:
                self._order.append(lane)
            else:
                del self._lanes[lane]
            if ticket is not None:
                return ticket
        return None

    def __bool__(self) -> bool:
        """Whether anyone may be waiting; callers that gave up count until they are reached."""
        return bool(self._order)
