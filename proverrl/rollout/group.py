"""Groups: judged rollouts on one problem, with their rewards.

Flows in: rollouts of one draw. Flows out: a ``Group``, or None when fewer than two were judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.rewards import RewardFn
from proverrl.types import Group, Rollout


def build_group(rollouts: Sequence[Rollout], reward: RewardFn) -> Group | None:
    """Drop what was not judged (timeouts, crashes), reward the rest.

    None when fewer than two judged rollouts remain: there is nothing to compare.
    """
    judged = tuple(rollout for rollout in rollouts if rollout.status.judged)
    if len(judged) < 2:
        return None
    return Group(key=judged[0].group_key, rollouts=judged, rewards=tuple(reward(r) for r in judged))
