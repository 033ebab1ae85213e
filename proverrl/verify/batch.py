"""Judges a stream of candidates and gives the verdicts back in input order.

Flows in: what ``read_inputs`` yields, a verifier. Flows out: pairs of entry and verdict, each as
soon as all before it are known. At most ``window`` entries are held, so that a file of any length
streams through. Not handled here: printing, exit statuses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from proverrl.types import Verdict
from proverrl.verify.base import Verifier
from proverrl.verify.inputs import Submission, Unusable


async def verify_stream(
    entries: Iterable[Submission | Unusable],
    verifier: Verifier,
    *,
    deadline_seconds: float,
    window: int = 64,
) -> AsyncIterator[tuple[Submission | Unusable, Verdict | None]]:
    """Each entry with its verdict, or with None where the entry cannot be judged.

    Raises what the verifier raises; the checks that still run are cancelled then.
    """
    waiting: deque[tuple[Submission | Unusable, asyncio.Task[Verdict] | None]] = deque()
    source = iter(entries)
    exhausted = False
    try:
        while waiting or not exhausted:
            while not exhausted and len(waiting) < window:
                entry = next(source, None)
                if entry is None:
                    exhausted = True
                elif isinstance(entry, Unusable):
                    waiting.append((entry, None))
                else:
                    judging = verifier.verify(entry.candidate, deadline_seconds=deadline_seconds)
                    waiting.append((entry, asyncio.ensure_future(judging)))
            if waiting:
                entry, task = waiting[0]
                verdict = await task if task else None
                waiting.popleft()
                yield entry, verdict
    finally:
        for _, task in waiting:
            if task:
                task.cancel()
