"""Finds statements that say nothing: contracts that anything meets, and that nothing can meet.

Flows in: problems that ask for a statement, or for a statement with code, and bodies that can be
read. Flows out: the reason by which a body says nothing, found by proof; rollouts with a mark on
the verdicts of such bodies, so that no reward pays for their form. Where that was not judged the
rollout is not judged either. A prover does not find every contradiction, so a reward asks for more
than that it found none. Where calls are known to try, one has to meet the demands. Not handled
here: what is weak and yet says something, and promises that hold anyway, where the prover does not
see it within its limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.concurrency import finish_all
from proverrl.errors import ProblemError
from proverrl.lab.words.parts import (
    Asking,
    ProgramGrade,
    find_formalizing,
    find_programming,
    is_program,
)
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Candidate, Problem, Rollout, Status, Verdict
from proverrl.verifier.base import Verifier


@dataclass(frozen=True, slots=True)
class Emptiness:
    """The reason why a body says nothing, empty if it says something to the verifier; the
    number of calls; and the verdict that left the question open, if one did."""

    reason: str
    num_calls: int
    unjudged: Verdict | None = None


EMPTY = "empty"
"""The mark on a rollout whose statement is proved to say nothing."""
NOT_MET = "no call is known that meets what it demands"


async def find_emptiness(
    asking: Asking,
    problem: Problem,
    body: str,
    verifier: Verifier,
    *,
    deadline_seconds: float,
    needs_call: bool = False,
) -> Emptiness:
    """Find whether a body says nothing. One that cannot be read says nothing that could be asked.
    With ``needs_call`` one says nothing too that demands what no call is known to meet, where calls
    are known to try."""
    num_calls = 0
    try:
        admitted = asking.ask_admitted(problem, body) if needs_call else None
        asked = asking.ask_empty(problem, body)
    except ProblemError as error:
        return Emptiness(str(error), 0)
    if admitted is not None:
        verdict = await verifier.verify(admitted, deadline_seconds=deadline_seconds)
        num_calls += 1
        if not verdict.status.judged:
            return Emptiness("", num_calls, verdict)
        if not asking.shows_admitted(verdict):
            return Emptiness(NOT_MET, num_calls)
    for reason, candidate in asked:
        verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
        num_calls += 1
        if verdict.proved:
            return Emptiness(reason, num_calls)
        if not verdict.status.judged:
            return Emptiness("", num_calls, verdict)
    return Emptiness("", num_calls)


async def mark_empty(
    draws: Sequence[JudgedDraw], verifier: Verifier, *, deadline_seconds: float
) -> list[JudgedDraw]:
    """The draws with the mark ``EMPTY`` on each rollout whose last body would earn something for
    its form and says nothing. Where that was not judged the verdict of the question, by which the
    rollout leaves its group, stands in. The calls are added to the draw's."""

    async def ask(candidate: Candidate) -> Emptiness:
        language = candidate.problem.language
        asking: Asking | None = (
            find_programming(language)
            if is_program(candidate.problem)
            else find_formalizing(language)
        )
        # Only what earns for its form is asked about, and that has a part.
        assert asking is not None
        return await find_emptiness(
            asking,
            candidate.problem,
            candidate.body,
            verifier,
            deadline_seconds=deadline_seconds,
            needs_call=True,
        )

    async def mark_draw(draw: JudgedDraw) -> JudgedDraw:
        found = [r.turns[-1].candidate for r in draw.rollouts if _earns_for_form(r)]
        asked = {candidate.key: candidate for candidate in found if candidate is not None}
        answers = await finish_all(map(ask, asked.values()))
        found_out = dict(zip(asked, answers, strict=True))
        rollouts = tuple(_mark(rollout, found_out) for rollout in draw.rollouts)
        num_calls = draw.num_calls + sum(answer.num_calls for answer in answers)
        return replace(draw, rollouts=rollouts, num_calls=num_calls)

    return await finish_all(map(mark_draw, draws))


def _mark(rollout: Rollout, answers: Mapping[str, Emptiness]) -> Rollout:
    last = rollout.turns[-1].candidate
    answer = None if last is None else answers.get(last.key)
    if answer is None:
        return rollout
    if answer.unjudged is not None:
        return rollout.judge(answer.unjudged)
    return replace(rollout, marks=rollout.marks | {EMPTY}) if answer.reason else rollout


def find_grade(
    problem: Problem, candidate: Candidate | None, verdict: Verdict | None
) -> ProgramGrade | None:
    """The grade of a program; None where none is asked for, written or judged."""
    programming = find_programming(problem.language)
    if programming is None or not is_program(problem):
        return None
    if candidate is None or verdict is None or not verdict.status.judged:
        return None
    return programming.grade(candidate, verdict)


def is_well_formed(rollout: Rollout) -> bool:
    """True if the last turn is a statement that has a meaning."""
    turn, formalizing = rollout.turns[-1], find_formalizing(rollout.problem.language)
    if formalizing is None or rollout.problem.kind != formalizing.kind:
        return False
    if turn.candidate is None or turn.verdict is None:
        return False
    return formalizing.is_well_formed(turn.candidate, turn.verdict)


def _earns_for_form(rollout: Rollout) -> bool:
    """True if the last turn is a statement or a program that is not right and would earn something
    for being one, unless it says nothing."""
    turn = rollout.turns[-1]
    if not rollout.status.judged or rollout.status is Status.PROVED or EMPTY in rollout.marks:
        return False
    grade = find_grade(rollout.problem, turn.candidate, turn.verdict)
    return is_well_formed(rollout) or grade in ("unproved", "verified")
