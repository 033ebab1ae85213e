"""Runs tasks concurrently and leaves none running, also for callers without an event loop or with
another one. It does not limit how many run at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from proverrl.errors import UsageError

T = TypeVar("T")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""As in glibc's ``malloc.h``."""


def give_back_freed_memory() -> None:
    """Have glibc give the system what this process frees, from now on. By itself it keeps that for
    the thread that freed it, and blocks of up to 32 MiB too once one of that size was freed, so
    that a process whose threads take turns would hold what each of them needs at most. Other C
    libraries are left as they are."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
        set_option(_M_MMAP_THRESHOLD, 4 * 2**20)
        set_option(_M_TRIM_THRESHOLD, 64 * 2**20)


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


class Breather:
    """Spreads long work on an event loop: after some milliseconds of it in one turn of the loop,
    the rest waits for the next turn, so that others are not held up."""

    def __init__(self, most_seconds: float = 0.02) -> None:
        self._most_seconds = most_seconds
        self._started: float | None = None

    async def wait(self) -> None:
        """Return when there is time for more of it."""
        while True:
            now = time.perf_counter()
            if self._started is None:
                self._started = now
                asyncio.get_running_loop().call_soon(self._end_turn)
            if now - self._started < self._most_seconds:
                return
            await asyncio.sleep(0)

    def _end_turn(self) -> None:
        self._started = None


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


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """``work(*args)`` in a thread, whose end is waited for whatever cancels meanwhile: what it says
    to other processes must not cross what is said to them next."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args))
    await outlast(task.done, lambda: asyncio.wait([task]))
    return task.result()


class LoopThread:
    """An event loop in a thread of its own, which can be asked from any loop and any thread. The
    thread begins with the first work; ``remedy`` is what a process is told that was forked later,
    where the thread is not."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work there. Raises ``UsageError`` in a fork."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.SelectorEventLoop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            elif self._thread is None or not self._thread.is_alive():
                work.close()
                raise UsageError(
                    f"this process was forked after its loop began, and {self._remedy}"
                )
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run ``last``, end what is under way with an error, and the thread; the next work starts
        another. In a fork nothing happens."""

        async def end() -> None:
            await last()
            await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})

        with self._starting:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or not thread.is_alive():
                return
            self._loop = None
            try:
                asyncio.run_coroutine_threadsafe(end(), loop).result()
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()


_LEAST_SHARE = 0.02
_MOST_DEADLINES = 8.0


async def prolong(
    scope: asyncio.Timeout, budget: float, read_cpu_seconds: Callable[[], float]
) -> None:
    """Let ``scope``, of ``budget`` seconds from now, last until as much processor time was used.

    It is for work that others keep from the processors: what does not run, or has had
    ``_MOST_DEADLINES`` times its budget by the clock, is not given more.
    """
    loop = asyncio.get_running_loop()
    before = read_cpu_seconds()
    start = asked = loop.time()
    enough, end = before + budget, start + budget
    while True:
        await asyncio.sleep(0.9 * (end - asked))
        used, now = read_cpu_seconds(), loop.time()
        runs = used - before >= _LEAST_SHARE * (now - asked)
        end = min(now + enough - used, start + _MOST_DEADLINES * budget)
        due = scope.when() or now
        # Near its end it is over; others may have ended the scope meanwhile.
        if not runs or due <= now or end - now < 0.1 * budget:
            return
        scope.reschedule(max(end, due))
        before, asked = used, now
