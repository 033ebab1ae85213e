"""What a rollout earns that proves or disproves a claim.

Flows in: judged rollouts on problems of the kind ``decide``. Flows out: a ``Reward``. A proof of
the side that was chosen earns 1. A side that is proved against the label ends the run: one of the
two proofs is false.
Not handled here: groups of variants (``proverrl.evaluation.decisions``).
"""

from __future__ import annotations

from proverrl.config import RewardConfig
from proverrl.errors import CanaryError, RecordError
from proverrl.lang.sides import SIDES, read_side
from proverrl.types import DECIDE, Candidate, Problem, Reward, Rollout, Status


def find_side(problem: Problem, candidate: Candidate | None) -> str:
    """The side that a candidate chose; empty for none."""
    return "" if candidate is None else read_side(problem, candidate.body)


def find_label(problem: Problem) -> str:
    """The side that holds. Raises ``RecordError`` for a problem that does not say so."""
    holds = problem.metadata.get("holds")
    if problem.kind != DECIDE or not isinstance(holds, bool):
        raise RecordError(
            f"problem {problem.id!r} asks for no decision, or does not say what holds; "
            'reward.name = "decide" is for problems that do (problems generate --decide)'
        )
    return SIDES[0] if holds else SIDES[1]


def decide_reward(rollout: Rollout, config: RewardConfig | None = None) -> Reward:
    """1 for a proof of the right side. Raises ``RecordError`` if nothing was judged or decided;
    ``CanaryError``: the verifier proved the other side."""
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    label = find_label(rollout.problem)
    is_proved = rollout.status is Status.PROVED
    if is_proved and find_side(rollout.problem, rollout.turns[-1].candidate) != label:
        raise CanaryError(
            f"problem {rollout.problem.id!r}: both sides of one claim were proved; trust no "
            "verdict of this verifier before that is explained"
        )
    return Reward(float(is_proved), {"proved": float(is_proved)})
