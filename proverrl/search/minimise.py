"""Shorter proofs that still verify (hint pruning).

Flows in: a proof and a verifier. Flows out: a proof of fewer lines; the caller keeps both.
"""

from __future__ import annotations

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
    """Drop lines of a proof while it is still proved, in at most ``calls`` calls of ``verify``.

    It drops from the end, in chunks of half the lines, then a quarter, down to single lines, until
    a pass over single lines drops nothing. This is delta debugging (Zeller and Hildebrandt 2002)
    without its complements. Only ``PROVED`` counts: a time limit keeps the line. A body tried once
    is not tried again. ``confirm`` has the last word on the shorter proof."""
    parts = body.splitlines(keepends=True)
    num_parts, used, tried = len(parts), 0, {body}
    verdict: Verdict | None = None
    size, complete, is_spent = max(1, num_parts // 2), not parts, False
    while parts and not complete and not is_spent:
        before = end = len(parts)
        while end > 0 and not is_spent:
            start = max(0, end - size)
            shorter = parts[:start] + parts[end:]
            text = "".join(shorter)
            is_spent = text not in tried and used >= calls
            if text not in tried and not is_spent:
                tried.add(text)
                used += 1
                found = await verify(Candidate(problem, text))
                if found.proved:
                    parts, verdict = shorter, found
            end = start
        complete = size == 1 and len(parts) == before and not is_spent
        size = max(1, size // 2)
    text, dropped = "".join(parts), num_parts - len(parts)
    if dropped and confirm is not None:
        second = await confirm(Candidate(problem, text))
        if not second.proved:
            return Minimised(body, None, used, 0, complete=False, refuted=text)
    return Minimised(text, verdict, used, dropped, complete or not parts)
