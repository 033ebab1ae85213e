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

    From the end, in chunks of half the lines, then a quarter, down to single lines, until a pass
    over single lines drops nothing (after delta debugging, Zeller and Hildebrandt 2002, without its
    complements). Only ``PROVED`` counts: a time limit keeps the line. A body tried once is not
    tried again. ``confirm`` has the last word on the shorter proof.
    """
    parts = body.splitlines(keepends=True)
    num_parts = len(parts)
    pruning = _Pruning(problem, verify, calls, {body})
    size, complete = max(1, num_parts // 2), not parts
    while parts and not complete:
        kept = await pruning.make_pass(parts, size)
        if pruning.is_spent:
            parts = kept
            break
        complete = size == 1 and len(kept) == len(parts)
        parts, size = kept, max(1, size // 2)
    text, dropped = "".join(parts), num_parts - len(parts)
    used = calls - pruning.left
    if dropped and confirm is not None:
        second = await confirm(Candidate(problem, text))
        if not second.proved:
            return Minimised(body, None, used, 0, complete=False, refuted=text)
    return Minimised(text, pruning.verdict, used, dropped, complete or not parts)


@dataclass(slots=True)
class _Pruning:
    problem: Problem
    verify: Verify
    left: int
    tried: set[str]
    verdict: Verdict | None = None
    is_spent: bool = False

    async def make_pass(self, parts: list[str], size: int) -> list[str]:
        """What is left of the parts when chunks of ``size`` were tried from the end on."""
        end = len(parts)
        while end > 0:
            start = max(0, end - size)
            shorter = parts[:start] + parts[end:]
            if await self._is_proved("".join(shorter)):
                parts = shorter
            if self.is_spent:
                break
            end = start
        return parts

    async def _is_proved(self, text: str) -> bool:
        if text in self.tried:
            return False
        if not self.left:
            self.is_spent = True
            return False
        self.tried.add(text)
        self.left -= 1
        found = await self.verify(Candidate(self.problem, text))
        if found.proved:
            self.verdict = found
        return found.proved
