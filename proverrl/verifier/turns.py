"""Decides who is served next: one queue per lane, lanes in turn, higher priorities first.

Flows in: waiting callers. Flows out: the next one. A caller with ten thousand candidates in its
lane delays another lane by only one candidate at a time. Within a lane, first come, first served.
Not handled here: which worker serves (``proverrl.verifier.pool``); weights of lanes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from proverrl.types import Candidate
from proverrl.verifier.base import Lane

Served = TypeVar("Served")


@dataclass(frozen=True, slots=True, eq=False)
class Ticket(Generic[Served]):
    """A waiting caller; ``turn`` is resolved with what it was waiting for."""

    candidate: Candidate
    turn: asyncio.Future[Served]


class Turns(Generic[Served]):
    """The queues of all lanes with waiting callers; empty lanes cost nothing."""

    def __init__(self) -> None:
        # A dictionary keeps the order, and whoever gives up leaves it at once.
        self._lanes: dict[Lane, dict[Ticket[Served], None]] = {}
        self._orders: dict[int, deque[Lane]] = {}

    def add(self, lane: Lane, ticket: Ticket[Served]) -> None:
        """Put a caller at the end of its lane."""
        if lane not in self._lanes:
            self._lanes[lane] = {}
            self._orders.setdefault(lane.priority, deque()).append(lane)
        self._lanes[lane][ticket] = None

    def remove(self, lane: Lane, ticket: Ticket[Served]) -> None:
        """Forget a caller that gave up; one that was served, or is not there, is left alone."""
        waiting = self._lanes.get(lane, {})
        waiting.pop(ticket, None)
        if lane in self._lanes and not waiting:
            self._drop(lane)

    def take(self) -> Ticket[Served] | None:
        """The next caller, or None. Callers that were cancelled in this very moment, and could not
        yet say so, are passed over."""
        while self._orders:
            order = self._orders[max(self._orders)]
            lane = order[0]
            waiting = self._lanes[lane]
            ticket = next(iter(waiting))
            del waiting[ticket]
            if waiting:
                order.rotate(-1)
            else:
                self._drop(lane)
            if not ticket.turn.done():
                return ticket
        return None

    def _drop(self, lane: Lane) -> None:
        del self._lanes[lane]
        order = self._orders[lane.priority]
        order.remove(lane)
        if not order:
            del self._orders[lane.priority]

    def __bool__(self) -> bool:
        """True if anyone is waiting."""
        return bool(self._lanes)
