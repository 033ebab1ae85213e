"""Decide by a verifier whether a statement means what is meant.

Flows in: a problem that asks for a statement, a statement, a verifier. Flows out: True where both
entail each other by proof, False where a proof shows that they differ or where it is no statement,
None where nothing was shown. Not handled here: statements that are compared without such a problem
(``StatementGenerator`` and the languages make them).
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from proverrl.lab.words.parts import get_formalizing
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier

_MAX_TRIES = 8
_MAX_DRAWS = 64


@dataclass(frozen=True, slots=True)
class Wrong:
    """A statement that does not mean what is meant, and in which way: ``syntax`` where it is none,
    else what was changed, certified by a proof that it makes a difference."""

    body: str
    error: str


async def equivalent(
    problem: Problem, body: str, verifier: Verifier, *, deadline_seconds: float
) -> bool | None:
    """Three-valued, for one verifier call or a few. A call that was not judged shows nothing.
    Raises ``ProblemError`` for a problem that asks for no statement."""
    formalizing = get_formalizing(problem)
    candidate = Candidate(problem, body)
    verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
    if verdict.status.judged and not formalizing.is_well_formed(candidate, verdict):
        return False
    return await decide_meaning(problem, body, verdict, verifier, deadline_seconds=deadline_seconds)


async def decide_meaning(
    problem: Problem, body: str, verdict: Verdict, verifier: Verifier, *, deadline_seconds: float
) -> bool | None:
    """``equivalent`` where the statement's verdict is there. None too for what is not well formed:
    no proof shows that it differs."""
    formalizing = get_formalizing(problem)
    if verdict.proved:
        return True
    is_read = formalizing.is_well_formed(Candidate(problem, body), verdict)
    if not verdict.status.judged or not is_read:
        return None
    for asked in formalizing.ask_difference(problem, body):
        shown = await verifier.verify(asked, deadline_seconds=deadline_seconds)
        if formalizing.shows_difference(shown):
            return False
    return None


async def make_wrong(
    problem: Problem,
    reference: str,
    verifier: Verifier,
    *,
    seed: int,
    deadline_seconds: float,
    syntax: bool | None = None,
    known: Collection[str] = (),
) -> Wrong | None:
    """A statement with one error, of which it is certain that it is one; None where some tries
    gave none. The kind is ``syntax`` exactly where the result is no statement; with ``syntax`` it
    must be that, or must not. None of ``known`` is made again."""
    formalizing = get_formalizing(problem)
    rng = random.Random(f"{seed}:{problem.id}")
    tried = set[str]()
    for _ in range(_MAX_DRAWS):
        made = formalizing.spoil(problem, reference, rng)
        if made is None or len(tried) == _MAX_TRIES:
            return None
        body, error = made
        if body in tried or body in known or syntax not in (None, error == "syntax"):
            continue
        tried.add(body)
        if error != "syntax" and not formalizing.ask_difference(problem, body):
            continue
        candidate = Candidate(problem, body)
        verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
        is_read = formalizing.is_well_formed(candidate, verdict)
        if verdict.proved or not verdict.status.judged or is_read == (error == "syntax"):
            continue
        if not is_read:
            return Wrong(body, error)
        means = await decide_meaning(
            problem, body, verdict, verifier, deadline_seconds=deadline_seconds
        )
        if means is False:
            return Wrong(body, error)
    return None
