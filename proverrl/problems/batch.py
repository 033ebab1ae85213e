"""Judges a stream of candidates and gives the verdicts back in input order.

Flows in: what ``read_inputs`` yields, a verifier. Flows out: pairs of entry and verdict, each as
soon as all before it are known. At most ``window`` entries are held, so that a file of any length
streams through. Not handled here: printing, exit statuses.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from proverrl.concurrency import cancel_all
from proverrl.errors import ProblemError, UsageError, VerifierError
from proverrl.problems.includes import combine
from proverrl.problems.inputs import Submission, VerifyInput
from proverrl.types import Verdict
from proverrl.verifier.base import Verifier

Judged = tuple[VerifyInput, Verdict | None]


@dataclass(frozen=True, slots=True)
class _End:
    """The reader's last word: the input ended, or reading it failed."""

    error: BaseException | None = None


async def verify_stream(
    entries: AsyncIterator[VerifyInput],
    verifier: Verifier,
    *,
    deadline_seconds: float,
    window: int = 64,
) -> AsyncIterator[Judged]:
    """Each entry with its verdict, or with None where the entry cannot be judged.

    A problem that no proof can be held to shows while it is judged. It costs its own entry, which
    comes back as an ``Unusable``, if the entry knows its place in a file. Whatever else the
    verifier or the input raises is raised here; the checks that still run are cancelled then.
    """
    room = asyncio.Semaphore(window)
    waiting: asyncio.Queue[tuple[VerifyInput, asyncio.Task[Verdict] | None] | _End] = (
        asyncio.Queue()
    )
    tasks: set[asyncio.Task[Verdict]] = set()

    async def fill() -> None:
        end = _End()
        try:
            async for entry in entries:
                await room.acquire()
                task = None
                if isinstance(entry, Submission):
                    task = asyncio.create_task(_judge(verifier, entry, deadline_seconds))
                    tasks.add(task)
                waiting.put_nowait((entry, task))
        except BaseException as error:
            end = _End(error)
            raise
        finally:
            waiting.put_nowait(end)

    filling = asyncio.create_task(fill())
    # Whoever reads the queue hears of the error there.
    filling.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        while not isinstance(item := await waiting.get(), _End):
            entry, task = item
            verdict = None
            if task is not None:
                try:
                    verdict = await task
                except ProblemError as error:
                    if not (isinstance(entry, Submission) and entry.file):
                        raise
                    entry = entry.refuse("bad-problem", str(error))
                tasks.discard(task)
            room.release()
            yield entry, verdict
        if item.error is not None:
            raise item.error
    finally:
        await cancel_all([filling, *tasks])


async def _judge(verifier: Verifier, entry: Submission, deadline_seconds: float) -> Verdict:
    if not entry.apart:
        return await verifier.verify(entry.candidate, deadline_seconds=deadline_seconds)
    asked = (verifier.verify(c, deadline_seconds=deadline_seconds) for c in entry.apart)
    return combine(await asyncio.gather(*asked), entry.included)


async def read_in_thread(
    entries: Iterator[VerifyInput], ahead: int = 64
) -> AsyncIterator[VerifyInput]:
    """Entries of a pipe whose writer may be slow, or of files that include others, which takes
    time to read; nothing else waits for that, such as the start of a verifier process.

    The thread is a daemon: a read that never returns does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[VerifyInput | _End] = asyncio.Queue()
    room = threading.Semaphore(ahead)

    def put(item: VerifyInput | _End) -> None:
        # On a closed loop nobody waits for it any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    def work() -> None:
        end = _End(VerifierError("the reader of the input died"))
        try:
            for entry in entries:
                room.acquire()
                put(entry)
            end = _End()
        except (OSError, ValueError, UsageError) as error:
            end = _End(error)
        finally:
            put(end)

    threading.Thread(target=work, name="proverrl-read", daemon=True).start()
    while not isinstance(item := await arrived.get(), _End):
        room.release()
        yield item
    if item.error is not None:
        raise item.error
