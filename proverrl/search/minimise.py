"""Shorter proofs that still verify (hint pruning).

Flows in: a proof and a verifier. Flows out: a proof of fewer lines, or of fewer hints; the caller
keeps both. This is delta debugging (Zeller and Hildebrandt 2002) without its complements.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from proverrl.lang.records import Verify
from proverrl.types import Candidate, Problem, Verdict


@dataclass(frozen=True, slots=True)
class Minimised:
    """``body`` is what is left and ``verdict`` its own (None when nothing could be dropped).

    ``complete`` says that no single line of it can be dropped; else the calls ran out. A shorter
    body that the fresh verifier did not prove is in ``refuted``, and ``body`` is the whole proof.
    """

    body: str
    verdict: Verdict | None
    calls: int
    num_dropped: int
    complete: bool
    refuted: str = ""


async def minimise(
    problem: Problem,
    body: str,
    verify: Verify,
    *,
    calls: int,
    confirm: Verify | None = None,
) -> Minimised:
    """Drop lines of a proof while it is still proved (``drop_needless``), in at most ``calls``
    calls of ``verify``. Only ``PROVED`` counts: a time limit keeps the line. ``confirm`` has the
    last word on the shorter proof."""
    lines = body.splitlines(keepends=True)
    asked: dict[str, Verdict] = {}

    async def holds(fewer: list[str]) -> bool:
        text = "".join(fewer)
        asked[text] = await verify(Candidate(problem, text))
        return asked[text].proved

    kept, complete = await drop_needless(lines, holds, calls=calls)
    text, used, dropped = "".join(kept), len(asked), len(lines) - len(kept)
    if dropped and confirm is not None:
        second = await confirm(Candidate(problem, text))
        if not second.proved:
            return Minimised(body, None, used, 0, complete=False, refuted=text)
    return Minimised(text, asked.get(text), used, dropped, complete)


async def drop_needless(
    pieces: Sequence[str],
    holds: Callable[[list[str]], Awaitable[bool]],
    *,
    calls: int,
    until: float = math.inf,
) -> tuple[list[str], bool]:
    """Leave out pieces as long as what is left still ``holds``, from the end, in chunks of half of
    them, then a quarter, down to single ones, until a pass over single ones leaves out nothing. At
    most ``calls`` questions are asked, none twice, and none after ``until``, a time of the clock
    ``time.monotonic``. The second value says that no single piece of
    the rest can be left out."""
    left, used, size = list(pieces), 0, max(1, len(pieces) // 2)
    tried = {tuple(left)}
    while left:
        before = end = len(left)
        while end > 0:
            start = max(0, end - size)
            fewer = left[:start] + left[end:]
            if tuple(fewer) not in tried:
                if used >= calls or time.monotonic() > until:
                    return left, False
                tried.add(tuple(fewer))
                used += 1
                if await holds(fewer):
                    left = fewer
            end = start
        if size == 1 and len(left) == before:
            break
        size = max(1, size // 2)
    return left, True
