"""Rewards: pure functions from a rollout to a ``Reward``. A verdict is their only source.

Flows in: a judged ``Rollout``. Flows out: a ``Reward`` with named parts. Rollouts that were not
judged never come here: they have left their group before.
"""

from __future__ import annotations

from proverrl.errors import RecordError
from proverrl.types import Reward, Rollout, Status


def proved_reward(rollout: Rollout) -> Reward:
    """1 for PROVED, 0 for every other judged status.

    Raises:
        RecordError: the rollout was not judged; a timeout is not a wrong proof.
    """
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    value = 1.0 if rollout.status is Status.PROVED else 0.0
    return Reward(total=value, parts={"proved": value})
