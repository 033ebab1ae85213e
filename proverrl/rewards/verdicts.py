"""Rewards of a rollout for its verdicts: a ``Reward`` whose parts add up to its total. Not handled
here: comparison within a group, and rewards of a composer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from proverrl.config import RewardConfig
from proverrl.errors import RecordError
from proverrl.plugins import bind, refuse
from proverrl.types import Reward, Rollout, Status

RewardFn = Callable[[Rollout], Reward]

OVERLONG_BUFFER = 0.2
"""The share of a completion's limit within which its length costs something."""


def proved_reward(rollout: Rollout, config: RewardConfig | None = None) -> Reward:
    """1 for PROVED, 0 for every other judged status. Raises ``RecordError`` if the rollout was not
    judged (a timeout is not a wrong proof)."""
    value = float(_proved(rollout))
    return Reward(total=value, parts={"proved": value})


REWARDS: dict[str, Callable[[Rollout, RewardConfig], Reward]] = {
    "proved": proved_reward,
}


def build_reward(config: RewardConfig, *, max_new_tokens: int) -> RewardFn:
    """The configured reward, with the penalty for overlong completions if its weight is set.
    ``max_new_tokens`` is the sampler's limit for one completion."""
    earn = _choose(config)

    def reward(rollout: Rollout) -> Reward:
        earned = earn(rollout, config)
        if config.overlong_weight == 0.0:
            return earned
        longest = max(len(turn.completion.token_ids) for turn in rollout.turns)
        buffer = OVERLONG_BUFFER * max_new_tokens
        penalty = config.overlong_weight * overlong_penalty(longest, max_new_tokens, buffer)
        return Reward(earned.total + penalty, {**earned.parts, "overlong": penalty})

    return reward


def find_hook(config: RewardConfig, name: str) -> Callable[..., Any] | None:
    """A hook that a plug-in brings beside its reward: ``check(problem)``, which raises
    ``RecordError`` for a problem that it is not for, or ``review(draws, verifier,
    deadline_seconds=...)``, which gives judged draws back, asked about and marked. None where it
    brings none, as rewards of ours."""
    if config.name in REWARDS:
        return None
    found: Callable[..., Any] | None = getattr(
        bind("reward", config.name, config.options), name, None
    )
    return found


def _choose(config: RewardConfig) -> Callable[[Rollout, RewardConfig], Reward]:
    """The configured function; one of somebody's own is given judged rollouts alone, and may
    return a number. Raises ``UsageError`` where that is no finite number."""
    if config.name in REWARDS:
        return REWARDS[config.name]
    own = bind("reward", config.name, config.options)

    def earn(rollout: Rollout, settings: RewardConfig) -> Reward:
        _proved(rollout)
        value = own(rollout)
        numbers = (value.total, *value.parts.values()) if isinstance(value, Reward) else (value,)
        try:
            # Unlike float() it takes no text.
            finite = all(map(math.isfinite, numbers))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            # The last is what torch says of a tensor of several numbers.
            finite = False
        if not finite:
            wanted = "a finite number, or a proverrl.types.Reward of finite numbers"
            raise refuse("reward", config.name, value, f"rollout {rollout.id!r}", wanted)
        return value if isinstance(value, Reward) else Reward(float(value), {"own": float(value)})

    return earn


def overlong_penalty(num_tokens: int, max_tokens: int, buffer: float) -> float:
    """0 up to ``max_tokens - buffer`` tokens, then down in a straight line to -1 at ``max_tokens``
    (soft overlong punishment; DAPO, Yu et al. 2025, arXiv 2503.14476, with a buffer of a fifth).
    """
    over = (num_tokens - (max_tokens - buffer)) / buffer
    return -min(1.0, max(0.0, over))


def _proved(rollout: Rollout) -> bool:
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    return rollout.status is Status.PROVED
