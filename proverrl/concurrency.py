"""Runs tasks concurrently and leaves none running; it does not limit how many run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def finish_all(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; when one fails or is cancelled, none is left running."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel what is not done, and return when everything has ended, whatever it raised."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def outlast(is_done: Callable[[], bool], wait: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is done, whatever cancels meanwhile; the cancellation is raised then."""
    cancelled: asyncio.CancelledError | None = None
    while not is_done():
        try:
            await wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
