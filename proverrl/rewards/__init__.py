"""Rewards: pure functions from a rollout to a ``Reward``. A verdict is their only source.

Flows in: a judged ``Rollout``. Flows out: a ``Reward`` with named parts. Rollouts that were not
judged never come here: they have already left their group. ``verdicts`` holds the rewards,
``noise`` the corrections for a verifier that errs.
"""

from proverrl.rewards.noise import (
    ALL,
    CORRECTIONS,
    MAX_ONLINE,
    FalseNegativeRate,
    backward,
    forward,
    is_audited,
)
from proverrl.rewards.verdicts import (
    REWARDS,
    RewardFn,
    build_reward,
    entry_credits,
    obligations_reward,
    overlong_penalty,
    proved_reward,
    turn_discounted_reward,
    turn_returns,
)

__all__ = [
    "ALL",
    "CORRECTIONS",
    "MAX_ONLINE",
    "REWARDS",
    "FalseNegativeRate",
    "RewardFn",
    "backward",
    "build_reward",
    "entry_credits",
    "forward",
    "is_audited",
    "obligations_reward",
    "overlong_penalty",
    "proved_reward",
    "turn_discounted_reward",
    "turn_returns",
]
