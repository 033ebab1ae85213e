"""LeanScorer: one score for a statement from the ratings of its parts (Mathesis, Yu et al. 2025,
arXiv 2506.07047).

Flows in: a letter for each part of what is meant, A said, B said with a minor deviation, C not
said; or statements, whose letters a verifier gives. Flows out: a Sugeno integral between 0 and 1;
rollouts with a mark on the verdicts of statements that the score accepts, for the reward to read.
Of more than ten parts the published code floors the share of A in tenths and takes all others for
B, which hides a C; here a C is seen first. Not handled here: which parts there are (a language
says), what a score earns (``rewards``).
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.errors import UsageError
from proverrl.formalize.emptiness import Marking, mark_draws
from proverrl.formalize.equivalence import get_formalizing
from proverrl.lang import find_language
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Candidate, Opinion, Problem, Verdict
from proverrl.verifier.base import Verifier

ACCEPTED = 0.6
"""The paper accepts a statement from this score on."""
_MOST = 10
_VALUES = {"A": 1.0, "B": 0.5}


def lean_score(ratings: str) -> float:
    """``max_i min(f_(i), mu(parts i to n))`` with the values ``f`` of the parts in ascending order,
    rounded to two digits; 0 where any part is C. Raises ``UsageError`` for no part or another
    letter."""
    if not ratings or set(ratings) - {"A", "B", "C"}:
        raise UsageError(f"ratings {ratings!r}: give one of A, B and C for each part")
    if "C" in ratings:
        return 0.0
    if len(ratings) > _MOST:
        num_said = _MOST * ratings.count("A") // len(ratings)
        ratings = "A" * num_said + "B" * (_MOST - num_said)
    ascending = sorted(ratings, reverse=True)
    tails = (ascending[i:] for i in range(len(ascending)))
    score = max(min(_VALUES[tail[0]], _measure(tail, len(ratings))) for tail in tails)
    return round(score, 2)


def check_parts(problems: Sequence[Problem], place: str) -> None:
    """Raise ``UsageError``: a problem of the file ``place`` has no parts that could be scored."""
    for problem in problems:
        asked = find_language(problem.language).formalizing
        if asked is None or problem.kind != asked.kind or not asked.has_parts:
            raise UsageError(
                "reward.score_share is for statements whose parts are compared, contracts of "
                f"Dafny; {place} holds {problem.id!r}, a problem of {problem.language} of the kind "
                f"{problem.kind}; set reward.score_share = 0"
            )


async def rate_statement(
    problem: Problem, body: str, verifier: Verifier, *, deadline_seconds: float
) -> tuple[str, Verdict | None]:
    """The letters of a statement's parts, for one call, and the verdict that gave them; none, and
    no call, where the language compares no parts. Raises ``ProblemError`` where no statement is
    asked."""
    formalizing = get_formalizing(problem)
    asked = formalizing.ask_parts(problem, body)
    if asked is None:
        return "", None
    verdict = await verifier.verify(asked, deadline_seconds=deadline_seconds)
    return formalizing.rate_parts(problem, body, verdict), verdict


async def mark_scores(
    draws: Sequence[JudgedDraw], verifier: Verifier, *, deadline_seconds: float
) -> list[JudgedDraw]:
    """The draws with their score in the opinion of each well-formed statement that is not proved,
    was not found to say nothing, and scores ``ACCEPTED`` at least. What was not judged, and the
    calls, count as those of ``mark_empty``, which comes first."""

    async def ask(candidate: Candidate) -> Marking:
        ratings, verdict = await rate_statement(
            candidate.problem, candidate.body, verifier, deadline_seconds=deadline_seconds
        )
        if verdict is None or not verdict.status.judged:
            return Marking(Opinion(), int(verdict is not None), verdict)
        score = lean_score(ratings) if ratings else 0.0
        return Marking(Opinion(score=score if score >= ACCEPTED else 0.0), 1)

    return await mark_draws(draws, ask)


def _measure(parts: list[str], num: int) -> float:
    """How much a set of parts counts: its share, less for each B in it."""
    num_deviating = parts.count("B")
    discount = 0.1 if num_deviating <= 1 else 0.2
    return max(len(parts) / num * (1.0 - discount * num_deviating), 0.0)
