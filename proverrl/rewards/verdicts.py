"""What a rollout earns for its verdicts: a ``Reward`` whose parts add up to its total. Not handled
here: comparison within a group, and rewards of a composer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from proverrl.config import RewardConfig
from proverrl.errors import RecordError
from proverrl.plugins import bind, refuse
from proverrl.types import Reward, Rollout, Status, Verdict

RewardFn = Callable[[Rollout], Reward]

_GATED = (Status.PROVED, Status.REJECTED, Status.EXHAUSTED)


def proved_reward(rollout: Rollout, config: RewardConfig | None = None) -> Reward:
    """1 for PROVED, 0 for every other judged status. Raises ``RecordError`` if the rollout was not
    judged (a timeout is not a wrong proof)."""
    value = float(_proved(rollout))
    return Reward(total=value, parts={"proved": value})


def obligations_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """1 for PROVED, else ``obligation_share`` times the mean credit of the last verdict's entries.
    The share is below 1, so no failed proof earns as much as a proved one; a verdict that does not
    pass the gate of ``entry_credits`` earns nothing (gated reward accumulation)."""
    if _proved(rollout):
        return Reward(total=1.0, parts={"proved": 1.0, "obligations": 0.0})
    entries = entry_credits(rollout.turns[-1].verdict)
    dense = sum(entries.values()) / len(entries) if entries else 0.0
    value = config.obligation_share * dense
    return Reward(total=value, parts={"proved": 0.0, "obligations": value})


def turn_discounted_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """``turn_discount`` to the power of the number of turns before the first proof; 0 without
    one."""
    _proved(rollout)
    value = turn_returns(rollout, config.turn_discount)[0]
    return Reward(total=value, parts={"proved": value})


REWARDS: dict[str, Callable[[Rollout, RewardConfig], Reward]] = {
    "proved": proved_reward,
    "obligations": obligations_reward,
    "turn_discounted": turn_discounted_reward,
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
        buffer = config.overlong_buffer * max_new_tokens
        penalty = config.overlong_weight * overlong_penalty(longest, max_new_tokens, buffer)
        return Reward(earned.total + penalty, {**earned.parts, "overlong": penalty})

    return reward


def find_hook(config: RewardConfig, name: str) -> Callable[..., Any] | None:
    """What a plug-in brings beside its reward: ``check(problem)``, which raises ``RecordError`` for
    a problem that it is not for, or ``review(draws, verifier, deadline_seconds=...)``, which gives
    judged draws back, asked about and marked. None where it brings none, as rewards of ours."""
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


def entry_credits(verdict: Verdict | None) -> dict[str, float]:
    """Per entry of a program 1 / (1 + obligations that failed): 1 where nothing failed. Successes
    do not count, because a policy could add any number of obligations that hold (``assert true;``).
    The gate: nothing is credited unless the program is ours, was resolved and was given to the
    prover."""
    if verdict is None or verdict.status not in _GATED:
        return {}
    return {
        entry.entry: 1.0 / (1.0 + entry.total - entry.proved)
        for entry in verdict.obligations
        if entry.total > 0
    }


def turn_returns(rollout: Rollout, discount: float) -> list[float]:
    """Per turn k the best discounted verdict from there on: max over j >= k of discount^(j - k)
    [turn j proved]. A turn that was not judged adds nothing; one without a candidate is a failure.
    """
    returns = [0.0]
    for turn in reversed(rollout.turns):
        proved = turn.verdict is not None and turn.verdict.proved
        returns.append(1.0 if proved else discount * returns[-1])
    return returns[:0:-1]


def _proved(rollout: Rollout) -> bool:
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    return rollout.status is Status.PROVED
