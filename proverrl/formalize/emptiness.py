"""Finds statements that say nothing: contracts that anything meets, and that nothing can meet.

Flows in: problems that ask for a statement, or for a statement with code, and bodies that can be
read. Flows out: the reason by which a body says nothing, found by proof; rollouts with a mark on
the verdicts of such bodies, so that no reward pays for their form. Not handled here: what is weak
and yet says something, and what the prover does not find to be empty within its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proverrl.concurrency import finish_all
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.parts import Asking
from proverrl.rewards.verdicts import EMPTY, earns_for_form
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Candidate, Problem
from proverrl.verifier.base import Verifier


async def find_emptiness(
    asking: Asking, problem: Problem, body: str, verifier: Verifier, *, deadline_seconds: float
) -> tuple[str, int]:
    """Why a body says nothing, empty where it says something as far as the verifier sees, and the
    number of calls. What could not be judged is a reason too."""
    try:
        asked = asking.ask_empty(problem, body)
    except ProblemError as error:
        return str(error), 0
    for number, (reason, candidate) in enumerate(asked, start=1):
        verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
        if verdict.proved:
            return reason, number
        if not verdict.status.judged:
            return f"whether it says anything was not judged: {verdict.status}", number
    return "", len(asked)


async def mark_empty(
    draws: Sequence[JudgedDraw], verifier: Verifier, *, deadline_seconds: float
) -> list[JudgedDraw]:
    """The draws with a mark on the verdict of each last turn whose body would earn something for
    its form and says nothing. The calls that it takes are added to the draw's."""
    return await finish_all(_mark_draw(draw, verifier, deadline_seconds) for draw in draws)


async def _mark_draw(draw: JudgedDraw, verifier: Verifier, deadline_seconds: float) -> JudgedDraw:
    async def ask(candidate: Candidate) -> tuple[str, int]:
        problem = candidate.problem
        language = find_language(problem.language)
        parts = (language.formalizing, language.programming)
        asking = next(part for part in parts if part is not None and part.kind == problem.kind)
        return await find_emptiness(
            asking, problem, candidate.body, verifier, deadline_seconds=deadline_seconds
        )

    found = [r.turns[-1].candidate for r in draw.rollouts if earns_for_form(r)]
    asked = {candidate.key: candidate for candidate in found if candidate is not None}
    answers = await finish_all(map(ask, asked.values()))
    empty = {key for key, (reason, _) in zip(asked, answers, strict=True) if reason}
    rollouts = tuple(
        rollout.mark(EMPTY)
        if (last := rollout.turns[-1].candidate) is not None and last.key in empty
        else rollout
        for rollout in draw.rollouts
    )
    num_calls = draw.num_calls + sum(number for _, number in answers)
    return replace(draw, rollouts=rollouts, num_calls=num_calls)
