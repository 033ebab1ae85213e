"""One ahead: while what was written is judged, the next is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

F = TypeVar("F")


class Flights(Generic[F]):
    """What is written and not yet landed, the oldest first. ``write`` begins the next one, or gives
    None when there is no other; ``ahead`` are begun before the oldest is waited for."""

    def __init__(
        self,
        write: Callable[[], Awaitable[F | None]],
        *,
        ahead: int = 1,
        waiting: Iterable[F] = (),
    ) -> None:
        self.waiting = deque(waiting)
        self._write = write
        self._ahead = ahead

    async def oldest(self) -> F | None:
        """The oldest, once those after it are written as well; None when there is no other."""
        while len(self.waiting) <= self._ahead:
            written = await self._write()
            if written is None:
                break
            self.waiting.append(written)
        return self.waiting[0] if self.waiting else None

    def land(self) -> None:
        """The oldest is judged."""
        self.waiting.popleft()
