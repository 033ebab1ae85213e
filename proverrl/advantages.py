"""Advantages: pure functions from a group's rewards to one number a rollout.

Flows in: a ``Group`` of judged rollouts. Flows out: per rollout, per turn, one advantage; the
sample builder spreads it over the turn's tokens. Not handled here: batch-wide normalisation and
per-token credit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from proverrl.config import AdvantageName
from proverrl.types import Group

STD_EPSILON = 1e-6
MAX_RL_CAP = 8.0

AdvantageFn = Callable[[Group], list[list[float]]]


def grpo(group: Group) -> list[list[float]]:
    """(r - mean) / (std + 1e-6), population std (GRPO, Shao et al. 2024, arXiv 2402.03300)."""
    rewards, mean = _rewards(group)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
    return _per_turn(group, [(r - mean) / (std + STD_EPSILON) for r in rewards])


def dr_grpo(group: Group) -> list[list[float]]:
    """r - mean, without the division by std (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783)."""
    rewards, mean = _rewards(group)
    return _per_turn(group, [r - mean for r in rewards])


def rloo(group: Group) -> list[list[float]]:
    """r minus the mean of the others (RLOO, Ahmadian et al. 2024, arXiv 2402.14740).

    A group of one has no baseline and gets advantage 0.
    """
    rewards, mean = _rewards(group)
    n = len(rewards)
    if n == 1:
        return _per_turn(group, [0.0])
    return _per_turn(group, [(r - mean) * n / (n - 1) for r in rewards])


def max_rl(group: Group) -> list[list[float]]:
    """(r - mean) / mean, at most 8: weighs hard problems up (MaxRL, as in prime-rl)."""
    rewards, mean = _rewards(group)
    if mean == 0.0:
        return _per_turn(group, [0.0] * len(rewards))
    return _per_turn(group, [min((r - mean) / mean, MAX_RL_CAP) for r in rewards])


ADVANTAGES: dict[AdvantageName, AdvantageFn] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "max_rl": max_rl,
}


def _rewards(group: Group) -> tuple[list[float], float]:
    rewards = [reward.total for reward in group.rewards]
    return rewards, sum(rewards) / len(rewards)


def _per_turn(group: Group, values: list[float]) -> list[list[float]]:
    return [
        [value] * len(rollout.turns) for rollout, value in zip(group.rollouts, values, strict=True)
    ]
