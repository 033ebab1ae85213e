"""Rewards of statements, programs and decisions from words.

Flows in: judged rollouts. Flows out: ``Reward``s by the names ``statement``, ``program`` and
``decide``. What is not right earns something for its form, unless it is proved to say nothing,
which ``review`` asks the verifier before. A side that is proved against the label of its claim ends
the run: one of the two proofs is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proverrl.errors import CanaryError, RecordError
from proverrl.lab.words.emptiness import EMPTY, find_grade, is_well_formed, mark_empty
from proverrl.lab.words.kinds import knows_meaning
from proverrl.lab.words.parts import ProgramGrade, find_formalizing, is_program
from proverrl.lab.words.sides import DECIDE, SIDES, read_side
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Candidate, Problem, Reward, Rollout, Status
from proverrl.verifier.base import Verifier

_PROGRAM_SCORES: Mapping[ProgramGrade, float] = {
    "refused": 0.0,
    "unread": 0.01,
    "unproved": 0.2,
    "verified": 0.6,
    "meant": 1.0,
}


class StatementReward:
    """1 for a statement that is well formed, and 1 more for one that means what is meant: R_ver +
    R_sem of Mathesis (Yu et al. 2025, arXiv 2506.07047), both by the verifier."""

    def __call__(self, rollout: Rollout) -> Reward:
        """Raises ``RecordError`` as ``check``."""
        self.check(rollout.problem)
        is_proved = rollout.status is Status.PROVED
        is_read = is_proved or (is_well_formed(rollout) and EMPTY not in rollout.marks)
        parts = {"means": float(is_proved), "well_formed": float(is_read)}
        return Reward(sum(parts.values()), parts)

    def check(self, problem: Problem) -> None:
        """Raise ``RecordError`` for a problem that asks for no statement, or does not say what is
        meant."""
        formalizing = find_formalizing(problem.language)
        if formalizing is None or problem.kind != formalizing.kind:
            raise RecordError(
                f'problem {problem.id!r} asks for no statement; reward.name = "statement" is for '
                "problems that do (words generate)"
            )
        if not knows_meaning(problem):
            raise RecordError(
                f"problem {problem.id!r} does not say what is meant, so that no statement can be "
                "rewarded; give problems that do, or write statements with `proverrl words "
                "formalize`"
            )

    async def review(
        self, draws: Sequence[JudgedDraw], verifier: Verifier, *, deadline_seconds: float
    ) -> list[JudgedDraw]:
        """Marks what says nothing."""
        return await mark_empty(draws, verifier, deadline_seconds=deadline_seconds)


class ProgramReward:
    """The score of Re:Form (Yan et al. 2025, arXiv 2507.16331): 0 without a candidate, where the
    audit refuses it and for a contract that says nothing; 0.01 for what is no program, 0.2 for code
    that is not proved to meet its contract, 0.6 for code that is, and 1 where the contract is also
    proved at least as strong as what is meant; nothing for a contract that is proved to say
    nothing. The published code gives 1.6 for the last, where 1 was evidently intended, and takes a
    timeout of that proof for a success, which is 0.6 here."""

    def __call__(self, rollout: Rollout) -> Reward:
        """Raises ``RecordError`` as ``check``."""
        self.check(rollout.problem)
        grade = find_grade(rollout.problem, rollout.turns[-1].candidate, rollout.turns[-1].verdict)
        value = _PROGRAM_SCORES[grade] if grade and EMPTY not in rollout.marks else 0.0
        return Reward(value, {"program": value})

    def check(self, problem: Problem) -> None:
        """Raise ``RecordError`` for a problem that asks for no program."""
        if not is_program(problem):
            raise RecordError(
                f'problem {problem.id!r} asks for no program; reward.name = "program" is for '
                "problems that do (words generate --ask programs)"
            )

    async def review(
        self, draws: Sequence[JudgedDraw], verifier: Verifier, *, deadline_seconds: float
    ) -> list[JudgedDraw]:
        """Marks what says nothing."""
        return await mark_empty(draws, verifier, deadline_seconds=deadline_seconds)


class DecideReward:
    """1 for a proof of the right side of a claim."""

    def __call__(self, rollout: Rollout) -> Reward:
        """Raises ``CanaryError``: the verifier proved the other side."""
        label, is_proved = find_label(rollout.problem), rollout.status is Status.PROVED
        if is_proved and find_side(rollout.problem, rollout.turns[-1].candidate) != label:
            raise CanaryError(
                f"problem {rollout.problem.id!r}: both sides of one claim were proved; trust no "
                "verdict of this verifier before that is explained"
            )
        return Reward(float(is_proved), {"proved": float(is_proved)})

    def check(self, problem: Problem) -> None:
        """Raise ``RecordError`` for a problem that asks for no decision."""
        find_label(problem)


def find_side(problem: Problem, candidate: Candidate | None) -> str:
    """The side that a candidate chose; empty for none."""
    return "" if candidate is None else read_side(problem, candidate.body)


def find_label(problem: Problem) -> str:
    """The side that holds. Raises ``RecordError`` for a problem that does not say so."""
    holds = problem.metadata.get("holds")
    if problem.kind != DECIDE or not isinstance(holds, bool):
        raise RecordError(
            f"problem {problem.id!r} asks for no decision, or does not say what holds; "
            'reward.name = "decide" is for problems that do (words generate --ask decisions)'
        )
    return SIDES[0] if holds else SIDES[1]


statement = StatementReward()
program = ProgramReward()
decide = DecideReward()
